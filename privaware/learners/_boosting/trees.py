"""Trees with random splits after an additive start: the last stage of `boosted`, and of `additive` if asked for.

Why a row moves the sums of a tree by no more than declared: the row is in one leaf. To the sums of the leaf it adds its
gradient, of length at most G = `layout.length`, and `SECOND_WEIGHT` times its second derivative, which is at most 1 in
units of the largest. So the sums of all leaves together move by at most sqrt(G^2 + SECOND_WEIGHT^2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from privaware._validate import expect_between, expect_count
from privaware.data import release
from privaware.learners._boosting.additive_start import AdditiveStart
from privaware.learners._boosting.coded_rows import CodedLayout
from privaware.learners._boosting.gradient_sums import SECOND_WEIGHT, LeafSums
from privaware.learners._boosting.monotone import Monotone
from privaware.learners._boosting.splits import Splits, random_splits
from privaware.learners._boosting.stages import Interactions, Releases, Stage
from privaware.noise import Rng

DAMPING = 3.0
"""Damping of the leaves of a regression, in standard deviations of the noise of a sum; in a classification it is 1."""


@dataclass(frozen=True, kw_only=True)
class RandomTrees(AdditiveStart):
    """A learner that starts from an additive model and adds trees.

    Parameters
    ----------
    trees : int
        Number of trees.
    depth : int
        Number of splits of a tree, from 1 to 12; all nodes at the same depth have the same split. Two splits may be on
        the same column.
    lr : float
        Learning rate: the factor on the scores of leaves; it is reduced where noise would move outputs too far.
    """

    _piece: ClassVar[str] = "tree"

    trees: int = 400
    depth: int = 3
    lr: float = 0.1

    def __post_init__(self) -> None:
        expect_count(self._name, 0, trees=self.trees)
        expect_between(self._name, 1, 12, depth=self.depth)
        expect_between(self._name, 1e-4, 1, lr=self.lr)
        super().__post_init__()

    @property
    def _count(self) -> int:
        return self.trees

    def _interaction_releases(self, fraction: float) -> dict[str, Releases]:
        return {"trees": Releases(count=self.trees, fraction=fraction)}

    def _interactions(self, stage: Stage, rng: Rng) -> Interactions:
        layout = stage.data.layout
        splits = random_splits(
            layout.schema,
            layout.levels,
            trees=self.trees if math.isfinite(stage.noises.trees) else 0,
            depth=self.depth,
            generator=rng.initial,
            chances=stage.chances,
        )
        leaves = self._boost(stage, splits, rng)
        none = Interactions.none(layout, self.depth)
        return replace(none, columns=splits.columns, right=splits.right, leaves=leaves)

    def _boost(self, stage: Stage, splits: Splits, rng: Rng) -> np.ndarray:
        """Release and return the scores of the leaves of all trees, one tree after another: (trees, leaves, outputs).

        `splits` holds the splits of the trees. The released scores of a tree, made monotone, are added to the outputs
        of the rows in `stage.data`, in place, before the next tree.
        """
        layout, rows, noise = stage.data.layout, stage.data.rows, stage.noises.trees
        monotone = Monotone.of(layout.schema, self.monotone)
        leaves = np.zeros((len(splits.columns), 2**self.depth, layout.outputs))
        for tree, (columns, right) in enumerate(zip(splits.columns, splits.right, strict=True)):
            sums = LeafSums(layout=layout, columns=columns, right=right, unit=stage.unit)
            noisy = release(sums, rows, noise, rng)
            leaves[tree] = monotone.leaves(self._leaves(layout, noisy, noise, stage.most_noise) * stage.unit, columns)
            rows.update(partial(sums.add_leaves, leaves=leaves[tree]))
            stage.report(tree + 1)
        return leaves

    def _leaves(self, layout: CodedLayout, noisy: np.ndarray, noise: float, most_noise: float) -> np.ndarray:
        """Return the scores of a tree's leaves: `step * gradients / (seconds + damping)` (leaves, outputs).

        `noisy` is the release of `LeafSums`: sums of negative gradients, then `SECOND_WEIGHT` times sums of second
        derivatives. `gradients` are the sums of negative gradients. `seconds` are the sums of second derivatives,
        without their factors (`SECOND_WEIGHT`, and a division by the largest second derivative). Scores are in units of
        `Stage.unit`, and `noise` is the noise multiplier of one tree. `damping` is the standard deviation of the noise
        of a sum, times `DAMPING` in a regression. `step` is `lr`, or less where the noise of all trees alone would give
        an output a standard deviation above `most_noise`.
        """
        scale = noise * math.hypot(layout.length, SECOND_WEIGHT)
        damping = scale if layout.classes else DAMPING * scale
        seconds = np.maximum(noisy[:, -1:] / SECOND_WEIGHT, 0.0) * layout.curvature
        expected = layout.schema.rows * layout.curvature / 2 / 2**self.depth
        moved = scale / (expected + scale) * math.sqrt(self.trees)
        step = min(self.lr, most_noise / moved)
        return np.asarray(step * noisy[:, :-1] / (seconds + damping))
