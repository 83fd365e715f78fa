"""Run a mechanism many times with and without one crafted row, and score the runs along the direction of difference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from privaware.attacks._game import joined
from privaware.attacks._row_canaries import crafted_pair
from privaware.data import Data
from privaware.mechanism import Mechanism
from privaware.model import Model
from privaware.noise import Rng
from privaware.schema import KINDS, Column, Schema

PILOT_FRACTION = 0.25
"""Fraction of the runs that determine the direction; the remaining runs are scored along it."""
LOW_NOISE_FACTOR = 1e-3
"""Noise, relative to the claimed noise, at which a selection nearly always follows the exact scores."""
MAX_PAIRS = 60
"""Largest number of crafted pairs that are tried."""


def deciding_pair(
    mechanism: Mechanism[tuple[str, ...]], schema: Schema, count: int, noise: float, rng: Rng
) -> tuple[Data, Data]:
    """Return `count` crafted rows, and a canary (one row) whose addition changes which columns `mechanism` selects.

    `noise` is the claimed noise multiplier. Without declared bounds there are three rows. Only the schema is read, so
    there is no privacy cost. At most `MAX_PAIRS` pairs are tried; if none changes the selection, the last pair is
    returned. Each selection runs twice, with `LOW_NOISE_FACTOR` times the noise; both results must be equal.
    """
    for _ in range(MAX_PAIRS):
        rows, canary = crafted_pair(schema, count, rng)
        choices = [
            {mechanism.run(each, LOW_NOISE_FACTOR * noise, rng.spawn()) for _ in range(2)}
            for each in (rows, joined(rows, canary))
        ]
        if all(len(each) == 1 for each in choices) and choices[0] != choices[1]:
            break
    return rows, canary


def many_runs(
    mechanism: Mechanism[Any],
    data: Data,
    canary: Data,
    noise: float,
    *,
    runs: int,
    rng: Rng,
    say: Callable[[str], None] | None = None,
    vector: Callable[[Any, Schema], np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Run `mechanism` `runs` times on `data` with the row `canary` and as often without it; return both score arrays.

    `noise` is the noise multiplier. Nothing is charged here. The scores with the canary come first. The first quarter
    of the runs of each side is not scored (`directed_scores`), so there are fewer scores than runs. `say` gets lines
    about the progress. `vector` converts a release to numbers; the default is `release_vector`.
    """
    numbers = vector or release_vector
    neighbour = joined(data, canary)
    sides: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for index in range(runs):
        for side, rows in zip(sides, (neighbour, data), strict=True):
            side.append(numbers(mechanism.run(rows, noise, rng.spawn()), data.schema))
        if say is not None and (index + 1) % max(1, runs // 10) == 0:
            say(f"{index + 1} of {runs} runs on a side")
    return directed_scores(np.array(sides[0]), np.array(sides[1]))


def directed_scores(within: np.ndarray, without: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores of the runs with and without the canary, along a direction that tells them apart.

    `within` and `without` are the releases with and without the canary, with shape (runs, numbers). The first quarter
    of the runs of each side (at least two runs) chooses the direction, and is not scored. The score of each other run
    is the scalar product of its release and the direction.
    """
    first = max(int(PILOT_FRACTION * len(within)), 2)
    direction = _direction(within[:first], without[:first])
    return within[first:] @ direction, without[first:] @ direction


def _direction(within: np.ndarray, without: np.ndarray) -> np.ndarray:
    """Return the difference of the means of both sides, each number divided by the sum of its variances on both sides.

    `within` and `without` are releases with and without the canary, of shape (runs, numbers); `without` is subtracted.
    A variance of 0 is replaced by a tiny number. The direction is scaled so that its largest absolute entry is 1.
    """
    difference = within.mean(axis=0) - without.mean(axis=0)
    spread = within.var(axis=0) + without.var(axis=0)
    floor = 1e-12 * difference**2 + 1e-300
    direction = difference / np.maximum(spread, floor)
    return np.asarray(direction / max(float(np.abs(direction).max(initial=0.0)), 1e-300))


def release_vector(released: Any, schema: Schema) -> np.ndarray:
    """Convert the release `released` to numbers: the tensors of a model, the selected columns, or a schema's columns.

    A schema becomes the bounds, number of categories and kind of each column. Selected columns become 1 and other used
    columns of `schema` 0. Raise `TypeError` for another release.
    """
    if isinstance(released, Model):
        parts = [np.asarray(released.tensors[name], dtype=float).ravel() for name in sorted(released.tensors)]
        return np.nan_to_num(np.concatenate(parts))
    if isinstance(released, Schema):
        return np.concatenate([_bounds(column) for column in released.columns])
    if isinstance(released, tuple) and all(isinstance(name, str) for name in released):
        return np.array([float(column.name in released) for column in schema.used])
    raise TypeError(f"expected a model, names of columns or a schema, got {type(released).__name__}")


def _bounds(column: Column) -> np.ndarray:
    """Return a column as numbers: `arcsinh` of both bounds (0 without bounds), number of categories, one-hot kind."""
    ends = [np.arcsinh(end if end is not None else 0.0) for end in (column.low, column.high)]
    return np.array([*ends, float(len(column.categories)), *(float(column.kind == kind) for kind in KINDS)])
