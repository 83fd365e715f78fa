"""Private selection: the trade-off bound against exact computation, and runs that may fail outright, whose failures
together go into delta.
"""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from scipy import special, stats

from privaware import accounting
from privaware.accounting._selection import SelectionTradeOff
from privaware.events import Approximate, Event, Gaussian, Laplace, Pure, Selected

DELTA = 1e-5
TRIALS = [
    ("logarithmic", None, 8.0),
    ("logarithmic", None, 100.0),
    ("negative_binomial", 1.0, 81.0),
    ("negative_binomial", 1.0, 1000.0),
    ("poisson", None, 20.0),
]


def best(run: Event, name: str, shape: float | None, mean: float) -> Event:
    return Selected(event=run, distribution=name, shape=shape, mean=mean)


def no_failure(chance: float, eta: float, gamma: float) -> float:
    """E[(1 - chance)^K] of the truncated negative binomial."""
    t = (1 - gamma) * (1 - chance)
    if eta == 0:
        return math.log1p(-t) / math.log(gamma)
    return ((1 - t) ** -eta - 1) / (gamma**-eta - 1)


@pytest.mark.parametrize(("name", "shape", "mean"), TRIALS)
def test_p41_failures_of_all_runs_above_delta_leave_no_epsilon(name: str, shape: float | None, mean: float) -> None:
    """Each run publishes a secret bit with chance 9e-6, and wins then: no epsilon holds at 1e-5."""
    event = best(Approximate(epsilon=0.5, delta=9e-6), name, shape, mean)
    if name != "poisson":
        assert 1 - no_failure(9e-6, *accounting.trial_count_parameters(event)) > DELTA  # type: ignore[arg-type]
    for beside in (event, event + Gaussian(noise=1e6), event + Pure(epsilon=0.1)):
        assert accounting.epsilon(beside, DELTA) == math.inf
        assert accounting.bounds(beside, DELTA)["epsilon"] == math.inf


@pytest.mark.parametrize(("name", "shape", "mean"), TRIALS)
def test_p41_rare_failures_cost_the_delta_they_take(name: str, shape: float | None, mean: float) -> None:
    """Below delta, the price lies between that of runs that never fail and the same at what failures leave of delta."""
    chance = DELTA / mean / 4
    failing, sound = (
        best(run, name, shape, mean) for run in (Approximate(epsilon=0.5, delta=chance), Pure(epsilon=0.5))
    )
    price = accounting.epsilon(failing, DELTA)
    assert accounting.epsilon(sound, DELTA) <= price * (1 + 1e-6)
    assert price <= accounting.epsilon(sound, DELTA / 2) * (1 + 1e-3)
    assert accounting.delta(failing, price) >= mean * chance * 0.99


@pytest.mark.parametrize(("name", "shape", "mean"), TRIALS[:4])
@pytest.mark.parametrize(
    "run", [Approximate(epsilon=0.5, delta=1e-9), Approximate(epsilon=0.3, delta=1e-8) + Laplace(noise=4.0)]
)
def test_p41_a_tiny_event_beside_a_selection_changes_little(
    run: Event, name: str, shape: float | None, mean: float
) -> None:
    event = best(run, name, shape, mean)
    alone = accounting.epsilon(event, DELTA)
    beside = accounting.epsilon(event + Gaussian(noise=1e6), DELTA)
    if math.isfinite(alone):
        assert alone * (1 - 5e-3) <= beside <= alone * 1.02
    else:
        assert beside == math.inf


@pytest.mark.parametrize(("eta", "mean"), [(0.0, 5.0), (1.0, 5.0)])
@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_p41_selection_of_failing_response_stays_below_bound(eta: float, mean: float, epsilon: float) -> None:
    """Outputs in order of score: a failure that shows the bit, else a randomised response, the rarer answer first."""
    fail = 1e-3
    name, shape = ("logarithmic", None) if eta == 0 else ("negative_binomial", eta)
    event = best(Approximate(epsilon=epsilon, delta=fail), name, shape, mean)
    gamma = accounting.trial_count_parameters(event)[1]  # type: ignore[arg-type]
    keep = 1 / (1 + math.exp(-epsilon))
    worst: dict[float, float] = {}
    for first in (keep, 1 - keep):
        p = [fail, 0.0, (1 - fail) * first, (1 - fail) * (1 - first)]  # from the best score to the worst
        q = [0.0, fail, (1 - fail) * (1 - first), (1 - fail) * first]
        released = [
            -np.diff([no_failure(float(x), eta, gamma) for x in np.minimum(np.cumsum([0.0, *side]), 1.0)])
            for side in (p, q)
        ]
        for level in np.linspace(0.0, 4.0, 21):
            delta = float(np.maximum(released[0] - math.exp(level) * released[1], 0).sum())
            worst[level] = max(worst.get(level, 0.0), delta)
    for level, delta in worst.items():
        assert delta <= accounting.delta(event, level) * (1 + 1e-6)


# The trade-off bound against all outcomes, all orders of them and all numbers of runs

LAWS = [
    ("logarithmic", None, 5.0),
    ("logarithmic", None, 20.0),
    ("negative_binomial", 1.0, 8.0),
    ("negative_binomial", 2.0, 20.0),
    ("negative_binomial", -0.5, 4.0),
    ("poisson", None, 6.0),
]


def trial_counts(selected: Selected) -> np.ndarray:
    """P[K = k] for k from 0 on, until nothing is left."""
    k = np.arange(1, 20_000)
    if selected.distribution == "poisson":
        return np.asarray(stats.poisson.pmf(np.arange(400), selected.mean))
    eta, gamma = accounting.trial_count_parameters(selected)
    logs = special.gammaln(k + eta) - special.gammaln(k + 1) + k * math.log1p(-gamma)
    weights = np.exp(logs - logs.max())
    return np.append(0.0, weights[logs > logs.max() - 40] / weights.sum())


def best_of(run: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The distribution of the best of K outcomes, listed from the best to the worst: a sum over all K."""
    worse = np.clip(1 - np.append(0.0, np.cumsum(run)), 0.0, 1.0)  # one run is worse than the first i outcomes
    return -np.diff(worse[:, None] ** np.arange(len(counts)) @ counts)


def losses_of(p: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(np.log(p / q))
    return np.log(p / q)[order], p[order]


def runs(seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Discrete runs on two neighbouring data sets: a response of several classes, and random ones."""
    rng = np.random.default_rng(seed)
    response = np.array([3.0, 1.0, 1.0, 1.0]) / 6
    near = rng.dirichlet(np.ones(5), size=2)
    far = rng.dirichlet(0.3 * np.ones(4), size=2) * 0.99 + 0.0025
    return [(response, response[[1, 0, 2, 3]]), tuple(near), tuple(far)]  # type: ignore[list-item]


@pytest.mark.parametrize(("name", "shape", "mean"), LAWS)
def test_trade_off_bound_is_never_below_any_exact_selection(name: str, shape: float | None, mean: float) -> None:
    selected = best(Pure(epsilon=1.0), name, shape, mean)
    counts = trial_counts(selected)  # type: ignore[arg-type]
    levels = np.linspace(0.0, 3.0, 7)
    for p, q in runs(7):
        for one, other in ((p, q), (q, p)):
            losses, probs = losses_of(one, other)
            bound = SelectionTradeOff(selected=selected, losses=losses, probs=probs)  # type: ignore[arg-type]
            bounds = np.array([bound.delta(float(e)) for e in levels])
            for order in map(list, permutations(range(len(p)))):
                released, neighbour = best_of(one[order], counts), best_of(other[order], counts)
                exact = np.maximum(released - np.exp(levels)[:, None] * neighbour, 0).sum(axis=1)
                assert np.all(exact <= bounds * (1 + 1e-9) + 1e-12)


@pytest.mark.parametrize(("name", "shape", "mean"), LAWS)
def test_trade_off_bound_is_within_two_per_cent_of_a_selection(name: str, shape: float | None, mean: float) -> None:
    """Gaussian noise in 200 outcomes; those with a loss below a threshold score best, of the rest a larger loss."""
    x = np.linspace(-5.5, 6.0, 201)
    q, p = (np.diff(stats.norm.cdf(x, loc=shift)) for shift in (0.0, 1 / 3))
    q, p = q / q.sum(), p / p.sum()
    losses, probs = losses_of(p, q)
    selected = best(Gaussian(noise=3.0), name, shape, mean)
    epsilon = SelectionTradeOff(selected=selected, losses=losses, probs=probs).epsilon(DELTA)  # type: ignore[arg-type]
    counts = trial_counts(selected)  # type: ignore[arg-type]
    worst = 0.0
    for threshold in range(40, 130, 6):
        order = np.append(np.arange(threshold), np.arange(threshold, 200)[::-1])
        released, neighbour = best_of(probs[order], counts), best_of((probs * np.exp(-losses))[order], counts)
        near = 0.98 * epsilon
        worst = max(worst, float(np.maximum(released - math.exp(near) * neighbour, 0).sum()))
    assert worst > DELTA  # so at 0.98 of the price the guarantee is false


@pytest.mark.parametrize(
    ("name", "shape", "mean", "low", "high"),
    [
        ("logarithmic", None, 10.0, 1.43974, 1.47821),
        ("logarithmic", None, 40.0, 1.65685, 1.70715),
        ("negative_binomial", 1.0, 40.0, 1.82574, 1.90555),
        ("poisson", None, 10.0, 1.91847, 2.02213),
    ],
)
def test_selection_of_trainings_costs_little_above_lower_bound(
    name: str, shape: float | None, mean: float, low: float, high: float
) -> None:
    """One training at epsilon 1; the bounds of Koskela, Redberg and Wang are 1.73, 1.97 and 2.40."""
    event = best(2000 * Gaussian(noise=1.8427791).sampled(rate=0.01), name, shape, mean)
    bounds = accounting.bounds(event, DELTA)
    assert bounds["method"] == "trade_off"
    assert low <= bounds["epsilon"] <= min(high, 1.012 * low)
    assert bounds["cf"] == pytest.approx(bounds["pld"], rel=1e-3)
