"""Attacks that cheat, each caught by the promise that it breaks."""

from __future__ import annotations

import numpy as np
import pytest

from privaware.attacks import Game
from privaware.noise import Rng
from privaware.testing import BrokenPromise, check_attack


def honest(game: Game, rng: Rng) -> np.ndarray:
    return np.asarray(game.model.probabilities(game.rows).max(axis=1))


def by_position(game: Game, rng: Rng) -> np.ndarray:
    return honest(game, rng) - 1e-3 * np.arange(len(game.rows))


def by_position_in_large_games(game: Game, rng: Rng) -> np.ndarray:
    return by_position(game, rng) if len(game.rows) > 100 else honest(game, rng)


def by_ranks(game: Game, rng: Rng) -> np.ndarray:
    return honest(game, rng) * rng.initial.random(len(game.rows))


def changing_rows(game: Game, rng: Rng) -> np.ndarray:
    game.rows.x[0] = 0.0
    return honest(game, rng)


@pytest.mark.parametrize(
    ("attack", "words"),
    [
        (by_position, "scores depend on the order of the rows"),
        (by_ranks, "scores depend on the order of the rows"),
        (by_position_in_large_games, "scores separate two halves of fresh rows"),
        (changing_rows, "the rows of the game were changed"),
    ],
)
def test_cheating_attack_is_caught(attack: object, words: str) -> None:
    from dataclasses import replace

    from privaware.testing._attack import _small_game

    game = _small_game(online=True)
    game = replace(game, rows=replace(game.rows, x=game.rows.x.copy()))
    with pytest.raises(BrokenPromise, match=words):
        check_attack(attack, game=game)  # type: ignore[arg-type]
    check_attack(honest)
