"""Random numbers of an example: a keyed function of its number, of the step and of the draw in that step.

Dropout masks and augmentation take their numbers from here. A number never depends on the other examples of a batch, on
how the batch is cut into microbatches or on how often anything was drawn before. So one example more or less changes no
other example's numbers, and no generator stands somewhere else because of it.

The key has 128 bits of the sampling stream. A seed of 64 bits for each example, step, model and copy comes from it,
and words of 64 bits come from the seed, both by the mixing function of SplitMix64 (Steele et al. 2014). That is no
cipher, but nobody sees a mask, and privacy does not rest on masks. The same operations run eagerly and in a CUDA graph.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from privaware.errors import Refused
from privaware.noise import ExampleNumbers

__all__ = ["ExampleDraws", "ExampleKey"]

GOLDEN = 0x9E3779B97F4A7C15 - 2**64
"""2^64 over the golden ratio, odd: consecutive numbers times this are far apart."""

DRAW = 0xD1B54A32D192ED03 - 2**64
"""What separates one draw of an example from the next."""

PART = 0xAEF17502108EF2D9 - 2**64
"""What separates the parts of an example that stand in several rows of a tensor."""

LANES = 0x7FFF7FFF7FFF7FFF
"""The bits of a word that masks use: four lanes of 15 bits."""

LANE = 2**15
"""The number of values of a lane, so the resolution of a dropout rate."""


class ExampleDraws:
    """The draws of one batch. Row r of each draw belongs to row r of the batch, whatever the other rows are.

    >>> draws = [ExampleDraws(torch.tensor(seeds)).uniform((len(seeds), 2)) for seeds in ([7, 8], [8])]
    >>> torch.equal(draws[0][1:], draws[1])
    True
    """

    def __init__(self, seeds: Tensor, count: Iterator[int] | None = None) -> None:
        """`seeds` (rows,) are secret and differ between rows; `count` numbers the draws."""
        self.seeds = seeds
        self.count = itertools.count() if count is None else count

    def uniform(self, shape: Sequence[int]) -> Tensor:
        """Numbers in [0, 1), in float64; the first dimension of `shape` is the rows."""
        rows, width = self._rows(shape), math.prod(shape[1:])
        words = self._words(self.of_rows(rows), width)
        return words.bitwise_and_(2**53 - 1).double().mul_(2.0**-53).view(shape)

    def normal(self, shape: Sequence[int]) -> Tensor:
        """Standard normal numbers, in float64, by Box and Muller's rule."""
        radius = (-2.0 * torch.log1p(-self.uniform(shape))).sqrt_()
        return radius.mul_(self.uniform(shape).mul_(2.0 * math.pi).cos_())

    def kept(self, shape: Sequence[int], rate: float, dtype: torch.dtype) -> tuple[Tensor, float]:
        """A mask that is 1 but for a share `rate` of zeros, and the share of ones, which is a multiple of 1 / `LANE`.

        >>> mask, share = ExampleDraws(torch.arange(4000)).kept((4000, 10), 0.2, torch.float32)
        >>> bool(abs(mask.mean() - 0.8) < 0.01), round(share, 3)
        (True, 0.8)
        """
        rows = self._rows(shape)
        parts, width = rows // len(self.seeds), math.prod(shape[1:])
        words = self._words(self.seeds, -(-parts * width // 4)).bitwise_and_(LANES)
        zeros = round(rate * LANE)
        mask = (words.view(torch.int16)[:, : parts * width] >= zeros).to(dtype)
        return mask.view(shape), 1 - zeros / LANE

    def of_rows(self, rows: int) -> Tensor:
        """A seed for each of `rows`, of which every example has the same number, one after another."""
        parts = rows // len(self.seeds)
        if parts == 1:
            return self.seeds
        return (self.seeds[:, None] + torch.arange(parts, device=self.seeds.device) * PART).flatten()

    def alone(self, seed: Tensor) -> ExampleDraws:
        """The draws of one row with this seed, under `torch.func.vmap`; the next draw here comes after them."""
        return ExampleDraws(seed[None], self.count)

    def _rows(self, shape: Sequence[int]) -> int:
        if not len(self.seeds) or shape[0] % len(self.seeds):
            raise Refused(
                f"expected the examples first where numbers are drawn, got shape {tuple(shape)} for {len(self.seeds)} "
                "rows; keep the batch dimension in front"
            )
        return int(shape[0])

    def _words(self, seeds: Tensor, width: int) -> Tensor:
        """(seeds, width) words of this draw."""
        offsets = torch.arange(width, device=seeds.device).mul_(GOLDEN).add_(_wrapped(next(self.count) * DRAW))
        return _mixed(seeds[:, None] + offsets)


class ExampleKey:
    """The secret of one training on its device, and the number of each of its examples."""

    def __init__(self, of: ExampleNumbers, device: torch.device) -> None:
        self.key = torch.tensor([_wrapped(word) for word in of.key], device=device)
        self.numbers = torch.from_numpy(of.numbers).to(device)

    def draws(self, numbers: Tensor, step: Any, models: int = 1, copies: int = 1) -> ExampleDraws:
        """The draws of a step for the examples with these numbers, model-major, each with its copies in a row.

        `step` is a number, or in a CUDA graph a tensor of one.
        """
        if not isinstance(step, Tensor):
            step = torch.full((1,), step, device=self.key.device)
        of_step = _mixed(self.key + step * GOLDEN)
        if models > 1:
            own = torch.arange(models, device=numbers.device)[:, None]
            numbers = (numbers.view(models, -1) * models + own).flatten()
        if copies > 1:
            numbers = (numbers[:, None] * copies + torch.arange(copies, device=numbers.device)).flatten()
        return ExampleDraws(_mixed((numbers * GOLDEN).bitwise_xor_(of_step[0])).add_(of_step[1]))


def _mixed(words: Tensor) -> Tensor:
    """SplitMix64's mixing function, in place, with arithmetic shifts: they lose the highest bit, which nothing uses."""
    words.bitwise_xor_(words >> 30).mul_(0xBF58476D1CE4E5B9 - 2**64)
    words.bitwise_xor_(words >> 27).mul_(0x94D049BB133111EB - 2**64)
    return words.bitwise_xor_(words >> 31)


def _wrapped(word: int) -> int:
    """A whole number modulo 2^64, as a signed one."""
    return (word + 2**63) % 2**64 - 2**63
