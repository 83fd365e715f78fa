"""A membership game against the captured step: each model of a population is a game."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from privaware.descent import Descent, FullBatch, Poisson, flat, members, squared
from privaware.descent._gradient_queries import keep_gradient
from privaware.descent._loop import stepper
from privaware.descent._precision import matmul_precision
from privaware.descent._training import Training, prepare
from privaware.noise import Rng
from tests.testing import ideal_attackers
from tests.testing.canary_case import Case, Scores

pytestmark = pytest.mark.cuda

DEVICE = "cuda"
ROWS = 40
MODELS = 500
GAMES = 20_000
RATE = 0.5
RELEASES = 4
"""Releases that the attacker of one game sees where examples are sampled."""


@dataclass(frozen=True)
class Attack:
    """Plays games against a step: 39 examples have no gradient, and one more has a gradient above the clipping norm."""

    sampler: Any
    overflow: float = 0.0
    sampled: bool = True

    def play(self, noise: float, games: int) -> Scores:
        return self._scores(noise, games, ROWS), self._scores(noise, games, ROWS - 1)

    def _scores(self, noise: float, games: int, rows: int) -> np.ndarray:
        """Log likelihood ratios of the releases, by what their gradient says of the example."""
        count = RELEASES if self.sampled else 1
        moved = self._moved(noise, games * count // MODELS, rows).reshape(games, count)
        ratios = (2 * moved - 1) / (2 * noise**2)
        if not self.sampled:
            return ratios[:, 0]
        return np.asarray(np.log(1 - RATE + RATE * np.exp(ratios)).sum(axis=1))

    def _moved(self, noise: float, steps: int, rows: int) -> np.ndarray:
        """How far each release of each model is moved in the direction of the example, in clipping norms."""
        x, y = torch.zeros(rows, 2), torch.zeros(rows, 1)
        x[ROWS - 1 :, 0], y[ROWS - 1 :] = 1.0, 10.0
        net = nn.Linear(2, 1, bias=False)
        nn.init.zeros_(net.weight)
        recipe = Descent(
            steps=steps,
            sampler=self.sampler,
            clip=flat(0.1),
            update=keep_gradient(),
            loss=squared,
            overflow=self.overflow,
        )
        with matmul_precision("float32"):
            prepared = prepare([net] * MODELS, recipe.loss, x, y, DEVICE)
            run = Training(recipe, members([net] * MODELS, [noise] * MODELS), prepared, rows=ROWS, rng=Rng())
            step, moved = stepper(run), []
            for _ in range(steps):
                step()
                moved.append(-run.state.update["gradient"][:, 0].double().cpu() * run.divisor / 0.1)
        return torch.stack(moved).numpy()


def case(attack: Attack) -> Case:
    recipe = Descent(steps=1, sampler=attack.sampler, clip=flat(0.1), update=keep_gradient(), overflow=attack.overflow)
    play = attack.play
    bugs: dict[str, Callable[[int], Scores]] = {"half the noise": lambda games: play(0.5, games)}
    if not attack.sampled:
        ideal = lambda rng, games: ideal_attackers.gaussian(rng, games, noise=1.0)  # noqa: E731
        return Case(claim=recipe.cost(1.0), noise=1.0, play=play, ideal=ideal, bugs=bugs, games=GAMES)
    bugs["sampling priced and not done"] = lambda games: Attack(FullBatch()).play(1.0, games)
    return Case(
        claim=RELEASES * recipe.cost(1.0),
        noise=1.0,
        play=play,
        ideal=lambda rng, games: ideal_attackers.sampled_gaussian(rng, games, noise=1.0, rate=RATE, count=RELEASES),
        bugs=bugs,
        games=GAMES,
    )


ATTACKS = {
    "full batch": Attack(FullBatch(), sampled=False),
    "host samples": Attack(Poisson(rate=RATE)),
    "drawn on the device": Attack(Poisson(rate=RATE), overflow=1e-6),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_game_against_the_step_proves_most_of_its_claim(name: str) -> None:
    game = case(ATTACKS[name])
    proved = game.proven(game.play(game.noise, game.games))
    assert 0.75 * game.ideal_proof(game.games) <= proved <= game.claimed


@pytest.mark.parametrize("name", ATTACKS)
def test_game_against_the_step_finds_planted_bugs(name: str) -> None:
    game = case(ATTACKS[name])
    for bug, play in game.bugs.items():
        assert game.proven(play(game.games)) > game.claimed, bug
