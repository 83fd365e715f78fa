"""What holds for every event: properties over random trees, and no price below the library's optimistic estimate."""

from __future__ import annotations

import math
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privaware import accounting
from privaware.accounting import _cf_tree, _price, _profiles, _rdp, _terms
from privaware.accounting._price import AGREEMENT, FLOOR
from privaware.errors import Refused
from privaware.events import (
    Composed,
    Disjoint,
    Event,
    Gaussian,
    Laplace,
    RandomisedResponse,
    Repeated,
    Sampled,
    Selected,
)
from tests.accounting.trainings import DELTA
from tests.accounting.trees import changed, flat, leaf, reordered, tree

few = settings(max_examples=3, deadline=None)
seeds = st.integers(0, 10**6)
SLACK = 1 + 2e-3  # of grids that differ from event to event


def price(event: Event, delta: float = DELTA) -> float:
    return accounting.epsilon(event, delta)


@few
@given(seed=seeds)
def test_p42_composition_costs_at_least_each_part_in_any_order(seed: int) -> None:
    rng = Random(seed)
    a, b = flat(rng, 1), flat(rng, 1)
    both = price(a + b)
    assert both * SLACK + FLOOR >= max(price(a), price(b))
    assert price(reordered(b + a, rng)) == pytest.approx(both, rel=1e-6, abs=FLOOR)


@few
@given(seed=seeds, more=st.floats(1.05, 3.0))
def test_p42_more_noise_lower_rates_and_fewer_steps_cost_no_more(seed: int, more: float) -> None:
    event = flat(Random(seed), 1)
    dear = price(event) * SLACK + FLOOR
    assert price(changed(event, "noise", lambda noise: noise * more)) <= dear
    assert price(changed(event, "rate", lambda rate: rate / more)) <= dear
    assert price(changed(event, "count", lambda count: max(1, int(count / more)))) <= dear
    assert price(event, min(DELTA * more, 0.5)) <= dear


@pytest.mark.slow
@few
@given(seed=seeds, cap=st.integers(2, 30), more=st.integers(2, 5))
def test_p42_more_declared_rows_cost_no_less(seed: int, cap: int, more: int) -> None:
    rng = Random(seed)
    rows, noise, rate = rng.randrange(cap, 40 * cap), rng.uniform(0.7, 5), rng.uniform(0.01, 0.5)

    def steps(rows: int) -> Event:
        return 20 * Sampled(event=Gaussian(noise=noise), rate=rate, rows=rows, cap=cap)

    assert price(steps(rows)) <= price(steps(rows * more)) * SLACK + FLOOR


@few
@given(seed=seeds)
def test_a_tiny_event_more_changes_little(seed: int) -> None:
    event = flat(Random(seed), 1)
    alone, beside = price(event), price(event + Gaussian(noise=1e6))
    assert alone / SLACK - FLOOR <= beside <= alone * 1.01 + FLOOR


@settings(max_examples=5, deadline=None)
@given(seed=seeds)
def test_the_accountants_agree_or_refuse(seed: int) -> None:
    with suppress(Refused):
        bounds = accounting.bounds(leaf(Random(seed)) + flat(Random(seed + 1), 1), DELTA)
        assert bounds["pld"] is not None
        assert bounds["cf"] is not None
        assert abs(bounds["pld"] - bounds["cf"]) <= max(AGREEMENT * bounds["pld"], FLOOR)


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(20))
def test_trees_of_every_kind_are_rarely_refused(batch: int) -> None:
    """Properties on 200 nested trees; at most one in twenty may be refused."""
    rng, refused = Random(f"nested {batch}"), 0
    for _ in range(10):
        a, b = tree(rng), tree(rng)
        try:
            one, two, both = price(a), price(b), price(a + b)
            other = price(reordered(b + a, rng))
        except Refused:
            refused += 1
            continue
        assert both * 1.005 + FLOOR >= max(one, two)
        assert other == pytest.approx(both, rel=1e-5, abs=FLOOR)
    assert refused <= 1


# The library's optimistic estimate


def optimistic(event: Event, count: int = 1) -> list[Any]:
    """Lower bounds on the privacy loss distribution, one for each way a row can meet the event."""
    from dp_accounting.pld import privacy_loss_distribution as library

    def discretised(build: Any, *arguments: Any, **named: Any) -> list[Any]:
        pld = build(*arguments, value_discretization_interval=1e-3, pessimistic_estimate=False, **named)
        return [pld if count == 1 else pld.self_compose(count)]

    match event:
        case Repeated():
            return optimistic(event.event, count * event.count)
        case Disjoint():
            return [way for part in event.events for way in optimistic(part, count)]
        case Composed():
            ways: list[Any] = [None]
            for part in event.events:
                ways = [b if a is None else a.compose(b) for a in ways for b in optimistic(part, count)]
            return ways
        case Gaussian(noise=noise):
            return discretised(library.from_gaussian_mechanism, noise)
        case Laplace(noise=noise):
            return discretised(library.from_laplace_mechanism, noise)
        case RandomisedResponse(epsilon=e, classes=classes):
            return discretised(library.from_randomized_response, classes / (math.exp(e) + classes - 1), classes)
        case Sampled(event=Gaussian(noise=noise), rate=rate):
            return discretised(library.from_gaussian_mechanism, noise, sampling_prob=rate)
        case Sampled(event=Laplace(noise=noise), rate=rate):
            return discretised(library.from_laplace_mechanism, noise, sampling_prob=rate)
        case _:  # Pure: the worst release of that epsilon is a response of two classes
            return optimistic(RandomisedResponse(epsilon=event.epsilon, classes=2), count)  # type: ignore[attr-defined]


def compare_with_optimistic(rng: Random, trees: int) -> None:
    for _ in range(trees):
        event, delta = flat(rng), 10 ** rng.uniform(-7, -3)
        least = max(float(pld.get_epsilon_for_delta(delta)) for pld in optimistic(event))
        assert price(event, delta) >= least * (1 - 1e-6) - FLOOR, event


def test_no_tree_is_priced_below_the_optimistic_estimate() -> None:
    compare_with_optimistic(Random("a few"), 4)


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(50))
def test_5000_trees_cost_at_least_the_optimistic_estimate(batch: int) -> None:
    compare_with_optimistic(Random(f"optimistic {batch}"), 100)


LARGE_RUN = Disjoint(events=(4 * Gaussian(noise=0.5).sampled(rate=0.5) + Gaussian(noise=0.5), Laplace(noise=0.73)))
LARGE_SELECTION = Selected(event=LARGE_RUN, distribution="negative_binomial", mean=3.0, shape=1.0)


def test_a_finite_and_an_infinite_epsilon_disagree() -> None:
    for pair in ((4.0, math.inf), (math.inf, 4.0)):
        with pytest.raises(Refused, match="disagree"):
            _price.agree(*pair)
    _price.agree(math.inf, math.inf)


def test_nearly_equal_selection_readings_report_the_dearer_bound() -> None:
    """At large epsilons grids differ by a per cent or two; the Renyi bound lies above both."""
    priced = _price.bounds(LARGE_SELECTION, DELTA, _rdp.ORDERS)
    both = _profiles.selected_epsilon(LARGE_SELECTION, DELTA), _cf_tree.epsilon(LARGE_SELECTION, DELTA)
    assert priced["method"] == "papernot_steinke"
    assert priced["epsilon"] > max(both)


def test_contradictory_selection_readings_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    first = _profiles.selected_epsilon(LARGE_SELECTION, DELTA)
    monkeypatch.setattr(_profiles, "selected_epsilon", lambda *_: first)
    with monkeypatch.context() as planted:
        planted.setattr(_cf_tree, "epsilon", lambda *_: 1.04 * first)
        with pytest.raises(Refused, match="disagree"):
            _price.bounds(LARGE_SELECTION, DELTA, _rdp.ORDERS)
    monkeypatch.setattr(_cf_tree, "epsilon", lambda *_: 1.02 * first)
    monkeypatch.setattr(_rdp, "convert", lambda *_, **__: 1.01 * first)
    with pytest.raises(Refused, match="disagree"):
        _price.bounds(LARGE_SELECTION, DELTA, _rdp.ORDERS)


@pytest.mark.parametrize(
    ("run", "mean", "delta"),
    [
        (Gaussian(noise=239056.0), 5.0, 1e-9),
        (20 * Gaussian(noise=136058.0).sampled(rate=0.1), 50.0, 1e-9),
        (Gaussian(noise=2093.0), 50.0, 1e-5),
    ],
    ids=["huge noise", "sampled", "nearly equal"],
)
def test_small_trade_off_bound_above_the_check_is_reported(run: Event, mean: float, delta: float) -> None:
    priced = _price.bounds(Selected(event=run, distribution="poisson", mean=mean), delta, _rdp.ORDERS)
    assert priced["method"] == "trade_off"
    assert priced["cf"] < priced["epsilon"] == priced["pld"] <= _price.SMALL_SELECTION


def test_small_trade_off_bound_below_the_check_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    selected = Selected(event=Gaussian(noise=2093.0), distribution="poisson", mean=50.0)
    monkeypatch.setattr(_cf_tree, "epsilon", lambda *_: 0.006)
    with pytest.raises(Refused, match="disagree"):
        _price.bounds(selected, DELTA, _rdp.ORDERS)


def test_many_rates_of_one_noise_are_priced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_terms, "_BUCKETS", 4)
    steps = Composed(events=tuple(Gaussian(noise=3.0).sampled(rate=0.01 + 1e-6 * at) for at in range(5)))
    alike = 5 * Gaussian(noise=3.0).sampled(rate=0.01)
    assert price(alike) <= price(steps) <= 1.001 * price(alike)
