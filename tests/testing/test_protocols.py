"""Algorithms of other packages are checked against the protocols: what is missing is named in one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from privaware import registry
from privaware.attacks import Game
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import Event, Gaussian
from privaware.learners import Learner, PopulationLearner, ResumableLearner, find_learner
from privaware.learners.dpsgd import DpSgd
from privaware.learners.majority import Majority
from privaware.noise import Rng
from privaware.preprocessing import Transformation, find_transformation
from privaware.preprocessing.pca import Pca
from privaware.schema import Schema
from privaware.selectors import Selector, find_selector
from privaware.strategies import RoundStrategy, SearchProcedure, find_strategy
from privaware.testing import BrokenPromise, check_attack, check_learner, check_selector, check_strategy


@dataclass(frozen=True, kw_only=True)
class Bare:
    """A mechanism, but none of the special kinds."""

    def cost(self, schema: Schema, noise: float) -> Event:
        return Gaussian(noise=noise)

    def run(self, data: Data, noise: float, rng: Rng) -> Any:
        return rng.gaussian(float(len(data)), noise=noise, sensitivity=1.0)


class Plain:
    """All attributes of a learner, but no dataclass."""

    tasks, unit, needs_public, uses_columns, cost, run = ("classification",), "row", False, True, None, None
    phase, guarantee, auxiliary = "", "(epsilon, delta)", ""


@pytest.mark.parametrize("name", registry.names("learners"))
def test_every_learner_declares_its_protocol(name: str) -> None:
    learner = find_learner(name)
    assert Learner in learner.__mro__
    assert set(learner.tasks) <= {"classification", "regression"}


@pytest.mark.parametrize("name", registry.names("strategies"))
def test_every_strategy_declares_its_protocol(name: str) -> None:
    strategy = find_strategy(name)
    assert RoundStrategy in strategy.__mro__ or SearchProcedure in strategy.__mro__
    assert isinstance(strategy.adaptive, bool)


def test_selectors_release_columns_and_transformations_do_not() -> None:
    for name in registry.names("selectors"):
        assert Selector in find_selector(name).__mro__
        assert find_selector(name).releases == "columns"
    assert registry.names("preprocessing") == ["bins", "normalise", "pca", "ranges", "weigh"]
    for name in registry.names("preprocessing"):
        assert Transformation in find_transformation(name).__mro__
        assert find_transformation(name).releases in ("feature", "schema")


def test_capabilities_of_a_learner_are_protocols() -> None:
    assert isinstance(DpSgd(), PopulationLearner)
    assert isinstance(DpSgd(), ResumableLearner)
    assert not isinstance(Majority(), (PopulationLearner, ResumableLearner))


def installed(monkeypatch: pytest.MonkeyPatch, kind: str, algorithm: Any) -> None:
    class Point:
        def load(self) -> Any:
            return algorithm

    monkeypatch.setattr(registry, "_entry_points", lambda wanted: {"theirs": Point()} if wanted == kind else {})


@pytest.mark.parametrize(
    ("kind", "find", "missing"),
    [
        ("learners", find_learner, "'auxiliary', which the protocol Learner"),
        ("selectors", find_selector, "'releases', which the protocol Selector"),
        ("preprocessing", find_transformation, "'prices_replacement', which the protocol Transformation"),
        ("strategies", find_strategy, "'adaptive', which the protocol RoundStrategy"),
    ],
)
def test_plugin_without_a_required_attribute_is_refused(
    kind: str, find: Any, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(monkeypatch, kind, Bare)
    with pytest.raises(WrongInput, match=f"theirs has no {missing} asks for; inherit from privaware"):
        find("theirs")


def test_plugin_that_is_no_dataclass_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, "learners", Plain)
    with pytest.raises(WrongInput, match="expected theirs as a dataclass of public settings"):
        find_learner("theirs")


def test_checks_name_the_missing_attribute() -> None:
    bare: Any = Bare()
    with pytest.raises(BrokenPromise, match="Bare: no attribute 'auxiliary', which the protocol Learner asks for"):
        check_learner(bare)
    with pytest.raises(BrokenPromise, match='Bare: expected releases = "columns"'):
        check_selector(bare)
    with pytest.raises(BrokenPromise, match="Bare: no attribute 'adaptive', which the protocol RoundStrategy asks for"):
        check_strategy(bare)


def test_transformation_is_no_selector() -> None:
    with pytest.raises(BrokenPromise, match='expected releases = "columns"'):
        check_selector(Pca())  # type: ignore[arg-type]


def test_learner_that_releases_no_model_is_caught() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Counting(Bare, Learner):
        tasks: ClassVar[tuple[str, ...]] = ("classification",)

    with pytest.raises(BrokenPromise, match="Counting: expected a Model as release, got float"):
        check_learner(Counting())


def test_learner_of_an_unknown_unit_is_caught() -> None:
    class Household(Majority):
        unit: ClassVar[str] = "household"

    with pytest.raises(BrokenPromise, match="Household: expected unit = 'row' or 'label'"):
        check_learner(Household())


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        (lambda rows: np.zeros(len(rows) - 1), "one score for each of 60 rows"),
        (lambda rows: np.full(len(rows), np.nan), "expected finite numbers"),
        (lambda rows: np.random.default_rng().random(len(rows)), "randomness outside rng"),
    ],
)
def test_attack_with_wrong_scores_is_caught(scores: Any, words: str) -> None:
    def attack(game: Game, rng: Rng) -> np.ndarray:
        return np.asarray(scores(game.rows))

    with pytest.raises(BrokenPromise, match=f"attack: .*{words}"):
        check_attack(attack)
