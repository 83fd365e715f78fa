"""One learned constant for every row: the model of the learners `majority`, `mean` and `median`.

Privacy: no cost of its own; no layer mixes rows.
Use when: a baseline is needed that any useful model must beat.

>>> Constant(outputs=3).describe()
{'name': 'constant', 'inputs': 1, 'outputs': 3}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from privaware.models._description import Description

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Constant"]


@dataclass(frozen=True, kw_only=True)
class Constant(Description):
    """A model that returns the same `outputs` learned numbers, initially zero, for every row.

    `inputs`, the number of columns, is only recorded, because no column is used.
    """

    name: ClassVar[str] = "constant"

    inputs: int = 1
    outputs: int

    def __post_init__(self) -> None:
        self._check_count("inputs")
        self._check_count("outputs")

    def _module(self) -> nn.Module:
        from privaware.models import _layers

        return _layers.Constant(self.outputs)
