"""Random columns: the baseline that every other selector has to beat.

Paper: the baseline "Random" of Bao, Bauer and Bindschaedler.
Privacy: no privacy cost (data-independent).
Use when: comparing selectors, or when the budget is too small for any of them.

>>> from privaware.noise import Rng
>>> from privaware.testing import example, rows_for
>>> len(Random(columns=2).run(rows_for(example(), 5), noise=1.0, rng=Rng(seed=1)))
2
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privaware._validate import expect_count
from privaware.data import Rows
from privaware.events import NOTHING, Event
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.selectors import Selector
from privaware.selectors._tables import chosen, limit

__all__ = ["Random"]


@dataclass(frozen=True, kw_only=True)
class Random(Selector):
    """A selector of random columns.

    Parameters
    ----------
    columns : int, optional
        Number of columns, or all if the table has fewer; by default a number drawn uniformly from 1 to all.
    """

    in_parts: ClassVar[bool] = True

    columns: int | None = None

    def __post_init__(self) -> None:
        expect_count("random", optional=True, columns=self.columns)

    def cost(self, schema: Schema, noise: float) -> Event:
        return NOTHING

    def run(self, data: Rows, noise: float, rng: Rng) -> tuple[str, ...]:
        width = len(data.schema.used)
        size = limit(self.columns, data.schema)
        if self.columns is None:
            size = int(rng.initial.integers(1, width + 1))
        selected = rng.initial.permutation(width)[:size]
        return chosen(data.schema, np.isin(np.arange(width), selected))
