"""A canary game of one mechanism: worst-case neighbours, how it is played, its ideal attacker and its planted bugs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from privaware import accounting
from privaware.attacks._bounds import epsilon_lower
from privaware.data import Data
from privaware.events import Event
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import privacy_losses, record, redrawn_losses
from privaware.testing._likelihood import log_ratio
from privaware.testing._rows import joined

CONFIDENCE = 0.999
PILOT = 50_000
"""Games of the simulation in which thresholds are chosen, so that all others can be tested."""
Scores = tuple[np.ndarray, np.ndarray]
Play = Callable[[float, int], Scores]


@dataclass(frozen=True, kw_only=True)
class Case:
    """`play` returns scores with and without the row, of a run at some noise; `ideal` simulates them.

    `claim` is what one game costs, at `noise`; `delta` is where proof and claim are compared. Each of `bugs` plays the
    same game against a broken mechanism. `runs` plays by real runs where `play` noises recorded values again.
    """

    claim: Event
    noise: float
    play: Play
    ideal: Callable[[np.random.Generator, int], Scores]
    bugs: dict[str, Callable[[int], Scores]]
    runs: Play | None = None
    delta: float = 0.1
    games: int = 20_000

    def proven(self, scores: Scores) -> float:
        """The epsilon below which these scores are not possible; the threshold is chosen in a simulation."""
        return epsilon_lower(*scores, delta=self.delta, confidence=CONFIDENCE, pilot=self.pilot)

    @cached_property
    def pilot(self) -> Scores:
        return self.ideal(np.random.default_rng(1), PILOT)

    def ideal_proof(self, games: int) -> float:
        """What the ideal attacker proves on average with as many games."""
        return float(np.mean(self._ideal_proofs(games, 10)))

    def unlucky_proof(self, games: int) -> float:
        """What the least lucky of 200 ideal attackers proves: with few games, much less than the average."""
        return min(self._ideal_proofs(games, 200))

    def _ideal_proofs(self, games: int, repeats: int) -> list[float]:
        rng = np.random.default_rng(0)
        return [self.proven(self.ideal(rng, games)) for _ in range(repeats)]

    @property
    def claimed(self) -> float:
        return float(accounting.epsilon(self.claim, self.delta))


@dataclass(frozen=True)
class CountsRowsTwice:
    """A planted bug: each row moves the sum by twice its sensitivity."""

    mechanism: Any

    def run(self, data: Data, noise: float, rng: Rng) -> Any:
        return self.mechanism.run(data.take(np.repeat(np.arange(len(data)), 2)), noise, rng)


def redrawn(mechanism: Any, rows: tuple[Data, Data], count: int = 1) -> Play:
    """Games that noise the recorded values of a few runs again, `count` times each."""
    return lambda noise, games: redrawn_losses(mechanism, *rows, noise, games=games, count=count, seed=1)


def redrawn_for_a_unit(mechanism: Any, rows: tuple[Data, Data]) -> Play:
    """The same for neighbours several rows apart, of a mechanism that samples no rows."""

    def play(noise: float, games: int) -> Scores:
        without, within = (record(mechanism, each, noise, seed=1).calls for each in rows)
        rng, scores = Rng(seed=1), []
        for side in (within, without):
            noised = [rng.gaussian(np.stack([call.exact] * games), **call.public) for call in side]
            pairs = zip(without, within, noised, strict=True)
            scores.append(np.sum([log_ratio(*each).reshape(games, -1).sum(axis=1) for each in pairs], axis=0))
        return scores[0], scores[1]

    return play


def runs(mechanism: Any, rows: tuple[Data, Data]) -> Play:
    """A run for each game."""

    def scores(noise: float, seeds: range, ran: str) -> np.ndarray:
        played = [privacy_losses(mechanism, *rows, noise, seed=seed, ran=ran) for seed in seeds]
        return np.array([sum(float(release.sum()) for release in losses) for losses in played])

    return lambda noise, games: (
        scores(noise, range(games), "neighbour"),
        scores(noise, range(games, 2 * games), "data"),
    )


def repeated(mechanism: Any, rows: tuple[Data, Data], count: int) -> Play:
    """So many runs for each game."""
    play = runs(mechanism, rows)

    def scores(noise: float, games: int) -> Scores:
        with_row, without = play(noise, games * count)
        return with_row.reshape(games, count).sum(axis=1), without.reshape(games, count).sum(axis=1)

    return scores


def steps(learner: Any, rows: tuple[Data, Data], count: int) -> Play:
    """One long run on either data set; `count` steps of it are a game."""

    def play(noise: float, games: int) -> Scores:
        long = replace(learner, steps=games * count, lr=1e-6)
        sides = [privacy_losses(long, *rows, noise, seed=1, ran=ran) for ran in ("neighbour", "data")]
        with_row, without = (
            np.array([float(step.sum()) for step in side]).reshape(games, count).sum(axis=1) for side in sides
        )
        return with_row, without

    return play


def pair(schema: Schema, rows: Any, labels: list[int], row: Any, label: int) -> tuple[Data, Data]:
    """Rows, and the same with one more."""
    kind = object if any(not column.bounded and column.kind == "category" for column in schema.used) else float
    x = np.array(rows, dtype=kind).reshape(len(labels), len(schema.used))
    data = Data(schema=schema, x=x, y=np.array(labels, dtype=np.int64))
    return data, joined(data, np.array(row, dtype=kind), label)


NUMBER = Column(name="a", low=0, high=1, bins=(0.5,))
ONE = Schema(columns=(NUMBER,), classes=("no", "yes"), rows=10)
TWO = replace(ONE, columns=(NUMBER, replace(NUMBER, name="b")), rows=1000)
ALONE = pair(ONE, [], [], [1.0], 1)
