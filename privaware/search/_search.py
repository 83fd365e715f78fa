"""The mechanism that searches: candidates of a space, tried as a strategy asks, and the best model released."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from privaware import accounting, features
from privaware.data import Data
from privaware.errors import CheckFailed, WrongInput
from privaware.events import NOTHING, AnyOf, Disjoint, Event, Laplace
from privaware.mechanism import Mechanism
from privaware.model import Model, scaled
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.search._journal import Journal
from privaware.search._strategy import Ask, Round, Trial
from privaware.search._workers import Here, Workers
from privaware.space import Point, Space

__all__ = ["Found", "Progress", "Search"]

DELTA = 1e-5
"""At which recipes are balanced and laws compared: a public convention, not the delta of the guarantee."""

Progress = Callable[["Now"], None]


@dataclass(frozen=True, kw_only=True)
class Now:
    """Where a search stands, for its owner's eyes."""

    round: int
    rounds: int
    done: int
    count: int
    best: float | None
    left: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Found:
    """What a search releases: the winner's settings, its model and its noisy score (none where it was not scored)."""

    point: Point
    model: Model
    score: float | None


@dataclass(frozen=True, kw_only=True)
class Search:
    """`strategy` over `space`; `build` makes a learner of a candidate's settings.

    Rows are split once, each by a draw of its own: a share `held_out` scores, the others train. A score is the number
    of held rows that a model gets right (for numbers to predict: one minus the error over the declared range, summed)
    plus Laplace noise, so one row moves it by at most 1. That noise is set so that at `level`, the epsilon of one
    training, a score costs an `eighth` of it (`reference` is the noise of that training where it is known already).
    Candidates whose recipes differ in price get noises that make them equally dear at `level`.

    `device`, `workers`, `journal` and `progress` change nothing that is released.

    Privacy: (epsilon, delta) for one row added or removed. A row is in one of the two parts, so the dearer part
    counts. Rounds whose trials are all told compose; a round with a secret number of trials, of which the best is
    told, is private selection. What is asked next depends on rows only through what was told. The models of trials
    that were paid for are kept, so the winner is released without another training.
    """

    space: Space
    strategy: Any
    build: Callable[[dict[str, Any]], Mechanism[Model]]
    held_out: float = 0.1
    level: float = 1.0
    eighth: float = 0.125
    at_once: int = 64
    reference: float | None = None
    device: str = field(default="cpu", repr=False, compare=False)
    workers: Workers = field(default=Here(), repr=False, compare=False)
    journal: Path | None = field(default=None, repr=False, compare=False)
    progress: Progress | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, low, high in (
            ("held_out", 0.001, 0.9),
            ("level", 1e-3, 1e3),
            ("eighth", 1e-3, 1.0),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not low <= value <= high:
                raise WrongInput(
                    f"search: expected {name} from {low:g} to {high:g}, got {value!r:.80}"
                )

    # The price.

    def cost(self, schema: Schema, noise: float) -> Event:
        part = self.train_schema(schema)
        once = self._training(part, noise)
        if hasattr(self.strategy, "parts"):  # the last training sees only rows that train
            steps, scores = self.strategy.parts(noise)
            return Disjoint(events=(steps + once, scores))
        if hasattr(self.strategy, "find"):
            return self.strategy.cost(part, noise) + once  # type: ignore[no-any-return]
        score = Laplace(noise=noise * self._score_scale(part))
        train, scores, total = NOTHING, 0, NOTHING
        for each in self.rounds(schema):
            if each.law is not None:
                total = total + each.law.event(Disjoint(events=(once, score)))
            else:
                count = each.count or 0
                train = train + count * self._training(part, noise, each.share)
                scores += count
        if scores:
            total = total + Disjoint(events=(train, scores * score))
        return total

    def model_cost(self, schema: Schema, noise: float) -> Event:
        """One training of one candidate, the dearest at every epsilon."""
        return self._training(self.train_schema(schema), noise)

    def rounds(self, schema: Schema) -> tuple[Round, ...]:
        """How many trials there will be, from public facts."""
        part = self.train_schema(schema)
        noise = self._reference(part)
        score = Laplace(noise=noise * self._score_scale(part))
        once = Disjoint(events=(self._training(part, noise), score))
        made: tuple[Round, ...] = self.strategy.rounds(self.space, once)
        return made

    def trials(self, schema: Schema) -> float:
        """How many trials are to be expected."""
        if hasattr(self.strategy, "find"):
            return 1.0
        return sum(each.expected for each in self.rounds(schema))

    def train_schema(self, schema: Schema) -> Schema:
        """Of the part that trains: its declared number of rows is the expected one."""
        return replace(schema, rows=max(1, round(schema.rows * (1 - self.held_out))))

    def _training(self, part: Schema, noise: float, share: float = 1.0) -> Event:
        events = []
        for point, scale in self._recipes(part):
            learner = self._learner(point)
            if share < 1:
                learner = _part(learner, part, share, None)
            events.append(learner.cost(part, noise * scale))
        unique = tuple(dict.fromkeys(events))
        return unique[0] if len(unique) == 1 else AnyOf(events=unique)

    def _recipes(self, part: Schema) -> list[tuple[Point, float]]:
        """A point for each price there is, and its noise over that of the first."""
        points = self.space.recipes()
        if len(points) == 1:
            return [(points[0], 1.0)]
        noises = [self._balanced(point, part) for point in points]
        return [(point, noise / noises[0]) for point, noise in zip(points, noises, strict=True)]

    def _reference(self, part: Schema) -> float:
        return self.reference or self._balanced(self.space.recipes()[0], part)

    def _balanced(self, point: Point, part: Schema) -> float:
        learner = self._learner(point)
        return accounting.calibrate(lambda noise: learner.cost(part, noise), self.level, DELTA)

    def _score_scale(self, part: Schema) -> float:
        """Laplace noise of a score, in rows, over the noise knob."""
        return 1 / (self.eighth * self.level) / self._reference(part)

    def _learner(self, point: Point) -> Mechanism[Model]:
        return self.build(self.space.settings(point))

    # The run.

    def run(self, data: Data, noise: float, rng: Rng) -> Found:
        part = self.train_schema(data.schema)
        scale = 0.0 if hasattr(self.strategy, "find") else noise * self._score_scale(part)
        return self._run(data, noise, scale, rng, secret=True)

    def free(self, data: Data, noise: float, rng: Rng) -> Found:
        """The same search on rows that are public: scores are exact, and no number is a secret.

        `noise` is what the candidates train with: that of the model to come, or none at all.
        """
        return self._run(data, noise, 0.0, rng, secret=False)

    def _run(self, data: Data, noise: float, score: float, rng: Rng, *, secret: bool) -> Found:
        journal = None if self.journal is None else Journal(self.journal)
        rng = rng if journal is None else journal.begin(rng)
        schema = data.schema
        rounds = () if hasattr(self.strategy, "find") else self.rounds(schema)
        # Secret numbers are drawn and sealed before anything is looked at.
        counts = [
            each.law.draw(rng) if secret and each.law else round(each.expected) for each in rounds
        ]
        train, held = data.split(rng, (1 - self.held_out, self.held_out))
        train = replace(train, schema=self.train_schema(schema))
        work = _Trials(self, train, held, noise, score, rng, journal, tuple(rounds), counts)
        if hasattr(self.strategy, "find"):
            rest = replace(schema, rows=max(1, schema.rows - train.schema.rows))
            held = replace(held, schema=rest)
            found = self._without_trials(train, held, noise, rng, public=not secret)
        else:
            found = self._by_trials(work, rounds, counts, rng)
        return replace(found, model=replace(found.model, schema=schema))

    def _by_trials(
        self, work: _Trials, rounds: Sequence[Round], counts: Sequence[int], rng: Rng
    ) -> Found:
        searcher = self.strategy.start(self.space, rng.initial)
        for at, (each, count) in enumerate(zip(rounds, counts, strict=True)):
            asked = searcher.ask(count)
            if len(asked) > count:
                raise CheckFailed(
                    f"{type(self.strategy).__name__} asks for {len(asked)} trials in a round of {count}"
                )
            tried = work.tried(at, each, asked)
            searcher.tell([trial for trial in tried if trial.number in work.models])
        best: Trial = searcher.best()
        return Found(point=best.point, model=work.models[best.number], score=best.score)

    def _without_trials(
        self, train: Data, held: Data, noise: float, rng: Rng, *, public: bool
    ) -> Found:
        saved = None if self.journal is None else self.journal / "search.npz"
        aids = {"device": self.device, "progress": self._heard(), "checkpoint": saved}
        point = self.space.canonical(
            self.strategy.find(train, held, noise, rng, public=public, **aids)
        )
        return Found(point=point, model=self._learner(point).run(train, noise, rng), score=None)

    def _heard(self) -> Callable[[int, int, float], None] | None:
        """Progress of a strategy without trials: its own steps count."""
        tell = self.progress
        if tell is None:
            return None
        return lambda done, count, left: tell(
            Now(round=1, rounds=1, done=done, count=count, best=None, left=left)
        )


class _Trials:
    """Candidates trained and scored; what they become stays here until it is told."""

    def __init__(
        self,
        search: Search,
        train: Data,
        held: Data,
        noise: float,
        score: float,
        rng: Rng,
        journal: Journal | None,
        rounds: tuple[Round, ...],
        counts: Sequence[int],
    ) -> None:
        self.search, self.train, self.held = search, train, held
        self.noise, self.score, self.rng, self.journal = noise, score, rng, journal
        self.rounds, self.counts = rounds, counts
        self.models: dict[int, Model] = {}
        self.number = itertools.count()
        self.best: float | None = None
        self.leader: int | None = None  # of a round by a law: the number of its best trial so far
        self.began = time.monotonic()
        self.fresh = 0
        self.ready: tuple[str, np.ndarray] | None = None
        self.scales = {
            _mark(search.space, point): scale for point, scale in search._recipes(train.schema)
        }
        self.prices: dict[float, set[Event]] = {}  # of a whole training, or of a share of one

    def tried(self, at: int, each: Round, asked: Sequence[Ask]) -> list[Trial]:
        """One round: jobs that the journal knows are taken from it, the others are done."""
        self.leader = None
        points = [self.search.space.canonical(ask.point) for ask in asked]
        numbers = [next(self.number) for _ in asked]
        jobs = self._jobs(points, [ask.after for ask in asked], each.share)
        names = [f"round-{at:03d}-job-{place:04d}" for place in range(len(jobs))]
        scores: dict[int, float] = {}
        missing = []
        for place, (job, name) in enumerate(zip(jobs, names, strict=True)):
            known = self.journal.find(name, self.train.schema) if self.journal else None
            if known is None:
                missing.append(place)
            else:
                self._take(each, [numbers[at] for at in job.places], known, scores)
        shared = (self.search.build, self.train)
        for turn, models in self.search.workers.each(_train, shared, [jobs[p] for p in missing]):
            place = missing[turn]
            results = list(zip(models, self._scored(models), strict=True))
            if self.journal:
                self.journal.keep(names[place], results)
            self._take(each, [numbers[at] for at in jobs[place].places], results, scores)
            self.fresh += len(results)
            self._tell(at, len(scores))
        return [
            Trial(number=number, point=point, score=scores[number])
            for number, point in zip(numbers, points, strict=True)
        ]

    def _take(
        self,
        each: Round,
        numbers: Sequence[int],
        results: Sequence[tuple[Model, float]],
        scores: dict[int, float],
    ) -> None:
        """Keeps every model that will be told of: all, or under a law the best so far."""
        for number, (model, score) in zip(numbers, results, strict=True):
            scores[number] = score
            self.best = score if self.best is None else max(self.best, score)
            if each.law is not None and self.leader is not None:
                if score <= scores[self.leader]:
                    continue
                del self.models[self.leader]
            self.models[number] = model
            self.leader = number

    def _jobs(
        self, points: Sequence[Point], after: Sequence[int | None], share: float
    ) -> list[_Job]:
        """Candidates of one architecture side by side, cut into jobs that keep every worker busy."""
        many = self.search.workers.many
        order = sorted(
            range(len(points)), key=lambda at: str(self.search.space.settings(points[at]))
        )
        order.sort(key=lambda at: self.scales[_mark(self.search.space, points[at])])
        size = max(1, min(self.search.at_once, -(-len(points) // many)))
        jobs = []
        for scale, group in itertools.groupby(
            order, key=lambda at: self.scales[_mark(self.search.space, points[at])]
        ):
            places = list(group)
            for start in range(0, len(places), size):
                own = places[start : start + size]
                jobs.append(
                    _Job(
                        places=own,
                        settings=[self.search.space.settings(points[at]) for at in own],
                        starts=[_known(self.models, after[at]) for at in own],
                        share=share,
                        noise=self.noise * scale,
                        rng=self.rng.spawn(),
                    )
                )
        for job in jobs:
            self._expect_paid(job)
        return jobs

    def _expect_paid(self, job: _Job) -> None:
        """No candidate is dearer than was promised: found before it trains, from public facts."""
        if not self.noise:
            return
        schema = self.train.schema
        if job.share not in self.prices:
            event = self.search._training(schema, self.noise, job.share)
            self.prices[job.share] = set(event.events if isinstance(event, AnyOf) else (event,))
        for settings in job.settings:
            learner = self.search.build(settings)
            if job.share < 1:
                learner = _part(learner, schema, job.share, None)
            if learner.cost(schema, job.noise) not in self.prices[job.share]:
                raise WrongInput(
                    f"a candidate costs something else than the space says ({settings!r:.160}); name the choices "
                    "that change a price under `priced`"
                )

    def _scored(self, models: Sequence[Model]) -> list[float]:
        """Noisy shares of the held rows that each model gets right."""
        exact = np.array([self._right(model) for model in models])
        public = max(
            1.0, self.search.held_out * self.train.schema.rows / (1 - self.search.held_out)
        )
        noisy = exact
        if self.score:
            noisy = self.rng.laplace(
                exact, noise=self.score * np.ones(len(exact)), sensitivity=np.ones(len(exact))
            )
        return [float(score) / public for score in noisy]

    def _right(self, model: Model) -> float:
        if not len(self.held):
            return 0.0
        name = repr([features.describe(feature) for feature in model.features])
        if self.ready is None or self.ready[0] != name:
            rows = features.apply(model.features, self.held.x, self.held.schema)
            self.ready = name, np.ascontiguousarray(rows)
        outputs = model.outputs_of(self.ready[1], self.search.device)
        if model.schema.task == "classification":
            return float((model.decided(outputs) == self.held.y).sum())
        far = np.abs(np.clip(outputs[:, 0], -1, 1) - scaled(self.held.y, self.held.schema))
        return float((1 - far / 2).sum())

    def _tell(self, at: int, done: int) -> None:
        if self.search.progress is None:
            return
        count = self.counts[at]
        ahead = count - done + sum(self.counts[at + 1 :])
        pace = (time.monotonic() - self.began) / max(self.fresh, 1)
        self.search.progress(
            Now(
                round=at + 1,
                rounds=len(self.rounds),
                done=done,
                count=count,
                best=self.best,
                left=pace * ahead,
            )
        )


@dataclass(frozen=True, kw_only=True)
class _Job:
    """Candidates trained together; `places` say which of the round they are."""

    places: list[int]
    settings: list[dict[str, Any]]
    starts: list[Model | None]
    share: float
    noise: float
    rng: Rng


def _train(shared: Any, job: _Job) -> list[Model]:
    build, data = shared
    learners = [build(settings) for settings in job.settings]
    if job.share < 1:
        learners = [
            _part(learner, data.schema, job.share, start)
            for learner, start in zip(learners, job.starts, strict=True)
        ]
    together = getattr(type(learners[0]), "together", None)
    if together is not None and len({type(learner) for learner in learners}) == 1:
        return list(together(learners, data, job.noise, job.rng))
    return [learner.run(data, job.noise, job.rng) for learner in learners]


def _part(learner: Any, schema: Schema, share: float, start: Model | None) -> Any:
    if not hasattr(learner, "part"):
        raise WrongInput(
            f"{type(learner).__name__} cannot stop and go on, which racing asks of a learner; use another strategy"
        )
    return learner.part(schema, share, start)


def _known(models: dict[int, Model], number: int | None) -> Model | None:
    return None if number is None else models[number]


def _mark(space: Space, point: Point) -> str:
    """What the price of a point depends on."""
    return repr([point.get(name) for name in space.priced])
