"""Many runs with and without one crafted row, scored along the direction in which their releases differ."""

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

__all__ = ["deciding_pair", "directed_scores", "many_runs", "release_vector"]

PILOT = 0.25
"""The share of runs that determine the direction; the others are scored along it."""
SHARP = 1e-3
"""Noise over that of the claim at which a choice is nearly that of the exact scores."""
TRIES = 60
"""Crafted pairs that are tried until one decides a choice."""


def deciding_pair(
    mechanism: Mechanism[tuple[str, ...]], schema: Schema, count: int, noise: float, rng: Rng
) -> tuple[Data, Data]:
    """Crafted rows and a canary that alone changes which columns are chosen; the last pair tried, if none does.

    Nothing but the schema is read, so that the search costs nothing. Each choice is made twice: a tie decides nothing.
    """
    for _ in range(TRIES):
        rows, canary = crafted_pair(schema, count, rng)
        choices = [
            {mechanism.run(each, SHARP * noise, rng.spawn()) for _ in range(2)} for each in (rows, joined(rows, canary))
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
    """Scores of runs with the `canary` and of as many without it; `runs` is how many there are on a side.

    `vector` makes numbers of a release, if `release_vector` does not know it.
    """
    numbers = vector or release_vector
    neighbour = joined(data, canary)
    sides: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for done in range(runs):
        for side, rows in zip(sides, (neighbour, data), strict=True):
            side.append(numbers(mechanism.run(rows, noise, rng.spawn()), data.schema))
        if say is not None and (done + 1) % max(1, runs // 10) == 0:
            say(f"{done + 1} of {runs} runs on a side")
    return directed_scores(np.array(sides[0]), np.array(sides[1]))


def directed_scores(within: np.ndarray, without: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Releases (runs, numbers) of both sides as scores; the first quarter of either chooses the direction."""
    first = max(int(PILOT * len(within)), 2)
    direction = _direction(within[:first], without[:first])
    return within[first:] @ direction, without[first:] @ direction


def _direction(within: np.ndarray, without: np.ndarray) -> np.ndarray:
    """The difference of the means, each number measured in its own spread."""
    difference = within.mean(axis=0) - without.mean(axis=0)
    spread = within.var(axis=0) + without.var(axis=0)
    floor = 1e-12 * difference**2 + 1e-300
    direction = difference / np.maximum(spread, floor)
    return np.asarray(direction / max(float(np.abs(direction).max(initial=0.0)), 1e-300))


def release_vector(released: Any, schema: Schema) -> np.ndarray:
    """What was released as numbers: tensors of a model, which columns were chosen, bounds of a bought schema."""
    if isinstance(released, Model):
        parts = [np.asarray(released.tensors[name], dtype=float).ravel() for name in sorted(released.tensors)]
        return np.nan_to_num(np.concatenate(parts))
    if isinstance(released, Schema):
        return np.concatenate([_bounds(column) for column in released.columns])
    if isinstance(released, tuple) and all(isinstance(name, str) for name in released):
        return np.array([float(column.name in released) for column in schema.used])
    raise TypeError(f"expected a model, names of columns or a schema, got {type(released).__name__}")


def _bounds(column: Column) -> np.ndarray:
    """Of bounds the place on a scale that has room for all magnitudes, and which kind was decided."""
    ends = [np.arcsinh(end if end is not None else 0.0) for end in (column.low, column.high)]
    return np.array([*ends, float(len(column.categories)), *(float(column.kind == kind) for kind in KINDS)])
