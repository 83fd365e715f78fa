"""Add sums over groups of examples without rounding error, by rounding each sum to a public lattice first.

The lattice of a model is the set of multiples of its lattice step, a power of two.

1. Near 1.5 * 2^52 lattice steps, neighbouring float64 numbers are one lattice step apart. So adding this offset to a
   number and subtracting it again rounds the number to the lattice, if the number is below 2^51 steps.
2. Sums of lattice numbers in float64 are exact, in any order, while they stay below 2^51 steps.
3. With `LATTICE` = 2^-14 this limit is 2^37 / sqrt(parameters) examples at the clipping norm: 67 million examples for 4
   million parameters.
4. So ranks that train together may add their sums in any order (`expect_exact_total` checks the limit).

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
from privaware.errors import Refused
from privaware.kernels import elementwise, group_sums

LATTICE_OFFSET = 1.5 * 2.0**52
"""Offset, in lattice steps, that rounds a float64 number to a multiple of the step when it is added and subtracted."""


LARGEST_TOTAL = 2.0**51
"""Largest number of lattice steps up to which sums are exact in any order, with a factor of 4 to spare."""

NUMBERS_AT_ONCE = 2**17
"""Number of floats that a CPU rounds and adds at once, so that they stay in its cache."""


class ExactSum:
    """Sums over groups of examples (models, parameters), in float64 and without rounding errors of the addition.

    Each group sum is first rounded to a multiple of its model's lattice step, a power of two (`lattice_step`). `norms`
    are the models' clipping norms, which set the lattice steps; a `quantile` clip changes them. With `counts` there is
    one more column, to which each example adds a multiple of 1/2. Without noise (`noisy=False`) group sums are not
    rounded to lattice steps.
    """

    def __init__(self, norms: Tensor, parameters: int, *, counts: bool = False, noisy: bool = True) -> None:
        self.norms, self.parameters, self.counts = norms, parameters, counts
        self.total = norms.new_zeros(len(norms), parameters + counts, dtype=torch.float64)
        self.offset = torch.zeros_like(self.total[:, :1])
        self.noisy, self.written = noisy, True
        self._set_offset()

    def _set_offset(self) -> None:
        if self.noisy:
            self.offset.copy_(LATTICE_OFFSET * lattice_step(self.norms, self.parameters)[:, None])

    def start(self) -> None:
        """Begin a new sum: on a GPU set the total to zero; on a CPU the next `add` or `value` discards the old total.

        With `counts`, compute the lattice steps again, because a `quantile` clip changes the clipping norms.
        """
        if self.counts:  # only a quantile clip changes norms
            self._set_offset()
        self.written = self.total.device.type != "cpu"
        if self.written:
            self.total.zero_()

    def add(self, sums: Tensor) -> None:
        """Add group sums (models, groups, parameters) to the total, each rounded to a multiple of the lattice step.

        If `counts`, `sums` has a count as one more column. A count is a multiple of 1/2, so it needs no rounding.
        Without noise nothing is rounded.
        """
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
        """Return the total, in float64: (models, parameters), and with `counts` one more column.

        It is zero if nothing was added since `start`. Later calls of `start` and `add` overwrite this tensor.
        """
        if not self.written:
            self.total.zero_()
            self.written = True
        return self.total


def _add_by_block(sums: np.ndarray, total: np.ndarray, offset: np.ndarray, over: bool) -> None:
    """Round `sums` (models, groups, width) to multiples of lattice steps and add them to `total` (models, width).

    `total` is changed in place; with `over` its previous values are overwritten. `offset` (models, 1) is the number
    that rounds when it is added and subtracted. The columns are handled in blocks, so that a block stays in a CPU's
    cache. Groups are added in pairs: adding `offset` to the first group and subtracting it from the second group rounds
    both, and the offsets cancel in the sum of the pair.
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
    """Return, for each of `norms`, the step to whose multiples sums of this clipping norm are rounded, in float64.

    It is the largest power of two that is at most `norm * LATTICE / sqrt(parameters)`.

    >>> lattice_step(torch.tensor([1.0, 3.0]), parameters=4).log2().tolist()
    [-15.0, -14.0]
    """
    length = norms.double() * (LATTICE / math.sqrt(max(parameters, 1)))
    return (length.view(torch.int64) & (0x7FF << 52)).view(torch.float64)


def expect_exact_total(rows: int, parameters: int) -> None:
    """Raise `Refused` if the sum over `rows` examples at the clipping norm could exceed `LARGEST_TOTAL` lattice steps.

    A lattice step is the number to whose multiples sums are rounded. It is more than
    `norm * LATTICE / sqrt(parameters) / 2`, and a clipped gradient has no entry above `2 * norm`, with all its
    rounding.
    """
    most = LARGEST_TOTAL * LATTICE / 4 / math.sqrt(max(parameters, 1))
    if rows > most:
        raise Refused(
            f"expected at most {most:.3g} rows for exact sums of {parameters} parameters over several ranks, got "
            f"{rows} declared rows; train in one process"
        )
