"""Newton and AdaSSP: released moments have the declared sensitivity, and without noise both are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privaware.errors import WrongInput
from privaware.exact_sums import Lattice
from privaware.learners import adassp, newton
from privaware.learners._convex import bounded_rows as _bounded_rows
from privaware.learners._convex.bounded_rows import CONSTANT, NORM, noisy_moments, with_constant
from privaware.learners.adassp import Adassp
from privaware.learners.newton import Newton
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import BrokenPromise, Recorder, check_mechanism, rows_for

COLUMNS = (Column(name="score", low=-1, high=1), Column(name="age", low=0, high=9))
TABLE = Schema(columns=COLUMNS, classes=("no", "yes"), rows=40)
NUMBER = Schema(columns=COLUMNS, low=-2, high=5, rows=40)


@given(seed=st.integers(0, 10**6), rows=st.integers(0, 5), width=st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_moments_sensitivity_is_the_squared_norm(seed: int, rows: int, width: int) -> None:
    """Exactly, when the row is as long as declared: off-diagonal entries count twice."""
    x = np.random.default_rng(seed).standard_normal((rows + 1, width)) * 9
    wide = with_constant(x)
    exact = []
    for part in (wide[:-1], wide):
        rng = Recorder(seed)
        noisy = noisy_moments(part, 1.0, rng)
        assert np.array_equal(noisy, noisy.T)
        exact.append(rng.calls[0].exact)
    length = np.linalg.norm(wide[-1])
    assert np.linalg.norm(exact[1] - exact[0]) == pytest.approx(length**2, rel=1e-9)
    assert length <= NORM


def test_moments_noise_has_half_the_variance_off_the_diagonal() -> None:
    noisy = noisy_moments(np.zeros((0, 200)), 2.0, Rng(seed=1))
    off = noisy[np.triu_indices(200, 1)]
    assert off.std() == pytest.approx(2.0 * NORM**2 / np.sqrt(2), rel=0.03)
    assert np.diag(noisy).std() == pytest.approx(2.0 * NORM**2, rel=0.2)


def test_adassp_without_noise_is_least_squares() -> None:
    data = rows_for(NUMBER, 300)
    model = Adassp().run(data, 1e-8, Rng(seed=0))
    x = np.column_stack([model.features[0](data.x, NUMBER).astype(float), np.ones(300)])
    y = (data.y - 1.5) / 3.5
    expected = np.linalg.lstsq(x, y, rcond=None)[0]
    fitted = np.append(model.tensors["output.weight"][0], model.tensors["output.bias"][0])
    assert np.abs(fitted - expected).max() < 1e-3


def test_newton_without_noise_is_the_ridge_regression() -> None:
    from sklearn.linear_model import LogisticRegression

    data = rows_for(TABLE, 300)
    model = Newton(steps=400, ridge=2.0).run(data, 1e-9, Rng(seed=0))
    wide = with_constant(model.features[0](data.x, TABLE))
    plain = LogisticRegression(C=0.5, fit_intercept=False, tol=1e-10).fit(wide, data.y).coef_[0]
    fitted = np.append(
        np.diff(model.tensors["output.weight"], axis=0), np.diff(model.tensors["output.bias"]) / CONSTANT
    )
    assert np.abs(fitted - plain).max() < 1e-3


def test_planted_bugs_are_caught(monkeypatch: Any) -> None:
    """A slope bound too small, a norm that is not squared, quieter moments, and targets left as they are."""
    with monkeypatch.context() as patch:
        patch.setattr(newton, "slope_bounds", lambda schema: (0.4, 0.25))
        with pytest.raises(BrokenPromise, match="sensitivity exceeded"):
            check_mechanism(Newton(), schema=TABLE, games=0)
    with monkeypatch.context() as patch:
        patch.setattr(_bounded_rows, "NORM", 1.0)
        for learner in (Newton(), Adassp()):
            with pytest.raises(BrokenPromise, match="sensitivity exceeded"):
                check_mechanism(learner, schema=TABLE, games=0)
    with monkeypatch.context() as patch:
        patch.setattr(
            newton, "noisy_moments", lambda rows, noise, rng, usual=noisy_moments: usual(rows, noise / 2, rng)
        )
        with pytest.raises(BrokenPromise, match="the stated cost is too low"):
            check_mechanism(Newton(), schema=TABLE, games=0)
    with monkeypatch.context() as patch:
        patch.setattr(_bounded_rows, "targets", lambda data, reach: 4 * data.y[None].astype(float))
        check_mechanism(Adassp(), schema=NUMBER, games=0)  # the lattice holds its bound whatever comes
        patch.setattr(adassp, "TARGETS", Lattice(bound=32.0, bits=20))
        with pytest.raises(BrokenPromise, match="sensitivity exceeded"):
            check_mechanism(Adassp(), schema=NUMBER, games=0)


def test_invalid_settings_are_refused_by_cost() -> None:
    for wrong in ({"steps": 0}, {"ridge": 0.0}, {"reach": 0.0}):
        with pytest.raises(WrongInput, match="newton: expected"):
            Newton(**wrong)
    with pytest.raises(WrongInput, match="adassp: expected"):
        Adassp(chance=0.0)
    wide = Schema(form="image", shape=(3, 64, 64), classes=("no", "yes"), rows=40)
    for learner in (Newton(), Adassp()):
        with pytest.raises(WrongInput, match="at most 2000 numbers, got 12288"):
            learner.cost(wide, 1.0)
