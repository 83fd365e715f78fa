"""Two contenders trained at several epsilons, several times each: one mechanism with one price."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from privaware.data import Data
from privaware.events import NOTHING, Disjoint, Event, Gaussian
from privaware.mechanism import Mechanism
from privaware.mechanism import unit as protected
from privaware.model import Model
from privaware.noise import Rng
from privaware.schema import Schema

__all__ = ["Compared", "Comparison", "Side", "right"]


@dataclass(frozen=True, kw_only=True)
class Side:
    """A learner, the columns it sees, and its noise at each epsilon."""

    mechanism: Mechanism[Model]
    columns: tuple[str, ...]
    noises: tuple[float, ...]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Compared:
    """What was paid for: noised scores (sides x epsilons x repeats), or else every model, in that order."""

    scores: np.ndarray | None
    models: tuple[Model, ...]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All trainings of both sides on one part of the rows, and one noised table of scores on the other.

    The knob scales all noises, so 1 is as planned. With `held_out` 0 every row trains, nothing is scored here, and the
    models are what is released. Privacy: the trainings compose. A row is in one of the two parts, drawn for it alone,
    so the dearer part counts; where one person may have rows in both, the two are composed. Scores are counts over the
    held-out rows, with the number of those rows counted beside them: a row moves each by at most 1, so all of them by
    the root of how many there are, and their quotients are post-processing.
    """

    sides: tuple[Side, ...]
    repeats: int
    held_out: float
    scored: float = 1.0

    @property
    def unit(self) -> str:
        return "label" if all(protected(side.mechanism) == "label" for side in self.sides) else "row"

    def trainings(self, schema: Schema, noise: float = 1.0) -> Event:
        """Every training, composed."""
        facts = self.trained_on(schema)
        counted: dict[Event, int] = {}
        for side in self.sides:
            for level in side.noises:
                event = side.mechanism.cost(facts.keep(side.columns), level * noise)
                counted[event] = counted.get(event, 0) + self.repeats
        return sum((count * event for event, count in counted.items()), start=NOTHING)

    def cost(self, schema: Schema, noise: float) -> Event:
        trainings = self.trainings(schema, noise)
        if not self.held_out:
            return trainings
        scores = Gaussian(noise=self.scored * noise)
        if schema.unit in ("row", "label"):
            return Disjoint(events=(trainings, scores))
        return trainings + scores

    def run(self, data: Data, noise: float, rng: Rng) -> Compared:
        train, test = data, data.take(np.zeros(len(data), dtype=bool))
        if self.held_out:
            train, test = data.split(rng, (1 - self.held_out, self.held_out))
        facts = self.trained_on(data.schema)
        made: list[Model] = []
        for side in self.sides:
            own = replace(train, schema=facts).keep(side.columns)
            for level in side.noises:
                made += _repeated(side.mechanism, own, level * noise, self.repeats, rng)
        if not self.held_out:
            return Compared(scores=None, models=tuple(made))
        exact = np.array([*(right(model, test) for model in made), float(len(test))])
        noisy = rng.gaussian(exact, noise=self.scored * noise, sensitivity=math.sqrt(exact.size))
        shares = np.clip(noisy[:-1] / max(float(noisy[-1]), 1.0), 0, 1)
        return Compared(scores=shares.reshape(self.shape), models=())

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of the table of scores."""
        return len(self.sides), len(self.sides[0].noises), self.repeats

    def trained_on(self, schema: Schema) -> Schema:
        """The facts about the rows to train on."""
        return replace(schema, rows=max(1, schema.rows - round(schema.rows * self.held_out)))


def right(model: Model, data: Data) -> float:
    """The sum over rows of what each gets right: 0 or 1, or 1 - error over the declared range."""
    if not len(data):
        return 0.0
    own = data.keep(tuple(column.name for column in model.schema.used))
    guess = model.predictions(own)
    if model.schema.classes:
        return float(np.sum(guess == own.y))
    low, high = float(model.schema.low or 0.0), float(model.schema.high or 0.0)
    far = np.abs(np.clip(own.y, low, high) - np.clip(guess, low, high)) / (high - low)
    # A model that diverged may have no number for a row: that row counts as wrong, and for itself only.
    return float(np.nan_to_num(1 - far, nan=0.0).sum())


def _repeated(mechanism: Mechanism[Model], data: Data, noise: float, repeats: int, rng: Rng) -> Sequence[Model]:
    """Networks as one population, anything else one after another."""
    from privaware.learners._networks import Network, run_many

    if isinstance(mechanism, Network):
        networks: list[Any] = [mechanism] * repeats
        return run_many(networks, data, noise, rng)
    return [mechanism.run(data, noise, rng) for _ in range(repeats)]
