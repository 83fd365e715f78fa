"""Random Fourier features and cosine bases, which features and learners of tables share.

* `random_fourier_features` turns angles into features whose inner products approach a Gaussian kernel (Rahimi and Recht
  2007). `features/random_fourier.py`, `features/table_fourier.py` and the learner `fourier` draw the angles.
* `smooth_cosines` is the basis of one number's curve in an additive model.
* `harmonics` is the basis of one number in `amortised`.

Privacy: no privacy cost (data-independent): functions of public numbers, or of one row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

CATEGORY_DISTANCE = 1.4
"""Factor on the one-hot vector of a category, beside numbers that have a standard deviation of about 1."""

NUMBER_SCALE = math.sqrt(3)
"""Factor that gives a number uniform on [-1, 1] the standard deviation 1."""

SMOOTH_COSINES = 8
"""Largest number of cosines in the basis of a number's curve."""

SMOOTH_LENGTH = 0.3
"""Length scale of a number's curve, as a fraction of the number's range."""

SMOOTH_BITS = 8
"""Entries of `smooth_cosines` are multiples of 2^-8: products with exact sums fit an int64 for 2^32 rows."""

HARMONIC_WEIGHTS = (0.4, 0.4, 0.15, 0.15)
"""Squared weights of the four `harmonics`."""

LEVEL_WEIGHT = 0.45
"""Squared weight of a number's level beside its harmonics: 0.4 + 0.15 + 0.45 = 1, because cos^2 + sin^2 = 1."""


def random_fourier_features(angles: np.ndarray, norm: float = 1.0) -> np.ndarray:
    """Return cos(angles) * norm / sqrt(count) for angles (rows, count): no row has an L2 norm above `norm`.

    An angle that is NaN is replaced by 0.

    >>> random_fourier_features(np.zeros((1, 4), np.float32)).tolist()
    [[0.5, 0.5, 0.5, 0.5]]
    """
    return np.asarray(np.cos(np.nan_to_num(angles)) * np.float32(norm / math.sqrt(angles.shape[1])))


def smooth_cosines(levels: int, missing: bool) -> np.ndarray:
    """Return a basis of cosines over `levels` ordered levels, as an array (levels, cosines).

    A cosine of frequency f is divided by sqrt(1 + (f * SMOOTH_LENGTH)^2). All cosines are then scaled so that no row
    has an L2 norm above 1, and rounded towards zero to multiples of 2^-SMOOTH_BITS. If `missing`, the last level is for
    missing values and has zeros. The frequencies are pi * 1, pi * 2 and so on: at most `SMOOTH_COSINES`, fewer than
    there are levels of known values, and none if these are fewer than three.

    >>> smooth_cosines(3, missing=False).round(2).tolist()
    [[0.93, 0.35], [0.0, -0.7], [-0.93, 0.35]]
    """
    known = levels - missing
    count = min(SMOOTH_COSINES, known - 1) if known > 2 else 0
    frequencies = math.pi * np.arange(1, count + 1)
    cosines = np.cos(frequencies * ((np.arange(known) + 0.5) / max(known, 1))[:, None])
    cosines = cosines / np.sqrt(1 + (frequencies * SMOOTH_LENGTH) ** 2)
    longest = np.sqrt((cosines**2).sum(axis=1).max(initial=1e-12)) if count else 1.0
    table = np.zeros((levels, count))
    table[:known] = np.trunc(cosines / longest * 2**SMOOTH_BITS) / 2**SMOOTH_BITS
    return table


def harmonics(angles: Any, cos: Callable[[Any], Any], sin: Callable[[Any], Any]) -> list[Any]:
    """Return a list of four arrays: cos(angles), sin(angles), cos(2 * angles) and sin(2 * angles).

    `cos` and `sin` are the functions of NumPy or torch. Angles run from 0 to pi over the levels of a number, so the
    first two functions run through half a period and the last two through a whole period.
    """
    return [cos(angles), sin(angles), cos(2 * angles), sin(2 * angles)]
