"""A chance of failure is priced for a whole unit only where the mechanism proves it for one."""

from __future__ import annotations

import math
from statistics import NormalDist

import pytest

from privaware import accounting
from privaware.accounting import _cf_tree
from privaware.events import Approximate, Disjoint, Event, Gaussian, Group, Laplace, describe, from_json, to_json
from tests.accounting.trainings import DELTA, training

FAILURE = 1e-7
NORMAL = NormalDist()


def thresholded(noise: float, size: int, rows: int | None = None) -> Event:
    """Noisy counts of words, of which those above a threshold are released, for a unit of so many rows."""
    return Group(event=Gaussian(noise=noise) + Approximate(epsilon=0.0, delta=FAILURE, rows=rows), size=size)


def chance_of_own_word(noise: float, size: int) -> float:
    """That a word which only the unit has passes the threshold meant for a word which only one row has."""
    return NORMAL.cdf((size - 1) / noise + NORMAL.inv_cdf(FAILURE))


@pytest.mark.parametrize(("noise", "size"), [(2.0, 2), (5.0, 4), (8.0, 20), (30.0, 20)])
@pytest.mark.parametrize("epsilon", [0.5, 3.0, 20.0])
def test_p52_delta_covers_the_failure_of_a_whole_unit(noise: float, size: int, epsilon: float) -> None:
    assert accounting.delta(thresholded(noise, size), epsilon) >= chance_of_own_word(noise, size)


def test_p52_no_epsilon_where_a_unit_fails_more_often_than_delta() -> None:
    assert chance_of_own_word(8.0, 20) > 100 * DELTA
    assert accounting.epsilon(thresholded(8.0, 20), DELTA) == math.inf
    assert _cf_tree.epsilon(thresholded(8.0, 20), DELTA) == math.inf


@pytest.mark.parametrize("rows", [4, 5])
def test_failure_proven_for_the_unit_is_added_once(rows: int) -> None:
    alone = Gaussian(noise=2.0) + Approximate(epsilon=0.0, delta=FAILURE)
    assert accounting.epsilon(thresholded(8.0, 4, rows), DELTA) == accounting.epsilon(alone, DELTA)


def test_failure_proven_for_too_few_rows_costs_infinity() -> None:
    assert accounting.epsilon(thresholded(8.0, 20, 19), DELTA) == math.inf


def test_overflow_of_batches_is_not_split_for_a_unit() -> None:
    event = training(2.0, 0.01, 100) + Approximate(epsilon=0.0, delta=1e-10)
    split = Group(event=training(2.0, 0.01, 100), size=20) + Approximate(epsilon=0.0, delta=2e-9)
    assert accounting.epsilon(Group(event=event, size=20), DELTA) > 1.01 * accounting.epsilon(split, DELTA)


def test_failure_of_a_release_on_its_own_follows_the_group_lemma() -> None:
    bare = Group(event=Approximate(epsilon=0.0, delta=FAILURE), size=20)
    assert accounting.delta(bare, 0.0) == pytest.approx(20 * FAILURE)
    chain = Group(event=Approximate(epsilon=0.5, delta=FAILURE, rows=2), size=5)
    three = Group(event=Approximate(epsilon=0.5, delta=FAILURE), size=3)
    assert accounting.epsilon(chain, DELTA) == accounting.epsilon(three, DELTA)


def test_events_of_earlier_versions_load_and_keep_their_json() -> None:
    stored = {"kind": "Approximate", "epsilon": 0.0, "delta": 1e-07}
    assert to_json(from_json(stored)) == stored
    assert from_json(stored) == Approximate(epsilon=0.0, delta=1e-7)


def test_rows_of_a_proof_are_stored_and_told() -> None:
    event = Approximate(epsilon=0.0, delta=1e-7, rows=20)
    assert from_json(to_json(event)) == event
    assert describe(event) == "1 x Approximate, epsilon 0, delta 1e-7, proven for groups of rows up to 20"


def test_accountants_agree_on_a_group_of_bounded_losses() -> None:
    """The profile of few bounded losses ends steeply: the second accountant must not stop before the end."""
    event = Group(event=Disjoint(events=(2 * Laplace(noise=16.33), 2 * Laplace(noise=130.6))), size=2)
    assert _cf_tree.epsilon(event, DELTA) == pytest.approx(accounting.epsilon(event, DELTA), rel=5e-3)
