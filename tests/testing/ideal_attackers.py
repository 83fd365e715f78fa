"""Attackers who know a mechanism's noise and both neighbours, simulated without any of the package's mechanisms.

Each function returns the scores (log-likelihood ratios) of `games` releases with the row and of as many without it.
"""

from __future__ import annotations

import numpy as np

Scores = tuple[np.ndarray, np.ndarray]


def gaussian(rng: np.random.Generator, games: int, *, noise: float, count: int = 1) -> Scores:
    """`count` Gaussian releases, each moved by its whole sensitivity: one of `count`-th the variance."""
    shift = np.sqrt(count) / noise
    return shift * rng.normal(shift / 2, 1, games), shift * rng.normal(-shift / 2, 1, games)


def sampled_gaussian(rng: np.random.Generator, games: int, *, noise: float, rate: float, count: int) -> Scores:
    """`count` Gaussian releases of Poisson samples; the attacker does not see who was sampled."""

    def scores(inside: np.ndarray) -> np.ndarray:
        released = inside + noise * rng.standard_normal(inside.shape)
        return np.asarray(np.log(1 - rate + rate * np.exp((2 * released - 1) / (2 * noise**2))).sum(axis=1))

    shape = (games, count)
    return scores((rng.random(shape) < rate) * 1.0), scores(np.zeros(shape))


def laplace(rng: np.random.Generator, games: int, *, scale: float, shifts: list[float]) -> Scores:
    """Independent Laplace noise of this scale on entries that the row moves by `shifts`."""
    moved = np.array(shifts)

    def scores(exact: np.ndarray) -> np.ndarray:
        released = exact + rng.laplace(scale=scale, size=(games, len(moved)))
        return np.asarray(((np.abs(released) - np.abs(released - moved)) / scale).sum(axis=1))

    return scores(moved), scores(np.zeros(len(moved)))


def choice(rng: np.random.Generator, games: int, *, chances: list[tuple[np.ndarray, np.ndarray]]) -> Scores:
    """Choices whose chances with and without the row are these, one pair for each choice."""
    totals = np.zeros((2, games))
    for pair in chances:
        ratio = np.log(pair[0]) - np.log(pair[1])
        for side, probabilities in enumerate(pair):
            totals[side] += ratio[rng.choice(len(ratio), size=games, p=probabilities / probabilities.sum())]
    return totals[0], totals[1]


def best_of_many(
    rng: np.random.Generator, games: int, *, scale: float, score_scale: float, correct: int, mean_odds: float
) -> Scores:
    """The best of a logarithmic number of trials; a trial is a count of 0 or 1 rows with Laplace noise.

    A trial whose noisy count is negative predicts `correct` validation rows correctly, any other none; its score
    has Laplace noise too, and count and score of the best are seen. `mean_odds` is the distribution's parameter.
    """
    sides = []
    for rows in (1.0, 0.0):
        trials = rng.logseries(mean_odds, games)
        game = np.repeat(np.arange(games), trials)
        counts = rows + rng.laplace(scale=scale, size=len(game))
        noisy = correct * (counts < 0) + rng.laplace(scale=score_scale, size=len(game))
        best = np.lexsort((noisy, game))[np.cumsum(trials) - 1]
        sides.append(
            best_of_many_ratio(
                counts[best], noisy[best], scale=scale, score_scale=score_scale, correct=correct, mean_odds=mean_odds
            )
        )
    return sides[0], sides[1]


def best_of_many_ratio(
    counts: np.ndarray, scores: np.ndarray, *, scale: float, score_scale: float, correct: int, mean_odds: float
) -> np.ndarray:
    """The log-likelihood ratio of a released best trial.

    With F the distribution function of one trial's score and G the generating function of the number of trials, the
    best has the density of a trial times G'(F(score)); for the logarithmic distribution G'(z) is 1 / (1 - p z) but for
    a constant.
    """
    ratio = (np.abs(counts) - np.abs(counts - 1)) / scale
    for rows, sign in ((0.0, 1.0), (1.0, -1.0)):
        good = _below((0.0 - rows) / scale)
        below = good * _below((scores - correct) / score_scale) + (1 - good) * _below(scores / score_scale)
        ratio = ratio + sign * np.log1p(-mean_odds * below)
    return np.asarray(ratio)


def _below(value: np.ndarray | float) -> np.ndarray:
    """The distribution function of the standard Laplace distribution."""
    tail = 0.5 * np.exp(-np.abs(value))
    return np.where(np.asarray(value) < 0, tail, 1 - tail)
