"""Check attacks: one finite score for each row, computed from rows and models only, with randomness from `rng` only."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from privaware.attacks import Attack, Game, ShadowPlan, membership_game
from privaware.learners.linear import Linear
from privaware.metrics import auc
from privaware.noise import Rng
from privaware.testing._call import BrokenPromise
from privaware.testing._release import name_of
from privaware.testing._rows import example, rows_for

NULL_ROWS = 400
"""Number of rows of the game without members."""

MAX_DEVIATIONS = 5.0
"""Largest distance of the AUC without members from one half, in standard deviations."""


def check_attack(attack: Attack, *, game: Game | None = None, **settings: Any) -> None:
    """Check that an attack keeps its contract.

    An attack returns one finite score for each row and does not change the rows. Scores are the same for the same seed,
    and do not depend on the order of rows. On synthetic rows that trained no model, scores do not separate one half of
    the rows from the other half.

    Parameters
    ----------
    attack : callable
        The attack, `(game, rng, **settings) -> scores`.
    game : Game, optional
        The membership game to play. By default there are two games with small linear models, one with shadow models
        that saw candidate rows and one with shadow models that did not.
    **settings
        Keyword arguments of the attack.

    Raises
    ------
    BrokenPromise
        An AssertionError that names the broken promise.

    Examples
    --------
    >>> def confidence(game, rng):
    ...     return game.model.probabilities(game.rows).max(axis=1)
    >>> check_attack(confidence)
    >>> check_attack(lambda game, rng: np.random.default_rng().random(len(game.rows)))
    Traceback (most recent call last):
    privaware.testing.BrokenPromise: <lambda>: the same seed gives different scores: there is randomness outside rng
    """
    name = name_of(attack)
    scored = partial(attack, **settings)
    for each in (_small_game(online=True), _small_game(online=False)) if game is None else (game,):
        _check_scores(name, scored, each)
        _check_null(name, scored, each)


def _check_scores(name: str, attack: Attack, game: Game) -> None:
    before = (game.rows.x.copy(), game.rows.y.copy())
    scores, again = (np.asarray(attack(game, Rng(seed=7))) for _ in range(2))
    if scores.shape != (len(game.rows),):
        raise BrokenPromise(f"{name}: expected one score for each of {len(game.rows)} rows, got shape {scores.shape}")
    if scores.dtype.kind not in "iuf" or not np.isfinite(scores).all():
        raise BrokenPromise(f"{name}: expected finite numbers as scores")
    if not np.array_equal(scores, again):
        raise BrokenPromise(f"{name}: the same seed gives different scores: there is randomness outside rng")
    if not all(map(_same, before, (game.rows.x, game.rows.y))):
        raise BrokenPromise(f"{name}: the rows of the game were changed")
    order = np.random.default_rng(3).permutation(len(scores))
    moved = np.asarray(attack(game.reordered(order), Rng(seed=7)))
    if not np.allclose(moved, scores[order], rtol=1e-4, atol=1e-6 * max(1.0, float(np.abs(scores).max()))):
        raise BrokenPromise(f"{name}: scores depend on the order of the rows, which may tell members from others")


def _same(one: np.ndarray, two: np.ndarray) -> bool:
    return np.array_equal(one, two, equal_nan=one.dtype.kind == "f")


def _check_null(name: str, attack: Attack, game: Game) -> None:
    """Check that scores do not separate two halves of fresh rows, none of which trained any model."""
    rows = rows_for(game.rows.schema, NULL_ROWS, seed=11)
    halves = np.tile(np.arange(len(game.shadows))[:, None] % 2 == 0, (1, NULL_ROWS))
    masks = np.random.default_rng(5).permuted(halves, axis=0)
    shadows = tuple(
        replace(shadow, inside=mask & shadow.inside.any()) for shadow, mask in zip(game.shadows, masks, strict=True)
    )
    scores = np.asarray(attack(replace(game, rows=rows, shadows=shadows), Rng(seed=7)))
    half = NULL_ROWS // 2
    deviation = np.sqrt((NULL_ROWS + 1) / (12 * half * half))
    if abs(auc(scores[:half], scores[half:]) - 0.5) > MAX_DEVIATIONS * deviation:
        raise BrokenPromise(
            f"{name}: scores separate two halves of fresh rows, none of which trained a model: they use more than rows "
            "and models"
        )


@cache
def _small_game(online: bool) -> Game:
    """Return a game against a linear model, with 60 candidate rows and four shadow models.

    With `online`, the shadow models were trained on candidate rows too.
    """
    data = rows_for(example(rows=120), 120, seed=1)
    plan = ShadowPlan(count=4, online=online)
    return membership_game(Linear(steps=5), data, noise=1.0, rng=Rng(seed=0), shadows=plan).game
