"""Scores of levels and trees that split on them: the model of the learner `boosted`.

Every column is a level code (`features.codes`), and numbers may follow. Outputs are a bias, a score for the level of
each column, a slope times each number, and the leaf of each tree. The splits of one depth of a tree are the same in all
its branches, so a leaf is a binary number.

Paper: Prokhorenkova et al. 2018, CatBoost (symmetric trees), arXiv:1706.09516.
Privacy: no cost of its own; no row is mixed with another.
Use when: a table has skewed columns or interactions.

>>> Trees(levels=[3, 4], outputs=1, trees=10, depth=2).describe()
{'name': 'trees', 'levels': [3, 4], 'outputs': 1, 'numbers': 0, 'trees': 10, 'depth': 2}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from privaware.models._description import Description

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Trees"]

DEEPEST = 16


@dataclass(frozen=True, kw_only=True)
class Trees(Description):
    """`levels` holds the number of levels of each column; `trees` may be 0: a model that is additive in its columns."""

    name: ClassVar[str] = "trees"

    levels: tuple[int, ...]
    outputs: int
    numbers: int = 0
    trees: int = 0
    depth: int = 3

    def __post_init__(self) -> None:
        self._check_counts("levels")
        self._check_count("outputs")
        self._check_count("numbers", least=0)
        self._check_count("trees", least=0)
        self._check_count("depth")
        if self.depth > DEEPEST:
            raise self._error("depth", f"a whole number of at most {DEEPEST}")

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.levels) + self.numbers,)

    @property
    def codes(self) -> int | None:
        return min(self.levels, default=1)

    def _module(self) -> nn.Module:
        from privaware.models import _layers

        return _layers.Trees(self.levels, self.numbers, self.outputs, (self.trees, self.depth))
