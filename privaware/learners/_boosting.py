"""Private gradient boosting of scores of levels, then of trees whose splits are random or of random waves.

What is summed over rows, and that the sums are exact, is in `_leaf_sums.py` and `_wave_sums.py`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np

from privaware._validate import expect_between, expect_count, expect_in
from privaware.data import ChangingParts, Rows, release
from privaware.errors import WrongInput
from privaware.events import NOTHING, Event, Gaussian
from privaware.features.codes import Codes
from privaware.learners import Learner
from privaware.learners._bending import Bend, is_skewed
from privaware.learners._coded_rows import CodedLayout, CodedRows
from privaware.learners._gain_sums import OutputSums, Verdict, judge
from privaware.learners._leaf_sums import (
    INSIDE,
    SECOND_WEIGHT,
    SPREADS,
    GradientSums,
    LeafSums,
    RestSums,
    SpreadCounts,
    TargetSums,
    as_outputs,
)
from privaware.learners._momentum import MOMENTUM, response
from privaware.learners._monotone import Monotone
from privaware.learners._splits import PairSums, column_chances, found_pairs, random_splits
from privaware.learners._wave_sums import WAVE_STEPS, learn_waves, most_noise_of_waves, random_turns
from privaware.model import Model
from privaware.noise import Rng
from privaware.schema import Schema

__all__ = ["Boosting"]

START = 0.05
"""Share of the budget for the bias and, in a regression, for the spread of the target and the last mean residual."""

MOST_START = 0.3
"""Largest such share in a regression. It grows from `START` where noise would move the bias by more than `ASIDE`."""

ASIDE = 0.07
"""The deviation that noise may give the bias of a regression, over the unit of gradients."""
REST = 4.0
"""Where the rest that moves the bias of a regression in the end is clipped, over the unit of gradients.

Gradients are clipped closer, which draws predictions of a skewed target from the mean towards the median."""

CHECK = 0.1
"""Largest share of the budget for the check that a regression is better than the mean."""

CLEAR = 200.0
"""The check takes the share (CLEAR * noise / rows)^2 of the budget where that is below `CHECK`."""

CLIP = 0.5
"""Where gradients of classes are clipped, over their largest length: those of rows that are on the wrong side.

Noise is half as large then, and for two classes the model knows what its chances stand for."""
WAVE_MEAN = 0.05
"""The part of the budget of waves that finds their mean."""
DAMPING = 3.0
"""Noise added to the second derivatives of a leaf, in a regression: numbers in leaves of few rows are costly."""


@dataclass(frozen=True, kw_only=True)
class Boosting(Learner):
    """`share` is the part of the budget that the `steps` of the additive start take (0: no start).

    `waves` is the number of random waves of a few columns that are learnt after it, with the budget of the trees; if
    there are trees, too, they follow and each have half of it.
    `pairs` is the part of the trees' budget that finds columns that act together, which trees then prefer (0: none).
    `cells` is about the number of levels of a number without declared bins.
    `lr` is the step of a tree, `reach` where residuals of a regression are clipped, over the target's private spread,
    `rest` where those are that move its bias in the end, over `reach`: 4 for about the mean, 1 to stay with the median.
    `bend` is how much outputs far from the mean of a skewed target are bent upwards (`_bending.py`; 0: not at all).
    `monotone` names number columns along which the model must rise (1) or fall (-1): in a classification, the chance of
    the second of two classes; waves read other columns only. `progress` changes nothing that is released.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification", "regression")
    in_parts: ClassVar[bool] = True

    trees: int = 400
    depth: int = 3
    lr: float = 0.1
    steps: int = 100
    share: float = 0.5
    waves: int = 0
    pairs: float = 0.0
    cells: int = 32
    reach: float = 1.0
    rest: float = REST
    bend: float = 0.0
    monotone: dict[str, int] = field(default_factory=dict)
    progress: Callable[[int, int, float], None] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        expect_count(self._name, 0, trees=self.trees, steps=self.steps, waves=self.waves)
        expect_between(self._name, 1, 12, depth=self.depth)
        expect_between(self._name, 1e-4, 1, lr=self.lr)
        expect_between(self._name, 4, 4096, cells=self.cells)
        expect_between(self._name, 1e-3, 8, reach=self.reach)
        expect_between(self._name, 0.1, 64, rest=self.rest)
        expect_between(self._name, 0, 1, bend=self.bend)
        expect_in(self._name, "[0, 1]", share=self.share)
        expect_in(self._name, "[0, 1)", pairs=self.pairs)
        if not self.trees and not self.steps and not self.waves:
            raise WrongInput(f"{self._name}: expected at least one step, one tree or one wave, got none of either")

    def cost(self, schema: Schema, noise: float) -> Event:
        if schema.form != "table" or not schema.used:
            raise WrongInput(f"{self._name}: expected a table with columns to learn from, got {schema.form} data")
        Codes(cells=self.cells).levels(schema)  # columns without bounds are refused before anything is charged
        Monotone.of(schema, self.monotone, self._name)
        if self.waves and not self._free(schema).any():
            raise WrongInput(
                f"{self._name}: expected a column beside the monotone ones for waves to read; set waves = 0"
            )
        counts = zip(self._counts(schema), self._noises(schema, noise), strict=True)
        releases = [count * Gaussian(noise=scale) for count, scale in counts if math.isfinite(scale)]
        return sum(releases, start=NOTHING)

    def run(self, data: Rows, noise: float, rng: Rng) -> Model:
        schema = data.schema
        of_start, of_steps, of_pairs, of_trees, of_mean, of_waves, of_check = self._noises(schema, noise)
        layout = CodedLayout(schema=schema, feature=Codes(cells=self.cells, numbers=math.isfinite(of_steps)), clip=CLIP)
        rows = data.parts.held(partial(CodedRows, layout), CodedRows.joined)
        monotone = Monotone.of(schema, self.monotone, self._name)
        weights = np.zeros((layout.width, layout.outputs))
        start, unit = _start((layout, rows), of_start, (self.reach, self.rest), rng)
        spread, deviations = unit, np.zeros(0)
        most_noise = layout.most_noise(noise, not schema.classes and is_skewed(float(start[0]), spread))
        weights[0] = start
        if math.isfinite(of_steps):
            weights, deviations = self._descend((layout, rows), (weights, unit), of_steps, most_noise, rng)
            weights = monotone.scores(weights, layout.starts, layout.levels)
        rows.update(GradientSums(layout=layout, weights=weights, unit=unit).add_outputs)
        if self._narrows(schema):
            rest = release(SpreadCounts(centre=0.0), rows, of_start, rng)
            unit = min(unit, self.reach * _spread(rest, schema.rows))
        shape = (self.trees if math.isfinite(of_trees) else 0, self.depth)
        pairs = None
        if math.isfinite(of_pairs):
            sums = PairSums(layout=layout, unit=unit)
            pairs = found_pairs(sums, release(sums, rows, of_pairs, rng), of_pairs)
        chances = column_chances(layout, weights, deviations) if len(deviations) else None
        splits = random_splits(schema, layout.levels, shape, rng.initial, pairs, chances)
        turns, swings = np.zeros((layout.width, 0)), np.zeros((0, layout.outputs))
        if math.isfinite(of_waves):
            turns = random_turns(layout, self.waves, rng.initial, self._free(schema, chances))
            scales = (most_noise_of_waves(layout, noise), unit)
            swings, bias = learn_waves((layout, rows), turns, (of_mean, of_waves), scales, rng)
            weights[0] += bias
        leaves = self._boost((layout, rows), splits, (of_trees, most_noise, unit), rng)
        bent: tuple[float, ...] = ()
        if not schema.classes:
            bend, shift, verdict = self._finish((schema, rows), (float(start[0]), spread), (of_start, of_check), rng)
            if not verdict.better:
                weights, leaves, swings = np.zeros_like(weights), np.zeros_like(leaves), np.zeros_like(swings)
                weights[0] = start + verdict.mean
            elif bend is None:
                weights[0] += shift
            else:
                bent = (bend.centre, bend.spread, bend.strength, shift)
        tensors = {"bias": weights[:1], "scores": weights[1 : 1 + sum(layout.levels)], "leaves": leaves}
        tensors |= {"slopes": weights[1 + sum(layout.levels) :], "swings": swings}
        return self._model(layout, tensors, (*splits, turns), deviations, bent)

    def _model(
        self,
        layout: CodedLayout,
        learnt: dict[str, np.ndarray],
        drawn: tuple[np.ndarray, np.ndarray, np.ndarray],
        deviations: np.ndarray,
        bent: tuple[float, ...],
    ) -> Model:
        """The released form of what was learnt beside what was drawn at random: columns and sides of splits, turns."""
        classes, (columns, right, turns) = len(layout.schema.classes), drawn
        tensors = as_outputs(learnt, classes) | {"columns": columns, "right": right, "turns": turns.astype(np.float32)}
        tensors["bias"] = tensors["bias"][0]
        architecture = {
            "name": "trees",
            "levels": list(layout.levels),
            "outputs": len(tensors["bias"]),
            "numbers": len(tensors["slopes"]),
            "trees": len(columns),
            "depth": self.depth,
            "waves": turns.shape[1],
            "deviations": [float(value) for value in deviations / (2 if classes == 2 else 1)],
            "clipped": classes == 2,
            "bent": list(bent),
        }
        if not turns.shape[1]:
            del tensors["turns"], tensors["swings"]
        return Model(schema=layout.schema, features=(layout.feature,), architecture=architecture, tensors=tensors)

    def _finish(
        self,
        rows: tuple[Schema, ChangingParts[CodedRows]],
        target: tuple[float, float],
        noises: tuple[float, float],
        rng: Rng,
    ) -> tuple[Bend | None, float, Verdict]:
        """How outputs of a regression are bent, what is then added to them, and whether they are better than the mean.

        `target` is its mean and spread, `noises` are those of what is added and of the check.
        """
        (schema, parts), (mean, spread), (of_rest, of_check) = rows, target, noises
        bend = Bend.of(mean, spread, self.bend) if self.rest > 1 else None  # not where the median is followed
        if bend is not None:
            parts.update(bend.change)
        rest = release(RestSums(reach=self.rest * spread), parts, of_rest, rng)
        shift = float(self.rest * spread * np.clip(rest[0] / schema.rows, -1, 1))
        if not math.isfinite(of_check):
            return bend, shift, Verdict(mean=0.0, shift=0.0, better=True)
        outputs, deviation = OutputSums(mean=mean, shift=shift, unit=spread), self.rest * of_rest / schema.rows
        verdict = judge(parts, outputs, rows=schema.rows, deviation=deviation, noise=of_check, rng=rng)
        return bend, shift + verdict.shift, verdict

    def _starts(self, schema: Schema) -> int:
        """Releases of the bias: counts of the classes; or the target's mean twice, its spreads, the rest in the end."""
        return 1 if schema.classes else 4 + self._narrows(schema)

    def _counts(self, schema: Schema) -> tuple[int, ...]:
        """Releases of start, steps, pairs, trees, the mean of waves, their steps, and check."""
        return (self._starts(schema), self.steps, 1, self.trees, 1, WAVE_STEPS, 2)

    def _narrows(self, schema: Schema) -> bool:
        """Whether residuals of a regression are measured again after the start, for trees or waves."""
        return not schema.classes and self.steps > 0 and self.trees + self.waves > 0 and 0 < self.share < 1

    def _free(self, schema: Schema, chances: np.ndarray | None = None) -> np.ndarray:
        """The chance of each column to be read by a wave: none where a direction is asked for."""
        free = np.array([float(column.name not in self.monotone) for column in schema.used])
        free = free if chances is None else free * chances
        return np.asarray(free / max(free.sum(), 1e-99))

    @property
    def _name(self) -> str:
        return type(self).__module__.rsplit(".", 1)[-1]

    def _noises(self, schema: Schema, noise: float) -> tuple[float, ...]:
        """Noise multipliers of a release of each of `_counts`, infinite for none: together `noise`."""
        share = self.share if self.trees + self.waves and self.steps else float(self.steps > 0)
        pairs = self.pairs if self.trees and len(schema.used) > 2 and self.depth > 1 else 0.0
        waves = (0.5 if self.trees else 1.0) * (self.waves > 0)
        last = (1 - share) * (1 - pairs)
        of_waves = (last * waves * WAVE_MEAN, last * waves * (1 - WAVE_MEAN))
        after = (share, (1 - share) * pairs, last * (1 - waves), *of_waves)
        counts = self._counts(schema)
        start, check = START, 0.0
        if not schema.classes:
            signal = schema.rows / noise
            start = min(max(START, counts[0] * (self.rest / (ASIDE * signal)) ** 2), MOST_START)
            if self.rest > 1:  # what follows the median is not to be near the mean
                check = min(CHECK, (CLEAR / signal) ** 2)
        shares = (start, *((1 - start - check) * part for part in after), check)
        return tuple(
            noise * math.sqrt(count / part) if part else math.inf for count, part in zip(counts, shares, strict=True)
        )

    def _descend(
        self,
        coded: tuple[CodedLayout, ChangingParts[CodedRows]],
        start: tuple[np.ndarray, float],
        noise: float,
        most_noise: float,
        rng: Rng,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Weights of an additive model: their mean over the last half of the steps, and the deviations noise gave them.

        `start` are the first weights and the unit of gradients. Deviations are those of a level of each column and of
        each slope, by noise alone.
        """
        (layout, rows), (weights, unit), steps = coded, start, self.steps
        basis, length = layout.basis, layout.basis.length
        sensitivity = layout.length * length
        moved = noise * sensitivity * math.sqrt(steps) * length / (1 - MOMENTUM)
        stable = layout.stable / (layout.curvature * layout.schema.rows * length**2)
        rate = min(most_noise / moved, stable) * unit
        coefficients = np.zeros((basis.width, layout.outputs))
        coefficients[0] = weights[0]
        velocity, average = np.zeros_like(coefficients), np.zeros_like(weights)
        for step in range(steps):
            noisy = release(GradientSums(layout=layout, weights=weights, unit=unit), rows, noise, rng)
            velocity = MOMENTUM * velocity + noisy
            coefficients = coefficients + rate * velocity
            weights = basis.weights(coefficients)
            if step >= steps // 2:
                average += weights / (steps - steps // 2)
        return average, rate * noise * sensitivity * response(steps) * basis.deviations

    def _boost(
        self,
        coded: tuple[CodedLayout, ChangingParts[CodedRows]],
        splits: tuple[np.ndarray, np.ndarray],
        scales: tuple[float, float, float],
        rng: Rng,
    ) -> np.ndarray:
        """The leaves (trees, leaves, outputs) of trees with these splits, one after another.

        `scales` are the noise multiplier, the most that noise may do to an output, and the unit of gradients.
        """
        (layout, rows), (noise, most_noise, unit) = coded, scales
        monotone = Monotone.of(layout.schema, self.monotone, self._name)
        leaves = np.zeros((len(splits[0]), 2**self.depth, layout.outputs))
        began, total = time.monotonic(), self.steps + self.trees
        for tree, (columns, right) in enumerate(zip(*splits, strict=True)):
            sums = LeafSums(layout=layout, columns=columns, right=right, unit=unit)
            noisy = release(sums, rows, noise, rng)
            leaves[tree] = monotone.leaves(self._leaves(layout, noisy, noise, most_noise) * unit, columns)
            rows.update(partial(sums.add_leaves, leaves=leaves[tree]))
            if self.progress is not None:
                at = self.steps + tree + 1
                self.progress(at, total, (time.monotonic() - began) / (tree + 1) * (total - at))
        return leaves

    def _leaves(self, layout: CodedLayout, noisy: np.ndarray, noise: float, most_noise: float) -> np.ndarray:
        """Noisy sums of gradients over noisy sums of second derivatives plus the noise, times the step.

        The step is smaller where the noise of all trees alone would move an output by too much.
        """
        scale = noise * math.hypot(layout.length, SECOND_WEIGHT)
        damping = scale if layout.classes else DAMPING * scale
        seconds = np.maximum(noisy[:, -1:] / SECOND_WEIGHT, 0.0) * layout.curvature
        expected = layout.schema.rows * layout.curvature / 2 / 2**self.depth
        moved = scale / (expected + scale) * math.sqrt(self.trees)
        step = min(self.lr, most_noise / moved)
        return np.asarray(step * noisy[:, :-1] / (seconds + damping))


def _start(
    coded: tuple[CodedLayout, ChangingParts[CodedRows]], noise: float, reaches: tuple[float, float], rng: Rng
) -> tuple[np.ndarray, float]:
    """The bias and the unit of gradients: log frequencies of the classes and 1, or the target's mean and spread.

    The mean is released twice, the second time of targets clipped around the first by the spread: less noise.
    """
    (layout, rows), (reach, rest) = coded, reaches
    noisy = release(TargetSums(classes=layout.classes), rows, noise, rng)
    if layout.classes:
        counts = np.maximum(noisy, noise / 2) + 0.5
        logs = np.log(counts / counts.sum())
        return _clipped(logs[1:] - logs[:1]) if layout.classes == 2 else logs - logs.mean(), 1.0
    declared = layout.schema.rows
    mean = float(np.clip(noisy[0] / declared, -1, 1))
    unit = reach * _spread(release(SpreadCounts(centre=mean), rows, noise, rng), declared)
    noisy = release(RestSums(reach=rest * unit, centre=mean), rows, noise, rng)
    return np.clip(mean + rest * unit * np.clip(noisy / declared, -1, 1), -1, 1), unit


def _spread(noisy: np.ndarray, rows: int) -> float:
    """The least of `SPREADS` that most rows are within, by their noisy counts."""
    enough = np.cumsum(noisy) >= INSIDE * rows
    return float(SPREADS[np.argmax(enough)] if enough.any() else SPREADS[-1])


def _clipped(logits: np.ndarray) -> np.ndarray:
    """Where gradients that are clipped to a half sum to zero, for a class of these logits."""
    return np.asarray(np.sign(logits) * np.log(2 * np.exp(np.abs(logits)) - 1))
