"""Bound how far rounding moves a clipped gradient sum when one example is added or removed, from public facts only.

Claim: a step's exact sums on neighbouring data differ by at most `norm * (1 + ROUNDING)`, in the arithmetic that is
really done.

1. A sample is put into microbatches of one public shape in uniformly random order; unused slots are padding. Take such
   an order of the larger data, and move its last example into the slot of the removed example. The result is a
   uniformly random order of the smaller data. So there is a coupling of the two orders under which at most two slots
   differ. In batches of one shape the numbers computed for an example depend on that example and its slot only. So
   all examples that keep their slots add the same bits. The example that changes its slot may be rounded differently
   there, by at most `SLOT_ROUNDING` times its norm; `_slot_checks.py` tries this on a synthetic example. The last
   microbatch may be narrower if equal examples give the same bits in all slots of both shapes.
2. The slots of a microbatch are summed in groups. A group of n examples adds n numbers to each entry, one for each
   example. In any order of addition the sum is wrong by at most gamma(n + 3) times the sum of absolute values, where
   gamma(k) = k u / (1 - k u) and u is the unit roundoff; the 3 covers the rounding of the clipping factor, of the
   scaled gradient, and of the addition to zero. By the triangle inequality the error vector of a group has a norm of at
   most gamma(n + 3) * n * norm. At most two groups differ between the two orders, or one group and all groups of a last
   microbatch of another shape. Each of them counts twice, once for each order. All other groups agree bit for bit.
3. Group sums are rounded to a public lattice and added in float64 without error (`_exact_sum.py`). Each group of point
   2, in each order, is wrong by half a lattice step in each parameter.
4. One example's clipped gradient may exceed the norm by the rounding error of its measured norm, and, if it is computed
   a second time from many positions, by `POSITION_ROUNDING` times the norm (`rounded_up`).

TF32 and BF16 products also round single factors. Runs with these products clip to a slightly smaller norm
(`TF32_MARGIN`). Tensor cores may truncate instead of rounding to nearest, so u is doubled for them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from privaware.errors import Refused

ROUNDING = 2.0**-6
"""Addition to the sensitivity for rounding, as a fraction of the clipping norm."""

POSITION_ROUNDING = 2.0**-9
"""Largest rounding error of an example's gradient that is summed after its norm is known, divided by this norm.

A ghost norm does not form the gradient. So the gradient is formed later, as a sum over positions such as pixels.
"""

SLOT_ROUNDING = 2.0**-10
"""Largest difference of an example's clipped gradient between two slots of a microbatch, divided by its norm.

A slot is the place of one example in a microbatch.
"""

LATTICE = 2.0**-14
"""Upper bound on the norm of the vector with one lattice step in every parameter, divided by the clipping norm.

Sums are rounded to multiples of the lattice step, which is a power of two.
"""

NORM_BLOCK = 4096
"""Number of squares that are summed in one block of a norm."""

MAX_GROUP_SIZE = 216
"""Largest number of examples in a group, whose gradients are added in one sum. Larger groups would round more."""

UNITS = {16: 2.0**-8, 32: 2.0**-24, 64: 2.0**-53}
"""Unit roundoff of a floating-point format, by its number of bits."""


@dataclass(frozen=True, kw_only=True)
class Arithmetic:
    """The public facts that rounding depends on.

    `parameters` is the number of entries of a gradient sum. `bits` is the size of a float: 16, 32 or 64. `precision` is
    the precision of products: "float32", "tf32" or "bf16". `cancelling` is an upper bound on the norm of the vector
    that is summed for an example, divided by the norm of the example's clipped gradient.

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
        """The unit roundoff of sums; doubled with TF32 or BF16 products, which may truncate."""
        return UNITS[self.bits] * (1 if self.precision == "float32" else 2)

    def rounding(self, group: int, groups: int = 2) -> float:
        """Return an upper bound on what rounding adds to the sensitivity, divided by the clipping norm.

        Examples are summed in groups of `group` examples. The bound holds if the sums of at most `groups` groups differ
        between neighbouring data.
        """
        sums = 2 * groups * _gamma(group + 3, self.unit) * group * self.cancelling
        squares = min(self.parameters, 2 * NORM_BLOCK) + self.parameters / NORM_BLOCK + 32
        own = (1 + _gamma(squares, self.unit) / 2) * (1 + POSITION_ROUNDING)
        return own * (1 + sums) - 1 + groups * LATTICE + SLOT_ROUNDING

    def group_size(self) -> int:
        """Return the largest number of examples, at most `MAX_GROUP_SIZE`, with `rounding(group_size) <= ROUNDING`.

        Raise `Refused` if a group of one example already exceeds this bound.
        """
        for group in range(MAX_GROUP_SIZE, 0, -1):
            if self.rounding(group) <= ROUNDING:
                return group
        raise Refused(
            f"expected parameters whose sums round by at most {ROUNDING:.2%} of the clipping norm, got "
            f"{self.parameters} numbers of {self.bits} bits; use float32 parameters, fewer of them"
        )

    def may_narrow(self, groups: int, group: int) -> bool:
        """Return whether `rounding(group, groups + 1) <= ROUNDING`, so that the last microbatch may have another shape.

        Then all `groups` groups of the last microbatch may differ between neighbouring data, and one group before it.
        """
        return self.rounding(group, groups + 1) <= ROUNDING


def _gamma(count: float, unit: float) -> float:
    return count * unit / (1 - count * unit) if count * unit < 1 else math.inf
