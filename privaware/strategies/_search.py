"""The mechanism of a search: it tries candidates of a space as a strategy asks, and releases the best model.

`expect_valid_space` validates a space before anything is charged, so that no candidate can turn out wrong later.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from privaware._validate import expect_between
from privaware.data import Data
from privaware.errors import CheckFailed, WrongInput
from privaware.events import NOTHING, Disjoint, Event
from privaware.model import Model
from privaware.models.spaces import Point, Space
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.strategies._journal import SearchJournal
from privaware.strategies._price import Build, TrialPrice, price_key, unpriced
from privaware.strategies._strategy import (
    OnProgress,
    ProgressMeter,
    Round,
    RoundStrategy,
    Runtime,
    SearchProcedure,
    SearchProgress,
)
from privaware.strategies._trials import Trials, ValidationScorer
from privaware.strategies._workers import Here, Workers


@dataclass(frozen=True, kw_only=True, eq=False)
class SearchResult:
    """The release of a search: the chosen candidate `point`, its model, and its score.

    The score is divided by the expected number of validation rows; it is noisy, or exact on public rows. A search
    procedure, which scores no model, has the score None.
    """

    point: Point
    model: Model
    score: float | None


@dataclass(frozen=True, kw_only=True)
class Search:
    """A search for the best model: `strategy` tries candidates of `space`; `build` makes a learner from their settings.

    Rows are split once, each by an independent draw: a row is a validation row with probability `held_out`, and
    otherwise a training row. A score is the number of validation rows that a model predicts correctly, plus Laplace
    noise. For regression a score is the sum of `1 - abs(error) / (high - low)` over the validation rows, where [low,
    high] is the declared target range. One row changes a score by at most 1. `reference_epsilon`, `score_fraction` and
    `reference_noise` set the noise, as `TrialPrice` describes. At most `population_size` candidates train as one
    population. `device`, `workers`, `journal` and `progress` do not change the guarantee; the number of `workers`
    changes which random numbers a trial gets.

    Privacy: (epsilon, delta) for one row added or removed.

    1. A row is in one of the two parts, so only the part with the larger cost counts.
    2. Rounds whose trials are all reported compose.
    3. A round with a secret number of trials, which reports only its best trial, is private selection.
    4. Later candidates depend on rows only through reported scores.
    5. The models of charged trials are kept, so the best model is released without another training. A
       `SearchProcedure` has no trials; the training of its candidate on the training rows is charged.
    """

    space: Space
    strategy: RoundStrategy | SearchProcedure
    build: Build
    held_out: float = 0.1
    reference_epsilon: float = 1.0
    score_fraction: float = 0.125
    population_size: int = 64
    reference_noise: float | None = None
    device: str = field(default="cpu", repr=False, compare=False)
    workers: Workers = field(default=Here(), repr=False, compare=False)
    journal: Path | None = field(default=None, repr=False, compare=False)
    progress: OnProgress | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        expect_between("search", 0.001, 0.9, held_out=self.held_out)
        expect_between("search", 1e-3, 1e3, reference_epsilon=self.reference_epsilon)
        expect_between("search", 1e-3, 1.0, score_fraction=self.score_fraction)

    @property
    def price(self) -> TrialPrice:
        """The `TrialPrice` of this search, which computes the costs of one training and of one score."""
        return TrialPrice(
            space=self.space,
            build=self.build,
            reference_epsilon=self.reference_epsilon,
            score_fraction=self.score_fraction,
            reference_noise=self.reference_noise,
        )

    def cost(self, schema: Schema, noise: float) -> Event:
        part = self.train_schema(schema)
        training = self.price.training(part, noise)
        if isinstance(self.strategy, SearchProcedure):  # the final training sees only training rows
            train, validation = self.strategy.part_costs(noise)
            return Disjoint(events=(train + training, validation))
        score = self.price.score(part, noise)
        train, scores, total = NOTHING, 0, NOTHING
        for round_ in self.rounds(schema):
            if round_.distribution is not None:
                total = total + round_.distribution.selected(Disjoint(events=(training, score)))
            else:
                count = round_.count or 0
                train = train + count * self.price.training(part, noise, round_.share)
                scores += count
        if scores:
            total = total + Disjoint(events=(train, scores * score))
        return total

    def model_cost(self, schema: Schema, noise: float) -> Event:
        """Return the cost of one training of any candidate on the training rows.

        `schema` describes all rows, before the split. `noise` is the noise multiplier of the first candidate,
        `space.priced_points()[0]`.
        """
        return self.price.training(self.train_schema(schema), noise)

    def rounds(self, schema: Schema) -> tuple[Round, ...]:
        """Return the rounds of trials, from public facts; an empty tuple for a search procedure."""
        if isinstance(self.strategy, SearchProcedure):
            return ()
        part = self.train_schema(schema)
        noise = self.price.calibrated_noise(part)
        once = Disjoint(events=(self.price.training(part, noise), self.price.score(part, noise)))
        return self.strategy.rounds(self.space, once)

    def trials(self, schema: Schema) -> float:
        """Return the expected number of trials; 1 for a search procedure."""
        if isinstance(self.strategy, SearchProcedure):
            return 1.0
        return sum(round_.expected for round_ in self.rounds(schema))

    def trial_words(self, schema: Schema) -> str:
        """Return the expected number of trials in words, such as "3 trials".

        If the number is secret, the words give its mean: "about 40 trials, each an independent draw".
        """
        number = self.trials(schema)
        trials = f"{number:.4g} trial{'' if number == 1 else 's'}"
        secret = not isinstance(self.strategy, SearchProcedure) and any(
            round_.distribution is not None for round_ in self.rounds(schema)
        )
        return f"about {trials}, each an independent draw" if secret else trials

    def train_schema(self, schema: Schema) -> Schema:
        """Return `schema` with the expected number of training rows: `max(1, round(rows * (1 - held_out)))`."""
        return replace(schema, rows=max(1, round(schema.rows * (1 - self.held_out))))

    def run(self, data: Data, noise: float, rng: Rng) -> SearchResult:
        rounds = not isinstance(self.strategy, SearchProcedure)
        scale = self.price.score_scale(self.train_schema(data.schema)) if rounds else 0.0
        return self._run(data, noise, noise * scale, rng, public=False)

    def run_public(self, data: Data, noise: float, rng: Rng) -> SearchResult:
        """Search on public rows: scores are exact, and numbers of trials are their rounded expectations, not secret.

        `noise` is the noise multiplier with which candidates train: 0, or the noise multiplier of the private model
        that is trained later.
        """
        return self._run(data, noise, 0.0, rng, public=True)

    def _run(self, data: Data, noise: float, score_noise: float, rng: Rng, *, public: bool) -> SearchResult:
        journal = None if self.journal is None else SearchJournal(self.journal)
        schema = data.schema
        procedure = isinstance(self.strategy, SearchProcedure)
        job_sizes = self.population_size, 1 if procedure else self.workers.capacity
        if journal is not None:
            rng, job_sizes = journal.begin(rng, self._fingerprint(data, noise), job_sizes)
        rounds = self.rounds(schema)
        # Secret numbers of trials are sampled before anything is computed from rows.
        counts = [
            round(round_.expected) if public or round_.distribution is None else round_.distribution.sample(rng)
            for round_ in rounds
        ]
        train, validation = data.split(rng, (1 - self.held_out, self.held_out))
        train = replace(train, schema=self.train_schema(schema))
        if isinstance(self.strategy, SearchProcedure):
            validation = replace(validation, schema=replace(schema, rows=max(1, schema.rows - train.schema.rows)))
            result = self._by_procedure(self.strategy, train, validation, noise, rng, public=public)
        else:
            expected_rows = max(1.0, self.held_out * train.schema.rows / (1 - self.held_out))
            trials = Trials(
                price=self.price,
                train=train,
                noise=noise,
                scorer=ValidationScorer(validation, expected_rows, score_noise, self.device),
                rng=rng,
                workers=self.workers,
                job_sizes=job_sizes,
                meter=ProgressMeter(counts, self.progress),
                journal=journal,
            )
            result = self._by_rounds(self.strategy, trials, rounds, counts)
        return replace(result, model=replace(result.model, schema=schema))

    def _fingerprint(self, data: Data, noise: float) -> str:
        """Return a hash of the settings, the noise multiplier and all rows.

        An interrupted search resumes only if its hash is the same.
        """
        settings = (self.space, self.strategy, self.held_out, self.reference_epsilon, self.score_fraction, noise)
        digest = hashlib.sha256(repr((*settings, data.schema, data.x.shape)).encode())
        for values in (data.x, data.y):
            plain = values.dtype.kind != "O"
            digest.update(values.tobytes() if plain else repr(values.tolist()).encode())
        return digest.hexdigest()

    def _by_rounds(
        self, strategy: RoundStrategy, trials: Trials, rounds: Sequence[Round], counts: Sequence[int]
    ) -> SearchResult:
        searcher = strategy.start(self.space, trials.rng.initial)
        for at, (round_, count) in enumerate(zip(rounds, counts, strict=True)):
            asks = searcher.ask(count)
            if len(asks) > count:
                raise CheckFailed(  # without numbers, which may be secret
                    f"{type(strategy).__name__} asks for more trials than round {at + 1} has"
                )
            finished = trials.run_round(at, round_, asks)
            searcher.tell([trial for trial in finished if trial.number in trials.models])
        best = searcher.best()
        return SearchResult(point=best.point, model=trials.models[best.number], score=best.score)

    def _by_procedure(
        self, strategy: SearchProcedure, train: Data, validation: Data, noise: float, rng: Rng, *, public: bool
    ) -> SearchResult:
        def report(trained: int, count: int, left: float) -> None:
            if self.progress is not None:
                counts = {"trained": trained, "count": count, "before": 0, "total": count}
                self.progress(SearchProgress(round=1, rounds=1, best=None, seconds_left=left, **counts))

        saved = None if self.journal is None else self.journal / "search.npz"
        runtime = Runtime(device=self.device, progress=report, checkpoint=saved)
        point = self.space.canonical(strategy.find(train, validation, noise, rng, public=public, runtime=runtime))
        return SearchResult(point=point, model=self.price.learner(point).run(train, noise, rng), score=None)


@dataclass(frozen=True, kw_only=True)
class FoundModel:
    """A search as a mechanism that releases only the chosen model; its cost is the cost of the search.

    A membership game on it attacks the chosen model, and chooses each shadow model by a search of its own.
    """

    search: Search

    def cost(self, schema: Schema, noise: float) -> Event:
        return self.search.cost(schema, noise)

    def run(self, data: Data, noise: float, rng: Rng) -> Model:
        return self.search.run(data, noise, rng).model


def expect_valid_space(search: Search, schema: Schema, *, priced: bool = True) -> None:
    """Raise `WrongInput` unless every value of every choice builds a learner and every choice changes something.

    The choices are those in the space of `search`, and `schema` describes all rows, before the split. If `priced`, the
    cost of each learner must also be among `TrialPrice.declared`. Each value is checked at one point, not in all
    combinations.
    """
    part, space, price = search.train_schema(schema), search.space, search.price
    if space.unused:
        name = space.unused[0]
        raise WrongInput(f'choice {name!r} changes nothing: expected "${name}" in build, or a condition on it')
    points = space.covering_points()
    learners = [price.learner(point) for point in points]
    scales = {price_key(space, point): scale for point, scale in (price.noise_scales(part) if priced else ())}
    declared = price.declared(part, 1.0) if priced else ()
    for point, learner in zip(points, learners, strict=True):
        cost = learner.cost(part, scales.get(price_key(space, point), 1.0))
        if priced and cost not in declared:
            raise unpriced(point)
