"""Private gradient boosting of scores of levels, and of trees whose splits are random.

What is summed over rows, and that the sums are exact, is in `_leaf_sums.py`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from privaware._validate import expect_between, expect_count, expect_in
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import NOTHING, Event, Gaussian
from privaware.features.codes import Codes
from privaware.learners import Learner
from privaware.learners._leaf_sums import INSIDE, SECOND_WEIGHT, SPREADS, Gradients, random_splits
from privaware.learners._monotone import Monotone
from privaware.model import Model
from privaware.noise import Rng
from privaware.schema import Schema

__all__ = ["Boosting"]

MOMENTUM = 0.9
START = 0.05
"""Share of the budget for the bias and, in a regression, the spread of the target."""
DAMPING = 3.0
"""Noise added to the second derivatives of a leaf, in a regression: numbers in leaves of few rows are costly."""


@dataclass(frozen=True, kw_only=True)
class Boosting(Learner):
    """`share` is the part of the budget that the `steps` of the additive start take (0: no start).

    `cells` is about the number of levels of a number without declared bins.
    `lr` is the step of a tree, `reach` where residuals of a regression are clipped, over the target's private spread.
    `monotone` names number columns along which the model must rise (1) or fall (-1): in a classification, the chance of
    the second of two classes. `progress` changes nothing that is released.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification", "regression")

    trees: int = 400
    depth: int = 3
    lr: float = 0.1
    steps: int = 100
    share: float = 0.5
    cells: int = 32
    reach: float = 1.0
    monotone: dict[str, int] = field(default_factory=dict)
    progress: Callable[[int, int, float], None] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        expect_count(self._name, 0, trees=self.trees, steps=self.steps)
        expect_between(self._name, 1, 12, depth=self.depth)
        expect_between(self._name, 1e-4, 1, lr=self.lr)
        expect_between(self._name, 4, 4096, cells=self.cells)
        expect_between(self._name, 1e-3, 8, reach=self.reach)
        expect_in(self._name, "[0, 1]", share=self.share)
        if not self.trees and not self.steps:
            raise WrongInput(f"{self._name}: expected at least one step or one tree, got none of either")

    def cost(self, schema: Schema, noise: float) -> Event:
        if schema.form != "table" or not schema.used:
            raise WrongInput(f"{self._name}: expected a table with columns to learn from, got {schema.form} data")
        Codes(cells=self.cells).levels(schema)  # columns without bounds are refused before anything is charged
        Monotone.of(schema, self.monotone, self._name)
        counts = zip((_starts(schema), self.steps, self.trees), self._noises(schema, noise), strict=True)
        releases = [count * Gaussian(noise=scale) for count, scale in counts if math.isfinite(scale)]
        return sum(releases, start=NOTHING)

    def run(self, data: Data, noise: float, rng: Rng) -> Model:
        schema, (of_start, of_steps, of_trees) = data.schema, self._noises(data.schema, noise)
        feature = Codes(cells=self.cells, numbers=math.isfinite(of_steps))
        levels = feature.levels(schema)
        gradients = Gradients(data, feature(data.x, schema), levels)
        most_noise, monotone = gradients.most_noise(noise), Monotone.of(schema, self.monotone, self._name)
        weights = np.zeros((gradients.width, gradients.outputs))
        weights[0], deviations = _start(gradients, of_start, self.reach, rng), np.zeros(0)
        if math.isfinite(of_steps):
            weights, deviations = self._descend(gradients, weights, of_steps, most_noise, rng)
            weights = monotone.scores(weights, gradients.starts, levels)
        gradients.add_scores(weights)
        shape = (self.trees if math.isfinite(of_trees) else 0, self.depth)
        columns, right = random_splits(schema, levels, shape, rng.initial)
        leaves = self._boost(gradients, (columns, right), of_trees, most_noise, rng)
        last = 1 + sum(levels)
        tensors = {"bias": weights[0], "scores": weights[1:last], "slopes": weights[last:], "leaves": leaves}
        tensors = gradients.as_outputs(tensors) | {"columns": columns, "right": right}
        architecture = {
            "name": "trees",
            "levels": list(levels),
            "outputs": len(tensors["bias"]),
            "numbers": len(tensors["slopes"]),
            "trees": shape[0],
            "depth": self.depth,
            "deviations": [float(value) for value in deviations / (2 if len(schema.classes) == 2 else 1)],
        }
        return Model(schema=schema, features=(feature,), architecture=architecture, tensors=tensors)

    @property
    def _name(self) -> str:
        return type(self).__module__.rsplit(".", 1)[-1]

    def _noises(self, schema: Schema, noise: float) -> tuple[float, float, float]:
        """Noise multipliers of the start, a step and a tree, infinite for none: together one release of `noise`."""
        share = self.share if self.trees and self.steps else float(self.steps > 0)
        shares = (START, (1 - START) * share, (1 - START) * (1 - share))
        counts = (_starts(schema), self.steps, self.trees)
        start, step, tree = (
            noise * math.sqrt(count / part) if part else math.inf for count, part in zip(counts, shares, strict=True)
        )
        return start, step, tree

    def _descend(
        self, gradients: Gradients, weights: np.ndarray, noise: float, most_noise: float, rng: Rng
    ) -> tuple[np.ndarray, np.ndarray]:
        """Weights of an additive model: their mean over the last half of the steps, and the deviations noise gave them.

        Deviations are those of a level of each column and of each slope, by noise alone.
        """
        length, terms, steps = gradients.row_length, gradients.terms, self.steps
        sensitivity = gradients.length * length
        moved = noise * sensitivity * math.sqrt(steps) * length / (1 - MOMENTUM)
        stable = gradients.stable / (gradients.curvature * gradients.schema.rows * length**2)
        rate = min(most_noise / moved, stable) * gradients.unit
        velocity, average = np.zeros_like(weights), np.zeros_like(weights)
        for step in range(steps):
            exact_sums = gradients.level_sums(weights)
            noisy = rng.gaussian(exact_sums, noise=noise, sensitivity=sensitivity)
            velocity = MOMENTUM * velocity + noisy
            weights = weights + rate * terms * velocity
            if 2 * step >= steps:
                average += weights / (steps - math.ceil(steps / 2))
        counted = np.concatenate([gradients.level_weights, np.ones(gradients.numbers.shape[1])])
        return average, rate * noise * sensitivity * _response(steps) * counted

    def _boost(
        self, gradients: Gradients, splits: tuple[np.ndarray, np.ndarray], noise: float, most_noise: float, rng: Rng
    ) -> np.ndarray:
        """The leaves (trees, leaves, outputs) of trees with these splits, one after another."""
        monotone = Monotone.of(gradients.schema, self.monotone, self._name)
        leaves = np.zeros((len(splits[0]), 2**self.depth, gradients.outputs))
        began, total = time.monotonic(), self.steps + self.trees
        for tree, (columns, right) in enumerate(zip(*splits, strict=True)):
            leaf = gradients.leaf(columns, right)
            values = self._leaves(gradients, leaf, noise, most_noise, rng)
            leaves[tree] = monotone.leaves(values, columns)
            gradients.add_leaves(leaves[tree], leaf)
            if self.progress is not None:
                at = self.steps + tree + 1
                self.progress(at, total, (time.monotonic() - began) / (tree + 1) * (total - at))
        return leaves

    def _leaves(self, gradients: Gradients, leaf: np.ndarray, noise: float, most_noise: float, rng: Rng) -> np.ndarray:
        """Noisy sums of gradients over noisy sums of second derivatives plus the noise, times the step.

        The step is smaller where the noise of all trees alone would move an output by too much.
        """
        sensitivity = math.hypot(gradients.length, SECOND_WEIGHT)
        exact_sums = gradients.leaf_sums(leaf, 2**self.depth)
        noisy = rng.gaussian(exact_sums, noise=noise, sensitivity=sensitivity)
        scale = noise * sensitivity
        damping = scale if gradients.classes else DAMPING * scale
        seconds = np.maximum(noisy[:, -1:] / SECOND_WEIGHT, 0.0) * gradients.curvature
        expected = gradients.schema.rows * gradients.curvature / 2 / 2**self.depth
        moved = scale / (expected + scale) * math.sqrt(self.trees)
        step = min(self.lr, most_noise / moved)
        return np.asarray(step * gradients.unit * noisy[:, :-1] / (seconds + damping))


def _starts(schema: Schema) -> int:
    """Releases of the start: the counts of the classes; or the mean of the target, and its spread."""
    return 1 if schema.classes else 2


def _start(gradients: Gradients, noise: float, reach: float, rng: Rng) -> np.ndarray:
    """The bias: log frequencies of the classes, or the mean of the target, whose spread is the unit of gradients."""
    noisy = rng.gaussian(gradients.target_sums(), noise=noise, sensitivity=1.0)
    if gradients.classes:
        counts = np.maximum(noisy, noise / 2) + 0.5
        logs = np.log(counts / counts.sum())
        return logs[1:] - logs[:1] if gradients.classes == 2 else logs - logs.mean()
    rows = gradients.schema.rows
    mean = float(np.clip(noisy[0] / rows, -1, 1))
    noisy = rng.gaussian(gradients.spread_counts(mean), noise=noise, sensitivity=1.0)
    enough = np.cumsum(noisy) >= INSIDE * rows
    gradients.unit = reach * float(SPREADS[np.argmax(enough)] if enough.any() else SPREADS[-1])
    return np.array([mean])


def _response(steps: int) -> float:
    """The deviation that noise of 1 in each step gives the mean of the last half of them, by momentum alone."""
    age = np.arange(steps)[:, None] - np.arange(steps)[None, :] + 1  # of the noise of each step, at each step
    moved = np.where(age > 0, (1 - MOMENTUM ** np.maximum(age, 0)) / (1 - MOMENTUM), 0.0)
    return float(np.linalg.norm(moved[math.ceil(steps / 2) :].mean(axis=0)))
