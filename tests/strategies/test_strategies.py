"""One line for each strategy, and what each check catches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from privaware import accounting
from privaware.events import Gaussian
from privaware.models.spaces import Space, point_key
from privaware.strategies._scoring import ValidationScorer
from privaware.strategies._search import Search
from privaware.strategies._strategy import Ask, Round, Trial, TrialCount, TrialHistory
from privaware.strategies.grid import Grid
from privaware.strategies.mgrs import Mgrs
from privaware.strategies.optuna import Optuna
from privaware.strategies.paas import Breeding, Paas
from privaware.strategies.racing import Racing
from privaware.strategies.rs import Random, Rs
from privaware.testing import BrokenPromise, check_strategy

STRATEGIES = [
    Rs(trials=2),
    Mgrs(generations=(2, 2)),
    Paas(generations=2, population=2),
    Grid(trials=3),
    Racing(candidates=2),
    Optuna(trials=2, batch=1),
]
FCN = Space.load("fcn")
ONCE = Gaussian(noise=4.0)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: type(strategy).__name__)
def test_every_strategy_keeps_its_promises(strategy: Any) -> None:
    check_strategy(strategy)


# Planted bugs: each is caught, by the check that is for it.


class Modest(Mgrs):
    """Learns from its winners and says that it does not."""

    adaptive: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class Greedy(Rs):
    """Asks for one trial more than was said."""

    def start(self, space: Space, rng: np.random.Generator) -> Random:
        class More(Random):
            def ask(self, count: int) -> list[Ask]:
                return super().ask(count + 1)

        return More(space=space, rng=rng)


@dataclass(frozen=True, kw_only=True)
class Outside(Rs):
    """Asks for what is not in the space."""

    def start(self, space: Space, rng: np.random.Generator) -> Random:
        class Wild(Random):
            def ask(self, count: int) -> list[Ask]:
                return [Ask(point={**ask.point, "units3": 64}) for ask in super().ask(count)]

        return Wild(space=space, rng=rng)


@dataclass(frozen=True, kw_only=True)
class Dreaming(Rs):
    """Its best was never tried."""

    def start(self, space: Space, rng: np.random.Generator) -> Random:
        class Dream(Random):
            def best(self) -> Trial:
                return replace(super().best(), score=2.0)

        return Dream(space=space, rng=rng)


@pytest.mark.parametrize(
    ("strategy", "words"),
    [
        (Modest(generations=(4, 4)), "not adaptive"),
        (Greedy(trials=2), "are paid for"),
        (Outside(trials=8), "do not count"),
        (Dreaming(trials=2), "not a trial"),
    ],
)
def test_a_strategy_that_breaks_a_promise_is_caught(strategy: Any, words: str) -> None:
    with pytest.raises(BrokenPromise, match=words):
        check_strategy(strategy)


def test_a_score_without_noise_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def exact(self: ValidationScorer, models: Any, rng: Any) -> list[float]:
        return [self.exact_count(model) for model in models]

    monkeypatch.setattr(ValidationScorer, "scores", exact)
    with pytest.raises(BrokenPromise):
        check_strategy(Paas(generations=2, population=2))


def test_a_price_of_one_trial_for_many_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Search, "cost", Search.model_cost)
    with pytest.raises(BrokenPromise, match="no more than one trial"):
        check_strategy(Paas(generations=2, population=2))


# Laws.


@pytest.mark.parametrize(
    "count", [TrialCount(mean=10.0), TrialCount(mean=10.0, eta=0.5), TrialCount(mean=30.0, eta=2.0)]
)
def test_trial_count_has_its_stated_mean_and_chance(count: TrialCount) -> None:
    from privaware.noise import Rng

    rng = Rng(seed=1)
    samples = np.array([count.sample(rng) for _ in range(20000)])
    error = samples.std() / np.sqrt(len(samples))
    assert samples.min() >= 1
    assert abs(samples.mean() - count.mean) < 4 * error
    chance = 1 - (0.9**samples).mean()
    assert abs(chance - count.chance(0.1)) < 0.01


def test_the_law_of_least_price_is_chosen_at_the_stated_chance() -> None:
    [each] = Rs(chance=0.9, top=0.1).rounds(FCN, ONCE)
    assert each.distribution is not None
    assert each.distribution.chance(0.1) == pytest.approx(0.9, abs=1e-6)
    price = accounting.epsilon(each.distribution.selected(ONCE), 1e-5)
    for eta in (0.5, 1.0, 2.0):
        other = TrialCount.with_chance(chance=0.9, top=0.1, eta=eta)
        assert price <= accounting.epsilon(other.selected(ONCE), 1e-5) + 1e-9


def test_p15_no_adaptive_sampler_is_priced_as_private_selection() -> None:
    """A sampler that learns from scores, a fixed number of trials, early stopping: all pay for every trial."""
    for strategy in (Optuna(trials=6), Paas(), Grid(trials=6), Racing()):
        assert all(each.distribution is None for each in strategy.rounds(FCN, ONCE))
    for secret in (Rs(), Rs(trials=6), Mgrs()):
        assert all(each.distribution is not None for each in secret.rounds(FCN, ONCE))


# What each one does.


def _driven(strategy: Any, score: Any, space: Space = FCN) -> tuple[Any, list[Any]]:
    searcher = strategy.start(space, np.random.default_rng(3))
    asked = []
    number = 0
    for each in strategy.rounds(space, ONCE):
        trials = []
        for ask in searcher.ask(round(each.expected)):
            trials.append(Trial(number=number, point=ask.point, score=score(ask.point)))
            asked.append(ask)
            number += 1
        searcher.tell(trials if each.distribution is None else [max(trials, key=lambda t: t.score)])
    return searcher, asked


def _small_is_good(point: dict[str, Any]) -> float:
    return 1 / (point["units1"] * point["layers"]) + 0.001 * (point["activation1"] == "tanh")


@pytest.mark.parametrize("strategy", [Paas(generations=20), Mgrs(generations=(40, 20, 20, 20))])
def test_breeding_beats_what_it_began_with(strategy: Any) -> None:
    searcher, asked = _driven(strategy, _small_is_good)
    best = searcher.best().point
    assert (best["layers"], best["units1"]) == (1, 64)
    assert searcher.best().score >= max(_small_is_good(ask.point) for ask in asked[:10])


def test_paas_never_trains_a_candidate_twice() -> None:
    _, asked = _driven(Paas(generations=20, population=10), _small_is_good)
    assert len({point_key(ask.point) for ask in asked}) == len(asked)


def test_paas_without_change_stays_where_it_is() -> None:
    still = Paas(generations=5, population=1, mutation=0.0, keep=1.0, spare=0.0)
    _, asked = _driven(still, _small_is_good)
    assert len(asked) == 1


def test_paas_keeps_the_best_and_a_few_others_as_parents() -> None:
    strategy = Paas(population=10, keep=0.4, spare=0.1, mutation=0.0)
    searcher = strategy.start(FCN, np.random.default_rng(0))
    assert isinstance(searcher, Breeding)
    first = [ask.point for ask in searcher.ask(10)]
    searcher.tell([Trial(number=at, point=p, score=float(-at)) for at, p in enumerate(first)])
    born = [ask.point for ask in searcher.ask(5)]
    assert searcher.generation[:4] == first[:4]
    assert searcher.generation[4] in first[4:]
    assert searcher.generation[5:] == born
    assert [each.count for each in strategy.rounds(FCN, ONCE)] == [10, 5, 5, 5, 5, 5]


def test_racing_lets_the_faster_half_go_on_from_where_they_are() -> None:
    race = Racing(candidates=8)
    searcher, asked = _driven(race, _small_is_good)
    rounds = race.rounds(FCN, ONCE)
    assert sum(each.share for each in rounds) == 1.0
    starts = [ask.after for ask in asked]
    assert starts[:8] == [None] * 8
    assert None not in starts[8:]
    scores = [_small_is_good(ask.point) for ask in asked]
    assert set(starts[8:12]) == set(np.argsort([-s for s in scores[:8]], kind="stable")[:4])
    assert searcher.best().number == len(asked) - 1


def test_a_grid_is_the_whole_space_or_an_even_part() -> None:
    cnn = Space.load("cnn")
    _, asked = _driven(Grid(), lambda point: 0.0, cnn)
    assert [ask.point for ask in asked] == list(cnn.points())
    _, some = _driven(Grid(trials=7), lambda point: 0.0, cnn)
    assert [ask.point for ask in some] == list(cnn.points())[::4]


def test_optuna_learns_from_what_it_is_told() -> None:
    searcher, _ = _driven(Optuna(trials=60, batch=5), _small_is_good)
    assert isinstance(searcher, TrialHistory)
    assert searcher.best().point["units1"] == 64
    late = [trial.score for trial in searcher.trials[-20:]]
    early = [trial.score for trial in searcher.trials[:20]]
    assert np.mean(late) > np.mean(early)


def test_a_round_is_open_or_secret_never_both() -> None:
    from privaware.errors import WrongInput

    for wrong in ({}, {"count": 3, "distribution": TrialCount(mean=3.0)}, {"count": 3, "share": 0.0}):
        with pytest.raises(WrongInput, match="expected a round"):
            Round(**wrong)
