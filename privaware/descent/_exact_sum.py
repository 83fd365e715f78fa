"""Sums between groups of examples without error: rounded to a public lattice, added in any order.

Around 1.5 * 2^52 lattice steps neighbouring float64 numbers are one step apart: adding that much to a number and
taking it away again rounds it to the lattice and does nothing else, as long as it is below 2^51 steps. Sums of lattice
numbers are exact. With `LATTICE` = 2^-14 the limit is 2^37 / sqrt(parameters) examples at the clipping norm, 67 million
for 4 million parameters.

>>> total = ExactSum(torch.ones(1), parameters=2)
>>> total.start()
>>> for group in ([1.0, 2.0**-40], [-1.0, 2.0**-40], [0.25, 0.5]):
...     total.add(torch.tensor([[group]]))
>>> total.value().tolist()
[[0.25, 0.5]]
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from privaware.descent._rounding import LATTICE
from privaware.kernels import elementwise, group_sums

__all__ = ["ExactSum", "lattice_step"]

START = 1.5 * 2.0**52
"""Lattice steps whose neighbourhood rounds to the lattice."""


NUMBERS_AT_ONCE = 2**17
"""Numbers that are summed at once; they stay in a processor's cache."""


class ExactSum:
    """(models, parameters) sums; with `counts` a last column that counts examples in halves.

    `norms` are the models' clipping norms, which a quantile moves. Without noise sums need no lattice.
    """

    def __init__(self, norms: Tensor, parameters: int, *, counts: bool = False, noisy: bool = True) -> None:
        self.norms, self.parameters, self.counts = norms, parameters, counts
        self.total = norms.new_zeros(len(norms), parameters + counts, dtype=torch.float64)
        self.offset = torch.zeros_like(self.total[:, :1])
        self.noisy, self.written = noisy, True
        self._set_offset()

    def _set_offset(self) -> None:
        if self.noisy:
            self.offset.copy_(START * lattice_step(self.norms, self.parameters)[:, None])

    def start(self) -> None:
        """Begins a new sum; a CPU writes it over the one before when the first groups come."""
        if self.counts:  # only a quantile moves norms
            self._set_offset()
        self.written = self.total.device.type != "cpu"
        if self.written:
            self.total.zero_()

    def add(self, sums: Tensor) -> None:
        """Adds (models, groups, parameters) sums; a count needs no lattice, since it is one of halves."""
        if sums.is_contiguous() and elementwise.fits(sums):
            group_sums.add_on_lattice(sums, self.total, self.offset, self.parameters if self.noisy else 0)
            return
        over = self.noisy and not (self.written or self.counts)
        total, sums_only = (values[..., : self.parameters] for values in (self.total if over else self.value(), sums))
        if self.counts:
            self.total[:, -1] += sums[:, :, -1].double().sum(1)
        if not self.noisy:
            total += sums_only.sum(1, dtype=torch.float64)
        elif sums.device.type == "cpu":
            _add_by_block(sums_only.numpy(), total.numpy(), self.offset.numpy(), over=over)
        else:
            for group in sums_only.double().unbind(1):
                total += (group + self.offset) - self.offset
        self.written = True

    def value(self) -> Tensor:
        """The sums, in float64; those of the next step overwrite them."""
        if not self.written:
            self.total.zero_()
            self.written = True
        return self.total


def _add_by_block(sums: np.ndarray, total: np.ndarray, offset: np.ndarray, over: bool) -> None:
    """Rounds and adds block by block, so that what is in work stays in a processor's cache; `over` what was there.

    Of two groups one is rounded above the offset and one below its opposite: their sum is that of the rounded numbers.
    """
    models, groups, width = sums.shape
    wide = max(1, NUMBERS_AT_ONCE // models)
    memory = np.empty((2, models, wide))
    for start in range(0, width, wide):
        part = slice(start, min(start + wide, width))
        one, other = memory[:, :, : part.stop - start]
        for group in range(0, groups, 2):
            first = over and group == 0
            pair = total[:, part] if first else one
            np.add(sums[:, group, part], offset, out=pair, dtype=np.float64)
            if group + 1 < groups:
                pair += np.subtract(sums[:, group + 1, part], offset, out=other, dtype=np.float64)
            else:
                pair -= offset
            if not first:
                total[:, part] += pair


def lattice_step(norms: Tensor, parameters: int) -> Tensor:
    """For each norm the power of two at or below it times `LATTICE` over the root of the parameters.

    >>> lattice_step(torch.tensor([1.0, 3.0]), parameters=4).log2().tolist()
    [-15.0, -14.0]
    """
    length = norms.double() * (LATTICE / math.sqrt(max(parameters, 1)))
    return (length.view(torch.int64) & (0x7FF << 52)).view(torch.float64)
