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
from privaware.learners._leaf_sums import SECOND_WEIGHT, Gradients, random_splits
from privaware.model import Model
from privaware.noise import Rng
from privaware.schema import Schema

__all__ = ["Boosting"]

MOMENTUM = 0.9


@dataclass(frozen=True, kw_only=True)
class Boosting(Learner):
    """`share` is the part of the budget that the `steps` of the additive start take (0: no start).

    `cells` is about the number of levels of a number without declared bins.
    `lr` is the step of a tree, `reach` where residuals of a regression are clipped, over half the target's range.
    `progress` changes nothing that is released.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification", "regression")

    trees: int = 400
    depth: int = 3
    lr: float = 0.1
    steps: int = 60
    share: float = 0.5
    cells: int = 32
    reach: float = 0.5
    progress: Callable[[int, int, float], None] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        expect_count(self._name, 0, trees=self.trees, steps=self.steps)
        expect_between(self._name, 1, 12, depth=self.depth)
        expect_between(self._name, 1e-4, 1, lr=self.lr)
        expect_between(self._name, 4, 4096, cells=self.cells)
        expect_between(self._name, 1e-3, 2, reach=self.reach)
        expect_in(self._name, "[0, 1]", share=self.share)
        if not self.trees and not self.steps:
            raise WrongInput(f"{self._name}: expected at least one step or one tree, got none of either")

    def cost(self, schema: Schema, noise: float) -> Event:
        if schema.form != "table" or not schema.used:
            raise WrongInput(f"{self._name}: expected a table with columns to learn from, got {schema.form} data")
        Codes(cells=self.cells).levels(schema)  # columns without bounds are refused before anything is charged
        counts = zip((self.steps, self.trees), self._noises(noise), strict=True)
        releases = [count * Gaussian(noise=scale) for count, scale in counts if math.isfinite(scale)]
        return sum(releases, start=NOTHING)

    def run(self, data: Data, noise: float, rng: Rng) -> Model:
        schema, (of_steps, of_trees) = data.schema, self._noises(noise)
        feature = Codes(cells=self.cells, numbers=math.isfinite(of_steps))
        levels = feature.levels(schema)
        gradients = Gradients(data, feature(data.x, schema), levels, self.reach)
        began, total = time.monotonic(), self.steps + self.trees
        weights = np.zeros((gradients.width, gradients.outputs))
        if math.isfinite(of_steps):
            weights = self._descend(gradients, of_steps, rng)
        gradients.add_scores(weights)
        trees = self.trees if math.isfinite(of_trees) else 0
        columns, right = random_splits(schema, levels, (trees, self.depth), rng.initial)
        leaves = np.zeros((trees, 2**self.depth, gradients.outputs))
        for tree in range(trees):
            leaf = gradients.leaf(columns[tree], right[tree])
            leaves[tree] = self._leaves(gradients, leaf, of_trees, rng)
            gradients.add_leaves(leaves[tree], leaf)
            if self.progress is not None:
                at = self.steps + tree + 1
                self.progress(at, total, (time.monotonic() - began) / at * (total - at))
        last = 1 + sum(levels)
        tensors = {"bias": weights[0], "scores": weights[1:last], "slopes": weights[last:], "leaves": leaves}
        tensors = gradients.as_outputs(tensors) | {"columns": columns, "right": right}
        architecture = {
            "name": "trees",
            "levels": list(levels),
            "outputs": len(tensors["bias"]),
            "numbers": len(tensors["slopes"]),
            "trees": trees,
            "depth": self.depth,
        }
        return Model(schema=schema, features=(feature,), architecture=architecture, tensors=tensors)

    @property
    def _name(self) -> str:
        return type(self).__module__.rsplit(".", 1)[-1]

    def _noises(self, noise: float) -> tuple[float, float]:
        """Noise multipliers of a step and of a tree, infinite for none: all together are one release of `noise`."""
        share = self.share if self.trees and self.steps else float(self.steps > 0)
        of_steps = noise * math.sqrt(self.steps / share) if share else math.inf
        return of_steps, noise * math.sqrt(self.trees / (1 - share)) if share < 1 else math.inf

    def _descend(self, gradients: Gradients, noise: float, rng: Rng) -> np.ndarray:
        """The weights of an additive model: their mean over the last half of the steps."""
        length = gradients.row_length
        sensitivity = gradients.length * length
        moved = noise * sensitivity * math.sqrt(self.steps) * length / (1 - MOMENTUM)
        stable = gradients.stable / (gradients.curvature * gradients.schema.rows * length**2)
        rate = min(gradients.most_noise / moved, stable)
        weights = np.zeros((gradients.width, gradients.outputs))
        velocity, average = np.zeros_like(weights), np.zeros_like(weights)
        for step in range(self.steps):
            exact_sums = gradients.level_sums(weights)
            noisy = rng.gaussian(exact_sums, noise=noise, sensitivity=sensitivity)
            velocity = MOMENTUM * velocity + noisy
            weights = weights + rate * gradients.unit * velocity
            if 2 * step >= self.steps:
                average += weights / (self.steps - math.ceil(self.steps / 2))
        return average

    def _leaves(self, gradients: Gradients, leaf: np.ndarray, noise: float, rng: Rng) -> np.ndarray:
        """Noisy sums of gradients over noisy sums of second derivatives plus the noise, times the step."""
        sensitivity = math.hypot(gradients.length, SECOND_WEIGHT)
        exact_sums = gradients.leaf_sums(leaf, 2**self.depth)
        noisy = rng.gaussian(exact_sums, noise=noise, sensitivity=sensitivity)
        scale = noise * sensitivity
        seconds = np.maximum(noisy[:, -1:] / SECOND_WEIGHT, 0.0) * gradients.curvature
        values = noisy[:, :-1] / (seconds + scale)
        return np.asarray(self._step(gradients, scale) * gradients.unit * values)

    def _step(self, gradients: Gradients, scale: float) -> float:
        """The step of a tree: smaller where the noise of all trees alone would move an output by too much."""
        expected = gradients.schema.rows * gradients.curvature / 2 / 2**self.depth
        moved = scale / (expected + scale) * math.sqrt(self.trees)
        return min(self.lr, gradients.most_noise / moved)
