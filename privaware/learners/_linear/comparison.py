"""A private test of whether a linear regression predicts better than the noisy mean of its target.

The test releases two noisy sums over rows.
"""

from __future__ import annotations

import numpy as np

from privaware.noise import Rng

MEAN_FRACTION = 0.8
"""Fraction of the comparison's budget that releases the target mean; the rest releases the gain over that mean."""
DEVIATION = 1 / 3
"""Standard deviation of a scaled target whose bounds lie three deviations from its mean (`TargetMomentsRange`)."""
LEAST_GAIN = 0.02
"""Smallest mean gain of a row over the noisy mean that counts; smaller gains often vanish on unseen rows."""


def noisy_mean(target_sum: float, rows: int, noise: float, rng: Rng) -> float:
    """Return `target_sum` plus Gaussian noise of standard deviation `noise`, divided by `rows`, clipped to [-1, 1].

    `target_sum` is the exact sum of targets in [-1, 1], so one row changes it by at most 1. `rows` is the declared
    number of rows.
    """
    return float(np.clip(rng.gaussian(target_sum, noise=noise, sensitivity=1.0) / rows, -1.0, 1.0))


def is_better(gain_sum: float, rows: int, noise: float, rng: Rng) -> bool:
    """Return whether `gain_sum` plus Gaussian noise of standard deviation `noise` exceeds `noise + LEAST_GAIN * rows`.

    `gain_sum` is the exact sum of the gains of a regression over the mean of its target (see `LinearGradient.gains`);
    one row changes it by at most 1. `rows` is the declared number of rows.
    """
    return float(rng.gaussian(gain_sum, noise=noise, sensitivity=1.0)) > noise + LEAST_GAIN * rows
