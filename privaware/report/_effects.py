"""The effect of each column: the output of the model along the declared range, with all other columns held fixed.

Only the released tensors and the schema are used, so this has no privacy cost (post-processing). The other columns are
held at the middle of their ranges or at their first category. If a model is additive in its columns, as `linear` and
`additive` are, a curve does not depend on the values of the other columns.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from privaware import features
from privaware.card import ModelCard
from privaware.model import Model
from privaware.models import trees
from privaware.report._surfaces import Surface, surfaces
from privaware.report._words import date, number
from privaware.schema import CodedColumn, Column, Schema

MAX_COLUMNS = 400
"""Largest number of columns of a model whose effects are computed."""

MAX_CLASSES = 12
"""Largest number of classes of a model whose effects are computed."""

POINTS = 41
"""Number of points at which the effect of a numeric column is computed, if it has no bins or at least as many."""

KINDS = ("number", "category")
TWO_SIDED = 1.96
"""Number of standard deviations that hold 95% of a normal distribution."""


@dataclass(frozen=True, kw_only=True)
class Effect:
    """The effect of one column on each output of a model of a table, while all other columns are held fixed.

    `column` is its name and `kind` is "number" or "category". `levels` names the categories, numbers or bins at which
    the outputs are computed, and `points` are the same levels as numbers (for a category its code). `values` has shape
    (levels, outputs), and each output has mean 0 over the levels. `missing`, of shape (outputs,), has the values of a
    missing entry on the same scale; it is None unless the schema treats missing entries of the column as a category.
    `noise`, of shape (levels,), is 1.96 standard deviations of the privacy noise; it is None if the model does not
    record them.
    """

    column: str
    kind: str
    levels: tuple[str, ...]
    points: tuple[float, ...]
    values: np.ndarray
    missing: np.ndarray | None = None
    noise: np.ndarray | None = None

    @property
    def size(self) -> float:
        """The largest difference between two levels in the value of one output; missing entries do not count."""
        return float(np.ptp(self.values, axis=0).max())


@dataclass(frozen=True, kw_only=True)
class Effects:
    """The effects of all columns on the outputs of a model, in decreasing order of `Effect.size`.

    `outputs` names the outputs: the second class if there are two, all classes if there are more, else the target.
    `unit` is the unit of the values in words, such as "log odds of yes against no". `pairs` are the interaction
    surfaces of two columns, if the model has trees of depth 2 and at most two classes; else there are none.
    """

    outputs: tuple[str, ...]
    unit: str
    columns: tuple[Effect, ...]
    pairs: tuple[Surface, ...] = ()


def effects(card: ModelCard, tensors: Mapping[str, np.ndarray]) -> Effects | None:
    """Compute the effect of each column on the outputs of a model, from its card and its `tensors` by name.

    The model must be of a table whose columns are numbers and categories with declared ranges; hash buckets of texts
    get no effect. Return None for any other model, for more than `MAX_COLUMNS` columns or `MAX_CLASSES` classes, and if
    the model cannot be evaluated or a value is not finite.
    """
    schema = card.schema
    used = schema.used
    indices = [at for at, column in enumerate(used) if not (isinstance(column, CodedColumn) and column.of_text)]
    fits = 0 < len(indices) <= MAX_COLUMNS and len(schema.classes) <= MAX_CLASSES
    if schema.form != "table" or not fits or any(column.kind not in KINDS or not column.bounded for column in used):
        return None
    try:
        model = Model(
            schema=schema,
            features=tuple(features.build(feature) for feature in card.features),
            architecture=card.architecture,
            tensors={name: np.asarray(value) for name, value in tensors.items()},
        )
        curves = _curves(model, indices)
        pairs = _pairs(model)
    except Exception:  # tensors of another card, or a wrong description, can fail in any layer
        return None
    drawings = [*(curve.values for curve in curves), *(pair.values for pair in pairs)]
    if not all(np.isfinite(values).all() for values in drawings):
        return None
    curves.sort(key=lambda curve: -curve.size)
    return Effects(outputs=_outputs(schema), unit=_unit(schema), columns=tuple(curves), pairs=pairs)


def _pairs(model: Model) -> tuple[Surface, ...]:
    """Return the interaction surfaces of pairs of columns (`surfaces`), with values in the unit of the curves."""
    used = model.schema.used
    middle = np.array([_middle(column) for column in used])
    return surfaces(model, lambda at: _levels(used[at]), middle, lambda outputs: _shown(outputs, model.schema))


def _outputs(schema: Schema) -> tuple[str, ...]:
    return (schema.classes[1],) if len(schema.classes) == 2 else schema.classes or (schema.target,)


def _unit(schema: Schema) -> str:
    if len(schema.classes) == 2:
        return f"log odds of {schema.classes[1]} against {schema.classes[0]}"
    return "log odds of a class, up to a constant" if schema.classes else schema.target


def _deviations(model: Model) -> list[np.ndarray] | None:
    """Return, for each column, the standard deviations of the privacy noise in the scores of its levels.

    A level is a bin or a category of the column. Return None unless the architecture is "trees", the model records
    these deviations, and all of them are finite.
    """
    if model.architecture.get("name") != "trees" or not model.architecture.get("deviations"):
        return None
    deviations = [curve.deviations for curve in trees.curves(model)]
    return deviations if all(np.isfinite(column).all() for column in deviations) else None


def _curves(model: Model, indices: list[int]) -> list[Effect]:
    """Compute the effect of each column in `indices`, in this order; the model is evaluated once, on rows for all.

    `indices` are positions in `schema.used`. In the rows for a column, all other columns stay at the middle of their
    ranges or at their first category.
    """
    used, deviations = model.schema.used, _deviations(model)
    middle = np.array([_middle(column) for column in used])
    values = []
    for at in indices:
        points, _ = _levels(used[at])
        values.append(np.array([*points, math.nan if used[at].missing == "category" else points[0]]))
    ends = np.cumsum([len(each) for each in values])
    rows = np.tile(middle, (int(ends[-1]), 1))
    for at, own, end in zip(indices, values, ends.tolist(), strict=True):
        rows[end - len(own) : end, at] = own
    outputs = np.split(_shown(model.outputs(rows), model.schema), ends[:-1])
    return [
        _effect(model, at, own, None if deviations is None else deviations[at])
        for at, own in zip(indices, outputs, strict=True)
    ]


def _effect(model: Model, at: int, values: np.ndarray, deviations: np.ndarray | None) -> Effect:
    """Return the effect of the column at index `at` of `schema.used`, from `values` of shape (levels + 1, outputs).

    `values` are in the unit that the page draws (`_shown`). The last line of `values` is for a missing entry; it is not
    used unless missing entries of the column are a category of their own. The mean over the other lines is subtracted.
    `deviations` are the standard deviations of the noise in the scores of this column's levels (`_deviations`), or
    None.
    """
    column = model.schema.used[at]
    points, levels = _levels(column)
    values = values - values[:-1].mean(axis=0)
    codes = None if deviations is None else _codes(model, np.array(points), column)
    return Effect(
        column=column.name,
        kind=column.kind,
        levels=levels,
        points=tuple(points),
        values=values[:-1],
        missing=values[-1] if column.missing == "category" else None,
        noise=None if deviations is None else TWO_SIDED * _scale(model.schema) * deviations[codes],
    )


def _codes(model: Model, points: np.ndarray, column: Column) -> np.ndarray:
    """Return the index of the level (bin or category) in which each of `points` lies, as an array of integers.

    `model` has the architecture "trees", and `column` is one of its columns.
    """
    return np.asarray(model.features[0].codes(points, column), dtype=np.int64)


def _scale(schema: Schema) -> float:
    """Return the standard deviation of a drawn value, divided by the standard deviation of a score of a model of trees.

    It is 2 for two classes, because the drawn value is the difference of two scores that are equal with opposite signs.
    It is 1 for more classes, and half the range of the target for regression.
    """
    if len(schema.classes) == 2:
        return 2.0
    return 1.0 if schema.classes else ((schema.high or 0.0) - (schema.low or 0.0)) / 2


def _levels(column: Column) -> tuple[list[float], tuple[str, ...]]:
    """Return the values at which a column is evaluated, and their names.

    For a category these are the codes 0, 1 and so on, and the categories. For a number with declared bins these are the
    middles of the bins, called "LOW to HIGH". For a number without bins, or with `POINTS` bins or more, these are
    `POINTS` equally spaced numbers from its lowest to its highest value, whose names are the numbers or dates
    themselves.
    """
    if column.kind == "category":
        return [float(code) for code in range(len(column.categories))], column.categories
    low, high = float(column.low or 0.0), float(column.high or 0.0)
    edges = [low, *(edge for edge in column.bins if low < edge < high), high]
    if column.bins and len(edges) <= POINTS:
        middles = [(before + after) / 2 for before, after in itertools.pairwise(edges)]
        return middles, tuple(f"{_end(a, column)} to {_end(b, column)}" for a, b in itertools.pairwise(edges))
    points = np.linspace(low, high, POINTS).tolist()
    return points, tuple(_end(point, column) for point in points)


def _end(point: float, column: Column) -> str:
    """Format `point`, a value of `column`, as text: a date if the column holds the days of a date, else a number."""
    days = isinstance(column, CodedColumn) and column.part == "days"
    return date(point) if days else number(point, 4)


def _middle(column: Column) -> float:
    return 0.0 if column.kind == "category" else ((column.low or 0.0) + (column.high or 0.0)) / 2


def _shown(outputs: np.ndarray, schema: Schema) -> np.ndarray:
    """Convert raw outputs of a model, of shape (points, outputs), to the values that the page draws.

    For two classes the result has shape (points, 1): the log odds of the second class. For more classes it has shape
    (points, classes): each output minus the mean of the outputs at the point. For regression it has shape (points, 1):
    the difference of the prediction from the middle of the target's range, in the unit of the target.
    """
    if len(schema.classes) == 2:
        return np.asarray(outputs[:, 1:] - outputs[:, :1])
    if schema.classes:
        return np.asarray(outputs - outputs.mean(axis=1, keepdims=True))
    half = ((schema.high or 0.0) - (schema.low or 0.0)) / 2
    return np.asarray(outputs[:, :1] * half)
