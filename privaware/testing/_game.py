"""Canary and failure games: run a mechanism many times with and without one row or unit, and bound epsilon or delta."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import stats

from privaware.attacks._bounds import epsilon_lower
from privaware.attacks._many_run import directed_scores
from privaware.data import Data
from privaware.mechanism import Mechanism
from privaware.noise import Rng
from privaware.testing._call import BrokenPromise
from privaware.testing._release import padded, released_numbers

CONFIDENCE = 0.999
"""Confidence of a lower bound."""

MIN_GAMES = 6
"""Smallest number of games on each data set; two of them choose the direction, and four are scored."""


def canary_game(
    mechanism: Mechanism[Any],
    data: Data,
    neighbour: Data,
    noise: float,
    *,
    delta: float,
    games: int = 1000,
    confidence: float = CONFIDENCE,
) -> float:
    """Return a lower bound on epsilon from many runs on two neighbouring data sets; 0 if they prove nothing.

    The first quarter of the runs on each data set (at least two runs) determines the direction in which the releases
    differ. The remaining runs are scored along this direction.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism under test.
    data, neighbour : Data
        The neighbouring data sets.
    noise : float
        The noise multiplier of each run.
    delta : float
        The delta at which to bound epsilon.
    games : int
        Number of runs on each data set. Fewer than `MIN_GAMES` raise `WrongInput`.
    confidence : float
        The confidence of the bound.

    Returns
    -------
    float
        The lower bound on epsilon.
    """
    without = _runs(mechanism, data, noise, range(games))
    within = _runs(mechanism, neighbour, noise, range(games, 2 * games))
    both = np.nan_to_num(padded([*without, *within]))
    scores = directed_scores(both[games:], both[:games])
    return epsilon_lower(*scores, delta=delta, confidence=confidence)


def failure_game(
    mechanism: Mechanism[Any],
    data: Data,
    neighbour: Data,
    noise: float,
    *,
    reveals: Callable[[Any], bool],
    games: int = 1000,
    confidence: float = CONFIDENCE,
) -> float:
    """Return a lower bound on delta that holds at every epsilon; 0 if no run reveals the unit.

    A release that is possible on `neighbour` and impossible on `data` reveals the unit that only `neighbour` has. No
    epsilon bounds such a release, so its probability must not exceed delta.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism under test.
    data, neighbour : Data
        The rows without and with one unit (a row, or all rows of a person).
    noise : float
        The noise multiplier of each run.
    reveals : callable
        A function that returns whether a release shows what only `neighbour` has, such as a category that is only
        there.
    games : int
        Number of runs on each of `neighbour` and `data`.
    confidence : float
        The confidence of the bound.

    Returns
    -------
    float
        The Clopper-Pearson lower bound on the probability that a run on `neighbour` reveals the unit.

    Raises
    ------
    BrokenPromise
        If a run on `data` reveals the unit too.
    """
    if any(reveals(mechanism.run(data, noise, Rng(seed=seed))) for seed in range(games)):
        raise BrokenPromise(
            f"{type(mechanism).__name__}: expected `reveals` to be true only of runs on the rows with the unit, "
            "but it is true of a run without the unit"
        )
    shown = sum(reveals(mechanism.run(neighbour, noise, Rng(seed=seed))) for seed in range(games, 2 * games))
    return float(stats.beta.ppf(1 - confidence, shown, games - shown + 1)) if shown else 0.0


@lru_cache(maxsize=64)
def most_provable(games: int, delta: float) -> float:
    """Return the largest epsilon that `games` games on each data set can prove; 0 for fewer than `MIN_GAMES` games.

    It is reached if every release shows whether the row was used. The confidence is `CONFIDENCE`.

    >>> most_provable(40, delta=1e-5) < 1.0 < most_provable(80, delta=1e-5)
    True
    >>> [most_provable(games, delta=1e-5) for games in range(7)]
    [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """
    if games < MIN_GAMES:
        return 0.0
    scores = directed_scores(np.ones((games, 1)), np.zeros((games, 1)))
    return epsilon_lower(*scores, delta=delta, confidence=CONFIDENCE)


def _runs(mechanism: Mechanism[Any], data: Data, noise: float, seeds: range) -> Any:
    # Every run has its own seed, so that a failing game can be repeated.
    return [released_numbers(mechanism.run(data, noise, Rng(seed=seed))) for seed in seeds]
