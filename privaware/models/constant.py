"""One learned constant for every row: what `majority` and `mean` release.

Privacy: none of its own; no layer mixes rows.
Use when: a floor is wanted that any model worth its budget must beat.

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
    """`outputs` numbers, zero at first. `inputs` is only remembered: no column is looked at."""

    name: ClassVar[str] = "constant"

    inputs: int = 1
    outputs: int

    def __post_init__(self) -> None:
        self._whole("inputs")
        self._whole("outputs")

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.inputs,)

    def _module(self) -> nn.Module:
        from privaware.models import _layers

        return _layers.Constant(self.outputs)
