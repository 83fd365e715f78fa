"""Cosine bases that learners share: the lengths that sensitivities rely on."""

from __future__ import annotations

import numpy as np
import pytest

from privaware.features._fourier import (
    HARMONIC_WEIGHTS,
    LEVEL_WEIGHT,
    SMOOTH_BITS,
    harmonics,
    random_fourier_features,
    smooth_cosines,
)


@pytest.mark.parametrize("missing", [False, True])
def test_no_row_of_smooth_cosines_is_longer_than_one(missing: bool) -> None:
    for levels in range(1 + missing, 70):
        table = smooth_cosines(levels, missing)
        assert (table**2).sum(axis=1).max(initial=0.0) <= 1
        assert np.array_equal(table * 2**SMOOTH_BITS, np.rint(table * 2**SMOOTH_BITS))
        assert not missing or not table[-1].any()


def test_weights_of_level_and_harmonics_have_length_one() -> None:
    basis = np.stack(harmonics(np.linspace(0, np.pi, 50), np.cos, np.sin))
    assert LEVEL_WEIGHT + np.array(HARMONIC_WEIGHTS) @ basis**2 == pytest.approx(np.ones(50))


def test_random_fourier_features_are_no_longer_than_their_norm() -> None:
    angles = np.array([[0.0, 0.0], [np.nan, np.pi], [np.inf, -np.inf]], np.float32)
    assert (np.square(random_fourier_features(angles, 3.0), dtype=np.float64).sum(axis=1) <= 9 + 1e-5).all()
