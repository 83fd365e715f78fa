"""More planted bugs of noisy descent: in prices, samples, clipping, noise, checkpoints, resumed runs and searches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from privaware.data import Data
from privaware.events import ZCDP, Approximate, Disjoint, Event, Gaussian, Group, Laplace, Pure
from privaware.noise import Rng
from privaware.schema import Schema
from tests.testing.planted_descent import Slope

# Accounting.


class RateSquared(Slope):
    """Amplification is counted twice."""

    def cost(self, schema, noise):
        return self.steps * Gaussian(noise=noise).sampled(rate=self.rate**2)


class StepsAsDisjoint(Slope):
    """Steps on the same rows are priced as if each had rows of its own."""

    def cost(self, schema, noise):
        return Disjoint(events=(Gaussian(noise=noise).sampled(rate=self.rate),) * self.steps)


class VarianceAsMultiplier(Slope):
    def cost(self, schema, noise):
        return self.steps * Gaussian(noise=4 * noise).sampled(rate=self.rate)


class FailureOnly(Slope):
    """Priced as a small chance of failure, without an epsilon."""

    def cost(self, schema, noise):
        return Approximate(epsilon=1 / (1 + noise), delta=1e-9)


class RhoOfOneStep(Slope):
    def cost(self, schema, noise):
        return ZCDP(rho=self.rate**2 / (2 * noise**2))


class GroupForgotten(Slope):
    """Each row counts three times and is priced as one."""

    def release(self, gradients, noise, rng):
        return rng.gaussian(3 * self.clipped(gradients, self.norm).sum(axis=0), noise=noise, sensitivity=self.norm)


class GroupOfHalf(Slope):
    """The right group, of half of the releases."""

    def cost(self, schema, noise):
        return Group(event=(self.steps // 4) * Gaussian(noise=noise).sampled(rate=self.rate), size=1)


# Sampling.


class RateDoubled(Slope):
    def sample(self, rows, rng):
        return np.flatnonzero(rng.poisson(rows, 2 * self.rate))


class OneSampleForAllSteps(Slope):
    def run(self, data, noise, rng):
        kept = data.take(np.flatnonzero(rng.poisson(len(data), self.rate)))
        return Slope.run(replace(self, rate=1.0), kept, noise, rng)


class LargestGradientsSampled(Slope):
    """Takes the steepest quarter of the rows, and prices a random one."""

    def run(self, data, noise, rng):
        x = self.scaled(data)
        order = np.argsort(-np.abs(x).sum(axis=1))[: max(1, len(x) // 4)]
        return Slope.run(replace(self, rate=1.0), data.take(order), noise, rng)


# Clipping.


class ClipByCoordinate(Slope):
    """Each coordinate is held to the norm, so that the row is not."""

    def clipped(self, gradients, norm):
        return np.clip(4 * gradients, -norm, norm)


class ClipTheSum(Slope):
    def clipped(self, gradients, norm):
        total = gradients.sum(axis=0, keepdims=True)
        return super().clipped(3 * total, 3 * norm)


class ClipByTheMean(Slope):
    """Twice the mean length of the batch is the clipping norm."""

    def clipped(self, gradients, norm):
        lengths = np.linalg.norm(gradients, axis=1)
        return super().clipped(gradients, 2 * max(norm, float(lengths.mean()))) if len(gradients) else gradients


class ClipOnlyLarge(Slope):
    """Clips beyond ten times the norm only."""

    def clipped(self, gradients, norm):
        lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
        return np.where(lengths > 10 * norm, super().clipped(gradients, norm), gradients)


# Noise and summation.


class NoiseOnTheFirst(Slope):
    """Only one number of the sum is noised."""

    def release(self, gradients, noise, rng):
        total = self.clipped(gradients, self.norm).sum(axis=0)
        total[:1] = rng.gaussian(total[:1], noise=noise, sensitivity=self.norm)
        return total


class NoiseScaledByRate(Slope):
    def release(self, gradients, noise, rng):
        return super().release(gradients, noise * self.rate, rng)


class NoiseRefined(Slope):
    """Draws until the noisy sum is near the exact one."""

    def release(self, gradients, noise, rng):
        total = self.clipped(gradients, self.norm).sum(axis=0)
        noisy = rng.gaussian(total, noise=noise, sensitivity=self.norm)
        for _ in range(4):
            if np.linalg.norm(noisy - total) < noise * self.norm:
                break
            noisy = rng.gaussian(total, noise=noise, sensitivity=self.norm)
        return noisy


class RowsCountedTwice(Slope):
    def release(self, gradients, noise, rng):
        return super().release(np.repeat(gradients, 2, axis=0), noise, rng)


class CentredByTheMean(Slope):
    """The exact mean gradient is taken from every row first."""

    def release(self, gradients, noise, rng):
        mean = gradients.mean(axis=0) if len(gradients) else 0.0
        total = self.clipped(gradients - mean, self.norm).sum(axis=0) + len(gradients) * mean
        return rng.gaussian(total, noise=noise, sensitivity=self.norm)


# Checkpoints and resumed runs.


class CheckpointOfTheSum(Slope):
    """The state to resume from holds the last exact sum, and is released with the weights."""

    def run(self, data, noise, rng):
        released = super().run(data, noise, rng)
        x, y = self.scaled(data), data.y * 2.0 - 1.0
        exact_sum = self.clipped((x @ released["weights"] - y)[:, None] * x, self.norm).sum(axis=0)
        return {**released, "checkpoint": exact_sum}


class CheckpointOfTheSample(Slope):
    """The state to resume from tells how many rows were in the last sample."""

    def run(self, data, noise, rng):
        released = super().run(data, noise, rng)
        return {**released, "checkpoint": {"batch": int(rng.poisson(len(data), self.rate).sum())}}


class ResumedFromTheStart(Slope):
    """Two steps, a stop, and then all steps again, for one charge."""

    def run(self, data, noise, rng):
        Slope.run(replace(self, steps=2), data, noise, rng)
        return super().run(data, noise, rng)


class ResumedWithTheSameNoise(Slope):
    """After the stop the generator starts where it started before."""

    def run(self, data, noise, rng):
        half = replace(self, steps=self.steps // 2)
        first = Slope.run(half, data, noise, rng)
        second = Slope.run(half, data, noise, Rng(seed=1 if rng.seed is None else rng.seed))
        return {"weights": first["weights"] + second["weights"]}


class StepsUntilGood(Slope):
    """Goes on until the exact loss is small."""

    def run(self, data, noise, rng):
        x, y = self.scaled(data), data.y * 2.0 - 1.0
        weights = np.zeros(x.shape[1])
        for _ in range(self.steps):
            if len(y) and float(((x @ weights - y) ** 2).mean()) < 0.97:
                break
            weights = weights + Slope.run(replace(self, steps=1), data, noise, rng)["weights"]
        return {"weights": weights}


# Searches.


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Correct: three candidates, each trained and paid for; all of them are released."""

    lrs: tuple[float, ...] = (0.1, 0.5, 1.0)

    def cost(self, schema: Schema, noise: float) -> Event:
        return len(self.lrs) * Slope(steps=2).cost(schema, noise)

    def run(self, data: Data, noise: float, rng: Rng) -> Any:
        return [self.candidate(lr).run(data, noise, rng)["weights"] for lr in self.lrs]

    def candidate(self, lr: float) -> Slope:
        return Slope(steps=2, lr=lr)


class CandidatesForOne(Candidates):
    """P14: all candidates are trained, one is charged."""

    def cost(self, schema, noise):
        return Slope(steps=2).cost(schema, noise)


class BestByExactScore(Candidates):
    def run(self, data, noise, rng):
        weights = super().run(data, noise, rng)
        x, y = Slope().scaled(data), data.y * 2.0 - 1.0
        losses = [float(((x @ each - y) ** 2).sum()) for each in weights]
        return weights[int(np.argmin(losses))]


class BestByQuietScore(Candidates):
    """The choice by a noisy score, whose noise is a tenth of what is charged."""

    def cost(self, schema, noise):
        return super().cost(schema, noise) + Pure(epsilon=1 / noise)

    def run(self, data, noise, rng):
        weights = super().run(data, noise, rng)
        x, y = Slope().scaled(data), data.y > 0
        correct = np.array([float(((x @ each > 0) == y).sum()) for each in weights])
        return weights[rng.choose(correct, epsilon=10 / noise, sensitivity=1.0)]


class NextByExactScore(Candidates):
    """An adaptive search: the exact score of the first candidate decides whether there is a second."""

    def run(self, data, noise, rng):
        first = self.candidate(0.5).run(data, noise, rng)["weights"]
        x, y = Slope().scaled(data), data.y > 0
        good = bool(len(y)) and float(((x @ first > 0) == y).mean()) > 0.6
        return first if good else self.candidate(1.0).run(data, noise, rng)["weights"]


class TrialsInTheJournal(Candidates):
    """The journal of the search is released with exact scores."""

    def run(self, data, noise, rng):
        weights = super().run(data, noise, rng)
        x, y = Slope().scaled(data), data.y > 0
        return weights[0], {"journal": [int(((x @ each > 0) == y).sum()) for each in weights]}


class ScoreOnTrainingRows(Candidates):
    """Training and scoring rows overlap, and are priced as disjoint."""

    def cost(self, schema, noise):
        return Disjoint(events=(super().cost(schema, noise), Laplace(noise=noise)))

    def run(self, data, noise, rng):
        weights = super().run(data, noise, rng)
        x, y = Slope().scaled(data), data.y > 0
        correct = float(((x @ weights[0] > 0) == y).sum())
        return weights, rng.laplace(correct, noise=noise, sensitivity=1.0)
