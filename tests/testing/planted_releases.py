"""Sums, choices, randomised response and populations without bugs, and with a planted bug in each: what the checks
exist for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from privaware.data import Data
from privaware.events import Disjoint, Event, Gaussian, Laplace, Pure, RandomisedResponse
from privaware.noise import Rng
from privaware.schema import Schema


@dataclass(frozen=True, kw_only=True)
class Sums:
    """Correct: the sum of each number column, with Laplace noise."""

    def cost(self, schema: Schema, noise: float) -> Event:
        return len(self.numbers(schema)) * Laplace(noise=noise)

    def numbers(self, schema: Schema) -> list[int]:
        return [at for at, column in enumerate(schema.used) if column.kind == "number"]

    def bounds(self, schema: Schema, at: int) -> tuple[float, float]:
        return schema.used[at].low, schema.used[at].high

    def run(self, data: Data, noise: float, rng: Rng) -> Any:
        sums = []
        for at in self.numbers(data.schema):
            low, high = self.bounds(data.schema, at)
            exact_sum = float(self.inside(data.x[:, at], low, high).sum())
            sums.append(rng.laplace(exact_sum, noise=noise, sensitivity=max(abs(low), abs(high))))
        return tuple(sums)

    def inside(self, values: np.ndarray, low: float, high: float) -> np.ndarray:
        return np.clip(np.nan_to_num(values), low, high)


class WrongBoundIndex(Sums):
    """P30: the bounds of the next column."""

    def inside(self, values, low, high):
        return np.clip(np.nan_to_num(values), 0.0, 10.0)


class UpperBoundOnly(Sums):
    """P30: right for bounds that start at 0 only, or that are alike on both sides."""

    def run(self, data, noise, rng):
        values = np.clip(np.nan_to_num(data.x[:, 1]), -3.0, 1.0)
        return rng.laplace(float(values.sum()), noise=noise, sensitivity=1.0)


class CheaperWithColumns(Sums):
    """More columns get more noise: charged before a selection of columns, run on the selected ones."""

    def cost(self, schema, noise):
        return super().cost(schema, len(self.numbers(schema)) ** 2 * noise)

    def run(self, data, noise, rng):
        return super().run(data, len(self.numbers(data.schema)) ** 2 * noise, rng)


@dataclass(frozen=True, kw_only=True)
class Commonest:
    """Correct: the class that most rows have, by noisy choice."""

    weight: float = 1.0

    def cost(self, schema: Schema, noise: float) -> Event:
        return Pure(epsilon=1 / noise)

    def run(self, data: Data, noise: float, rng: Rng) -> Any:
        counts = np.bincount(data.y, minlength=len(data.schema.classes)) * self.weight
        return data.schema.classes[rng.choose(counts, epsilon=1 / noise, sensitivity=1.0)]


@dataclass(frozen=True, kw_only=True)
class Answers:
    """Correct: every label by randomised response."""

    unit: str = "label"

    def cost(self, schema: Schema, noise: float) -> Event:
        return RandomisedResponse(epsilon=1 / noise, classes=len(schema.classes))

    def run(self, data: Data, noise: float, rng: Rng) -> Any:
        exact_labels = self.labels(data)
        return rng.respond(exact_labels, epsilon=1 / noise, classes=len(data.schema.classes))

    def labels(self, data: Data) -> np.ndarray:
        return data.y


class AnswersShifted(Answers):
    """One label decides what happens to all."""

    def labels(self, data):
        return (data.y + data.y.sum()) % len(data.schema.classes)


@dataclass(frozen=True, kw_only=True)
class AnswersForRows(Answers):
    """Claims to protect rows, but shows how many there are."""

    unit: str = "row"


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Correct: a noisy mean in each of two disjoint parts, paid for once."""

    def cost(self, schema: Schema, noise: float) -> Event:
        return Disjoint(events=(Gaussian(noise=noise), Gaussian(noise=noise)))

    def run(self, data: Data, noise: float, rng: Rng) -> Any:
        parts = self.parts(data, rng)
        return [rng.gaussian(float(len(part)), noise=noise, sensitivity=1.0) for part in parts]

    def parts(self, data: Data, rng: Rng) -> tuple[Data, ...]:
        return data.split(rng, (0.5, 0.5))


class PartsOverlap(Parts):
    def parts(self, data, rng):
        return data, data


@dataclass(frozen=True, kw_only=True)
class Stages:
    """Correct: labels by randomised response in two disjoint parts, the second among classes common in the first."""

    unit: str = "label"

    def cost(self, schema: Schema, noise: float) -> Event:
        first = RandomisedResponse(epsilon=1 / noise, classes=len(schema.classes))
        return Disjoint(events=(first, Pure(epsilon=1 / noise)))

    def run(self, data: Data, noise: float, rng: Rng) -> Any:
        public = {"epsilon": 1 / noise, "classes": len(data.schema.classes)}
        part = rng.shards(len(data), (0.5, 0.5))
        first = rng.respond(data.y[part == 0], **public)
        exact_labels = self.second(data, part)
        counts = np.bincount(self.seen(data, first), minlength=public["classes"])
        common = np.repeat((counts == counts.max())[None], len(exact_labels), axis=0)
        return first, rng.respond(exact_labels, **public, candidates=common)

    def second(self, data: Data, part: np.ndarray) -> np.ndarray:
        return data.y[part == 1]

    def seen(self, data: Data, first: np.ndarray) -> np.ndarray:
        return first


class StagesOverlap(Stages):
    """Labels of the first stage are randomised again."""

    def second(self, data, part):
        return data.y


class StagesOverlapByOne(Stages):
    """One row of the first stage is in the second too."""

    def second(self, data, part):
        return data.y[(part == 1) | (np.arange(len(part)) == len(part) - 1)]


class StagesAnswerTwice(Stages):
    """The first stage is answered a second time, on the same rows."""

    def run(self, data, noise, rng):
        part = rng.shards(len(data), (0.5, 0.5))
        classes = len(data.schema.classes)
        return [rng.respond(data.y[part == 0], epsilon=1 / noise, classes=classes) for _ in range(2)]


class StagesSeeLabels(Stages):
    """The candidates are the classes that are common among true labels."""

    def seen(self, data, first):
        return data.y


@dataclass(frozen=True, kw_only=True)
class Crowd:
    """Correct: a population, each member with its own sample and its own noise in one stacked call."""

    def cost(self, schema: Schema, noise: float) -> Event:
        return sum((Gaussian(noise=noise * k).sampled(rate=0.5) for k in (2, 3)), Gaussian(noise=noise))

    def run(self, data: Data, noise: float, rng: Rng) -> Any:
        total = rng.gaussian(float(len(data)), noise=noise, sensitivity=1.0)
        counts = [[rng.poisson(len(data), 0.5).sum() * s] * 2 for s in (1.0, 7.0)]
        levels, bounds = noise * np.array([[2.0], [3.0]]), np.array([[1.0], [7.0]]) * 2**0.5
        return total, rng.gaussian(np.array(counts), noise=levels, sensitivity=bounds)


class CrowdMixed(Crowd):
    """The second member is held to the first one's bound."""

    def run(self, data, noise, rng):
        counts = [[rng.poisson(len(data), 0.5).sum() * s] * 2 for s in (1.0, 7.0)]
        return rng.gaussian(
            np.array(counts), noise=noise * np.array([[2.0], [3.0]]), sensitivity=np.array([[2.0], [2.0]])
        )
