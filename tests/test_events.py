"""The algebra of events: checked values, plain JSON, and descriptions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from privaware.errors import WrongInput
from privaware.events import (
    NOTHING,
    ZCDP,
    AnyOf,
    Approximate,
    Disjoint,
    Event,
    Gaussian,
    Group,
    Laplace,
    Pure,
    RandomisedResponse,
    Sampled,
    Selected,
    Unproven,
    describe,
    from_json,
    to_json,
)

STEPS = 400 * Gaussian(noise=1.1).sampled(rate=0.02)
EVENTS: list[Event] = [
    NOTHING,
    STEPS,
    STEPS + Laplace(noise=5.0) + ZCDP(rho=0.1),
    Approximate(epsilon=0.5, delta=1e-6),
    RandomisedResponse(epsilon=1.0, classes=10),
    3 * Selected(event=STEPS, distribution="negative_binomial", mean=10.0, shape=0.5),
    Group(event=Disjoint(events=(Pure(epsilon=0.1), STEPS)), size=3),
    AnyOf(events=(Pure(epsilon=0.1), STEPS)),
    Sampled(event=Gaussian(noise=1.0), rate=0.1, relation="replace_one", rows=100, cap=20),
    Unproven(reason="shuffled batches"),
]


@pytest.mark.parametrize("event", EVENTS)
def test_json_round_trip_gives_an_equal_event(event: Event) -> None:
    assert from_json(json.loads(json.dumps(to_json(event)))) == event


def test_trial_count_distribution_is_read_under_its_earlier_key() -> None:
    """Ledgers and models of version 0.1 call it `law`."""
    stored = """{"kind": "Selected", "law": "negative_binomial", "mean": 10.0, "shape": 1.0,
                 "event": {"kind": "Repeated", "count": 400,
                           "event": {"kind": "Sampled", "rate": 0.02, "relation": "add_remove",
                                     "event": {"kind": "Gaussian", "noise": 1.1}}}}"""
    event = Selected(event=STEPS, distribution="negative_binomial", mean=10.0, shape=1.0)
    assert from_json(json.loads(stored)) == event
    assert hash(from_json(json.loads(stored))) == hash(event)
    assert to_json(event)["distribution"] == "negative_binomial"


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "Gaussian", "law": "logarithmic", "noise": 1.0},
        {"kind": "Selected", "law": "logarithmic", "distribution": "poisson", "mean": 3.0, "event": to_json(STEPS)},
        {"kind": "Selected", "law": "gaussian", "mean": 3.0, "event": to_json(STEPS)},
        {"kind": "Selected", "mean": 3.0, "event": to_json(STEPS)},
        {"kind": "Lottery"},
        [],
    ],
)
def test_unknown_json_is_refused(wrong: Any) -> None:
    with pytest.raises(WrongInput):
        from_json(wrong)


@pytest.mark.parametrize("event", EVENTS)
def test_description_is_one_short_line(event: Event) -> None:
    text = describe(event)
    assert text
    assert "\n" not in text
    assert len(text) < 300


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (NOTHING, "no privacy cost (data-independent)"),
        (STEPS, "400 x Gaussian, noise multiplier 1.1, on Poisson samples at rate 0.02"),
        (117 * Gaussian(noise=43.7), "117 x Gaussian, noise multiplier 43.7"),
        (Approximate(epsilon=0.5, delta=1e-6), "1 x Approximate, epsilon 0.5, delta 1e-6"),
        (Group(event=2 * Pure(epsilon=0.1), size=3), "2 x Pure, epsilon 0.1, for a unit of up to 3 rows"),
        (
            Disjoint(events=(Pure(epsilon=0.1), Laplace(noise=2.0))),
            "on disjoint parts, 1 x Pure, epsilon 0.1 or 1 x Laplace, noise multiplier 2",
        ),
        (
            5 * AnyOf(events=(Pure(epsilon=0.1), Pure(epsilon=0.2))),
            "5 x one of (1 x Pure, epsilon 0.1) or (1 x Pure, epsilon 0.2)",
        ),
        (
            (Pure(epsilon=0.1) + Laplace(noise=2.0)).sampled(rate=0.1),
            "1 x (Pure, epsilon 0.1 and 1 x Laplace, noise multiplier 2), on Poisson samples at rate 0.1",
        ),
        (
            Sampled(event=Gaussian(noise=1.0), rate=0.1, rows=1000, cap=20),
            "1 x Gaussian, noise multiplier 1, on Poisson samples at rate 0.1, cut to 20 of 1,000 rows",
        ),
        (Unproven(reason="shuffled batches"), "no proven guarantee: shuffled batches"),
    ],
)
def test_descriptions(event: Event, words: str) -> None:
    assert describe(event) == words


def test_long_compositions_are_cut() -> None:
    event = NOTHING
    for noise in range(1, 11):
        event = event + Gaussian(noise=float(noise))
    assert describe(event).endswith("and 6 more releases")
    assert describe(event).count("Gaussian") == 4
