"""Rows that stay where they are, and are read and coded by a schema part by part in each pass over them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from privaware.data._cells import Cells
from privaware.data._data import Data
from privaware.data._parts import Parts, Sum
from privaware.data._values import Spelt, Words, words_of
from privaware.noise import Rng
from privaware.schema import Schema


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Streamed:
    """Private rows in `parts`, which are read and coded anew for each sum, and the `schema` of all of them."""

    schema: Schema
    parts: Parts[Data]

    def __repr__(self) -> str:
        return f"Streamed({self.schema.form} of {len(self.schema.used)} columns, rows private)"

    def mapped(self, function: Callable[[Data], Data]) -> Streamed:
        """Return the rows after `function`, which maps `Data` to `Data`, each row by itself.

        The schema of the result is found by calling `function` on data without rows.
        """
        return Streamed(schema=function(_empty(self.schema)).schema, parts=self.parts.map(function))

    def keep(self, names: tuple[str, ...]) -> Streamed:
        """Return the rows with only the columns in `names`, in the order of the schema.

        Rows of the form image or text stay as they are. For a table, raise `WrongInput` for an unknown name.
        """
        return self.mapped(lambda part: part.keep(names))

    def split(self, rng: Rng, shares: tuple[float, ...]) -> tuple[Streamed, ...]:
        """Return `len(shares)` disjoint parts of the rows, by an independent draw for the position of each row.

        A row is in result i with probability `shares[i] / sum(shares)`. The results are the same as for the same rows
        in memory and an equal `rng`. One pass counts the rows of each part of the table, which gives the positions of
        its rows.
        """
        firsts, draws = first_positions(self.parts), rng.by_position()

        def shard(at: int, part: Data) -> Data:
            place = 0 if part.begin is None else firsts[part.begin]  # the part without rows that gives the schema
            return part.take(draws.shards(place, len(part), shares) == at)

        return tuple(self.mapped(partial(shard, at)) for at in range(len(shares)))

    def gathered(self) -> Data:
        """Return all rows in memory; they are in order if the parts come in order."""
        return joined(self.parts.listed())


def first_positions(parts: Parts[Any]) -> dict[int, int]:
    """Return the position of the first row of each part among all rows, in the order of `begin`, in one pass.

    Parameters
    ----------
    parts : Parts
        Parts of a table, each with its own `begin`.

    Returns
    -------
    dict
        The position of the first row by the `begin` of its part.
    """
    counts = parts.total(_PartSizes())
    begins = sorted(counts)
    return dict(zip(begins, itertools.accumulate((counts[begin] for begin in begins), initial=0), strict=False))


class _PartSizes(Sum[Any, dict[int, int], None]):
    """The number of rows of each part by its `begin`, as a sum over parts without a release.

    A part without `begin`, and two parts with the same one, raise `RuntimeError`.
    """

    def partial(self, part: Any) -> dict[int, int]:
        if part.begin is None:
            raise RuntimeError("expected parts of a table that say where they begin; rows could not be told apart")
        return {part.begin: len(part)}

    def merge(self, left: dict[int, int], right: dict[int, int]) -> dict[int, int]:
        if left.keys() & right.keys():
            raise RuntimeError("expected each part to begin elsewhere; rows could not be told apart")
        return left | right


def joined(parts: Sequence[Data]) -> Data:
    """Return the rows of all parts, at least one, in their order; they get the schema of the first part."""
    first = parts[0]
    y = np.concatenate([part.y for part in parts])
    if not isinstance(first.x, Cells):
        return replace(first, x=np.concatenate([part.x for part in parts]), y=y)
    columns = tuple(_joined_column([part.x.columns[at] for part in parts]) for at in range(len(first.x.columns)))
    return replace(first, x=Cells(columns, len(y)), y=y)


def _joined_column(blocks: list[np.ndarray | Words | Spelt]) -> np.ndarray | Words | Spelt:
    """Return one column from blocks of its rows, in order.

    It is an array if all blocks are arrays, and `Spelt` (numbers with their spellings) if all are `Spelt`. Otherwise it
    is `Words`.
    """
    numbers = [block for block in blocks if isinstance(block, np.ndarray)]
    if len(numbers) == len(blocks):
        return np.concatenate(numbers)
    spelt_numbers = [block for block in blocks if isinstance(block, Spelt)]
    if len(spelt_numbers) == len(blocks):
        return Spelt.joined(spelt_numbers)
    spelt = [words_of(block) for block in blocks]
    known = {word: at for at, word in enumerate(dict.fromkeys(word for words in spelt for word in words.spellings))}
    codes = [np.array([known[word] for word in words.spellings], np.int32)[words.codes] for words in spelt]
    return Words(spellings=tuple(known), codes=np.concatenate(codes))


def _empty(schema: Schema) -> Data:
    """Return data of this schema without rows.

    `x` is an array of coded numbers, or `Cells` (columns before coding) if any kind, bound or category of a table is
    not declared.
    """
    y = np.zeros(0, np.int64 if schema.classes else np.float64)
    if schema.form == "table" and not schema.bounded:
        return Data(schema=schema, x=Cells(tuple(np.zeros(0) for _ in schema.declared), 0), y=y)  # type: ignore[arg-type]
    return Data(schema=schema, x=np.zeros((0, len(schema.used))), y=y)
