"""Private selection over runs that may fail outright: the failures of all runs together go into delta."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privaware import accounting
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
def test_p41_exact_selection_of_a_failing_response_stays_below_the_bound(
    eta: float, mean: float, epsilon: float
) -> None:
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
