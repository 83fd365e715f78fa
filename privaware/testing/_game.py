"""The membership game: many runs with and without one row, and the lower bound on epsilon that they prove."""

from __future__ import annotations

from typing import Any

import numpy as np

from privaware.attacks._bounds import epsilon_lower
from privaware.data import Data
from privaware.mechanism import Mechanism
from privaware.noise import Rng
from privaware.testing._release import padded, released_numbers


def canary_game(
    mechanism: Mechanism[Any],
    data: Data,
    neighbour: Data,
    noise: float,
    *,
    delta: float,
    games: int = 1000,
    confidence: float = 0.999,
) -> float:
    """A lower bound on epsilon from `games` runs on each of two neighbouring data sets.

    A quarter of the runs determines the direction in which the releases differ; the others are scored along it.
    """
    without = _runs(mechanism, data, noise, range(games))
    within = _runs(mechanism, neighbour, noise, range(games, 2 * games))
    both = np.nan_to_num(padded([*without, *within]))
    without, within = both[:games], both[games:]
    first = max(games // 4, 2)
    direction = _direction(within[:first], without[:first])
    return epsilon_lower(within[first:] @ direction, without[first:] @ direction, delta=delta, confidence=confidence)


def _runs(mechanism: Mechanism[Any], data: Data, noise: float, seeds: range) -> Any:
    # every run has a seed of its own, so that a failing game can be repeated
    return [released_numbers(mechanism.run(data, noise, Rng(seed=seed))) for seed in seeds]


def _direction(within: np.ndarray, without: np.ndarray) -> np.ndarray:
    """The difference of the means, each number measured in its own spread."""
    difference = within.mean(axis=0) - without.mean(axis=0)
    spread = within.var(axis=0) + without.var(axis=0)
    floor = 1e-12 * difference**2 + 1e-300
    direction = difference / np.maximum(spread, floor)
    return np.asarray(direction / max(float(np.abs(direction).max(initial=0.0)), 1e-300))
