"""A held-out score that may be released: it is computed on rows that train no model, noised and charged.

Privacy:

1. Each row is held out by an independent draw, so it either trains or scores. Only the larger of the two costs counts
   (parallel composition). If one person may have rows in both parts, the two costs compose.
2. The release from the held-out rows is the cells of `_score_cells.py`. Their L1 sensitivity for one row is
   `GROUPS[metric]`, and `2 * GROUPS[metric]` if labels are protected.
3. The cells get Laplace noise of scale `sensitivity * rows / epsilon`, where `rows` is the largest number of rows of a
   unit. This is epsilon-DP for the unit.
4. Score and interval are computed from the noisy cells only, so they are post-processing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from privaware import accounting
from privaware._validate import expect_positive
from privaware.data import Rows, release
from privaware.errors import WrongInput
from privaware.events import Disjoint, Event, Laplace
from privaware.mechanism import Mechanism, Then, run
from privaware.mechanism import unit as protected
from privaware.model import Model
from privaware.models.spaces import Point
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.strategies._search import SearchResult
from privaware.workflow._metric import NAMES, expect_metric
from privaware.workflow._score_cells import GROUPS, STATISTICS, CellSums, bootstrap_interval, groups_of, scored_words
from privaware.workflow.run.plan import Plan, chooses_columns, rows_moved

__all__ = ["SCORE_SETTINGS", "Score", "ScoredModel", "ScoredTraining", "score_words", "with_score"]

SCORE_SETTINGS = ("score_epsilon", "metric")
"""Settings of a plan that describe its score."""
LARGEST_SHARE = 0.2
"""Largest fraction of the rows that is held out for the score."""

SMALLEST_SHARE = 0.1
"""Fraction of the rows that is held out for the score when it is at least `ENOUGH_ROWS` rows."""

ENOUGH_ROWS = 500
"""Number of rows that should score, if it is at most `LARGEST_SHARE` of all rows."""

MOST_ROWS = 5000
"""Largest number of rows that is held out for the score; this limit has precedence over the fractions."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """A noisy score with its 95% interval; `rows` is the noisy number of held-out rows.

    With two classes, `confusion` has the noisy confusion matrix: `confusion[true][predicted]`.
    """

    metric: str
    value: float
    low: float
    high: float
    epsilon: float
    rows: float
    confusion: list[list[float]] | None = None

    def json(self) -> dict[str, Any]:
        """Return plain values for `model.json`."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @property
    def sentence(self) -> str:
        """The score in words."""
        return (
            f"Released score: {NAMES[self.metric]} {_shown(self.value)} on held-out rows, 95% interval "
            f"{_shown(self.low)} to "
            f"{_shown(self.high)}, with noise for epsilon {self.epsilon:g}."
        )


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ScoredModel:
    """A model and its released score; `point` is the chosen candidate if the training was a search."""

    model: Model
    score: Score
    point: Point | None = None


@dataclass(frozen=True, kw_only=True)
class ScoredTraining:
    """A training on most rows, and a noisy score of its model on the held-out rows.

    `epsilon` is the cost of the score for one unit. `rows` is the largest number of rows that a neighbouring data set
    adds or removes. The proof is at the top of the file. A large table is split and scored part by part, with the same
    result for each row.
    """

    in_parts: ClassVar[bool] = True

    training: Mechanism[Model | SearchResult]
    metric: str
    epsilon: float
    held_out: float
    rows: int = 1

    @property
    def unit(self) -> str:
        return protected(self.training)

    @property
    def noise(self) -> float:
        """The noise multiplier of the cells: the Laplace scale divided by the sensitivity for one row."""
        return self.rows / self.epsilon

    def cost(self, schema: Schema, noise: float) -> Event:
        training = self.training.cost(self.train_schema(schema), noise)
        score = Laplace(noise=self.noise)
        if schema.unit in ("row", "label"):
            return Disjoint(events=(training, score))
        return training + score

    def run(self, data: Rows, noise: float, rng: Rng) -> ScoredModel:
        train, held_out = data.split(rng, (1 - self.held_out, self.held_out))
        schema = self.train_schema(data.schema)
        trained = run(self.training, train.mapped(lambda part: replace(part, schema=schema)), noise, rng)
        model, point = (trained.model, trained.point) if isinstance(trained, SearchResult) else (trained, None)
        model = replace(model, schema=replace(model.schema, rows=data.schema.rows))
        sensitivity = GROUPS[self.metric] * (2.0 if self.unit == "label" else 1.0)
        cells = CellSums(metric=self.metric, model=model, sensitivity=sensitivity)
        noisy = release(cells, held_out.parts, self.noise, rng)
        score = self.score(noisy, model.schema, sensitivity * self.noise, rng)
        return ScoredModel(model=model, score=score, point=point)

    def train_schema(self, schema: Schema) -> Schema:
        """Return `schema` with the number of rows reduced to the training part."""
        return replace(schema, rows=max(1, schema.rows - round(schema.rows * self.held_out)))

    def score(self, noisy: np.ndarray, schema: Schema, scale: float, rng: Rng) -> Score:
        """Compute the score and its interval from the noisy cells; this is post-processing."""
        low, high = bootstrap_interval(self.metric, noisy, scale, rng.initial)
        value = float(STATISTICS[self.metric](noisy[None])[0])
        unit = best = 1.0
        if self.metric == "mae":
            unit = best = float(schema.high or 0.0) - float(schema.low or 0.0)
        worst = -1.0 if self.metric == "r2" else 0.0
        value, low, high = (float(np.clip(unit * each, worst, best)) for each in (value, low, high))
        square = self.metric == "accuracy" and noisy.size == 4
        return Score(
            metric=self.metric,
            value=value,
            low=min(low, value),
            high=max(high, value),
            epsilon=self.epsilon,
            rows=max(0.0, float(groups_of(noisy, GROUPS[self.metric])[0].sum())),
            confusion=np.round(noisy.reshape(2, 2), 2).tolist() if square else None,
        )


def with_score(plan: Plan, *, epsilon: float, metric: str | None, held_out: float | None = None) -> Plan:
    """Return `plan` with a charged score of its model, calibrated again so that the total stays within the budget.

    `held_out` is the fraction of the rows that score the model. Default: a fraction that follows from their number.
    """
    expect_positive("", score_epsilon=epsilon)
    schema, total = plan.schema, plan.requested
    chosen = expect_metric(metric, schema.task, len(schema.classes))
    assert total is not None
    share = held_out
    if share is None:
        share = min(max(SMALLEST_SHARE, min(LARGEST_SHARE, ENOUGH_ROWS / schema.rows)), MOST_ROWS / schema.rows)
    rows = rows_moved(plan.mechanism, schema)

    def scored(mechanism: Mechanism[Any]) -> Mechanism[Any]:
        if isinstance(mechanism, Then) and not chooses_columns(mechanism.first):
            return replace(mechanism, second=scored(mechanism.second))
        return ScoredTraining(training=mechanism, metric=chosen, epsilon=float(epsilon), held_out=share, rows=rows)

    mechanism = scored(plan.mechanism)
    most = 0.9 * total if isinstance(mechanism, Then) else total
    if epsilon > most:
        raise WrongInput(
            f"expected --score-epsilon of at most {most:g} with --epsilon {total:g}, the total budget, got "
            f"{epsilon:g}; "
            "training and score use different rows, so the total is the larger of the two costs"
        )
    outside = 0
    while isinstance(mechanism, Then):
        outside, mechanism = outside + 1, mechanism.second
    what = scored_words(", ".join(doing for doing, _ in plan.parts[outside:]), chosen)
    new = replace(plan, mechanism=scored(plan.mechanism), parts=((what, plan.event),))
    noise = accounting.calibrate(lambda noise: new.at(noise).event, total, plan.delta)
    held_out = f"About {schema.rows * share:.0f} of {schema.rows} rows are held out of training."
    reason = f"{held_out} They score the model with noise for epsilon {epsilon:g}."
    settings = {**plan.settings, "score_epsilon": float(epsilon), "metric": chosen}
    return replace(new.at(noise), settings=settings, reasons=(*plan.reasons, reason))


def _shown(value: float) -> str:
    """Format `value` with four significant digits and without an exponent.

    >>> _shown(0.91234), _shown(10963.2)
    ('0.9123', '10,960')
    """
    return f"{float(f'{value:.4g}'):,.10g}"


def score_words(metric: str, internal: Mapping[str, float | None]) -> str | None:
    """Format the score on test rows, beside the score of a constant prediction; None without a score.

    >>> score_words("accuracy", {"test_score": 0.93, "constant_score": 0.6})
    'test accuracy 0.9300 (a constant prediction scores 0.6000)'
    """
    score = internal.get(metric) if metric in ("auc", "mae") else internal.get("test_score")
    if score is None:
        return None
    constant = 0.5 if metric == "auc" else internal.get("constant_score")
    beside = "" if metric == "mae" or constant is None else f" (a constant prediction scores {constant:.4f})"
    return f"test {NAMES[metric]} {score:.4f}{beside}"
