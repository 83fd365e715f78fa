"""Sums between groups of examples without error: rounded to a public lattice, added in any order.

A float64 accumulator starts at 1.5 * 2^52 lattice steps. There neighbouring numbers are one step apart, so each
addition rounds what is added to the lattice and nothing else, as long as the sum stays below 2^51 steps: with
`LATTICE` = 2^-14 that is 2^37 / sqrt(parameters) examples at the clipping norm, 67 million for 4 million parameters.

>>> total = ExactSum(torch.ones(1), parameters=2)
>>> total.start()
>>> for group in ([1.0, 2.0**-40], [-1.0, 2.0**-40], [0.25, 0.5]):
...     total.add(torch.tensor([[group]]))
>>> total.value().tolist()
[[0.25, 0.5]]
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from privaware.descent._rounding import LATTICE

__all__ = ["ExactSum", "lattice_step"]

START = 1.5 * 2.0**52
"""Lattice steps at which an accumulator starts."""


OFF_TIES = 1 - 2.0**-30
"""Moves float32 numbers off the middle between lattice points, where the sum so far would decide their rounding."""


class ExactSum:
    """(models, parameters) sums; with `counts` a last column that counts examples in halves.

    `norms` are the models' clipping norms, which a quantile moves. Without noise sums need no lattice.
    """

    def __init__(self, norms: Tensor, parameters: int, *, counts: bool = False, noisy: bool = True) -> None:
        self.norms, self.parameters, self.counts = norms, parameters, counts
        self.total = norms.new_zeros(len(norms), parameters + counts, dtype=torch.float64)
        self.offset = torch.zeros_like(self.total if counts else self.total[:, :1])
        self.noisy = noisy
        self._set_offset()

    def _set_offset(self) -> None:
        """A count starts at 0: halves need no lattice."""
        if self.noisy:
            steps = lattice_step(self.norms, self.parameters)[:, None]
            self.offset[:, : self.parameters] = START * steps

    def start(self) -> None:
        """Begins a new sum."""
        if self.counts:  # only a quantile moves norms
            self._set_offset()
        self.total.copy_(self.offset.expand_as(self.total))

    def add(self, sums: Tensor) -> None:
        """Adds (models, groups, parameters) sums."""
        if self.counts:
            self.total[:, -1] += sums[:, :, -1].double().sum(1)
            sums = sums[:, :, :-1]
        total, offset = (values[:, : self.parameters] for values in (self.total, self.offset))
        for group in sums.unbind(1):
            if group.dtype == torch.float32 or not self.noisy:
                total.add_(group, alpha=OFF_TIES if self.noisy else 1.0)
            else:
                total.add_((group + offset) - offset)

    def value(self) -> Tensor:
        """The sums, in float64."""
        return self.total - self.offset


def lattice_step(norms: Tensor, parameters: int) -> Tensor:
    """For each norm the power of two at or below it times `LATTICE` over the root of the parameters.

    >>> lattice_step(torch.tensor([1.0, 3.0]), parameters=4).log2().tolist()
    [-15.0, -14.0]
    """
    length = norms.double() * (LATTICE / math.sqrt(max(parameters, 1)))
    return (length.view(torch.int64) & (0x7FF << 52)).view(torch.float64)
