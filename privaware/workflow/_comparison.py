"""A mechanism that trains two models several times at each of several epsilons, with one cost for all trainings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from privaware.data import Data
from privaware.events import NOTHING, Disjoint, Event, Gaussian, divided_anew
from privaware.exact_sums import Lattice
from privaware.learners import PopulationLearner
from privaware.mechanism import Mechanism
from privaware.mechanism import unit as protected
from privaware.model import Model
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.workflow._score_cells import row_outputs, train_schema

SCORES = Lattice(bound=1.0, bits=20)
"""Multiples of 2^-20, to which the regression score of one row is rounded; sums of up to 2^32 scores are exact."""


@dataclass(frozen=True, kw_only=True)
class Side:
    """One of the two compared learners (`mechanism`), with its columns, and its noise multiplier at each epsilon."""

    mechanism: Mechanism[Model]
    columns: tuple[str, ...]
    noises: tuple[float, ...]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ComparisonScores:
    """The release of a `Comparison`.

    If rows were held out, `scores` holds the noisy scores, fractions from 0 to 1 of shape (sides, epsilons, repeats),
    and `models` is empty. Otherwise `scores` is None, and `models` holds every trained model, by side, then by epsilon,
    then by repeat.
    """

    scores: np.ndarray | None
    models: tuple[Model, ...]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Train every model of both sides on one part of the rows, and release noisy scores on the held-out part.

    Each side trains `repeats` models at each of its noise multipliers. `held_out` is the fraction of the rows that is
    held out. The argument `noise` of `cost` and `run` multiplies all noise multipliers, so `noise = 1` runs them as
    planned. With `held_out = 0` every row trains, nothing is scored, and the models are released. `score_noise` is the
    noise multiplier of the scores.

    Privacy:

    1. The trainings compose.
    2. Each row is assigned to the training part or the held-out part independently, so only the larger of the two costs
       counts. If one person may have rows in both parts, the two costs compose.
    3. The scores are counts of correct predictions on the held-out rows (for regression, sums of numbers from 0 to 1),
       released together with the number of these rows. One row changes each count by at most 1, so the L2 sensitivity
       is `sqrt(number of counts)`, where the number of rows is one of the counts. The ratios are post-processing.
    """

    sides: tuple[Side, ...]
    repeats: int
    held_out: float
    score_noise: float = 1.0

    @property
    def unit(self) -> str:
        return "label" if all(protected(side.mechanism) == "label" for side in self.sides) else "row"

    def trainings(self, schema: Schema, noise: float = 1.0) -> Event:
        """Return the composed cost of all trainings, whose noise multipliers are multiplied by `noise`."""
        schema_part = train_schema(schema, self.held_out)
        counted: dict[Event, int] = {}
        for side in self.sides:
            for multiplier in side.noises:
                event = divided_anew(side.mechanism.cost(schema_part.keep(side.columns), multiplier * noise))
                counted[event] = counted.get(event, 0) + self.repeats
        return sum((count * event for event, count in counted.items()), start=NOTHING)

    def cost(self, schema: Schema, noise: float) -> Event:
        trainings = self.trainings(schema, noise)
        if not self.held_out:
            return trainings
        scores = Gaussian(noise=self.score_noise * noise)
        if schema.unit in ("row", "label"):
            return Disjoint(events=(trainings, scores))
        return trainings + scores

    def run(self, data: Data, noise: float, rng: Rng) -> ComparisonScores:
        train, test = data, data.take(np.zeros(len(data), dtype=bool))
        if self.held_out:
            train, test = data.split(rng, (1 - self.held_out, self.held_out))
        train = replace(train, schema=train_schema(data.schema, self.held_out))
        models: list[Model] = []
        for side in self.sides:
            rows = train.keep(side.columns)
            for multiplier in side.noises:
                models += _repeated(side.mechanism, rows, multiplier * noise, self.repeats, rng)
        if not self.held_out:
            return ComparisonScores(scores=None, models=tuple(models))
        exact_counts = np.array([*(correct(model, test) for model in models), float(len(test))])
        noisy = rng.gaussian(exact_counts, noise=self.score_noise * noise, sensitivity=math.sqrt(exact_counts.size))
        shares = np.clip(noisy[:-1] / max(float(noisy[-1]), 1.0), 0, 1)
        return ComparisonScores(scores=shares.reshape(self.shape), models=())

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of the score table: (sides, epsilons, repeats)."""
        return len(self.sides), len(self.sides[0].noises), self.repeats


def correct(model: Model, data: Data) -> float:
    """Return the number of rows of `data` that `model` predicts correctly; 0 if there are no rows.

    For regression return the sum of `1 - abs(error) / (high - low)`, where [low, high] is the declared target range.
    Targets and predictions are clipped to this range, each summand is rounded down to a multiple of 2^-20, and a NaN
    prediction adds 0.
    """
    if not len(data):
        return 0.0
    rows = data.keep(tuple(column.name for column in model.schema.used))
    predictions = model.decide(row_outputs(model, rows))
    if model.schema.classes:
        return float(np.sum(predictions == rows.y))
    low, high = float(model.schema.low or 0.0), float(model.schema.high or 0.0)
    errors = np.abs(np.clip(rows.y, low, high) - np.clip(predictions, low, high)) / (high - low)
    # A model that diverged may predict NaN for a row. That row counts as wrong, and no other row is affected.
    return float(SCORES.round(np.nan_to_num(1 - errors, nan=0.0)).sum())


def _repeated(mechanism: Mechanism[Model], data: Data, noise: float, repeats: int, rng: Rng) -> Sequence[Model]:
    """Train `repeats` models with the learner `mechanism`, each with the noise multiplier `noise`, and return them.

    A learner that can train several models as one stack (a population) does so; otherwise they are trained in turn.
    Each model is a release of its own.
    """
    if isinstance(mechanism, PopulationLearner):
        return mechanism.run_population([mechanism] * repeats, data, noise, rng)
    return [mechanism.run(data, noise, rng) for _ in range(repeats)]
