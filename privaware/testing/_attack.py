"""What an attack must keep: one finite score a row, and all randomness from the generator it is passed."""

from __future__ import annotations

import numpy as np

from privaware.attacks import Attack, Game
from privaware.learners.linear import Linear
from privaware.noise import Rng
from privaware.testing._call import BrokenPromise
from privaware.testing._release import name_of
from privaware.testing._rows import example, rows_for

__all__ = ["check_attack"]


def check_attack(attack: Attack, *, game: Game | None = None) -> None:
    """Raises an AssertionError that names the broken promise; the game is a small linear model unless one is passed.

    >>> def confidence(game, rng):
    ...     return game.model.probabilities(game.rows).max(axis=1)
    >>> check_attack(confidence)
    >>> check_attack(lambda game, rng: np.random.default_rng().random(len(game.rows)))
    Traceback (most recent call last):
    privaware.testing.BrokenPromise: <lambda>: the same seed gives different scores: there is randomness outside rng
    """
    game = game or _small_game()
    name = name_of(attack)
    scores, again = (np.asarray(attack(game, Rng(seed=7))) for _ in range(2))
    if scores.shape != (len(game.rows),):
        raise BrokenPromise(f"{name}: expected one score for each of {len(game.rows)} rows, got shape {scores.shape}")
    if scores.dtype.kind not in "iuf" or not np.isfinite(scores).all():
        raise BrokenPromise(f"{name}: expected finite numbers as scores")
    if not np.array_equal(scores, again):
        raise BrokenPromise(f"{name}: the same seed gives different scores: there is randomness outside rng")


def _small_game() -> Game:
    schema = example(rows=40)
    trained = rows_for(schema, 40)
    model = Linear(steps=5).run(trained, noise=1.0, rng=Rng(seed=0))
    return Game(model=model, rows=rows_for(schema, 60, seed=1))
