"""Draw random numbers for single examples, as a keyed function of example number, step and draw within the step.

Dropout masks and augmentation use these random numbers. They do not depend on the other examples of a batch, on how the
batch is cut into microbatches, or on how often anything was drawn before. So adding or removing one example changes
neither the random numbers of examples that keep their numbers, nor the state of any generator.

The key is 128 random bits, from the generator that also draws the samples. The mixing function of SplitMix64 (Steele et
al. 2014) derives a seed of 64 bits for each example, step, model and copy from the key, and random words of 64 bits
from a seed. SplitMix64 is no cipher, but masks are never released, and privacy does not rest on masks. The same
operations run eagerly and in a CUDA graph.
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

GOLDEN = 0x9E3779B97F4A7C15 - 2**64
"""2^64 divided by the golden ratio (an odd number), as a signed word; its multiples spread consecutive numbers."""

DRAW = 0xD1B54A32D192ED03 - 2**64
"""Added to the seed for each further draw of an example in a step."""

PART = 0xAEF17502108EF2D9 - 2**64
"""Added to an example's seed for each row after its first, if the example has several rows in a tensor."""

LANES = 0x7FFF7FFF7FFF7FFF
"""Mask of the bits of a 64-bit word that dropout masks use: four lanes (random numbers) of 15 bits."""

LANE = 2**15
"""The number of values of a lane of 15 bits; dropout rates are rounded to multiples of `1 / LANE`."""


class ExampleDraws:
    """The random draws of one batch. Row r of each draw depends on the seed of row r only.

    Parameters
    ----------
    seeds : Tensor
        One secret seed of 64 bits for each row of the batch.
    count : iterator of int, optional
        Numbers the draws; from 0 on if not given.

    Examples
    --------
    >>> draws = [ExampleDraws(torch.tensor(seeds)).uniform((len(seeds), 2)) for seeds in ([7, 8], [8])]
    >>> torch.equal(draws[0][1:], draws[1])
    True
    """

    def __init__(self, seeds: Tensor, count: Iterator[int] | None = None) -> None:
        self.seeds = seeds
        self.count = itertools.count() if count is None else count

    def uniform(self, shape: Sequence[int]) -> Tensor:
        """Return uniform numbers in [0, 1) of the given `shape`, in float64.

        The first dimension counts rows. If there are k times as many rows as seeds, each seed gives k consecutive rows.
        Raise `Refused` if the number of rows is not a multiple of the number of seeds, or if there are no seeds.
        """
        rows, width = self._rows(shape), math.prod(shape[1:])
        words = self._words(self.of_rows(rows), width)
        return words.bitwise_and_(2**53 - 1).double().mul_(2.0**-53).view(shape)

    def normal(self, shape: Sequence[int]) -> Tensor:
        """Return standard normal numbers in float64 (Box-Muller transform); `shape` and errors are as in `uniform`."""
        radius = (-2.0 * torch.log1p(-self.uniform(shape))).sqrt_()
        return radius.mul_(self.uniform(shape).mul_(2.0 * math.pi).cos_())

    def kept(self, shape: Sequence[int], rate: float, dtype: torch.dtype) -> tuple[Tensor, float]:
        """Return a dropout mask of this `shape` and `dtype`, and the probability that an entry is 1.

        An entry is 0 with probability `rate`, rounded to a multiple of 2^-15, and 1 otherwise. Raise `Refused` if the
        first dimension of `shape` is not a multiple of the number of seeds, or if there are no seeds.

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
        """Return a tensor with one seed for each of `rows` rows.

        Each example has the same number of consecutive rows. Row r of an example has the example's seed plus
        `r * PART`.
        """
        parts = rows // len(self.seeds)
        if parts == 1:
            return self.seeds
        return (self.seeds[:, None] + torch.arange(parts, device=self.seeds.device) * PART).flatten()

    def alone(self, seed: Tensor) -> ExampleDraws:
        """Return the draws of one row with this `seed`, for `torch.func.vmap`; both objects share one draw counter."""
        return ExampleDraws(seed[None], self.count)

    def _rows(self, shape: Sequence[int]) -> int:
        if not len(self.seeds) or shape[0] % len(self.seeds):
            raise Refused(
                "expected dropout or augmentation to draw random numbers of a shape with the batch dimension first (a "
                f"multiple of {len(self.seeds)} rows), got shape {tuple(shape)}; keep the batch dimension in front"
            )
        return int(shape[0])

    def _words(self, seeds: Tensor, width: int) -> Tensor:
        """Return `width` random int64 words for each of `seeds`, as (seeds, width), and count one more draw."""
        offsets = torch.arange(width, device=seeds.device).mul_(GOLDEN).add_(_wrapped(next(self.count) * DRAW))
        return _mixed(seeds[:, None] + offsets)


class ExampleKey:
    """The secret key of one training (two words of 64 bits) and the number of each example, as tensors on a device."""

    def __init__(self, of: ExampleNumbers, device: torch.device) -> None:
        self.key = torch.tensor([_wrapped(word) for word in of.key], device=device)
        self.numbers = torch.from_numpy(of.numbers).to(device)

    def draws(self, numbers: Tensor, step: Any, models: int = 1, copies: int = 1) -> ExampleDraws:
        """Return the random draws of one step for the examples with these `numbers`.

        `numbers` are the example numbers of all models, first the numbers of model 0. The result has `copies`
        consecutive rows for each example, in the same order. Each model and each copy has its own draws. `step` is an
        int, or in a CUDA graph a tensor of one entry.
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
    """Apply SplitMix64's mixing function to `words` in place, and return `words`.

    The shifts are arithmetic, so the highest bit of a result is always 0; no random number uses this bit.
    """
    words.bitwise_xor_(words >> 30).mul_(0xBF58476D1CE4E5B9 - 2**64)
    words.bitwise_xor_(words >> 27).mul_(0x94D049BB133111EB - 2**64)
    return words.bitwise_xor_(words >> 31)


def _wrapped(word: int) -> int:
    """Return `word` modulo 2^64 as a signed integer of 64 bits."""
    return (word + 2**63) % 2**64 - 2**63
