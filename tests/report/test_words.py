"""Events and numbers in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privaware.events import (
    NOTHING,
    ZCDP,
    Approximate,
    Disjoint,
    Event,
    Gaussian,
    Group,
    Laplace,
    Pure,
    RandomisedResponse,
    Selected,
)
from privaware.report import _words


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (100 * Gaussian(noise=12.3), "100 x Gaussian, noise 12.3, every row"),
        (
            400 * Gaussian(noise=1.1).sampled(rate=0.02),
            "400 steps of Gaussian noise 1.1 on Poisson samples at rate 0.02",
        ),
        (
            Selected(event=Pure(epsilon=0.1), law="logarithmic", mean=10.0),
            "private selection of the best of a random number of trials (logarithmic trial count, 10 expected), each "
            "a release known to cost epsilon 0.1",
        ),
        (Group(event=Laplace(noise=2.0), size=5), "Laplace noise 2, every row, priced for a unit of up to 5 rows"),
        (
            Disjoint(events=(ZCDP(rho=0.5), Approximate(epsilon=1.0, delta=1e-6))),
            "on disjoint parts of the rows, of which the most expensive counts: a release known to cost "
            "rho 0.5 (zero-concentrated); a release known to cost epsilon 1, delta 1e-6",
        ),
        (2 * RandomisedResponse(epsilon=1.0, classes=10), "2 x (randomised response among 10 values, epsilon 1)"),
        (NOTHING, "no privacy cost (data-independent)"),
    ],
)
def test_every_event_is_described(event: Event, words: str) -> None:
    assert _words.formula(event) == words


@given(st.floats(1e-12, 1e12))
def test_printed_bound_is_never_below_the_number(x: float) -> None:
    shown = float(_words.rounded_up(x).replace(",", ""))
    assert x * (1 - 1e-11) <= shown <= x * 1.001 * (1 + 1e-9)
