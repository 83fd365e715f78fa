"""Output perturbation: the sensitivity of the minimiser is what is declared, and no more than needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privaware.errors import WrongInput
from privaware.events import Gaussian, Pure
from privaware.learners import output_perturbation
from privaware.learners._convex.solver import Problems
from privaware.learners.output_perturbation import OutputPerturbation, classic_noise
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import BrokenPromise, check_mechanism, rows_for

TABLE = Schema(columns=(Column(name="score", low=-1, high=1),), classes=("no", "yes"), rows=40)
NUMBER = Schema(columns=(Column(name="score", low=-1, high=1),), low=-2, high=5, rows=40)


def minimiser(x: np.ndarray, y: np.ndarray, loss: str, ridge: float, norm: float) -> np.ndarray:
    problems = Problems(
        rows=x,
        targets=y[None],
        loss=loss,
        ridge=np.array([ridge]),
        norm=np.array([norm]),
        masks=np.ones((1, x.shape[1]), bool),
        tolerance=np.array([1e-11]),
    )
    return problems.solve(np.zeros((1, x.shape[1])))[0]


@pytest.mark.parametrize("loss", ["logistic", "logcosh"])
@given(seed=st.integers(0, 10**6), rows=st.integers(0, 6), ridge=st.floats(0.01, 50), norm=st.floats(0.1, 5))
@settings(max_examples=40, deadline=None)
def test_minimiser_sensitivity_is_norm_over_ridge(loss: str, seed: int, rows: int, ridge: float, norm: float) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows + 1, 3)) * 4
    y = np.where(rng.random(rows + 1) < 0.5, 3.0, -3.0) if loss == "logcosh" else np.ones(rows + 1)
    few, more = minimiser(x[:-1], y[:-1], loss, ridge, norm), minimiser(x, y, loss, ridge, norm)
    assert np.linalg.norm(more - few) <= norm / ridge * (1 + 1e-9) + 1e-9


def test_minimiser_sensitivity_bound_is_tight() -> None:
    """Under a large ridge the slope of a confident mistake is nearly 1, so half the bound would be a bug."""
    x, y = np.tile([[1.0, 0.0]], (2000, 1)), np.ones(2000)
    few = minimiser(x, y, "logistic", 100.0, 1.0)
    more = minimiser(np.append(x, [[1.0, 0.0]], axis=0), np.append(y, -1.0), "logistic", 100.0, 1.0)
    base = minimiser(np.zeros((0, 2)), np.zeros(0), "logcosh", 100.0, 1.0)
    pushed = minimiser(np.array([[1.0, 0.0]]), np.array([50.0]), "logcosh", 100.0, 1.0)
    assert np.linalg.norm(more - few) < 1 / 100
    assert np.linalg.norm(pushed - base) > 0.99 / 100


def test_halved_sensitivity_and_halved_noise_are_caught(monkeypatch: Any) -> None:
    monkeypatch.setattr(output_perturbation, "NORM", output_perturbation.NORM / 2)
    longer = output_perturbation.Problems
    monkeypatch.setattr(output_perturbation, "Problems", lambda **f: longer(**{**f, "norm": 2 * f["norm"]}))
    for distribution in ("gaussian", "gamma"):
        with pytest.raises(BrokenPromise, match="sensitivity exceeded"):
            check_mechanism(
                OutputPerturbation(distribution=distribution, ridge=1e3, reach=0.001), schema=NUMBER, games=0
            )
    monkeypatch.undo()
    usual = OutputPerturbation._noise
    monkeypatch.setattr(
        OutputPerturbation,
        "run",
        lambda self, data, noise, rng, run=OutputPerturbation.run: run(self, data, noise / 2, rng),
    )
    for distribution in ("gaussian", "gamma"):
        with pytest.raises(BrokenPromise, match="the stated cost is too low"):
            check_mechanism(OutputPerturbation(distribution=distribution), schema=TABLE, games=0)
    assert usual is OutputPerturbation._noise


def test_costs_and_refused_settings() -> None:
    assert OutputPerturbation().cost(TABLE, 3.0) == Gaussian(noise=3.0)
    assert OutputPerturbation(distribution="gamma").cost(TABLE, 3.0) == Pure(epsilon=1 / 3.0)
    assert classic_noise(0.1, 1e-5) == pytest.approx(48.45, rel=1e-3)
    with pytest.raises(WrongInput, match="below 1 only"):
        classic_noise(1.0, 1e-5)
    for wrong in ({"distribution": "laplace"}, {"ridge": 0.0}, {"reach": -1.0}):
        with pytest.raises(WrongInput, match="output_perturbation: expected"):
            OutputPerturbation(**wrong)


@pytest.mark.parametrize("distribution", ["gaussian", "gamma"])
def test_without_noise_it_equals_plain_regression(distribution: str) -> None:
    data = rows_for(TABLE, 200)
    model = OutputPerturbation(distribution=distribution, ridge=1.0).run(data, 1e-9, Rng(seed=1))
    assert (model.predictions(data) == data.y).mean() > 0.85
