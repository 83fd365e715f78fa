"""Canaries in input space: rows with random labels, crafted from the schema, each included with probability 1/2."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from privaware.attacks._game import joined
from privaware.attacks._gradient_canaries import CanaryScores
from privaware.attacks._posteriors import confidence
from privaware.data import Data, as_bytes
from privaware.errors import WrongInput
from privaware.mechanism import Mechanism
from privaware.model import Model
from privaware.noise import Rng
from privaware.schema import Column, Schema

EXTREME_NUMBER = 1e12
"""A number beyond all candidates for a bound, so that another number changes the selected bound."""
WORDS = 4096
"""Number of invented words from which texts are made."""


def row_canaries(
    learner: Mechanism[Model], data: Data, noise: float, rng: Rng, *, canaries: int = 1000
) -> CanaryScores:
    """Train once on `data` and on each of `canaries` crafted rows with probability 1/2, and score the crafted rows.

    `noise` is the noise multiplier. Nothing is charged here. Crafted rows are public, so scores are post-processing of
    the released model.
    """
    crafted = crafted_rows(data.schema, canaries, rng)
    inside = rng.initial.random(canaries) < 0.5
    model = learner.run(joined(data, crafted.take(inside)), noise, rng)
    return CanaryScores(inside=inside, scores=label_scores(model, crafted))


def label_scores(model: Model, rows: Data) -> np.ndarray:
    """Return the log odds of each row's label under `model`; for regression, minus the squared error.

    The squared error is of the target scaled to [-1, 1].
    """
    return confidence(model, model.outputs(rows.x), rows)


def crafted_rows(schema: Schema, count: int, rng: Rng) -> Data:
    """Return `count` random rows over the whole declared ranges, with labels that are independent of the rows.

    In a table a number lies at one of its bounds with probability 1/2. A target of a regression is one of its bounds.
    Raise `WrongInput` if bounds or categories of a column, or bounds of a numeric target, are not declared.
    """
    if not schema.bounded:
        raise WrongInput("expected declared bounds and categories, to craft rows from; give a schema with --schema")
    draw = rng.initial
    x: np.ndarray
    if schema.form == "image":
        x = draw.random((count, *schema.shape)).astype(np.float32)
    elif schema.form == "text":
        x = _texts(count, draw)
    else:
        columns = [_values(column, count, draw, schema.shape) for column in schema.used]
        x = np.stack(columns, axis=1) if columns else np.zeros((count, 0))
    return Data(schema=schema, x=x, y=_labels(schema, count, draw))


def crafted_pair(schema: Schema, count: int, rng: Rng) -> tuple[Data, Data]:
    """Return crafted rows, and one more crafted row: the canary of many runs with and without it.

    With declared bounds, `count` rows and the canary are `crafted_rows`. Without them there are three rows, whatever
    `count` is. They hold `-EXTREME_NUMBER` in every column that may be numeric, and the canary holds -3, so that the
    canary changes a selected bound.
    """
    if schema.bounded:
        return crafted_rows(schema, count, rng), crafted_rows(schema, 1, rng)
    black = bytes(4 * math.prod(schema.shape))
    rows, row = ([[_uncoded(column, number, black) for column in schema.used]] for number in (-EXTREME_NUMBER, -3.0))
    x = [np.array(each * times, dtype=object).reshape(times, -1) for each, times in ((rows, 3), (row, 1))]
    labels = _labels(schema, 4, rng.initial)
    return Data(schema=schema, x=x[0], y=labels[:3]), Data(schema=schema, x=x[1], y=labels[3:])


def _uncoded(column: Column, number: float, image: bytes) -> Any:
    """Return a value for a column without bounds.

    It is the bytes `image` for a column of images, `number` for a number or an undecided kind, and else a constant
    word.
    """
    if column.kind == "image":
        return image
    return number if column.kind in ("number", "undecided") else "word"


def _texts(count: int, draw: np.random.Generator) -> np.ndarray:
    words = draw.integers(0, WORDS, (count, 12))
    return np.array([" ".join(f"w{word}" for word in text) for text in words], dtype=object)


def _values(column: Column, count: int, draw: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Return `count` random values of a column, in the form in which rows hold it.

    A category is a uniform code. A number is its lower bound with probability 1/4, its upper bound with probability
    1/4, and otherwise uniform between the bounds. A text is twelve random words. An image has the shape `shape` and
    uniform pixels between 0 and 1, stored as the bytes of float32 numbers.
    """
    if column.kind == "image":
        return as_bytes(draw.random((count, *shape)))
    if column.is_whole_text:
        return _texts(count, draw)
    if column.kind == "category":
        return draw.integers(0, len(column.categories), count).astype(float)
    low, high = column.low, column.high
    assert low is not None
    assert high is not None
    ends = np.where(draw.random(count) < 0.5, low, high)
    return np.where(draw.random(count) < 0.5, ends, draw.uniform(low, high, count))


def _labels(schema: Schema, count: int, draw: np.random.Generator) -> Any:
    if schema.classes:
        return draw.integers(0, len(schema.classes), count)
    if schema.low is None or schema.high is None:
        raise WrongInput(
            f"expected declared bounds of the target {schema.target!r}, to craft rows; give them in --schema"
        )
    return np.where(draw.random(count) < 0.5, schema.low, schema.high).astype(float)
