"""Huge epsilons, tiny and huge noise, thousands of trials, deltas near 0 and 1: a number or one sentence, no overflow.

Warnings are errors in every test, so an overflow inside NumPy fails here too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from privaware import accounting
from privaware.accounting import _profiles, _terms
from privaware.errors import Refused, WrongInput
from privaware.events import (
    ZCDP,
    AnyOf,
    Approximate,
    Composed,
    Disjoint,
    Event,
    Gaussian,
    Group,
    Laplace,
    Pure,
    RandomisedResponse,
    Sampled,
    Selected,
)

NOISES = (1e-9, 0.03, 1.0, 1e6, 1e9, 1e12)
EPSILONS = (1e-6, 1.0, 500.0, 709.0, 720.0, 1e4)
DELTAS = (1e-300, 1e-30, 1e-12, 1e-5, 0.5, 0.999)


def best(run: Event, mean: float, name: str = "logarithmic") -> Event:
    return Selected(event=run, distribution=name, mean=mean, shape=1.0 if name == "negative_binomial" else None)


def steps(noise: float, rate: float = 0.01, count: int = 100) -> Event:
    return count * Gaussian(noise=noise).sampled(rate=rate)


BY_NOISE: dict[str, Callable[[float], Event]] = {
    "gaussian": lambda noise: Gaussian(noise=noise),
    "steps": steps,
    "many steps": lambda noise: steps(noise, 0.3, 10**6),
    "rare steps": lambda noise: steps(noise, 1e-9, 10),
    "laplace": lambda noise: 1000 * Laplace(noise=noise),
    "replace one": lambda noise: 100 * Sampled(event=Gaussian(noise=noise), rate=0.01, relation="replace_one"),
    "zcdp": lambda noise: ZCDP(rho=1 / noise) + Gaussian(noise=noise),
    "best of 3": lambda noise: best(steps(noise), 3.0),
    "best of 10000": lambda noise: best(steps(noise), 1e4, "negative_binomial"),
    "best of a Poisson number": lambda noise: best(steps(noise), 1e4, "poisson"),
}
BY_EPSILON: dict[str, Callable[[float], Event]] = {
    "pure": lambda epsilon: Pure(epsilon=epsilon),
    "many pure": lambda epsilon: 10**6 * Pure(epsilon=epsilon),
    "sampled pure": lambda epsilon: 100 * Pure(epsilon=epsilon).sampled(rate=0.01),
    "response": lambda epsilon: 10 * RandomisedResponse(epsilon=epsilon, classes=10),
    "approximate": lambda epsilon: 10 * Approximate(epsilon=epsilon, delta=1e-9),
    "group": lambda epsilon: Group(event=Pure(epsilon=epsilon), size=1000),
    "group of approximate": lambda epsilon: Group(event=Approximate(epsilon=epsilon, delta=1e-9), size=1000),
}


def priced(event: Event, delta: float) -> float:
    """Epsilon, or infinity where one sentence says why there is none."""
    sentence = ""
    try:
        epsilon = accounting.epsilon(event, delta)
    except (Refused, WrongInput) as problem:
        epsilon, sentence = math.inf, str(problem)
    assert epsilon >= 0
    assert len(sentence.splitlines()) <= 1
    assert len(sentence) < 300
    return epsilon


@pytest.mark.parametrize("name", BY_NOISE)
def test_any_noise_is_priced_and_more_noise_costs_no_more(name: str) -> None:
    for delta in (1e-30, 1e-5):
        epsilons = [priced(BY_NOISE[name](noise), delta) for noise in NOISES]
        assert all(map(math.isfinite, epsilons))
        for dear, cheap in pairwise(epsilons):
            assert cheap <= dear * (1 + 1e-3) + 1e-6


@pytest.mark.parametrize("name", BY_EPSILON)
def test_any_epsilon_is_priced_and_a_larger_one_costs_no_less(name: str) -> None:
    epsilons = [priced(BY_EPSILON[name](epsilon), 1e-5) for epsilon in EPSILONS]
    for cheap, dear in pairwise(epsilons):
        assert cheap <= dear * (1 + 1e-3) + 1e-6
    if name != "group of approximate":  # delta grows by e^epsilon for each row of the group
        assert all(map(math.isfinite, epsilons))


@pytest.mark.parametrize(
    "event", [Gaussian(noise=1e-3), steps(0.5), 3 * Laplace(noise=0.01), best(Gaussian(noise=1.0), 30.0)]
)
def test_a_larger_delta_costs_no_more(event: Event) -> None:
    epsilons = [priced(event, delta) for delta in DELTAS]
    assert all(map(math.isfinite, epsilons[:-1]))
    for dear, cheap in pairwise(epsilons[:-1]):
        assert cheap <= dear * (1 + 1e-3) + 1e-6


@pytest.mark.parametrize(
    "event",
    [
        AnyOf(events=(Gaussian(noise=1e-3), Laplace(noise=1e-3))),
        AnyOf(events=(Gaussian(noise=1e12), Laplace(noise=1e12))),
        Disjoint(events=(Gaussian(noise=1e-3), Laplace(noise=1e-3))).sampled(rate=0.1),
        (Pure(epsilon=720.0) + Laplace(noise=1.0)).sampled(rate=0.5),
        best(Pure(epsilon=720.0), 3000.0).sampled(rate=0.1),
        best(steps(1e12), 1.0001),
        Sampled(event=Gaussian(noise=0.5), rate=0.1, rows=100, cap=20),
        best(steps(1e-9), 1e9, "negative_binomial"),
        Selected(event=steps(1.0), distribution="negative_binomial", mean=1e9, shape=-0.99),
    ],
)
def test_every_accountant_takes_nested_extremes(event: Event) -> None:
    bounds = accounting.bounds(event, 1e-5)
    assert 0 <= bounds["epsilon"] < math.inf
    assert 0 <= accounting.delta(event, 1.0) <= 1


@pytest.mark.parametrize(
    "event", [Group(event=best(Pure(epsilon=720.0), 30.0), size=3), 3 * Approximate(epsilon=1, delta=0.5)]
)
def test_where_there_is_no_finite_bound_epsilon_is_infinite(event: Event) -> None:
    assert accounting.epsilon(event, 1e-5) == math.inf
    assert accounting.bounds(event, 1e-5)["epsilon"] == math.inf


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (10**400 * Gaussian(noise=1.0), "repetitions"),
        (10**10 * (10**10 * Pure(epsilon=1.0)), "repetitions"),
        (Gaussian(noise=1e-300).sampled(rate=0.1), "expected noise"),
        (Pure(epsilon=1e300), "expected epsilon"),
        (best(steps(1.0), 1e300), "expected mean"),
    ],
)
def test_numbers_beyond_floating_point_are_refused(event: Event, words: str) -> None:
    for ask in (accounting.epsilon, accounting.bounds, accounting.delta):
        with pytest.raises(WrongInput, match=words):
            ask(event, 0.5)


@pytest.mark.parametrize("noise", [1e60, 1e200, 1e308])
def test_endless_noise_costs_nothing(noise: float) -> None:
    for event in (Gaussian(noise=noise), steps(noise), Laplace(noise=noise)):
        assert accounting.epsilon(event, 1e-5) == 0


@pytest.mark.parametrize(
    ("name", "epsilon"), [("steps", 1e4), ("laplace", 1e-3), ("laplace", 709.0), ("best of 10000", 1e4)]
)
def test_noise_is_calibrated_to_every_epsilon(name: str, epsilon: float) -> None:
    cost = BY_NOISE[name]
    noise = accounting.calibrate(cost, epsilon, 1e-5)
    assert accounting.epsilon(cost(noise), 1e-5) <= epsilon
    assert accounting.epsilon(cost(noise / 1.01), 1e-5) > epsilon


def test_search_noise_is_calibrated_where_exp_would_overflow() -> None:
    """`privaware search --epsilon 500`: while noise is sought, losses of the selected run pass 709."""

    def cost(noise: float) -> Event:
        return Laplace(noise=noise) + 3 * best(steps(noise, 0.5, 30), 30.0)

    noise = accounting.calibrate(cost, 500.0, 1e-5)
    assert 450 < accounting.epsilon(cost(noise), 1e-5) <= 500


def test_connected_dots_are_the_same_at_every_size_of_epsilon() -> None:
    """A pair whose epsilons lie above 709 has the probabilities of one whose epsilons are ordinary."""
    deltas = np.append(1.0, np.linspace(1.0, 0.0, 51) ** 2)
    pairs = []
    for top in (50.0, 1000.0):
        losses, probs, failure = _terms.pair_from_profile(np.append(0.0, top - np.linspace(5.0, 0.0, 51)), deltas)
        assert failure == 0
        pairs.append(probs[(losses > top - 4.5) & (probs > 1e-9)])
    assert pairs[0] == pytest.approx(pairs[1], rel=1e-9)


@pytest.mark.parametrize(("each", "count"), [(0.3, 100), (1.0, 20), (5.0, 10)])
def test_profile_of_pure_releases_is_never_below_the_exact_one(each: float, count: int) -> None:
    """Far below the epsilon that a distribution is tilted for, it must not forget the losses outside its window."""
    k = np.arange(count + 1)
    probs = stats.binom.pmf(k, count, 1 / (1 + math.exp(-each)))
    epsilons = np.linspace(0.0, count * each, 200)
    profile = _profiles.profile(count * Pure(epsilon=each))(epsilons)
    for epsilon, delta in zip(epsilons, profile):
        exact = float(probs @ np.maximum(0, -np.expm1(np.minimum(epsilon - (2 * k - count) * each, 0))))
        assert exact * (1 - 1e-9) <= delta <= exact * (1 + 1e-3) + 1e-12


def test_selection_of_many_pure_releases_costs_its_profile() -> None:
    """20 Laplace releases in each run: the price was 19.98 while small deltas were read outside a window."""
    event = best(20 * Laplace(noise=1.0), 10.0)
    assert accounting.epsilon(event, 1e-5) == pytest.approx(23.0425, rel=1e-4)


def test_delta_at_small_epsilons_is_not_that_of_the_tail() -> None:
    event = 20 * Laplace(noise=1.0)
    assert accounting.delta(event, 0.0) == pytest.approx(0.9491, rel=1e-3)
    assert accounting.delta(Composed(events=(event, steps(1.0))), 0.0) > 0.949


def test_rarely_sampled_steps_keep_their_distribution() -> None:
    """Their grid is so fine that its mass is off by more than rounding; divergences would say 0.45."""
    bounds = accounting.bounds(steps(1.0, 1e-4, 100), 1e-5)
    assert bounds["method"] == "pld"
    assert bounds["epsilon"] == pytest.approx(0.0034717, rel=1e-3)
