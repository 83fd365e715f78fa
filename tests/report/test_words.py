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
    describe,
)
from privaware.report import _words


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (100 * Gaussian(noise=12.3), "100 x Gaussian, noise multiplier 12.3"),
        (
            400 * Gaussian(noise=1.1).sampled(rate=0.02),
            "400 x Gaussian, noise multiplier 1.1, on Poisson samples at rate 0.02",
        ),
        (
            Selected(event=Pure(epsilon=0.1), distribution="logarithmic", mean=10.0),
            "the best of about 10 runs (logarithmic trial-count distribution), each 1 x Pure, epsilon 0.1",
        ),
        (Group(event=Laplace(noise=2.0), size=5), "1 x Laplace, noise multiplier 2, for a unit of up to 5 rows"),
        (
            Disjoint(events=(ZCDP(rho=0.5), Approximate(epsilon=1.0, delta=1e-6))),
            "on disjoint parts, 1 x ZCDP, rho 0.5 or 1 x Approximate, epsilon 1, delta 1e-6",
        ),
        (2 * RandomisedResponse(epsilon=1.0, classes=10), "2 x RandomisedResponse, epsilon 1, classes 10"),
        (NOTHING, "no privacy cost (data-independent)"),
    ],
)
def test_every_event_is_described(event: Event, words: str) -> None:
    assert describe(event) == words


@given(st.floats(1e-12, 1e12))
def test_printed_bound_is_never_below_the_number(x: float) -> None:
    shown = float(_words.rounded_up(x).replace(",", ""))
    assert x * (1 - 1e-11) <= shown <= x * 1.001 * (1 + 1e-9)
