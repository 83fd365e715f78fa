"""A held-out score that may be released: it is computed on rows that train no model, noised and charged.

Privacy:

1. Each row is held out by an independent draw, so it either trains or scores. Only the larger of the two costs counts
   (parallel composition). If one person may have rows in both parts, the two costs compose.
2. The release from the held-out rows is the cells of `_score_cells.py`: groups of sums over rows, to which a row adds
   at most 1 in each group. So the L1 sensitivity of the cells for one row is the number of groups, and twice that
   number if labels are protected.
3. The cells get Laplace noise of scale `sensitivity * rows / epsilon`, where `rows` is the largest number of rows of a
   unit. This is epsilon-DP for the unit.
4. A mean absolute error is compared with a constant, the private median of the held-out rows, which is released first.
   It takes the fraction `CONSTANT_SHARE` of epsilon, and the cells take the remaining epsilon. The two costs compose.
5. Score, tables and intervals are computed from the noisy cells only, so they are post-processing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np

from privaware import accounting
from privaware._rounded import number, rounded_up
from privaware._validate import expect_one_of, expect_positive
from privaware.data import Rows, release
from privaware.data._persons import of_persons
from privaware.errors import WrongInput
from privaware.events import NOTHING, Disjoint, Event, Laplace, Pure
from privaware.learners.median import Median
from privaware.mechanism import Mechanism, Then, run
from privaware.mechanism import unit as protected
from privaware.model import Model
from privaware.models.spaces import Point
from privaware.noise import Rng
from privaware.report._bought_score import NAMES, compared_words, constant_words
from privaware.schema import Schema
from privaware.strategies._search import SearchResult
from privaware.workflow._metric import expect_metric
from privaware.workflow._score_cells import TYPICAL, CellSums, ScoreCells, scored_words, train_schema
from privaware.workflow._score_statistics import NoisyCells
from privaware.workflow.run.plan import Plan, rows_moved
from privaware.workflow.run.pricing import chooses_columns

SCORE_SETTINGS = ("score_epsilon", "score_also", "metric")
"""Settings of a plan that describe its score."""
SCORE_SHARE = 0.1
"""Fraction of the budget that `--score` spends on a score, unless `--score-epsilon` is given."""
SCORE_ALSO = ("confusion", "threshold", "calibration")
"""Tables that can be released with a score, within the epsilon of the score."""
CONSTANT_SHARE = 0.2
"""Fraction of the epsilon of a mean absolute error that releases the constant to compare with."""
LARGEST_SHARE = 0.2
"""Largest fraction of the rows that is held out for the score."""

SMALLEST_SHARE = 0.1
"""Smallest fraction of the rows that is held out for the score, unless it is more than `MOST_ROWS` rows."""

ENOUGH_ROWS = 500
"""Number of rows that score, if it is from `SMALLEST_SHARE` to `LARGEST_SHARE` of all rows."""

MOST_ROWS = 5000
"""Largest number of rows that is held out for the score; this limit has precedence over the fractions."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """A noisy score `value` with its 95% interval from `low` to `high`, released with `epsilon`.

    `metric` is "accuracy", "auc", "r2" or "mae" (in units of the target). `rows` is the noisy number of held-out rows.
    `constant` is the score of a constant prediction, with `value`, `low` and `high`. `confusion[true][predicted]` is
    the noisy confusion matrix, and `confusion_low` and `confusion_high` are the ends of its intervals; with two classes
    every accuracy is released with it, requested or not. `threshold` is the threshold with the largest noisy balanced
    accuracy. `calibration` compares predicted probabilities with observed rates, by tenths. Tables that were not
    requested are None.
    """

    metric: str
    value: float
    low: float
    high: float
    epsilon: float
    rows: float
    constant: Mapping[str, float] | None = None
    confusion: list[list[float]] | None = None
    confusion_low: list[list[float]] | None = None
    confusion_high: list[list[float]] | None = None
    threshold: Mapping[str, Any] | None = None
    calibration: list[dict[str, float]] | None = None

    @classmethod
    def of(cls, entries: Mapping[str, Any]) -> Score:
        """Read `entries`, the entry `score` of a card; entries that this version does not know are ignored."""
        return cls(**{item.name: entries[item.name] for item in fields(cls) if item.name in entries})

    def json(self) -> dict[str, Any]:
        """Return plain values for `model.json`, without fields that are None."""
        entries = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: value for name, value in entries.items() if value is not None}

    @property
    def sentence(self) -> str:
        """The score in words, compared with the score of a constant prediction."""
        beside = ""
        if (constant := self.constant) is not None:
            value, low, high = (constant[name] for name in ("value", "low", "high"))
            compared = compared_words(self.metric, (self.low, self.high), (low, high))
            beside = f" {constant_words(self.metric, value, low, high)}{compared}"
        return (
            f"Released score: {NAMES[self.metric]} {number(self.value, 4)} on held-out rows, 95% interval "
            f"{number(self.low, 4)} to {number(self.high, 4)}, with noise for epsilon {rounded_up(self.epsilon)}."
            f"{beside}"
        )

    def table_sentences(self, classes: Sequence[str]) -> list[str]:
        """Return sentences about the released threshold for the second of `classes`, and about the released tables.

        A threshold or table that was not released has no sentence.
        """
        best, sentences = self.threshold, []
        if best is not None:
            sentences.append(
                f"Released threshold: to maximise balanced accuracy, predict {classes[1]} if its probability is above "
                f"{_interval_words(best)}. Balanced accuracy is {_interval_words(best['balanced_accuracy'])} there "
                f"and {_interval_words(best['at_half'])} at a threshold of 0.5 (95% intervals)."
            )
        tables = {"confusion matrix": self.confusion, "calibration": self.calibration}
        if released := [name for name, table in tables.items() if table is not None]:
            sentences.append(f"Released with intervals, in the report: {' and '.join(released)}.")
        return sentences


def _interval_words(estimate: Mapping[str, float]) -> str:
    """Format an estimate with its interval.

    >>> _interval_words({"value": 0.8, "low": 0.71, "high": 0.9})
    '0.8 (0.71 to 0.9)'
    """
    value, low, high = (number(estimate[name], 4) for name in ("value", "low", "high"))
    return f"{value} ({low} to {high})"


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ScoredModel:
    """A model and its released score; `point` is the chosen candidate if the training was a search."""

    model: Model
    score: Score
    point: Point | None = None


@dataclass(frozen=True, kw_only=True)
class ScoredTraining:
    """A training on most rows, and a noisy score of its model on the held-out rows.

    `metric` is "accuracy", "auc", "r2" or "mae". `held_out` is the fraction of the rows that score; each row is held
    out by an independent draw. `epsilon` is the cost of the score for one unit. `rows` is the largest number of rows
    that a neighbouring data set adds or removes. `also` names tables of `SCORE_ALSO` to release within `epsilon`. A
    large table is split and scored part by part, with the same result for each row.

    Privacy: a row either trains or scores, so only the larger of the two costs counts. If one person may have rows in
    both parts, the two costs compose.
    """

    in_parts: ClassVar[bool] = True

    training: Mechanism[Model | SearchResult]
    metric: str
    epsilon: float
    held_out: float
    rows: int = 1
    also: tuple[str, ...] = ()

    @property
    def unit(self) -> str:
        return protected(self.training)

    @property
    def noise(self) -> float:
        """The noise multiplier of the scoring sums: the Laplace scale divided by their L1 sensitivity for one row."""
        return self.rows / (self.epsilon * (1 - self.constant_share))

    @property
    def constant_share(self) -> float:
        """The fraction of `epsilon` that releases a private constant: `CONSTANT_SHARE` for the metric mae, else 0."""
        return CONSTANT_SHARE if self.metric == "mae" else 0.0

    @property
    def changes(self) -> float:
        """The factor on the sensitivity of the scoring sums: 2 if `unit` is "label", else 1.

        A changed label acts like one row removed and one row added. Several rows of a person are counted by `rows`, not
        here.
        """
        return 2.0 if self.unit == "label" else 1.0

    def cost(self, schema: Schema, noise: float) -> Event:
        training = self.training.cost(train_schema(schema, self.held_out), noise)
        constant = Pure(epsilon=self.epsilon * self.constant_share / self.rows) if self.constant_share else NOTHING
        score = constant + Laplace(noise=self.noise)
        if schema.unit in ("row", "label"):
            return Disjoint(events=(training, score))
        return training + score

    def run(self, data: Rows, noise: float, rng: Rng) -> ScoredModel:
        train, held_out = data.split(rng, (1 - self.held_out, self.held_out))
        schema = train_schema(data.schema, self.held_out)
        trained = run(self.training, train.mapped(lambda part: replace(part, schema=schema)), noise, rng)
        model, point = (trained.model, trained.point) if isinstance(trained, SearchResult) else (trained, None)
        model = replace(model, schema=replace(model.schema, rows=data.schema.rows))
        cells = ScoreCells.of(self.metric, len(data.schema.classes), self.also)
        sensitivity = len(cells.sizes) * self.changes
        sums = CellSums(
            cells=cells, model=model, sensitivity=sensitivity, constant=self._constant(held_out, model.schema, rng)
        )
        noisy = release(sums, held_out.parts, self.noise, rng)
        score = self.score(cells, noisy, model.schema, rng)
        return ScoredModel(model=model, score=score, point=point)

    def _constant(self, held_out: Rows, schema: Schema, rng: Rng) -> float:
        """Release the private median of the targets of the rows `held_out`, in units of the target, for the metric mae.

        For any other metric return 0 without a release. `schema` has the range of the target.
        """
        if not self.constant_share:
            return 0.0
        noise = self.changes * self.rows / (self.epsilon * self.constant_share)
        constant = run(Median(), held_out, noise, rng)
        middle, half = (float(schema.high or 0.0) + float(schema.low or 0.0)) / 2, _range(schema) / 2
        return middle + half * float(constant.tensors["value"][0])

    def score(self, cells: ScoreCells, noisy: np.ndarray, schema: Schema, rng: Rng) -> Score:
        """Compute the score, its tables and their intervals from `noisy`, the noisy values of `cells`: post-processing.

        `schema` has the range of a numeric target, and `rng` draws the bootstrap samples behind the intervals.
        """
        scale = len(cells.sizes) * self.changes * self.noise
        facts = NoisyCells(cells=cells, noisy=noisy, scale=scale, draw=rng.initial, unit=_range(schema))
        shown = "confusion" in self.also or (self.metric == "accuracy" and cells.classes == 2)
        measured: dict[str, Any] = {**facts.score(), **(facts.confusion() if shown else {})}
        return Score(
            metric=self.metric,
            epsilon=self.epsilon,
            rows=facts.rows,
            **measured,
            constant=facts.constant(),
            threshold=facts.threshold() if "threshold" in self.also else None,
            calibration=facts.calibration() if "calibration" in self.also else None,
        )


def _range(schema: Schema) -> float:
    """Return the width of the declared range of the target, `high - low`; 1 for classes."""
    return 1.0 if schema.classes else float(schema.high or 0.0) - float(schema.low or 0.0)


def expect_tables(also: Sequence[str], schema: Schema) -> tuple[str, ...]:
    """Return the tables `also` in the order of `SCORE_ALSO`.

    Raise `WrongInput` for an unknown table, for any table if the target is a number, and for a threshold unless there
    are two classes.
    """
    for name in also:
        expect_one_of("", SCORE_ALSO, score_also=name)
        if not schema.classes:
            raise WrongInput(f"expected classes for {name} in --score-also, got numbers; leave --score-also out")
    if "threshold" in also and len(schema.classes) != 2:
        raise WrongInput(
            f"expected two classes for threshold in --score-also, got {len(schema.classes)}; take confusion or "
            "calibration"
        )
    return tuple(name for name in SCORE_ALSO if name in also)


def with_score(
    plan: Plan, *, epsilon: float, metric: str | None, also: Sequence[str] = (), held_out: float | None = None
) -> Plan:
    """Return `plan` with a charged score of its model, calibrated again so that the total stays within the budget.

    `epsilon` is the cost of the score, and the budget is `plan.requested`. `metric` None means the default of the task.
    `also` names tables of `SCORE_ALSO` that are released within `epsilon`. `held_out` is the fraction of the rows that
    score. Default: `min(max(0.1, min(0.2, 500 / n)), 5000 / n)` for `n` declared rows. Raise `WrongInput` if the score
    costs more than the budget (0.9 of it if another release comes first), or if the metric or a table does not fit the
    task. If persons are protected, the costs of score and training add up, so the score must cost less than the budget.
    """
    expect_positive("", score_epsilon=epsilon)
    schema, total = plan.schema, plan.requested
    chosen = expect_metric(metric, schema.task, len(schema.classes))
    tables = expect_tables(also, schema)
    assert total is not None
    share = held_out
    if share is None:
        share = min(max(SMALLEST_SHARE, min(LARGEST_SHARE, ENOUGH_ROWS / schema.rows)), MOST_ROWS / schema.rows)
    rows = rows_moved(plan.mechanism, schema)

    def scored(mechanism: Mechanism[Any]) -> Mechanism[Any]:
        if isinstance(mechanism, Then) and not chooses_columns(mechanism.first):
            return replace(mechanism, second=scored(mechanism.second))
        return ScoredTraining(
            training=mechanism, metric=chosen, epsilon=float(epsilon), held_out=share, rows=rows, also=tables
        )

    mechanism = with_training = scored(plan.mechanism)
    _expect_affordable(epsilon, total, before=isinstance(mechanism, Then), persons=of_persons(schema))
    outside = 0
    while isinstance(mechanism, Then):
        outside, mechanism = outside + 1, mechanism.second
    what = scored_words(", ".join(doing for doing, _ in plan.parts[outside:]), chosen)
    new = replace(plan, mechanism=with_training, parts=((what, plan.event),))
    noise = accounting.calibrate(lambda noise: new.at(noise).event, total, plan.delta)
    settings = {**plan.settings, "score_epsilon": float(epsilon), "metric": chosen}
    settings |= {"score_also": list(tables)} if tables else {}
    reason = _reason(schema, share, (NAMES[chosen], *tables), epsilon, total)
    cells = ScoreCells.of(chosen, len(schema.classes), tables)
    assert isinstance(mechanism, ScoredTraining)
    scale = len(cells.sizes) * mechanism.changes * mechanism.noise
    reason += _expected(cells, schema.rows * share, scale, at_most=of_persons(schema))
    if schema.unit in ("row", "label") and not outside and epsilon < total:
        reason += f" The total stays the same up to --score-epsilon={total:g}, because training uses other rows."
    return replace(new.at(noise), settings=settings, reasons=(*plan.reasons, reason))


def _expect_affordable(epsilon: float, total: float, *, before: bool, persons: bool) -> None:
    """Raise `WrongInput` if `epsilon` of a score exceeds `total`, or `0.9 * total` if a release comes `before`.

    If `persons` are protected, `epsilon` must be below `total`: a person may have rows in training and in the score.
    """
    most = 0.9 * total if before else total
    if epsilon > most or (persons and epsilon >= total):
        bound = "less than" if persons and not before else "at most"
        raise WrongInput(
            f"expected --score-epsilon of {bound} {most:g} with --epsilon={total:g}, the total budget, got {epsilon:g}"
        )


def _reason(schema: Schema, share: float, bought: Sequence[str], epsilon: float, total: float) -> str:
    """Return the sentence of a plan about its score.

    `share` is the fraction of the rows that is held out, and `bought` names the metric and the tables. `epsilon` is the
    cost of the score, and `total` is the budget of the whole plan.
    """
    words = [{"confusion": "confusion matrix"}.get(name, name) for name in bought]
    listed = words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
    part = "a tenth of the budget" if abs(epsilon - SCORE_SHARE * total) < 1e-9 else f"within the total of {total:g}"
    held_out = f"about {schema.rows * share:.0f} of {schema.rows} rows"
    if of_persons(schema):
        held_out = f"{100 * share:.3g}% of the rows used, at most about {schema.rows * share:.0f},"
    return (
        f"Score: {held_out} are held out of training. They release the {listed} with noise for epsilon "
        f"{rounded_up(epsilon)}, {part}."
    )


def _expected(cells: ScoreCells, rows: float, scale: float, *, at_most: bool) -> str:
    """Return sentences with the 95% interval of a typical score (`TYPICAL`), and a warning if it would say nothing.

    An interval says nothing if it contains the score of a constant prediction. `rows` is the number of held-out rows,
    or their largest number if `at_most`. `scale` is the scale of the Laplace noise of `cells`.
    """
    typical = TYPICAL[cells.metric]
    noiseless = NoisyCells(cells=cells, noisy=cells.typical(rows), scale=scale, draw=np.random.default_rng(0))
    low, high = noiseless.forecast()
    fewer = f" with {rows:.0f} rows, and wider with fewer" if at_most else ""
    said = f" The 95% interval of {typical.words} would be about {low:.2f} to {high:.2f}{fewer}."
    if not low <= typical.constant <= high:
        return said
    return (
        f"{said} Then the score would not tell such a model from a constant prediction ({typical.constant:g}): raise "
        "--score-epsilon, or leave the score out."
    )


def score_words(metric: str, internal: Mapping[str, float | None]) -> str | None:
    """Format the score on test rows in `internal`, beside the score of a constant prediction; None without a score.

    For "auc" and "mae" the score is the entry of that name, and for other metrics it is `test_score`.

    >>> score_words("accuracy", {"test_score": 0.93, "constant_score": 0.6})
    'test accuracy 0.9300 (a constant prediction scores 0.6000)'
    """
    score = internal.get(metric) if metric in ("auc", "mae") else internal.get("test_score")
    if score is None:
        return None
    constant = 0.5 if metric == "auc" else internal.get("constant_mae" if metric == "mae" else "constant_score")
    beside = "" if constant is None else f" (a constant prediction scores {constant:.4f})"
    return f"test {NAMES[metric]} {score:.4f}{beside}"
