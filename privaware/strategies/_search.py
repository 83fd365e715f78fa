"""The mechanism that searches: candidates of a space, tried as a strategy asks, and the best model released."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from privaware import accounting
from privaware.data import Data
from privaware.errors import CheckFailed, WrongInput
from privaware.events import NOTHING, AnyOf, Disjoint, Event, Laplace
from privaware.mechanism import Mechanism
from privaware.model import Model
from privaware.models.spaces import Point, Space
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.strategies._journal import Journal
from privaware.strategies._strategy import Round, Searcher
from privaware.strategies._trials import Now, Progress, Trials, part_of
from privaware.strategies._workers import Here, Workers

__all__ = ["Found", "Search"]

DELTA = 1e-5
"""At which recipes are balanced and laws compared: a public convention, not the delta of the guarantee."""


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
        for name, low, high in (("held_out", 0.001, 0.9), ("level", 1e-3, 1e3), ("eighth", 1e-3, 1.0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not low <= value <= high:
                raise WrongInput(f"search: expected {name} from {low:g} to {high:g}, got {value!r:.80}")

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
                learner = part_of(learner, part, share, None)
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
        alone, schema = hasattr(self.strategy, "find"), data.schema
        cut = self.at_once, 1 if alone else self.workers.many
        if journal is not None:
            rng, cut = journal.begin(rng, self._mark(data, noise), cut)
        rounds = () if alone else self.rounds(schema)
        # Secret numbers are drawn and sealed before anything is looked at.
        counts = [each.law.draw(rng) if secret and each.law else round(each.expected) for each in rounds]
        train, held = data.split(rng, (1 - self.held_out, self.held_out))
        train = replace(train, schema=self.train_schema(schema))
        work = Trials(self, train, held, noise, score, rng, journal, tuple(rounds), counts, cut)
        if alone:
            rest = replace(schema, rows=max(1, schema.rows - train.schema.rows))
            held = replace(held, schema=rest)
            found = self._without_trials(train, held, noise, rng, public=not secret)
        else:
            found = self._by_trials(work, rounds, counts, rng)
        return replace(found, model=replace(found.model, schema=schema))

    def _mark(self, data: Data, noise: float) -> str:
        """What a search that goes on has to have in common with the one that began."""
        settings = (self.space, self.strategy, self.held_out, self.level, self.eighth, noise)
        mark = hashlib.sha256(repr((*settings, data.schema, data.x.shape)).encode())
        for values in (data.x, data.y):
            plain = values.dtype.kind != "O"
            mark.update(values.tobytes() if plain else repr(values.tolist()).encode())
        return mark.hexdigest()

    def _by_trials(self, work: Trials, rounds: Sequence[Round], counts: Sequence[int], rng: Rng) -> Found:
        searcher: Searcher = self.strategy.start(self.space, rng.initial)
        for at, (each, count) in enumerate(zip(rounds, counts, strict=True)):
            asked = searcher.ask(count)
            if len(asked) > count:
                raise CheckFailed(  # without numbers, which may be secret
                    f"{type(self.strategy).__name__} asks for more trials than round {at + 1} has"
                )
            tried = work.tried(at, each, asked)
            searcher.tell([trial for trial in tried if trial.number in work.models])
        best = searcher.best()
        return Found(point=best.point, model=work.models[best.number], score=best.score)

    def _without_trials(self, train: Data, held: Data, noise: float, rng: Rng, *, public: bool) -> Found:
        saved = None if self.journal is None else self.journal / "search.npz"
        aids = {"device": self.device, "progress": self._heard(), "checkpoint": saved}
        point = self.space.canonical(self.strategy.find(train, held, noise, rng, public=public, **aids))
        return Found(point=point, model=self._learner(point).run(train, noise, rng), score=None)

    def _heard(self) -> Callable[[int, int, float], None] | None:
        """Progress of a strategy without trials: its own steps count."""
        tell = self.progress
        if tell is None:
            return None
        return lambda done, count, left: tell(Now(round=1, rounds=1, done=done, count=count, best=None, left=left))
