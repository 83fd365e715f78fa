"""Candidates trained and scored: as populations, wherever the workers are, nothing twice."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from privaware import features
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import AnyOf, Event
from privaware.model import Model, scaled
from privaware.models.spaces import Point, Space
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.strategies._journal import Cut, Journal
from privaware.strategies._strategy import Ask, Round, Trial

if TYPE_CHECKING:
    from privaware.strategies._search import Search

__all__ = ["Now", "Progress", "Trials", "part_of", "recipe_of", "unpriced"]

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


class Trials:
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
        cut: Cut,
    ) -> None:
        self.search, self.train, self.held = search, train, held
        self.noise, self.score, self.rng, self.journal = noise, score, rng, journal
        self.rounds, self.counts, self.cut = rounds, counts, cut
        self.models: dict[int, Model] = {}
        self.number = itertools.count()
        self.best: float | None = None
        self.leader: int | None = None  # of a round by a law: the number of its best trial so far
        self.began = time.monotonic()
        self.fresh = 0
        self.ready: tuple[str, np.ndarray] | None = None
        self.scales = {recipe_of(search.space, point): scale for point, scale in search._recipes(train.schema)}
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
            scores_of = self._scored(models, jobs[place].score_rng)
            results = list(zip(models, scores_of, strict=True))
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
        self, each: Round, numbers: Sequence[int], results: Sequence[tuple[Model, float]], scores: dict[int, float]
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

    def _jobs(self, points: Sequence[Point], after: Sequence[int | None], share: float) -> list[_Job]:
        """Candidates of one architecture side by side, cut into jobs that keep every worker busy."""
        most, many = self.cut
        order = sorted(range(len(points)), key=lambda at: str(self.search.space.settings(points[at])))
        order.sort(key=lambda at: self.scales[recipe_of(self.search.space, points[at])])
        size = max(1, min(most, -(-len(points) // many)))
        jobs = []
        for scale, group in itertools.groupby(
            order, key=lambda at: self.scales[recipe_of(self.search.space, points[at])]
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
                        score_rng=self.rng.spawn(),
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
                learner = part_of(learner, schema, job.share, None)
            if learner.cost(schema, job.noise) not in self.prices[job.share]:
                raise unpriced(settings)

    def _scored(self, models: Sequence[Model], rng: Rng) -> list[float]:
        """Noisy shares of the held rows that each model gets right."""
        exact = np.array([self._right(model) for model in models])
        public = max(1.0, self.search.held_out * self.train.schema.rows / (1 - self.search.held_out))
        noisy = exact
        if self.score:
            noisy = rng.laplace(exact, noise=self.score * np.ones(len(exact)), sensitivity=np.ones(len(exact)))
        return [float(score) / public for score in noisy]

    def _right(self, model: Model) -> float:
        if not len(self.held):
            return 0.0
        name = repr([features.describe(feature) for feature in model.features])
        if self.ready is None or self.ready[0] != name:
            rows = features.apply(model.features, self.held.x, self.held.schema, self.search.device)
            self.ready = name, np.ascontiguousarray(rows)
        outputs = model.outputs_of(self.ready[1], self.search.device)
        if model.schema.task == "classification":
            return float((model.decided(outputs) == self.held.y).sum())
        far = np.abs(np.clip(outputs[:, 0], -1, 1) - scaled(self.held.y, self.held.schema))
        # A model that diverged may have no number for a row: that row counts as wrong, and for itself only.
        return float(np.nan_to_num(1 - far / 2, nan=0.0).sum())

    def _tell(self, at: int, done: int) -> None:
        if self.search.progress is None:
            return
        count = self.counts[at]
        ahead = count - done + sum(self.counts[at + 1 :])
        pace = (time.monotonic() - self.began) / max(self.fresh, 1)
        self.search.progress(
            Now(round=at + 1, rounds=len(self.rounds), done=done, count=count, best=self.best, left=pace * ahead)
        )


@dataclass(frozen=True, kw_only=True)
class _Job:
    """Candidates trained together; `places` say which of the round they are.

    Each job has generators of its own, so that a search that goes on after a kill uses no noise a second time.
    """

    places: list[int]
    settings: list[dict[str, Any]]
    starts: list[Model | None]
    share: float
    noise: float
    rng: Rng
    score_rng: Rng


def _train(shared: Any, job: _Job) -> list[Model]:
    build, data = shared
    learners = [build(settings) for settings in job.settings]
    if job.share < 1:
        learners = [
            part_of(learner, data.schema, job.share, start) for learner, start in zip(learners, job.starts, strict=True)
        ]
    together = getattr(type(learners[0]), "together", None)
    if together is not None and len({type(learner) for learner in learners}) == 1:
        return list(together(learners, data, job.noise, job.rng))
    return [learner.run(data, job.noise, job.rng) for learner in learners]


def part_of(learner: Any, schema: Schema, share: float, start: Model | None) -> Any:
    if not hasattr(learner, "part"):
        raise WrongInput(
            f"{type(learner).__name__} cannot stop and go on, which racing asks of a learner; use another strategy"
        )
    return learner.part(schema, share, start)


def _known(models: dict[int, Model], number: int | None) -> Model | None:
    return None if number is None else models[number]


def recipe_of(space: Space, point: Point) -> str:
    """What the price of a point depends on."""
    return repr([point.get(name) for name in space.priced])


def unpriced(candidate: Any) -> WrongInput:
    """What is said of a candidate of another price than the space declares."""
    return WrongInput(
        f"a candidate costs something else than the space says ({candidate!r:.160}); name the choices that change a "
        "price under `priced`"
    )
