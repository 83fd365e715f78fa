"""Blocks of one convolution and one pool, then dense layers, with dropout before the output.

Images are first halved (`halve`), the first convolution is 5 x 5 without padding, the others 3 x 3 with it, and no pool
follows the last one: that is how the search space of Bao et al. is made. LeNet-5 and their network for random weights
training are other settings of the same fields.

Paper: Bao, Bauer and Bindschaedler, appendices B and D.
Privacy: none of its own; no layer mixes rows.
Use when: rows are small images and some hundred thousand rows or a middling epsilon are there.

>>> from privaware.models import count
>>> count(Cnn(inputs=(1, 28, 28), filters=(16, 32), hidden=(64,), outputs=10))
56970
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from privaware.models._conv_stack import Conv, Pool, Step, flat, stack
from privaware.models._description import Image

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Cnn"]


@dataclass(frozen=True, kw_only=True)
class Cnn(Image):
    """`filters` of each convolution, with its `kernels` and `paddings` (empty: 5 then 3, and 0 then 1)."""

    name: ClassVar[str] = "cnn"

    filters: tuple[int, ...]
    hidden: tuple[int, ...]
    kernels: tuple[int, ...] = ()
    paddings: tuple[int, ...] = ()
    halve: bool = True
    pool_last: bool = False
    dropout: float = 0.3

    def __post_init__(self) -> None:
        super().__post_init__()
        self._wholes("filters")
        self._wholes("hidden")
        blocks = len(self.filters)
        if not blocks:
            raise self._wrong("filters", "at least one number of filters")
        if not self.kernels:
            self._set("kernels", (5, *[3] * (blocks - 1)))
        if not self.paddings:
            self._set("paddings", (0, *[1] * (blocks - 1)))
        self._wholes("kernels", size=blocks)
        self._wholes("paddings", least=0, size=blocks)
        self._flag("halve")
        self._flag("pool_last")
        self._share("dropout")
        flat(self, self._steps())

    def _steps(self) -> tuple[Step, ...]:
        steps: list[Step] = [Pool()] if self.halve else []
        for filters, kernel, padding in zip(self.filters, self.kernels, self.paddings):
            steps += [Conv(filters, kernel, 1, padding), Pool()]
        return tuple(steps if self.pool_last else steps[:-1])

    def _module(self) -> nn.Module:
        return stack(self, self._steps(), self.hidden, dropout=self.dropout)
