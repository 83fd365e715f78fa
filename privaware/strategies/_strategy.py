"""The protocols of a strategy: rounds of trials, and a searcher that asks for candidates and gets their scores.

A strategy is a frozen dataclass of public settings. A `RoundStrategy` says, from public facts, how many trials each
round has. `Search` computes the cost of the rounds, so a strategy cannot understate its cost. A `SearchProcedure` finds
a candidate by a training of its own (shared weights) and states the cost of that training.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from privaware import accounting
from privaware._validate import expect
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import Event, Pure, Selected
from privaware.models.spaces import Point, Space
from privaware.noise import Rng


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A candidate to try.

    The trial continues from the weights of the trial numbered `after`, or starts from new weights if `after` is None.
    """

    point: Point
    after: int | None = None


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A finished trial as reported to a strategy: its number in the search (from 0), its candidate and noisy score.

    The score is divided by the expected number of validation rows, so for classification it is a noisy accuracy.
    """

    number: int
    point: Point
    score: float


@dataclass(frozen=True, kw_only=True)
class TrialCount:
    """The distribution of the number of trials of private selection, with expectation `mean`.

    It is the truncated negative binomial distribution with shape `eta`; for `eta = 0` the logarithmic distribution.

    >>> count = TrialCount.with_chance(chance=0.9, top=0.1, eta=1.0)
    >>> round(count.mean), round(count.chance(0.1), 6)
    (81, 0.9)
    """

    mean: float
    eta: float = 0.0

    def __post_init__(self) -> None:
        expect(1 < self.mean < 1e9 and self.eta >= 0, "", "a mean number of trials above 1 and eta >= 0", self)

    def selected(self, once: Event) -> Event:
        """Return the event of releasing only the best of a random number of trials, each of which costs `once`."""
        name = "negative_binomial" if self.eta else "logarithmic"
        return Selected(event=once, distribution=name, mean=self.mean, shape=self.eta or None)

    def sample(self, rng: Rng) -> int:
        """Draw a number of trials, which must stay secret."""
        eta, gamma = self._parameters()
        return rng.runs(eta=eta, gamma=gamma)

    def chance(self, top: float) -> float:
        """Return the probability that at least one trial is among the best fraction `top` of all candidates.

        Each trial is assumed to draw its candidate uniformly and independently.
        """
        eta, gamma = self._parameters()
        return 1 - _generating_function(1 - top, eta, gamma)

    @classmethod
    def with_chance(cls, *, chance: float, top: float, eta: float) -> TrialCount:
        """Return the distribution of smallest mean that tries one of the best fraction `top` with this `chance`.

        `eta` is its shape. Raise `WrongInput` if even a mean of 1e8 trials has a smaller chance.
        """
        low, high = 1 + 1e-9, 1e8
        if cls(mean=high, eta=eta).chance(top) < chance:
            raise WrongInput(
                f"expected a chance that at most {high:g} expected trials reach, got {chance:g} for one of the best "
                f"{top:g} candidates (shape {eta:g}); lower chance or raise top"
            )
        while high / low > 1 + 1e-9:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if cls(mean=middle, eta=eta).chance(top) >= chance else (middle, high)
        return cls(mean=high, eta=eta)

    def _parameters(self) -> tuple[float, float]:
        event = self.selected(Pure(epsilon=1.0))
        assert isinstance(event, Selected)
        return accounting.trial_count_parameters(event)


def _generating_function(x: float, eta: float, gamma: float) -> float:
    """Return E[x^K] for a number K with the truncated negative binomial distribution of shape `eta`.

    Its success probability is `gamma`, in (0, 1). For `eta` 0 it is the logarithmic distribution.
    """
    inside = 1 - (1 - gamma) * x
    if eta == 0:
        return math.log(inside) / math.log(gamma)
    return math.expm1(-eta * math.log(inside)) / math.expm1(-eta * math.log(gamma))


@dataclass(frozen=True, kw_only=True)
class Round:
    """One round of trials.

    Exactly one of `count` and `distribution` is given. Either `count` trials are run and all are reported to the
    strategy, or a secret number of trials is drawn from `distribution` and only the best trial is reported. Each trial
    runs the fraction `share` of the steps of a full training.
    """

    count: int | None = None
    distribution: TrialCount | None = None
    share: float = 1.0

    def __post_init__(self) -> None:
        good = (self.count is None) != (self.distribution is None) and 0 < self.share <= 1
        expect(good, "", "a round of a count or a distribution, and a share in (0, 1]", self)

    @property
    def expected(self) -> float:
        """The expected number of trials."""
        return self.distribution.mean if self.distribution is not None else float(self.count or 0)


class Searcher(Protocol):
    """A search in progress.

    `ask` returns at most `count` candidates for the next round. `tell` takes the finished trials that are reported: all
    trials of the round, or only its best trial if their number is secret. `best` returns the trial to release: the one
    with the highest score, in some strategies only of the last round.
    """

    def ask(self, count: int) -> list[Ask]: ...

    def tell(self, trials: Sequence[Trial]) -> None: ...

    def best(self) -> Trial: ...


@runtime_checkable
class RoundStrategy(Protocol):
    """A strategy that searches in rounds of trials; `adaptive` says whether candidates depend on earlier scores."""

    adaptive: ClassVar[bool]

    def rounds(self, space: Space, once: Event) -> tuple[Round, ...]:
        """Return the rounds of trials over `space`; `once` is the event of one trial."""
        ...

    def start(self, space: Space, rng: np.random.Generator) -> Searcher:
        """Start a search of `space`; `rng` draws candidates and is independent of all noise."""
        ...


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """How a search procedure runs; no field changes what is released.

    After each epoch, `progress` is called with (number of finished epochs, number of all epochs, seconds left), and
    `on_epoch` with (index of the epoch from 0, shared weights, controller). `checkpoint` is the file from which an
    interrupted search resumes, or None.
    """

    device: str = "cpu"
    progress: Callable[[int, int, float], None] | None = None
    checkpoint: Path | None = None
    on_epoch: Callable[[int, Any, Any], None] | None = None


@runtime_checkable
class SearchProcedure(Protocol):
    """A strategy that finds a candidate by a procedure of its own, without separate trials.

    `adaptive` says whether the cells or candidates that it tries depend on earlier scores.
    """

    adaptive: ClassVar[bool]

    def part_costs(self, noise: float) -> tuple[Event, Event]:
        """Return the cost for the training rows and the cost for the validation rows, at noise multiplier `noise`.

        The training of the chosen candidate is not included.
        """
        ...

    def find(
        self, train: Data, validation: Data, noise: float, rng: Rng, *, public: bool = False, runtime: Runtime = ...
    ) -> Point:
        """Return the chosen candidate, found by training on the rows `train` and scoring on the rows `validation`.

        `noise` is the noise multiplier that `part_costs` takes. On `public` rows scores are exact. `runtime` does not
        change the release.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class SearchProgress:
    """The state of a search: in `round` (from 1) of `rounds`, `trained` of `count` candidates have scores.

    `before` is the number of candidates in the earlier rounds, and `total` is the number in all rounds. The state is
    for the data owner only, because it would reveal a secret number of trials. A `SearchProcedure` reports epochs in
    place of candidates, in one round. `best` is the highest noisy score so far in all rounds (None if nothing was
    scored), and `seconds_left` is an estimate for all rounds.
    """

    round: int
    rounds: int
    trained: int
    count: int
    before: int
    total: int
    best: float | None
    seconds_left: float


OnProgress = Callable[[SearchProgress], None]
"""A function that shows the progress of a search to the data owner."""


class ProgressMeter:
    """Calls `listener` with the `SearchProgress` of a search, unless `listener` is None.

    `counts` has the number of trials of each round.
    """

    def __init__(self, counts: Sequence[int], listener: OnProgress | None) -> None:
        self.counts, self.listener = counts, listener
        self.started, self.trained_here = time.monotonic(), 0

    def update(self, at: int, trained: int, best: float | None, *, added: int) -> None:
        """Report that `added` more candidates are trained, and that `trained` candidates of round `at` are scored.

        Rounds count from 0. `best` is the highest noisy score so far, or None. The time left is estimated from the mean
        time for one candidate.
        """
        self.trained_here += added
        if self.listener is None:
            return
        before, total = sum(self.counts[:at]), sum(self.counts)
        pace = (time.monotonic() - self.started) / max(self.trained_here, 1)
        self.listener(
            SearchProgress(
                round=at + 1,
                rounds=len(self.counts),
                trained=trained,
                count=self.counts[at],
                before=before,
                total=total,
                best=best,
                seconds_left=pace * (total - before - trained),
            )
        )


@dataclass(kw_only=True)
class TrialHistory:
    """Base of searchers: it collects the trials that are reported, and `best` returns the trial with the highest score.

    `best` raises `ValueError` if no trial was reported. `space` and `rng` are for searchers that draw candidates.
    """

    space: Space
    rng: np.random.Generator
    trials: list[Trial] = field(default_factory=list)

    def tell(self, trials: Sequence[Trial]) -> None:
        self.trials.extend(trials)

    def best(self) -> Trial:
        return max(self.trials, key=lambda trial: trial.score)
