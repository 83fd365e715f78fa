"""Sums of independent losses: the form of a composition, in one direction, in the CF accountant."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from privaware.accounting._cf_losses import Loss, MixtureLoss, OverflowLoss, TableLoss


class TooSlow(Exception):
    """Raised if the CF accountant cannot resolve a composition in reasonable time or precision."""


@dataclass(frozen=True, kw_only=True)
class LossSum:
    """The loss of a composition in one direction.

    `losses` are independent losses with their numbers of repetitions. `log_survival` is the log probability that no
    release fails outright. `rho` is the sum of zCDP parameters, which have no loss to add.
    """

    losses: tuple[tuple[Loss, int], ...] = ()
    log_survival: float = 0.0
    rho: float = 0.0

    def __add__(self, other: LossSum) -> LossSum:
        counts = dict(self.losses)
        for loss, count in other.losses:
            counts[loss] = counts.get(loss, 0) + count
        both = self.log_survival + other.log_survival
        return LossSum(losses=tuple(counts.items()), log_survival=both, rho=self.rho + other.rho)

    @property
    def failure(self) -> float:
        return -math.expm1(self.log_survival)

    def curve(self, t: float) -> float:
        """Return K(t) = ln E[exp(t * loss)] of the sum of all losses, for a real t; zCDP does not count."""
        if t not in self._known:
            z = np.array([t])
            with np.errstate(over="ignore", invalid="ignore"):
                self._known[t] = sum(n * float(loss.log_mgf(z)[0]) for loss, n in self.losses)
        return self._known[t]

    @cached_property
    def _known(self) -> dict[float, float]:
        return {}

    @cached_property
    def variance(self) -> float:
        """The variance of the loss: the curvature near 0 of its log moment generating function, `curve`."""
        step, value = 1e-3, 0.0
        for _ in range(60):
            k, twice = self.curve(step), self.curve(2 * step)
            value = (twice - 2 * k) / step**2
            if twice < 0.2:
                break
            step /= 4
        return max(value, 0.0)

    @cached_property
    def largest(self) -> float:
        """The largest possible loss."""
        return sum(n * loss.largest() for loss, n in self.losses)

    @property
    def sampled(self) -> bool:
        return any(isinstance(loss, (MixtureLoss, OverflowLoss)) for loss, _ in self.losses)

    @property
    def rare(self) -> bool:
        """Whether there are sampled Gaussians, and a unit has fewer than 0.05 sampled rows in all releases together.

        The number of sampled rows is the expected one, summed over all releases. If it is so small, the bulk and the
        tail of the distribution of the loss differ in scale.
        """
        return self.sampled and sum(n * loss.often for loss, n in self.losses) < 0.05

    @property
    def tabulated(self) -> bool:
        """Whether some losses are tables, every loss has a finite maximum, and at most 1000 releases with repetitions.

        A table has thousands of points.
        """
        tables = any(isinstance(loss, TableLoss) for loss, _ in self.losses)
        return tables and math.isfinite(self.largest) and sum(n for _, n in self.losses) <= 1000

    @property
    def few(self) -> bool:
        """Whether there are at most 8 releases, repetitions included, with a sampled Gaussian among them."""
        return self.sampled and sum(n for _, n in self.losses) <= 8
