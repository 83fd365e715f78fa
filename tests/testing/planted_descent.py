"""Noisy gradient descent without bugs, and with one planted bug in each class: what the checks exist for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from privaware.data import Data
from privaware.events import Event, Gaussian, Pure
from privaware.noise import Rng
from privaware.schema import Schema


@dataclass(frozen=True, kw_only=True)
class Slope:
    """Correct: least squares by clipped, Poisson-sampled, noisy gradient descent."""

    steps: int = 4
    rate: float = 0.25
    norm: float = 0.5
    lr: float = 0.5

    def cost(self, schema: Schema, noise: float) -> Event:
        return self.steps * Gaussian(noise=noise).sampled(rate=self.rate)

    def run(self, data: Data, noise: float, rng: Rng) -> Any:
        x, y = self.scaled(data), data.y * 2.0 - 1.0
        weights = np.zeros(x.shape[1])
        for _ in range(self.steps):
            batch = self.sample(len(x), rng)
            gradients = (x[batch] @ weights - y[batch])[:, None] * x[batch]
            noisy = self.release(gradients, noise, rng)
            weights = weights - self.lr * noisy / self.divisor(data, batch)
        return self.report(weights, x, y)

    def scaled(self, data: Data) -> np.ndarray:
        ends = np.array([_ends(column) for column in data.schema.used]).T
        inside = np.clip(np.nan_to_num(data.x), *ends)
        return (2 * inside - ends[0] - ends[1]) / (ends[1] - ends[0])

    def sample(self, rows: int, rng: Rng) -> np.ndarray:
        return np.flatnonzero(rng.poisson(rows, self.rate))

    def clipped(self, gradients: np.ndarray, norm: float) -> np.ndarray:
        norms = np.linalg.norm(gradients, axis=1, keepdims=True)
        return gradients * np.minimum(1, norm / np.maximum(norms, 1e-12))

    def release(self, gradients: np.ndarray, noise: float, rng: Rng) -> np.ndarray:
        total = self.clipped(gradients, self.norm).sum(axis=0)
        return rng.gaussian(total, noise=noise, sensitivity=self.norm)

    def divisor(self, data: Data, batch: np.ndarray) -> float:
        return self.rate * data.schema.rows

    def report(self, weights: np.ndarray, x: np.ndarray, y: np.ndarray) -> Any:
        return {"weights": weights, "settings": {"steps": self.steps, "name": "slope"}}


def _ends(column: Any) -> tuple[float, float]:
    return (0, len(column.categories)) if column.kind == "category" else (column.low, column.high)


# Noise.


class NoiseForgotten(Slope):
    def release(self, gradients, noise, rng):
        return self.clipped(gradients, self.norm).sum(axis=0)


class NoiseHalved(Slope):
    def release(self, gradients, noise, rng):
        return super().release(gradients, noise / 2, rng)


class NoisePerMicroBatch(Slope):
    """Every two rows get a noise of their own, so that the noise grows with the batch."""

    def release(self, gradients, noise, rng):
        chunks = range(0, max(len(gradients), 1), 2)
        return sum(Slope.release(self, gradients[at : at + 2], noise / len(chunks) ** 0.5, rng) for at in chunks)


class NoiseAfterTheMean(Slope):
    def release(self, gradients, noise, rng):
        rows = max(len(gradients), 1)
        mean = self.clipped(gradients, self.norm).sum(axis=0) / rows
        return rng.gaussian(mean, noise=noise, sensitivity=self.norm / rows) * rows


class NoiseReused(Slope):
    """Drawn once, added in every step."""

    def release(self, gradients, noise, rng):
        if not hasattr(rng, "first_noise"):
            rng.first_noise = rng.gaussian(np.zeros(gradients.shape[1]), noise=noise, sensitivity=self.norm)
        return self.clipped(gradients, self.norm).sum(axis=0) + rng.first_noise


class NoiseIgnoresTheKnob(Slope):
    def release(self, gradients, noise, rng):
        return super().release(gradients, 3.0, rng)


class BatchFactor(Slope):
    """P11: the deviation of a mean's noise used for a sum."""

    def release(self, gradients, noise, rng):
        total = self.clipped(gradients, self.norm).sum(axis=0)
        return rng.gaussian(total, noise=noise, sensitivity=self.norm / 24)


class QuietFastPath(Slope):
    """Correct under the recorder, a tenth of the noise on the generator of a real run."""

    def release(self, gradients, noise, rng):
        return super().release(gradients, noise / 10 if type(rng) is Rng else noise, rng)


# Clipping and bounds.


class NoClip(Slope):
    def clipped(self, gradients, norm):
        return gradients


class ClipOffByTwo(Slope):
    def clipped(self, gradients, norm):
        return super().clipped(gradients, 2 * norm)


class BoundsFromData(Slope):
    def scaled(self, data):
        if len(data) == 0:
            return data.x
        known = np.nan_to_num(data.x)
        low, high = known.min(axis=0), known.max(axis=0)
        return np.nan_to_num((known / 2 - low / 2) / np.maximum(high / 2 - low / 2, 1e-9)) - 0.5


class CrashWithoutRows(Slope):
    def scaled(self, data):
        return super().scaled(data) / np.abs(super().scaled(data)).max(initial=None)


class NotFinite(Slope):
    """One infinite value and the sum is not finite."""

    def run(self, data, noise, rng):
        with np.errstate(all="ignore"):
            return super().run(data, noise, rng)

    def scaled(self, data):
        return np.where(np.isinf(data.x), data.x, super().scaled(data))


# Sampling and steps.


class RealisedDivisor(Slope):
    def divisor(self, data, batch):
        return max(len(batch), 1)


class ShuffledAsPoisson(Slope):
    def sample(self, rows, rng):
        return rng.initial.permutation(rows)[: int(self.rate * rows)]


class SampledWithReplacement(Slope):
    def sample(self, rows, rng):
        return rng.initial.integers(0, rows, int(self.rate * 24)) if rows else np.arange(0)


class SampleIgnored(Slope):
    """Draws the sample, charges for it, and then takes every row."""

    def sample(self, rows, rng):
        rng.poisson(rows, self.rate)
        return np.arange(rows)


class RateFromData(Slope):
    def sample(self, rows, rng):
        return np.flatnonzero(rng.poisson(rows, min(1.0, 6 / max(rows, 6))))


class StepsOffByOne(Slope):
    def cost(self, schema, noise):
        return (self.steps - 1) * Gaussian(noise=noise).sampled(rate=self.rate)


class EmptyBatchSkipped(Slope):
    def release(self, gradients, noise, rng):
        if len(gradients) == 0:
            return np.zeros(gradients.shape[1])
        return super().release(gradients, noise, rng)


class OneSampleTwice(Slope):
    """Two releases on one sample, charged as if each had a sample of its own."""

    def cost(self, schema, noise):
        return 2 * super().cost(schema, noise)

    def release(self, gradients, noise, rng):
        return (super().release(gradients, noise, rng) + super().release(gradients, noise, rng)) / 2


# Control flow and the report.


class BranchOnLabels(Slope):
    """More noise where one class prevails: never too little, and yet the choice is seen."""

    def run(self, data, noise, rng):
        return super().run(data, noise * 2 if data.y.sum() > len(data) / 2 else noise, rng)


class EarlyStopping(Slope):
    """P16: the exact loss on validation rows decides when to stop."""

    def run(self, data, noise, rng):
        train, check = data.split(rng, (0.5, 0.5))
        inputs, labels = self.scaled(check), check.y * 2.0 - 1.0
        one, weights, best = replace(self, steps=1), np.zeros(inputs.shape[1]), np.inf
        for _ in range(self.steps):
            weights = weights + Slope.run(one, train, noise, rng)["weights"]
            loss = float(((inputs @ weights - labels) ** 2).sum())
            if loss > best:
                break
            best = loss
        return {"weights": weights}


class ScoreInTheReport(Slope):
    def report(self, weights, x, y):
        score = float(((x @ weights > 0) == (y > 0)).mean()) if len(y) else 0.0
        return {"weights": weights, "report": {"accuracy": score}}


class ScoreInAClosure(Slope):
    def report(self, weights, x, y):
        loss = float(((x @ weights - y) ** 2).sum())
        return {"weights": weights, "predict": lambda rows: rows @ weights + 0 * loss}


class BatchSizesLogged(Slope):
    def run(self, data, noise, rng):
        return super().run(data, noise, rng), f"trained on {len(data)} rows"


# Seeds.


class FixedSeed(Slope):
    def run(self, data, noise, rng):
        return super().run(data, noise, Rng(seed=0))


class OwnRandomness(Slope):
    def run(self, data, noise, rng):
        return super().run(data, noise, Rng())


class FixedNoise(Slope):
    """The sample is random, the noise is not."""

    def release(self, gradients, noise, rng):
        return super().release(gradients, noise, Rng(seed=0))


class TorchStream(Slope):
    def release(self, gradients, noise, rng):
        import torch

        noise_vector = torch.randn(gradients.shape[1], generator=rng.torch("noise"))
        return self.clipped(gradients, self.norm).sum(axis=0) + noise * self.norm * noise_vector.numpy()


# Cost.


class CostIsANumber(Slope):
    def cost(self, schema, noise):
        return 1.0 / noise


class CostByIdentity(Slope):
    """The price of one schema object differs from that of an equal one."""

    def cost(self, schema, noise):
        return (1 + id(schema) // 16) * Pure(epsilon=1 / noise)


class CostGrowsWithNoise(Slope):
    def cost(self, schema, noise):
        return self.steps * Gaussian(noise=4 / noise).sampled(rate=self.rate)


class CostOfRealisedRows(Slope):
    def cost(self, schema, noise):
        rate = min(1.0, 6 / getattr(self, "realised", schema.rows))
        return self.steps * Gaussian(noise=noise).sampled(rate=rate)

    def run(self, data, noise, rng):
        object.__setattr__(self, "realised", max(len(data), 1))
        return super().run(data, noise, rng)


class KeepsTheRows(Slope):
    def run(self, data, noise, rng):
        object.__setattr__(self, "kept", data.x[:1])
        return super().run(data, noise, rng)
