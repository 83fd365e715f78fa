"""Check search strategies: their protocol, their rounds, and the contract of every mechanism."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from privaware import accounting
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import Disjoint, Event, Gaussian, Laplace
from privaware.learners import Learner
from privaware.model import Model
from privaware.models.spaces import Point, Space
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.strategies import RoundStrategy, SearchProcedure
from privaware.strategies._search import Search
from privaware.strategies._strategy import Round, Trial
from privaware.testing._call import BrokenPromise
from privaware.testing._check import check_mechanism
from privaware.testing._learner import expect_members
from privaware.testing._rows import example

TRIAL_EVENT = Disjoint(events=(Gaussian(noise=4.0), Laplace(noise=8.0)))
"""Cost of one trial in the check of rounds."""

SMALL_SPACE = {
    "choices": {"kind": ["plain", "tempered"], "power": [2.0, 3.0], "weight": [0.5, 1.0, 2.0]},
    "when": {"power": {"kind": ["tempered"]}},
    "build": {"power": "$power", "weight": "$weight"},
}
"""Search space of the check by record and replay."""


def check_strategy(
    strategy: RoundStrategy | SearchProcedure,
    *,
    space: Space | None = None,
    data: Data | None = None,
    epsilon: float = 4.0,
    delta: float = accounting.DEFAULT_DELTA,
) -> None:
    """Check that a search strategy keeps its contract; raise `BrokenPromise`, an AssertionError, if it does not.

    The checks are:

    1. The strategy follows the protocol `RoundStrategy` or `SearchProcedure`.
    2. Candidates lie in the space, and there are never more than the rounds allow.
    3. A strategy that is not adaptive asks for the same candidates whatever the scores are.
    4. The best trial is one whose score the strategy was given.
    5. A search with several trials costs more than one trial.
    6. The search passes `check_mechanism` without canary games: by record and replay on neighbouring rows, one row
       affects the search through noised values only.

    Points 2 to 4 do not apply to a `SearchProcedure`.

    Parameters
    ----------
    strategy : RoundStrategy or SearchProcedure
        The strategy.
    space : Space, optional
        The search space. By default the rounds are checked on the space "fcn" and the search on `SMALL_SPACE`.
    data : Data, optional
        Rows to use instead of a synthetic table.
    epsilon, delta : float
        The budget at which to check.

    Examples
    --------
    >>> from privaware.strategies.mgrs import Mgrs
    >>> class Modest(Mgrs):
    ...     adaptive = False
    >>> check_strategy(Modest(generations=(4, 4)))
    Traceback (most recent call last):
    privaware.testing.BrokenPromise: Modest: says that it is not adaptive, but asks for other candidates ...
    """
    name = type(strategy).__name__
    if not isinstance(strategy, SearchProcedure):
        expect_members(strategy, RoundStrategy)
    if strategy.adaptive not in (True, False):
        raise BrokenPromise(
            f"{name}: expected the class attribute adaptive as True or False, got {strategy.adaptive!r:.80}"
        )
    if isinstance(strategy, RoundStrategy):
        _check_rounds(name, strategy, space or Space.load("fcn"))
    search = Search(space=space or Space.load(SMALL_SPACE), strategy=strategy, build=_votes, held_out=0.3)
    schema = example(rows=60) if data is None else data.schema
    total = accounting.epsilon(search.cost(schema, 4.0), delta)
    once = accounting.epsilon(search.model_cost(schema, 4.0), delta)
    several = isinstance(strategy, SearchProcedure) or search.trials(schema) > 1
    if several and not total > once:
        raise BrokenPromise(f"{name}: the search costs epsilon {total:.4g}, no more than one trial ({once:.4g})")
    check_mechanism(search, schema=schema, data=data, epsilon=epsilon, delta=delta, games=0)


@dataclass(frozen=True, kw_only=True)
class Votes(Learner):
    """A learner that trains in no time: a constant model from noisy class counts, some of them on Poisson samples.

    There is one release of the counts of all rows, and `max(1, round(4 * share))` releases on Poisson samples with rate
    0.5. `weight` and `power` change the model but not the cost.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification",)

    weight: float = 1.0
    power: float = 1.0
    share: float = 1.0

    def cost(self, schema: Schema, noise: float) -> Event:
        return Gaussian(noise=noise) + self._steps * Gaussian(noise=noise).sampled(rate=0.5)

    def run(self, data: Data, noise: float, rng: Rng) -> Model:
        classes = len(data.schema.classes)
        total = np.zeros(classes)
        for rate in (1.0, *[0.5] * self._steps):
            sampled = rng.poisson(len(data), rate) if rate < 1 else np.ones(len(data), dtype=bool)
            exact = np.bincount(data.y[sampled], minlength=classes).astype(float)
            total += rng.gaussian(exact, noise=noise, sensitivity=1.0)
        bias = self.weight * np.sign(total) * np.abs(total) ** (1 / self.power)
        architecture = {"name": "constant", "inputs": 1, "outputs": classes}
        tensors = {"value": bias.astype(np.float32)}
        return Model(schema=data.schema, features=(), architecture=architecture, tensors=tensors)

    def truncated(self, schema: Schema, share: float, initial: Model | None = None) -> Votes:
        """Return a copy of this learner with the setting `share`, the fraction of its sampled counts that it releases.

        `schema` and `initial` are not used.
        """
        return replace(self, share=share)

    @property
    def _steps(self) -> int:
        return max(1, round(4 * self.share))


def _votes(settings: dict[str, Any]) -> Votes:
    return Votes(**settings)


def _check_rounds(name: str, strategy: RoundStrategy, space: Space) -> None:
    """Check these promises of `strategy` on random scores, without training; raise `BrokenPromise` for a broken one.

    1. Its rounds are public: there is at least one, and they are the same before and after a search.
    2. It asks for candidates of `space` only, and for no more than the round pays for.
    3. Its best trial is one of those whose score was reported to it.
    4. If it is not adaptive, it asks for the same candidates for all scores.

    In a round with a random number of trials only the best trial is reported.
    """
    rounds = strategy.rounds(space, TRIAL_EVENT)
    if not rounds or not all(isinstance(round_, Round) for round_ in rounds):
        raise BrokenPromise(f"{name}: expected at least one Round, got {rounds!r:.120}")
    points_by_seed = [_points_asked(name, strategy, space, rounds, seed) for seed in range(1, 9)]
    if not strategy.adaptive and any(other != points_by_seed[0] for other in points_by_seed[1:]):
        raise BrokenPromise(f"{name}: says that it is not adaptive, but asks for other candidates for other scores")
    if strategy.rounds(space, TRIAL_EVENT) != rounds:
        raise BrokenPromise(
            f"{name}: rounds() of the strategy returned other rounds after a search; they must follow from the space "
            "alone, not from scores"
        )


def _points_asked(
    name: str, strategy: RoundStrategy, space: Space, rounds: tuple[Round, ...], seed: int
) -> list[Point]:
    searcher = strategy.start(space, np.random.default_rng(0))
    scores = np.random.default_rng(seed)
    reported: list[Trial] = []
    points: list[Point] = []
    number = 0
    for round_ in rounds:
        count = min(round(round_.expected), 50) if round_.distribution else int(round_.count or 0)
        asks = searcher.ask(count)
        if len(asks) > count:
            raise BrokenPromise(f"{name}: asks for {len(asks)} trials in a round that pays for {count}")
        trials = []
        for ask in asks:
            _expect_inside(name, space, ask.point)
            trials.append(Trial(number=number, point=ask.point, score=float(scores.random())))
            number += 1
        report = trials if round_.distribution is None else [max(trials, key=lambda trial: trial.score)]
        searcher.tell(report)
        reported += report
        points += [ask.point for ask in asks]
    if searcher.best() not in reported:
        raise BrokenPromise(f"{name}: expected its best trial among the trials that were reported to it, got another")
    return points


def _expect_inside(name: str, space: Space, point: Point) -> None:
    try:
        inside = space.canonical(point) == point
    except WrongInput as problem:
        raise BrokenPromise(f"{name}: asks for a candidate that is not in the space: {problem}") from problem
    if not inside:
        raise BrokenPromise(
            f"{name}: asks for {point}, expected only choices that are active there: {space.canonical(point)}"
        )
