"""The trials of a search: candidates are trained as populations on the workers, and scored with noise.

A score is `ValidationScorer.exact_count`, plus Laplace noise, divided by the expected number of validation rows. No
trial is trained or scored twice, even when an interrupted search resumes.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from privaware import features
from privaware.data import Data
from privaware.events import Event
from privaware.exact_sums import Lattice
from privaware.learners import PopulationLearner
from privaware.learners._fixed_features import network_rows, row_features
from privaware.model import Model, scaled
from privaware.models.spaces import Point
from privaware.noise import Rng
from privaware.strategies._journal import JobSizes, SearchJournal
from privaware.strategies._price import Build, TrialPrice, price_key, truncated, unpriced
from privaware.strategies._strategy import Ask, ProgressMeter, Round, Trial
from privaware.strategies._workers import Workers

SCORES = Lattice(bound=1.0, bits=20)
"""Multiples of 2^-20 in [-1, 1], to which the regression score of a row is rounded; 2^32 scores are added exactly."""


class ValidationScorer:
    """Scores models on the validation rows, as fractions of `rows`, their expected number, which is public.

    `noise` is the scale of the Laplace noise in rows; `noise = 0` is for public rows only. One row changes a score, in
    rows, by at most 1: outputs for a row depend on no other row, and rows are added exactly.
    """

    def __init__(self, validation: Data, rows: float, noise: float, device: str) -> None:
        self.validation, self.rows, self.noise, self.device = validation, rows, noise, device
        self._transformed: tuple[str, np.ndarray] | None = None  # reused, because most candidates share features

    def scores(self, models: Sequence[Model], rng: Rng) -> list[float]:
        """Return for each model its `exact_count` plus Laplace noise, divided by the expected number of rows.

        Each model has its own noise; there is none if `noise` is 0.
        """
        exact = np.array([self.exact_count(model) for model in models])
        noisy = exact
        if self.noise:
            noisy = rng.laplace(exact, noise=self.noise * np.ones(len(exact)), sensitivity=np.ones(len(exact)))
        return [float(score) / self.rows for score in noisy]

    def exact_count(self, model: Model) -> float:
        """Return the exact number of validation rows that `model` predicts correctly.

        For a regression, return the sum over rows of `1 - abs(error) / target_range`, each rounded to a multiple of
        2^-20.

        Predictions of a regression are clipped to the target range, and a row whose prediction is NaN adds 0.
        """
        if not len(self.validation):
            return 0.0
        outputs = network_rows(model, self._inputs(model), self.validation.schema, self.device)
        if model.schema.task == "classification":
            return float((model.decide(outputs) == self.validation.y).sum())
        error = np.abs(np.clip(outputs[:, 0], -1, 1) - scaled(self.validation.y, self.validation.schema))
        # A model that diverged may predict NaN for a row. That row counts as wrong, and no other row is affected.
        return float(SCORES.round(np.nan_to_num(1 - error / 2, nan=0.0)).sum())

    def _inputs(self, model: Model) -> np.ndarray:
        name = repr([features.describe(feature) for feature in model.features])
        if self._transformed is None or self._transformed[0] != name:
            rows = row_features(model.features, self.validation, self.device)
            self._transformed = name, np.ascontiguousarray(rows)
        return self._transformed[1]


@dataclass(kw_only=True, eq=False)
class Trials:
    """Trains and scores the candidates that a strategy asks for, and keeps the models that are reported to it.

    `train` are the training rows, and `noise` is the noise multiplier of the first candidate,
    `space.priced_points()[0]`. Candidates are grouped into jobs, which train together. The `workers` train jobs,
    `scorer` scores models in this process, and `meter` reports progress after each job. `journal` stores finished jobs,
    unless it is None. `price` holds the space of candidates and the costs that they may have. `job_sizes` holds the
    largest number of candidates in a job and the smallest number of jobs in a round. `models` maps the number of a
    trial to its model, if the model is kept.
    """

    price: TrialPrice
    train: Data
    noise: float
    scorer: ValidationScorer
    rng: Rng
    workers: Workers
    job_sizes: JobSizes
    meter: ProgressMeter
    journal: SearchJournal | None
    models: dict[int, Model] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.numbers = itertools.count()
        self.best_score: float | None = None
        self.leader: int | None = None  # the best trial so far in a round with a secret number of trials
        self.scales = {self._key(point): scale for point, scale in self.price.noise_scales(self.train.schema)}
        self.declared: dict[float, tuple[Event, ...]] = {}  # costs that trainings may have, by the share of their steps

    def run_round(self, at: int, round_: Round, asks: Sequence[Ask]) -> list[Trial]:
        """Return all trials of round `at` (from 0), in the order of `asks`, even if only the best may be reported.

        Finished jobs are read from the journal; the other jobs are trained and scored. `round_` gives the fraction of
        steps, and whether the number of trials is secret; if it is, only the best model is kept. Raise `WrongInput` if
        a candidate has an undeclared cost.
        """
        self.leader = None
        points = [self.price.space.canonical(ask.point) for ask in asks]
        numbers = [next(self.numbers) for _ in asks]
        jobs = self._jobs(points, [ask.after for ask in asks], round_.share)
        names = [f"round-{at:03d}-job-{position:04d}" for position in range(len(jobs))]
        scores: dict[int, float] = {}
        missing = []
        for position, (job, name) in enumerate(zip(jobs, names, strict=True)):
            known = self.journal.find(name, self.train.schema) if self.journal else None
            if known is None:
                missing.append(position)
            else:
                self._keep(round_, [numbers[at] for at in job.positions], known, scores)
        shared = (self.price.build, self.train)
        for turn, models in self.workers.run_jobs(_train, shared, [jobs[position] for position in missing]):
            position = missing[turn]
            results = list(zip(models, self.scorer.scores(models, jobs[position].score_rng), strict=True))
            if self.journal:
                self.journal.keep(names[position], results)
            self._keep(round_, [numbers[at] for at in jobs[position].positions], results, scores)
            self.meter.update(at, len(scores), self.best_score, added=len(results))
        return [
            Trial(number=number, point=point, score=scores[number])
            for number, point in zip(numbers, points, strict=True)
        ]

    def _keep(
        self, round_: Round, numbers: Sequence[int], results: Sequence[tuple[Model, float]], scores: dict[int, float]
    ) -> None:
        """Add the models of finished trials to `self.models`; keep only the best if the number of trials is secret.

        `results` has (model, score) for each trial number in `numbers`. The scores are added to `scores`, in place.
        """
        for number, (model, score) in zip(numbers, results, strict=True):
            scores[number] = score
            self.best_score = score if self.best_score is None else max(self.best_score, score)
            if round_.distribution is not None and self.leader is not None:
                if score <= scores[self.leader]:
                    continue
                del self.models[self.leader]
            self.models[number] = model
            self.leader = number

    def _jobs(self, points: Sequence[Point], after: Sequence[int | None], share: float) -> list[_Job]:
        """Split the candidates `points` into jobs that keep every worker busy; an undeclared cost raises `WrongInput`.

        The candidates of a job have the same noise multiplier; candidates with similar settings are next to each other.
        `after` has the number of the trial from which each candidate continues, or None, and `share` is the fraction of
        the steps of a full training.
        """
        largest, fewest = self.job_sizes
        settings = [self.price.space.settings(point) for point in points]
        scales = [self.scales[self._key(point)] for point in points]
        order = sorted(range(len(points)), key=lambda at: str(settings[at]))
        order.sort(key=lambda at: scales[at])
        size = max(1, min(largest, -(-len(points) // fewest)))
        jobs = []
        for scale, group in itertools.groupby(order, key=lambda at: scales[at]):
            same_scale = list(group)
            for first in range(0, len(same_scale), size):
                positions = same_scale[first : first + size]
                jobs.append(
                    _Job(
                        positions=positions,
                        settings=[settings[at] for at in positions],
                        initial=[None if (number := after[at]) is None else self.models[number] for at in positions],
                        share=share,
                        noise=self.noise * scale,
                        rng=self.rng.spawn(),
                        score_rng=self.rng.spawn(),
                    )
                )
        for job in jobs:
            self._expect_declared(job)
        return jobs

    def _key(self, point: Point) -> str:
        return price_key(self.price.space, point)

    def _expect_declared(self, job: _Job) -> None:
        """Raise `WrongInput`, before the job trains, if the cost of a candidate is not among `TrialPrice.declared`.

        If `noise` is 0, nothing is checked.
        """
        if not self.noise:
            return
        schema = self.train.schema
        if job.share not in self.declared:
            self.declared[job.share] = self.price.declared(schema, self.noise, job.share)
        for settings in job.settings:
            learner = truncated(self.price.build(settings), schema, job.share)
            if learner.cost(schema, job.noise) not in self.declared[job.share]:
                raise unpriced(settings)


@dataclass(frozen=True, kw_only=True)
class _Job:
    """Candidates that are trained together with noise multiplier `noise`.

    `positions` are their positions in the round, and `settings` the settings of their learners. `initial` has the model
    from which each continues, or None. `share` is the fraction of the steps of a full training. Each job has its own
    random generators, `rng` for training and `score_rng` for the noise of its scores, so that a resumed search never
    uses the same noise twice.
    """

    positions: list[int]
    settings: list[dict[str, Any]]
    initial: list[Model | None]
    share: float
    noise: float
    rng: Rng
    score_rng: Rng


def _train(shared: tuple[Build, Data], job: _Job) -> list[Model]:
    build, data = shared
    learners = [
        truncated(build(settings), data.schema, job.share, initial)
        for settings, initial in zip(job.settings, job.initial, strict=True)
    ]
    first = learners[0]
    if isinstance(first, PopulationLearner) and len({type(learner) for learner in learners}) == 1:
        return first.run_population(learners, data, job.noise, job.rng)
    return [learner.run(data, job.noise, job.rng) for learner in learners]
