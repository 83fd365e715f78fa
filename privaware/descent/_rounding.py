"""How far rounding moves a clipped gradient sum when one example is added or removed, from public facts alone.

Claim: a step's exact sum on neighbouring data differs by at most norm * (1 + ROUNDING), in the arithmetic really done.

1. A sample is put into microbatches of one public shape in uniformly random order; what is left over is padding. Take
   the order on the larger data, let its last example fill the slot of the one that is removed: that is a uniformly
   random order of the smaller data. So there is a coupling under which at most two slots differ, and every other
   slot holds the same example. In batches of one shape an example's numbers depend on that example and its slot, not
   on other slots, so all other examples add the same bits; the one that changes its slot is rounded otherwise there,
   by at most `SLOT_ROUNDING` of its length (checked on synthetic examples before training: `_probe.py`). The last
   microbatch may be narrower where alike examples have the same bits in all slots of both shapes.
2. The slots of a microbatch are summed in groups. A group of n examples adds, to each entry, n numbers that are an
   example's own. In any order this is wrong by at most gamma(n + 3) times the sum of absolute values, where
   gamma(k) = k u / (1 - k u) and u is the unit of rounding; three more are for the factor, the scaled gradient and the
   addition to zero. By the triangle inequality that is gamma(n + 3) * n * norm in length. At most two groups differ,
   or one and all of a last microbatch of another shape, each in two versions. All others are the same bit for bit.
3. Group sums are rounded to a public lattice and added in float64 without error (`_exact_sum.py`), each of those
   versions wrong by half a step in each of the parameters.
4. One example's gradient may exceed the norm by the rounding of its measured norm, and where it is computed once more
   from many positions by `POSITION_ROUNDING` (`rounded_up`).

TF32 and BF16 products also round single factors; runs with them clip a little lower for that (`TF32_MARGIN`). Tensor
cores may truncate where others round to nearest, so u is doubled for them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from privaware.errors import Refused

__all__ = ["LATTICE", "MOST_EXAMPLES", "NORM_BLOCK", "POSITION_ROUNDING", "ROUNDING", "SLOT_ROUNDING", "Arithmetic"]

ROUNDING = 2.0**-6
"""What is added to the sensitivity, over the clipping norm."""

POSITION_ROUNDING = 2.0**-9
"""The most that one example's gradient gains when its positions are added up once more, over its norm."""

SLOT_ROUNDING = 2.0**-10
"""The most that one example's clipped gradient may differ between two slots, over its norm."""

LATTICE = 2.0**-14
"""The length of one lattice step in every parameter, over the clipping norm."""

NORM_BLOCK = 4096
"""Squares that are added up at once."""

MOST_EXAMPLES = 216
"""The examples of the largest groups: more would round too much."""

UNITS = {16: 2.0**-8, 32: 2.0**-24, 64: 2.0**-53}
"""The unit of rounding by the bits of a number."""


@dataclass(frozen=True, kw_only=True)
class Arithmetic:
    """The public facts that rounding depends on: parameters of a model, bits of a number, precision of products.

    `cancelling` bounds the length of what is summed for an example over that of its clipped gradient.

    >>> facts = Arithmetic(parameters=255_000)
    >>> round(facts.rounding(144), 4), facts.group_size(), facts.may_narrow(groups=2, group=144)
    (0.0084, 216, True)
    """

    parameters: int
    bits: int = 32
    precision: str = "float32"
    cancelling: float = 1.0

    @property
    def unit(self) -> float:
        return UNITS[self.bits] * (1 if self.precision == "float32" else 2)

    def rounding(self, group: int, groups: int = 2) -> float:
        """The bound of points 2 to 4, over the clipping norm, where so many groups of so many examples differ."""
        sums = 2 * groups * _gamma(group + 3, self.unit) * group * self.cancelling
        squares = min(self.parameters, 2 * NORM_BLOCK) + self.parameters / NORM_BLOCK + 32
        own = (1 + _gamma(squares, self.unit) / 2) * (1 + POSITION_ROUNDING)
        return own * (1 + sums) - 1 + groups * LATTICE + SLOT_ROUNDING

    def group_size(self) -> int:
        """The most examples that may be summed at once."""
        for group in range(MOST_EXAMPLES, 0, -1):
            if self.rounding(group) <= ROUNDING:
                return group
        raise Refused(
            f"expected parameters whose sums round by at most {ROUNDING:.2%} of the clipping norm, got "
            f"{self.parameters} numbers of {self.bits} bits; use float32 parameters, fewer of them"
        )

    def may_narrow(self, groups: int, group: int) -> bool:
        """Whether the bound holds where all groups of a last microbatch differ, and one before."""
        return self.rounding(group, groups + 1) <= ROUNDING


def _gamma(count: float, unit: float) -> float:
    return count * unit / (1 - count * unit) if count * unit < 1 else math.inf
