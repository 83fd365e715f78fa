"""An event is the whole of its value: two that print alike are not one, and composing them forgets neither."""

from __future__ import annotations

import pytest

from privaware import accounting
from privaware.events import AnyOf, Composed, Event, Gaussian, Group, Sampled, Selected

DELTA = 1e-5


def steps(**batch: object) -> Event:
    return 200 * Sampled(event=Gaussian(noise=2.0), rate=0.05, **batch)  # type: ignore[arg-type]


def selected(run: Event) -> Event:
    return Selected(event=run, distribution="logarithmic", mean=3.0)


CUT = {"rows": 60, "cap": 3}  # a batch of about three cut to three


def test_p42_selections_that_print_alike_are_not_merged() -> None:
    cheap, dear = selected(steps()), selected(steps(**CUT))
    both = accounting.epsilon(cheap + dear, DELTA)
    assert both >= accounting.epsilon(dear, DELTA) + 0.5
    assert both == pytest.approx(accounting.epsilon(dear + cheap, DELTA), rel=1e-6)


@pytest.mark.slow
def test_p42_merged_and_separate_selections_cost_the_same() -> None:
    near = selected(200 * Sampled(event=Gaussian(noise=2.0), rate=0.05 * (1 + 1e-9), **CUT))
    together = accounting.epsilon(selected(steps()) + selected(steps(**CUT)), DELTA)
    assert together == pytest.approx(accounting.epsilon(selected(steps()) + near, DELTA), rel=1e-4)


@pytest.mark.parametrize("wrap", [lambda e: AnyOf(events=(e,)), lambda e: Group(event=e, size=2)], ids=["any", "group"])
def test_p42_tables_of_different_events_are_never_one(wrap: object) -> None:
    cheap, dear = (
        wrap(20 * Sampled(event=Gaussian(noise=2.0), rate=0.05, **batch))  # type: ignore[operator]
        for batch in ({"relation": "replace_one"}, CUT)
    )
    both = accounting.epsilon(cheap + dear, DELTA)
    assert both > max(accounting.epsilon(cheap, DELTA), accounting.epsilon(dear, DELTA))
    assert both == pytest.approx(accounting.epsilon(Composed(events=(dear, cheap)), DELTA), rel=1e-6)


def test_p42_events_that_differ_print_differently() -> None:
    plain = Sampled(event=Gaussian(noise=2.0), rate=0.05)
    others = [
        Sampled(event=Gaussian(noise=2.0), rate=0.05, relation="replace_one"),
        Sampled(event=Gaussian(noise=2.0), rate=0.05, rows=1000, cap=20),
        Sampled(event=Gaussian(noise=2.0), rate=0.05, rows=2000, cap=20),
    ]
    assert len({repr(event) for event in (plain, *others)}) == 4
    assert repr(plain) == "Sampled(event=Gaussian(noise=2.0), rate=0.05)"
