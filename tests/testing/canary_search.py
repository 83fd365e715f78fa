"""The canary game of a search: only the best of a secret number of trials is seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privaware import accounting
from privaware.data import Data
from privaware.events import Event, Laplace, Selected
from privaware.learners import Learner
from privaware.model import Model
from privaware.models.spaces import Space
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.strategies._search import Search
from privaware.strategies.rs import Rs
from tests.testing import ideal_attackers
from tests.testing.canary_case import NUMBER, Case, Scores, pair


@dataclass(frozen=True, kw_only=True)
class Counted(Learner):
    """A candidate of a search: the number of training rows, with noise; it predicts "yes" where that is negative."""

    tasks: ClassVar[tuple[str, ...]] = ("classification",)

    kind: str = ""

    def cost(self, schema: Schema, noise: float) -> Event:
        return Laplace(noise=noise)

    def run(self, data: Data, noise: float, rng: Rng) -> Model:
        count = rng.laplace(np.array([float(len(data))]), noise=noise, sensitivity=1.0)
        tensors = {"value": np.array([count[0], 0.0])}
        architecture = {"name": "constant", "inputs": 1, "outputs": 2}
        return _Constant(schema=data.schema, features=(), architecture=architecture, tensors=tensors)


class _Constant(Model):
    """The same outputs for every row, without a network."""

    def network_function(self, device: str = "cpu") -> Callable[[np.ndarray], np.ndarray]:
        return lambda inputs: np.tile(self.tensors["value"], (len(inputs), 1))


class _KnownSplit(Rng):
    """Rows beyond the hundredth train, the others are validation rows: the attacker knows the split."""

    def shards(self, rows: int, shares: tuple[float, ...]) -> np.ndarray:
        return (np.arange(rows) < CORRECT).astype(np.int64)


CORRECT = 100


def search() -> Case:
    """The best of a secret number of trials: one training row makes good candidates rarer."""
    schema = Schema(columns=(NUMBER,), classes=("no", "yes"), rows=2 * CORRECT)
    data, neighbour = pair(schema, np.zeros((CORRECT, 1)), [1] * CORRECT, [0.0], 1)
    space, noise = Space.load({"choices": {"kind": ["count"]}, "build": {"kind": "$kind"}}), 0.5
    mechanism = Search(
        space=space,
        strategy=Rs(trials=3),
        build=lambda settings: Counted(**settings),
        held_out=0.5,
        reference_noise=noise,
        reference_epsilon=1 / noise,
    )
    claim = mechanism.cost(schema, noise)
    assert isinstance(claim, Selected)
    known = {
        "scale": noise,
        "score_scale": 8 * noise,
        "correct": CORRECT,
        "mean_odds": 1 - accounting.trial_count_parameters(claim)[1],
    }

    def scores(rows: Data, at: float, seeds: range) -> np.ndarray:
        best = [mechanism.run(rows, at, _KnownSplit(seed=seed)) for seed in seeds]
        counts = np.array([result.model.tensors["value"][0] for result in best])
        released = np.array([result.score for result in best]) * CORRECT
        return ideal_attackers.best_of_many_ratio(counts, released, **known)

    def play(at: float, games: int) -> Scores:
        return scores(neighbour, at, range(games)), scores(data, at, range(games, 2 * games))

    return Case(
        claim=claim,
        noise=noise,
        delta=1e-5,
        games=1000,
        play=play,
        ideal=lambda rng, games: ideal_attackers.best_of_many(rng, games, **known),
        bugs={"half the noise": lambda games: play(noise / 2, games)},
    )
