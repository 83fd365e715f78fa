"""One line for each strategy, and what each check catches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from privaware import accounting
from privaware.errors import WrongInput
from privaware.events import Disjoint, Gaussian, leaves
from privaware.models.spaces import Space, point_key
from privaware.strategies._search import Search
from privaware.strategies._strategy import Ask, Round, Trial, TrialCount, TrialHistory
from privaware.strategies._trials import ValidationScorer
from privaware.strategies.grid import Grid
from privaware.strategies.mgrs import Mgrs
from privaware.strategies.optuna import Optuna
from privaware.strategies.paas import Breeding, Paas
from privaware.strategies.racing import Racing
from privaware.strategies.rs import Random, Rs
from privaware.testing import BrokenPromise, check_strategy
from tests.strategies.candidates import SCHEMA, SPACE, epsilon, short

STRATEGIES = [
    Rs(trials=2),
    Mgrs(generations=(2, 2)),
    Paas(generations=2, population=2),
    Paas(generations=2, population=2, refill="all"),
    Grid(trials=3),
    Racing(candidates=2),
    Optuna(trials=2, batch=1),
]
FCN = Space.load("fcn")
ONCE = Gaussian(noise=4.0)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: type(strategy).__name__)
def test_strategy_keeps_the_protocol_and_the_contract(strategy: Any) -> None:
    check_strategy(strategy)


# Planted bugs: each is caught by the check that exists for it.


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
        (Greedy(trials=2), "in a round that pays for 2"),
        (Outside(trials=8), "expected only choices that are active"),
        (Dreaming(trials=2), "expected its best trial among the trials"),
    ],
)
def test_planted_bug_is_caught(strategy: Any, words: str) -> None:
    with pytest.raises(BrokenPromise, match=words):
        check_strategy(strategy)


def test_score_without_noise_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def exact(self: ValidationScorer, models: Any, rng: Any) -> list[float]:
        return [self.exact_count(model) for model in models]

    monkeypatch.setattr(ValidationScorer, "scores", exact)
    with pytest.raises(BrokenPromise):
        check_strategy(Paas(generations=2, population=2))


def test_cost_of_one_trial_for_many_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Search, "cost", Search.model_cost)
    with pytest.raises(BrokenPromise, match="no more than one trial"):
        check_strategy(Paas(generations=2, population=2))


# Trial-count distributions.


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


def test_cheapest_trial_count_with_the_stated_chance_is_chosen() -> None:
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
    asks = []
    number = 0
    for round_ in strategy.rounds(space, ONCE):
        trials = []
        for ask in searcher.ask(round(round_.expected)):
            trials.append(Trial(number=number, point=ask.point, score=score(ask.point)))
            asks.append(ask)
            number += 1
        searcher.tell(trials if round_.distribution is None else [max(trials, key=lambda t: t.score)])
    return searcher, asks


def _small_is_good(point: dict[str, Any]) -> float:
    return 1 / (point["units1"] * point["layers"]) + 0.001 * (point["activation1"] == "tanh")


@pytest.mark.parametrize("strategy", [Paas(generations=20), Mgrs(generations=(40, 20, 20, 20))])
def test_adaptive_search_improves_on_its_first_generation(strategy: Any) -> None:
    searcher, asks = _driven(strategy, _small_is_good)
    best = searcher.best().point
    assert (best["layers"], best["units1"]) == (1, 64)
    assert searcher.best().score >= max(_small_is_good(ask.point) for ask in asks[:10])


def test_paas_never_trains_a_candidate_twice() -> None:
    _, asks = _driven(Paas(generations=20, population=10), _small_is_good)
    assert len({point_key(ask.point) for ask in asks}) == len(asks)


def test_paas_without_mutation_is_a_fixed_point() -> None:
    still = Paas(generations=5, population=1, mutation=0.0, keep=1.0, spare=0.0)
    _, asks = _driven(still, _small_is_good)
    assert len(asks) == 1


def test_paas_parents_are_the_best_and_a_few_random_others() -> None:
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


def test_paas_refilling_all_keeps_no_parent() -> None:
    strategy = Paas(population=10, keep=0.4, spare=0.1, mutation=0.0, refill="all")
    searcher = strategy.start(FCN, np.random.default_rng(0))
    first = [ask.point for ask in searcher.ask(10)]
    searcher.tell([Trial(number=at, point=p, score=float(-at)) for at, p in enumerate(first)])
    points = [ask.point for ask in searcher.ask(10)]
    parents = [point for point in first if point in first[:4]]
    assert len(searcher.generation) == 10
    assert len({point_key(point) for point in searcher.generation}) == 10  # the set N' of the paper
    assert all(point in searcher.generation for point in points)
    known = [point for point in searcher.generation if point not in points]
    assert {point_key(point) for point in known} <= {point_key(point) for point in first}  # memoised, not trained again
    choices = {name: {str(point.get(name)) for point in first} for name in FCN.choices}
    assert all(str(point.get(name)) in choices[name] for point in points for name in point)
    assert len(parents) == 4
    assert [each.count for each in strategy.rounds(FCN, ONCE)] == [10] * 6


def test_paas_loses_its_best_only_where_it_refills_all() -> None:
    def best_scores(refill: str) -> list[float]:
        searcher = Paas(population=6, mutation=1.0, refill=refill).start(FCN, np.random.default_rng(1))
        number, scores = 0, np.random.default_rng(2)
        tops = []
        for count in [each.count or 0 for each in Paas(population=6, generations=8, refill=refill).rounds(FCN, ONCE)]:
            trials = [
                Trial(number=number + at, point=ask.point, score=float(scores.random()))
                for at, ask in enumerate(searcher.ask(count))
            ]
            number += len(trials)
            searcher.tell(trials)
            tops.append(searcher.best().score)
        return tops

    rest, everyone = best_scores("rest"), best_scores("all")
    assert rest == sorted(rest)
    assert everyone != sorted(everyone)


def test_paas_refilling_all_pays_for_sixty_trainings() -> None:
    def trainings(**settings: Any) -> int:
        return sum(each.count or 0 for each in Paas(**settings).rounds(FCN, ONCE))

    assert trainings() == 35
    assert trainings(refill="all") == 60
    assert trainings(trials=20, refill="all") == trainings(trials=20) == 20
    search = Search(space=SPACE, strategy=Paas(), build=short)
    printed = replace(search, strategy=Paas(refill="all"))
    [(cost, _)] = leaves(printed.cost(SCHEMA, 2.0))
    assert isinstance(cost, Disjoint)
    assert sum(count for _, count in leaves(cost.events[0])) == 60 * 6
    assert sum(count for _, count in leaves(cost.events[1])) == 60
    assert epsilon(printed, 2.0) > epsilon(search, 2.0)
    with pytest.raises(WrongInput, match="refill among rest, all"):
        Paas(refill="none")


def test_racing_continues_the_best_half_from_their_weights() -> None:
    race = Racing(candidates=8)
    searcher, asks = _driven(race, _small_is_good)
    rounds = race.rounds(FCN, ONCE)
    assert sum(round_.share for round_ in rounds) == 1.0
    starts = [ask.after for ask in asks]
    assert starts[:8] == [None] * 8
    assert None not in starts[8:]
    scores = [_small_is_good(ask.point) for ask in asks]
    assert set(starts[8:12]) == set(np.argsort([-s for s in scores[:8]], kind="stable")[:4])
    assert searcher.best().number == len(asks) - 1


def test_grid_is_the_whole_space_or_an_evenly_spaced_part() -> None:
    cnn = Space.load("cnn")
    _, asks = _driven(Grid(), lambda point: 0.0, cnn)
    assert [ask.point for ask in asks] == list(cnn.points())
    _, spaced = _driven(Grid(trials=7), lambda point: 0.0, cnn)
    assert [ask.point for ask in spaced] == list(cnn.points())[::4]


def test_optuna_learns_from_scores() -> None:
    searcher, _ = _driven(Optuna(trials=60, batch=5), _small_is_good)
    assert isinstance(searcher, TrialHistory)
    assert searcher.best().point["units1"] == 64
    late = [trial.score for trial in searcher.trials[-20:]]
    early = [trial.score for trial in searcher.trials[:20]]
    assert np.mean(late) > np.mean(early)


def test_round_has_a_count_or_a_distribution_never_both() -> None:
    for wrong in ({}, {"count": 3, "distribution": TrialCount(mean=3.0)}, {"count": 3, "share": 0.0}):
        with pytest.raises(WrongInput, match="expected a round"):
            Round(**wrong)
