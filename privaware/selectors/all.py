"""Every column: the standard workflow, which leaves the choice to the learner.

Paper: the baseline "All" of Bao, Bauer and Bindschaedler.
Privacy: no privacy cost (data-independent).
Use when: columns are few, rows many, or the budget is generous.

>>> from privaware.noise import Rng
>>> from privaware.testing import example, rows_for
>>> All().run(rows_for(example(), 5), noise=1.0, rng=Rng(seed=1))
('age', 'heat', 'town')
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from privaware.data import Rows
from privaware.events import NOTHING, Event
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.selectors import Selector

__all__ = ["All"]


@dataclass(frozen=True, kw_only=True)
class All(Selector):
    """A selector that keeps all columns; it has no settings."""

    in_parts: ClassVar[bool] = True

    def cost(self, schema: Schema, noise: float) -> Event:
        return NOTHING

    def run(self, data: Rows, noise: float, rng: Rng) -> tuple[str, ...]:
        return tuple(column.name for column in data.schema.used)
