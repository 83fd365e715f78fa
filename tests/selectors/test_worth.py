"""Columns are dropped exactly when that lowers the expected squared error."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from privaware.selectors.worth import explained, worthy


def test_exact_condition_is_right_where_the_printed_bound_errs() -> None:
    """c = 1, d = 3, theta x = -2: dropping wins, 1 against 4, though the printed bound says 1."""
    theta, x, c, d = -2.0, 1.0, 1.0, 3.0
    printed = abs(theta) <= (np.sqrt(c**2 + d) - abs(c)) / abs(x)
    exact = abs(theta * x + c) <= np.sqrt(c**2 + d)
    simpler, full = (theta * x + c) ** 2, c**2 + d
    assert exact
    assert not printed
    assert simpler < full


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.floats(0.01, 3.0))
def test_column_is_dropped_exactly_when_squared_error_decreases(seed: int, spread: float) -> None:
    """Against the expected squared errors themselves, summed over rows of one-hot columns."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(3, size=(50, 2))
    x = np.eye(3)[codes].reshape(50, 6) / np.sqrt(2)
    y = x @ rng.standard_normal(6) + 0.3 * rng.standard_normal(50)
    penalty = 5.0
    theta = np.linalg.solve(x.T @ x + penalty * np.eye(6), x.T @ y)

    def error(*selected: int) -> float:
        part = x * np.repeat(selected, 3)
        return float(((y - part @ theta) ** 2).sum() + spread**2 * (part**2).sum())

    both, without = error(1, 1), [error(0, 1), error(1, 0)]
    owner = np.repeat([0, 1], 3)
    selected = worthy(x.T @ x, (x.T @ y)[:, None], owner, penalty=penalty, price=spread**2 * 50 / 2, most=2)
    assert selected.all() == (both < min(without))
    if not selected.all():
        assert not selected[int(np.argmin(without))]


def test_variance_explained_by_noise_is_subtracted() -> None:
    """Targets that are pure noise: on average no column explains anything."""
    rng = np.random.default_rng(0)
    x = np.eye(3)[rng.integers(3, size=(60, 4))].reshape(60, 12) / 2
    owner, selected = np.repeat(np.arange(4), 3), np.ones(4, dtype=bool)
    corrected = np.array(
        [explained(x.T @ x, 2.0 * rng.standard_normal((12, 2)), owner, selected, 5.0, 2.0) for _ in range(4000)]
    )
    plain = explained(x.T @ x, 2.0 * rng.standard_normal((12, 2)), owner, selected, 5.0, 0.0)
    assert (plain > 0).all()
    assert (np.abs(corrected.mean(axis=0)) < 5 * corrected.std(axis=0) / np.sqrt(4000)).all()
