"""A private comparison of a linear regression with the noisy mean of the target, by noisy sums."""

from __future__ import annotations

import numpy as np

from privaware.noise import Rng

__all__ = ["DEVIATION", "MEAN_FRACTION", "is_better", "noisy_mean"]

MEAN_FRACTION = 0.8
"""Fraction of the comparison's budget that releases the mean; 1 - `MEAN_FRACTION` releases the gain over the mean."""
DEVIATION = 1 / 3
"""Standard deviation of a scaled target whose bounds lie three deviations from its mean (`TargetMomentsRange`)."""
LEAST_GAIN = 0.02
"""Smallest gain over the mean, in variances of the target, that counts; smaller gains often vanish on unseen rows."""


def noisy_mean(target_sum: float, rows: int, noise: float, rng: Rng) -> float:
    """Return the noisy mean of `rows` targets in [-1, 1], clipped to [-1, 1], from their exact sum `target_sum`.

    One row changes `target_sum` by at most 1, and `noise` is the standard deviation of the noise that it gets.
    """
    return float(np.clip(rng.gaussian(target_sum, noise=noise, sensitivity=1.0) / rows, -1.0, 1.0))


def is_better(gain_sum: float, rows: int, noise: float, rng: Rng) -> bool:
    """Return whether `gain_sum` plus Gaussian noise of standard deviation `noise` exceeds `noise + LEAST_GAIN * rows`.

    One row changes `gain_sum` (see `LinearGradient.gains`) by at most 1.
    """
    return float(rng.gaussian(gain_sum, noise=noise, sensitivity=1.0)) > noise + LEAST_GAIN * rows
