"""Numbers with their spellings as a column of a pandas frame."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np
from pandas.api.extensions import ExtensionArray, ExtensionDtype
from pandas.api.indexers import check_array_indexer

from privaware.data._words import Spelt


class SpeltType(ExtensionDtype):
    """The pandas type of a `SpeltArray`: to pandas its values are text."""

    name = "spelt"
    type = str
    kind = "O"
    na_value = ""

    @classmethod
    def construct_array_type(cls) -> builtins.type[SpeltArray]:
        return SpeltArray


class SpeltArray(ExtensionArray):
    """A pandas column of numbers that keep their spellings in a text file, stored as `spelt`.

    It offers only what a frame of a text file needs: rows can be chosen and joined, and one of them shown as text.
    """

    dtype = SpeltType()

    def __init__(self, spelt: Spelt) -> None:
        self.spelt = spelt

    def __len__(self) -> int:
        return len(self.spelt)

    def __getitem__(self, item: Any) -> Any:
        rows = check_array_indexer(self, item)
        return (
            self.spelt[[rows]].words().word(0) if isinstance(rows, (int, np.integer)) else type(self)(self.spelt[rows])
        )

    @property
    def nbytes(self) -> int:
        return self.spelt.numbers.nbytes

    def isna(self) -> np.ndarray:
        return self.spelt.missing()

    def take(self, indices: Any, *, allow_fill: bool = False, fill_value: Any = None) -> SpeltArray:
        rows = np.asarray(indices, dtype=np.intp)
        if allow_fill and (rows < 0).any():
            raise NotImplementedError("rows of a text file are chosen, never added")
        return type(self)(self.spelt[rows])

    def copy(self) -> SpeltArray:
        return type(self)(self.spelt)

    @classmethod
    def _concat_same_type(cls, to_concat: Sequence[SpeltArray]) -> SpeltArray:
        return cls(Spelt.joined([each.spelt for each in to_concat]))
