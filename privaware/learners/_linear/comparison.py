"""Whether a linear regression has learnt anything: it is compared with a noisy mean of the target, by a noisy sum."""

from __future__ import annotations

import numpy as np

from privaware.noise import Rng

__all__ = ["DEVIATION", "MEAN", "is_better", "noisy_mean"]

MEAN = 0.8
"""The part of the budget of a comparison that buys the mean; the rest buys the gain over it."""
DEVIATION = 1 / 3
"""The deviation of a target whose bounds are three deviations from its mean, as `TargetMomentsRange` releases them."""
LEAST_GAIN = 0.02
"""The least gain over the mean, in variances of the target: smaller ones on training rows are often none on others."""


def noisy_mean(target_sum: float, rows: int, noise: float, rng: Rng) -> float:
    """The mean of targets in [-1, 1] from their exact sum, which a row moves by 1 at most."""
    return float(np.clip(rng.gaussian(target_sum, noise=noise, sensitivity=1.0) / rows, -1.0, 1.0))


def is_better(gain_sum: float, rows: int, noise: float, rng: Rng) -> bool:
    """Whether the exact sum of gains, which a row moves by 1 at most, is more than noise and little."""
    return float(rng.gaussian(gain_sum, noise=noise, sensitivity=1.0)) > noise + LEAST_GAIN * rows
