"""A release that only one person's rows make possible has a chance of at most delta."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest

from privaware.data import Data
from privaware.errors import PrivawareError
from privaware.preprocessing._ranges import column_counts as _column_counts
from privaware.preprocessing.ranges import Ranges
from privaware.schema import Column, Schema
from privaware.testing import BrokenPromise, failure_game
from privaware.workflow.auto import Choice
from privaware.workflow.run.training_plan import planned

DELTA, CAP, GAMES = 1e-5, 20, 700
OWN = "Zyx"


def bought_words(epsilon: float) -> tuple[Ranges, float, Schema]:
    """The release of categories before a linear model, as a plan at this epsilon has it."""
    columns = (Column(name="town", kind="category"), Column(name="age", low=0, high=100))
    schema = Schema(columns=columns, target="y", classes=("no", "yes"), rows=2000, unit="person", cap=CAP)
    plan = planned(schema, Choice(learner="linear"), {"epsilon": epsilon, "delta": DELTA}, None, {})
    assert isinstance(plan.mechanism.first, Ranges)
    return plan.mechanism.first, plan.noise * plan.mechanism.share, plan.schema


def with_and_without_a_person(schema: Schema) -> tuple[Data, Data]:
    """A hundred rows of other persons, and `CAP` rows of one more with a category of their own."""
    towns = np.array(["Ulm"] * 60 + ["Bonn"] * 40 + [OWN] * CAP, dtype=object)
    x = np.column_stack([towns, np.full(len(towns), 50.0, dtype=object)])
    within = Data(schema=schema, x=x, y=np.zeros(len(x), dtype=np.int64))
    return within.take(np.arange(100)), within


def least_chance(epsilon: float, games: int) -> float:
    """What the game proves of the chance that the category of one person is released."""
    words, noise, schema = bought_words(epsilon)
    pair = with_and_without_a_person(schema)
    return failure_game(words, *pair, noise, reveals=lambda out: OWN in out.columns[0].categories, games=games)


def threshold_for_one_row(*, rows: int, scale: float, chance: float) -> float:
    """A planted bug: the threshold of a word that one row alone has."""
    return 1 - scale * NormalDist().inv_cdf(chance)


def test_p52_game_catches_a_threshold_meant_for_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_column_counts, "word_threshold", threshold_for_one_row)
    assert least_chance(50.0, GAMES) > DELTA


def test_p52_categories_of_one_person_are_not_released() -> None:
    assert least_chance(50.0, GAMES) <= DELTA


def test_release_that_others_give_too_proves_nothing() -> None:
    words, noise, schema = bought_words(50.0)
    with pytest.raises(BrokenPromise, match="without the unit"):
        failure_game(words, *with_and_without_a_person(schema), noise, reveals=lambda out: True, games=2)
    assert not issubclass(BrokenPromise, PrivawareError)
