"""Curves of accuracy: a pilot finds the curve that its table follows, and says when an accuracy is out of reach."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privaware.workflow._accuracy_curves import Curve, Expected, Pilot, TableFacts, of_others, of_pilot

EPSILONS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
FACTS = TableFacts(rows=4000, classes=2, least_epsilon=0.03)


def curve(most: float, half: float) -> Curve:
    accuracies = tuple(0.5 + (most - 0.5) * epsilon / (epsilon + half) for epsilon in EPSILONS)
    return Curve(table=f"{most}", rows=4000, classes=2, constant=0.5, epsilons=EPSILONS, accuracies=accuracies)


EASY, HARD = curve(0.98, 0.05), curve(0.7, 1.0)


def placed(true: Curve, error: float = 0.005) -> Expected:
    accuracy = true.accuracies[1]
    pilot = Pilot(accuracy=accuracy, error=error, signal=float(FACTS.signal(0.1)), constant=0.5)
    return of_pilot([EASY, HARD], FACTS, pilot)


@pytest.mark.parametrize("true", [EASY, HARD])
def test_pilot_finds_the_curve_of_its_table(true: Curve) -> None:
    low, middle, high = placed(true).at(1.0)
    assert low - 0.02 <= true.accuracies[3] <= high + 0.02
    assert middle == pytest.approx(true.accuracies[3], abs=0.06)


def test_posterior_epsilon_gives_the_asked_accuracy() -> None:
    low, epsilon, high = placed(EASY).posterior(EASY.accuracies[2])
    assert low < epsilon < high
    assert low <= 0.3 <= high


def test_chance_tells_what_a_table_cannot_reach() -> None:
    assert placed(EASY).chance(0.95) > 0.8
    assert placed(HARD).chance(0.95) < 0.1


def test_worse_score_gives_a_wider_interval() -> None:
    widths = [np.ptp(placed(HARD, error).at(3.0)) for error in (0.005, 0.2)]
    assert widths[0] < widths[1]


def test_persons_need_more_epsilon_for_one_signal() -> None:
    persons = TableFacts(rows=4000, classes=2, least_epsilon=0.03, cap=3)
    assert persons.signal(0.3) == pytest.approx(FACTS.signal(0.1))
    assert of_others([EASY, HARD], persons).at(1.0) < of_others([EASY, HARD], FACTS).at(1.0)


def test_below_the_least_epsilon_a_constant_is_expected() -> None:
    facts = TableFacts(rows=4000, classes=2, least_epsilon=0.5)
    assert of_others([EASY, HARD], facts).at(0.1) == (0.5, 0.5, 0.5)


@given(st.floats(0.5, 0.7), st.floats(0.005, 0.2), st.floats(0.45, 1.0))
def test_chance_above_half_is_a_median_that_reaches(pilot: float, error: float, accuracy: float) -> None:
    seen = Pilot(accuracy=pilot, error=error, signal=float(FACTS.signal(0.1)), constant=0.5)
    expected = of_pilot([EASY, HARD], FACTS, seen)
    assert (expected.chance(accuracy) > 0.5) is (expected.at(10.0)[1] >= accuracy)
