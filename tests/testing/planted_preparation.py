"""Preprocessing, selection, scores and labels without bugs, and with a planted bug in each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from privaware.data import Data
from privaware.events import Event, Gaussian, Laplace, Pure, RandomisedResponse
from privaware.noise import Rng
from privaware.schema import Schema
from tests.testing.planted_descent import Slope
from tests.testing.planted_releases import Answers, Sums

# Preprocessing.


class StandardisedByTheRows(Slope):
    """P12: exact mean and deviation of each column, written into the release."""

    def report(self, weights, x, y):
        return {"weights": weights, "mean": x.sum(axis=0), "deviation": x.std(axis=0) if len(x) else 0.0}


class CategoriesOfTheRows(Slope):
    def run(self, data, noise, rng):
        return super().run(data, noise, rng), sorted(set(data.x[:, 2].tolist()))


class FilledByTheMedian(Slope):
    """Missing numbers become the median of the others, which is released for later rows."""

    def run(self, data, noise, rng):
        known = data.x[:, 1][np.isfinite(data.x[:, 1])]
        return super().run(data, noise, rng), float(np.median(known)) if len(known) else 0.0


class OutliersRemoved(Slope):
    """Rows far from the others are dropped before training: one row decides about another."""

    def scaled(self, data):
        x = super().scaled(data)
        return np.where(np.abs(x - np.median(x, axis=0)) > 1.0, 0.0, 9 * x) if len(x) else x

    def clipped(self, gradients, norm):
        return gradients / 4


class DuplicatesRemoved(Sums):
    """Equal values count once, and all of them when they are different: the count is released exactly."""

    def run(self, data, noise, rng):
        return *super().run(data, noise, rng), len(np.unique(np.nan_to_num(data.x), axis=0))


class MissingIndicator(Sums):
    """Whether any value of a column is missing decides what is released."""

    def run(self, data, noise, rng):
        released = super().run(data, noise, rng)
        return released if np.isnan(data.x).any() else (*released, 0.0)


# Selection.


@dataclass(frozen=True, kw_only=True)
class Column:
    """Correct: the number column with the largest share of high values, by noisy choice."""

    def cost(self, schema: Schema, noise: float) -> Event:
        return Pure(epsilon=1 / noise)

    def run(self, data: Data, noise: float, rng: Rng) -> Any:
        return data.schema.used[self.chosen(self.exact_counts(data), noise, rng)].name

    def exact_counts(self, data: Data) -> np.ndarray:
        known = np.nan_to_num(data.x[:, :2])
        middles = np.array([(column.low + column.high) / 2 for column in data.schema.used[:2]])
        return (known > middles).sum(axis=0).astype(float)

    def chosen(self, counts: np.ndarray, noise: float, rng: Rng) -> int:
        return rng.choose(counts, epsilon=1 / noise, sensitivity=1.0)


class ColumnWithoutNoise(Column):
    def chosen(self, counts, noise, rng):
        return int(np.argmax(counts))


class ColumnByHalfTheSensitivity(Column):
    def exact_counts(self, data):
        return 2 * super().exact_counts(data)


class ColumnByShare(Column):
    """Shares of the realised rows, whose sensitivity is that of counts over the declared ones."""

    def exact_counts(self, data):
        return 24 * super().exact_counts(data) / max(len(data), 1)


class TwoColumnsForOne(Column):
    def run(self, data, noise, rng):
        return super().run(data, noise, rng), super().run(data, noise, rng)


class ColumnWithItsScore(Column):
    def run(self, data, noise, rng):
        return super().run(data, noise, rng), float(self.exact_counts(data).max(initial=0.0))


class CorrelationSelected(Column):
    """P30 for selection: sums of unbounded products, with a sensitivity that holds for small values only."""

    def exact_counts(self, data):
        return np.abs(np.nan_to_num(data.x[:, :2]).sum(axis=0))


# Scores.


@dataclass(frozen=True, kw_only=True)
class Score:
    """Correct: how many rows have the first class, over the declared number, with noise."""

    def cost(self, schema: Schema, noise: float) -> Event:
        return Laplace(noise=noise)

    def run(self, data: Data, noise: float, rng: Rng) -> Any:
        correct = float((data.y == 0).sum())
        return rng.laplace(correct, noise=noise, sensitivity=1.0) / data.schema.rows


class ScoreOverRealisedRows(Score):
    def run(self, data, noise, rng):
        return super().run(data, noise, rng) * data.schema.rows / max(len(data), 1)


class ScoreWithoutNoise(Score):
    def run(self, data, noise, rng):
        super().run(data, noise, rng)
        return float((data.y == 0).mean()) if len(data) else 0.0


class ScoreOfEachClass(Score):
    """Every class has a noisy score, one of them is charged."""

    def run(self, data, noise, rng):
        counts = np.bincount(data.y, minlength=2).astype(float)
        return [super().run(data, noise, rng), rng.laplace(float(counts.sum()), noise=noise, sensitivity=1.0)]


class ScoreRoundedExactly(Score):
    """Rounding in the place of noise."""

    def run(self, data, noise, rng):
        return round(float((data.y == 0).sum()) / 4), super().run(data, noise, rng)


# Label mechanisms.


class AnswersTwice(Answers):
    """Two answers for each label, one charged."""

    def run(self, data, noise, rng):
        return super().run(data, noise, rng), super().run(data, noise, rng)


class AnswersTooTrue(Answers):
    """Charged at half of the epsilon that labels are answered with."""

    def cost(self, schema, noise):
        return RandomisedResponse(epsilon=0.5 / noise, classes=len(schema.classes))


class PriorOfTheLabels(Answers):
    """P37: exact shares of the classes guide the answers and are released."""

    def run(self, data, noise, rng):
        return super().run(data, noise, rng), np.bincount(data.y, minlength=len(data.schema.classes)).tolist()


class TrueWhereRare(Answers):
    """Labels of the smaller class are released as they are."""

    def run(self, data, noise, rng):
        answers = super().run(data, noise, rng)
        return np.where(data.y == 0, data.y, answers)


@dataclass(frozen=True, kw_only=True)
class OneHot:
    """Correct: one-hot labels with Laplace noise; a changed label moves two numbers."""

    unit: str = "label"

    def cost(self, schema: Schema, noise: float) -> Event:
        return Laplace(noise=noise)

    def run(self, data: Data, noise: float, rng: Rng) -> Any:
        return rng.laplace(np.eye(len(data.schema.classes))[data.y], noise=noise, sensitivity=self.sensitivity)

    @property
    def sensitivity(self) -> float:
        return 2.0


class OneHotMovesOne(OneHot):
    """The sensitivity of one number, although two move."""

    @property
    def sensitivity(self):
        return 1.0


class OneHotAsGaussian(OneHot):
    def cost(self, schema, noise):
        return Gaussian(noise=4 * noise)
