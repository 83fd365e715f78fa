"""The price of objective perturbation against densities written down apart from it, and against played games."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from privaware import accounting
from privaware.attacks._bounds import epsilon_lower
from privaware.events import Gaussian, Pure
from privaware.learners import objective_perturbation
from privaware.learners._convex import objective_prices as _objective_prices
from privaware.learners.objective_perturbation import ObjectivePerturbation, fit_many
from privaware.noise import SMEAR, Rng
from privaware.schema import Schema
from privaware.testing import rows_for

NORM = 2.0
OTHERS = {
    "none": (np.zeros((0, 2)), np.zeros(0)),
    "one against": (np.array([[NORM, 0.0]]), np.array([-1.0])),
    "across": (np.array([[0.0, NORM], [0.3, NORM - 0.1]]), np.array([1.0, -1.0])),
}
CANARY = np.array([[NORM, 0.0]])


def log_density(
    w: np.ndarray, rows: np.ndarray, signs: np.ndarray, distribution: str, noise: float, ridge: float
) -> np.ndarray:
    """Of a logistic regression's releases, but for a constant that no row changes."""
    wrong = 1 / (1 + np.exp((w @ rows.T) * signs))
    length = np.linalg.norm((wrong * signs) @ rows - ridge * w, axis=1) / (noise * NORM)
    bend = np.einsum("ni,ij,ik->njk", wrong * (1 - wrong), rows, rows)
    volume = np.linalg.det(bend + ridge * np.eye(w.shape[1]))
    return np.asarray(np.log(volume) - (length if distribution == "gamma" else length**2 / 2))


def exact(others: str, distribution: str, noise: float, ridge: float) -> Callable[[float], float]:
    """delta(epsilon) of two columns by quadrature, the worse direction."""
    line = np.linspace(-1, 1, 451)
    line = (40 if distribution == "gamma" else 9) * (noise + 0.5) * NORM / ridge * line * np.abs(line)
    w = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    step = np.outer(np.gradient(line), np.gradient(line)).ravel()
    rows, signs = OTHERS[others]
    worlds = [(rows, signs), (np.concatenate([rows, CANARY]), np.append(signs, 1.0))]
    logs = [log_density(w, *world, distribution, noise, ridge) for world in worlds]
    mass = [np.exp(each - logs[0].max()) * step for each in logs]
    p, q = (each / each.sum() for each in mass)
    return lambda epsilon: max(float(np.maximum(a - math.exp(epsilon) * b, 0).sum()) for a, b in ((p, q), (q, p)))


@pytest.mark.parametrize("others", list(OTHERS))
@pytest.mark.parametrize("noise", [0.5, 2.0])
@pytest.mark.parametrize("distribution", ["gamma", "gaussian"])
def test_exact_curve_of_two_columns_lies_below_the_cost(distribution: str, noise: float, others: str) -> None:
    ridge = NORM**2 * noise
    curve = exact(others, distribution, noise, ridge)
    event = Pure(epsilon=1 / noise)
    if distribution == "gaussian":
        event = Gaussian(noise=_objective_prices.equivalent(noise, NORM**2 / ridge))
    for epsilon in np.array([0.0, 0.3, 0.8, 1.0, 1.5, 3.0]) / noise:
        assert curve(float(epsilon)) <= accounting.delta(event, float(epsilon)) + 1e-9
    if distribution == "gamma" and others == "none":  # and the price is no larger than it must be
        assert curve(0.99 / noise) > 0


@pytest.mark.parametrize(("distribution", "noise"), [("gamma", 0.7), ("gamma", 40.0), ("gaussian", 3.0)])
def test_noise_drawn_equals_the_noise_paid_for(distribution: str, noise: float, monkeypatch: Any) -> None:
    """The noise of the vector, the ridge that goes with it and the noise that hides the tolerance, added up."""
    recorded: dict[str, Any] = {}
    usual = Rng.perturb

    def watched(self: Rng, problem: Any, **arguments: Any) -> np.ndarray:
        recorded.update(arguments, ridge=problem.ridge, norm=problem.norm)
        return usual(self, problem, **arguments)

    monkeypatch.setattr(Rng, "perturb", watched)
    schema = Schema(classes=("no", "yes"), rows=30, form="image", shape=(1, 2, 2))
    learner = ObjectivePerturbation(distribution=distribution, ridge=1e-3)
    learner.run(rows_for(schema, 30), noise, Rng(seed=0))
    multiplier, bound = float(recorded["noise"][0]), float(recorded["norm"][0] ** 2 / recorded["ridge"][0])
    price = learner.cost(schema, noise)
    if distribution == "gamma":
        assert isinstance(price, Pure)
        paid = _objective_prices.pure_epsilon(multiplier, bound) + 1 / (SMEAR * multiplier)
        assert paid <= price.epsilon * (1 + 1e-14)
    else:
        assert isinstance(price, Gaussian)
        paid = _objective_prices.equivalent(multiplier, bound) ** -2 + (SMEAR * multiplier) ** -2
        assert paid <= price.noise**-2 * (1 + 1e-12)


def test_fit_many_draws_the_noise_it_pays_for(monkeypatch: Any) -> None:
    recorded: dict[str, Any] = {}
    usual = objective_perturbation._released

    def watched(problems: Any, distribution: str, noise: np.ndarray, *rest: Any) -> np.ndarray:
        recorded.update(noise=noise * (1 + 1 / SMEAR), bound=problems.norm**2 / problems.ridge)
        return usual(problems, distribution, noise, *rest)

    monkeypatch.setattr(objective_perturbation, "_released", watched)
    epsilons = np.array([0.01, 1.0, 30.0])
    fit_many(np.ones((3, 2)), np.ones(3), epsilons=epsilons, rng=Rng(seed=0), norm=5.0, ridge=1e-3)
    for epsilon, multiplier, bound in zip(epsilons, recorded["noise"], recorded["bound"], strict=True):
        paid = _objective_prices.pure_epsilon(multiplier, bound) + 1 / (SMEAR * multiplier)
        assert paid <= epsilon * (1 + 1e-14)


@pytest.mark.parametrize("columns", [1, 2])
def test_canary_games_prove_most_of_epsilon_and_never_more(columns: int) -> None:
    """30,000 real runs a world, scored by the exact ratio; twice that cost is distinguished from it."""
    games, rows = 30_000, CANARY[:, :columns]

    def proved(epsilon: float) -> float:
        noise, ridge = (1 + 1 / SMEAR) / epsilon, NORM**2 / epsilon * (1 + 1 / SMEAR)
        worlds = [(rows[:0], np.zeros(0)), (rows, np.ones(1))]
        scores = []
        for at, (x, y) in enumerate(worlds):
            weights = fit_many(x, y, epsilons=np.full(games, epsilon), rng=Rng(seed=at), norm=NORM, ridge=1e-3)
            ratio = [log_density(weights, *world, "gamma", noise, ridge) for world in worlds]
            scores.append(ratio[1] - ratio[0])
        return epsilon_lower(scores[1], scores[0], delta=0.0, confidence=0.999)

    assert 0.55 < proved(1.0) <= 1.0
    assert 1.0 < proved(2.0) <= 2.0
