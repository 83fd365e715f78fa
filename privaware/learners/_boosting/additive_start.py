"""The training that `additive`, `boosted` and `fourier` share: an additive model first, then interactions.

`AdditiveStart` releases a bias, runs gradient descent on an additive model, lets a subclass learn interactions on top
(trees or random Fourier features), and corrects and checks the outputs of a regression. `gradient_sums.py` says why the
sums over rows are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np

from privaware._validate import expect_between, expect_count, expect_in
from privaware.data import Rows, release
from privaware.errors import WrongInput
from privaware.events import Event
from privaware.features.codes import Codes
from privaware.learners import Learner
from privaware.learners._boosting.coded_rows import CodedLayout, CodedRows
from privaware.learners._boosting.derivatives import MOMENTUM, response
from privaware.learners._boosting.gradient_sums import GradientSums, TargetSums, as_outputs
from privaware.learners._boosting.monotone import Monotone
from privaware.learners._boosting.regression import Correction, correct, is_skewed, regression_start, residual_spread
from privaware.learners._boosting.splits import column_chances
from privaware.learners._boosting.stages import Budget, CodedData, Curves, Interactions, Releases, Stage, Start
from privaware.learners._networks.plain_descent import paced
from privaware.model import Model
from privaware.noise import Rng
from privaware.schema import Schema

START_FRACTION = 0.05
"""Fraction of the budget for the releases before the first step, such as the bias; a regression may take more."""

MAX_START_FRACTION = 0.3
"""Largest fraction of the budget for the releases of `Budget.start` in a regression.

It takes more than `START_FRACTION` if the bias would otherwise have more noise than `BIAS_TOLERANCE`.
"""

BIAS_TOLERANCE = 0.07
"""Wanted standard deviation of the noise in the bias of a regression, in units of gradients (`Start.unit`)."""

LEAST_BIAS_CLIP = 1.5
"""With much noise, a larger `bias_clip` is reduced to at least this number. A smaller `bias_clip` is not changed."""

BIAS_CLIP = 4.0
"""Default of `bias_clip`, as a multiple of the clip of gradients.

Gradients are clipped at 1, which draws predictions from the mean of the target towards its median.
"""

MAX_CHECK_FRACTION = 0.1
"""Largest fraction of the budget for the check that a regression is better than a constant prediction."""

CHECK_SIGNAL = 200.0
"""The check takes `(CHECK_SIGNAL * noise / rows)**2` of the budget, at most `MAX_CHECK_FRACTION`.

If `bias_clip` is at most 1, there is no check.
"""

RARE = 0.64
"""Variance of a row's class, relative to equally frequent classes, below which all steps are smaller.

Two classes have this variance if one of them has a fifth of the rows.
"""

CLIP = 0.5
"""Clipping norm of the gradients of classes, as a fraction of their largest norm; noise shrinks in proportion."""


@dataclass(frozen=True, kw_only=True)
class AdditiveStart(Learner):
    """A learner that starts from an additive model.

    Parameters
    ----------
    steps
        Steps of gradient descent on the additive model; 0 for none.
    share
        Fraction that these steps take of the budget that is left after the bias and the check that a regression is
        better than a constant prediction; trees or features take `1 - share`. It counts as 1 without trees and
        features, and as 0 if `steps` is 0.
    cells
        About how many levels a number column without declared bins has, from 4 to 4096.
    residual_clip
        The clip of residuals in a regression, as a multiple of the released spread of the target: the distance from the
        mean within which about 85% of the targets lie.
    bias_clip
        The clip of the residuals whose mean moves the bias of a regression, as a multiple of `residual_clip`: with 4
        predictions follow about the mean of the target, with 1 its median. At 1 or less there is no check and no skew
        correction. Values above 1.5 are reduced, to no less than 1.5, where noise would move the bias too far.
    skew_correction
        Strength of the correction of a skewed target (`SkewCorrection`), from 0 (none) to 1.
    monotone
        Directions by name of a number column: the model must rise (1) or fall (-1) along the column. In a
        classification, the probability of the second of two classes rises or falls. A selection of columns before the
        training may leave a named column out; its direction is then ignored.
    progress
        Called after each step and each tree with the number of steps and trees done, their number in all, the seconds
        left and the word "training". It changes nothing that is released.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification", "regression")
    sums: ClassVar[str] = "exact"
    in_parts: ClassVar[bool] = True

    steps: int = 100
    share: float = 0.5
    cells: int = 32
    residual_clip: float = 1.0
    bias_clip: float = BIAS_CLIP
    skew_correction: float = 0.0
    monotone: dict[str, int] = field(default_factory=dict)
    progress: Callable[..., None] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        expect_count(self._name, 0, steps=self.steps)
        expect_between(self._name, 4, 4096, cells=self.cells)
        expect_between(self._name, 1e-3, 8, residual_clip=self.residual_clip)
        expect_between(self._name, 0.1, 64, bias_clip=self.bias_clip)
        expect_between(self._name, 0, 1, skew_correction=self.skew_correction)
        expect_in(self._name, "[0, 1]", share=self.share)
        if not self.steps and not self._count:
            raise WrongInput(f"{self._name}: expected at least one step or one {self._piece}, got none of either")

    # What a subclass learns after the additive start.

    _piece: ClassVar[str] = "piece"

    @property
    def _count(self) -> int:
        """Return the number of trees or random Fourier features that follow the additive model; 0 if there are none."""
        return 0

    @property
    def _interaction_steps(self) -> int:
        """Return the number of steps in which the trees or the random Fourier features are learnt, for the progress."""
        return self._count

    def _interaction_releases(self, fraction: float) -> dict[str, Releases]:
        """Return the releases of the trees or the random Fourier features, by the name of a field of `Budget`.

        `fraction` is the part of the budget that they take together, where the budget is what the bias and the check
        leave.
        """
        raise NotImplementedError

    def _interactions(self, stage: Stage, rng: Rng) -> Interactions:
        """Learn and return trees or random Fourier features on top of the additive model.

        Their predictions are added in place to the outputs of the rows in `stage.data`. `stage` also holds the noise
        multipliers.
        """
        raise NotImplementedError

    # What all of them share.

    def cost(self, schema: Schema, noise: float) -> Event:
        if schema.form != "table" or not schema.used:
            raise WrongInput(
                f"{self._name}: expected a table with columns to learn from, got {schema.form} data with "
                f"{len(schema.used)} columns; choose another learner"
            )
        Codes(cells=self.cells).levels(schema)  # columns without bounds are refused before anything is charged
        Monotone.expect(schema, self.monotone, self._name)
        return self._budget(schema, noise).cost(noise)

    def run(self, data: Rows, noise: float, rng: Rng) -> Model:
        schema, noises = data.schema, self._budget(data.schema, noise).noises(noise)
        feature = Codes(cells=self.cells, numbers=math.isfinite(noises.steps))
        layout = CodedLayout(schema=schema, feature=feature, clip=CLIP)
        coded = CodedData(layout=layout, rows=data.parts.held(partial(CodedRows, layout), CodedRows.joined))
        bias_clip = min(self.bias_clip, max(LEAST_BIAS_CLIP, BIAS_TOLERANCE * schema.rows / noises.start))
        start = self._start(coded, noises.start, bias_clip, rng)
        most_noise = layout.most_noise(noise, not schema.classes and is_skewed(float(start.bias[0]), start.unit))
        steps = self.steps if math.isfinite(noises.steps) else 0
        report = paced(self.progress, steps + self._interaction_steps, "training")
        curves = self._curves(coded, start, noises.steps, most_noise, rng, report)
        coded.rows.update(GradientSums(layout=layout, weights=curves.weights, unit=start.unit).add_outputs)
        unit = start.unit
        if self._measures_again(schema):
            unit = min(unit, self.residual_clip * residual_spread(coded, noises.start, rng))
        chances = column_chances(layout, curves.weights, curves.deviations) if len(curves.deviations) else None
        stage = Stage(
            data=coded,
            noises=noises,
            unit=unit,
            chances=chances,
            most_noise=most_noise,
            report=lambda done: report(steps + done),
        )
        learnt = self._interactions(stage, rng)
        weights = curves.weights.copy()
        weights[0] += learnt.bias
        correction = None
        if not schema.classes:
            correction = correct(coded, start, self.skew_correction, bias_clip, noises, rng)
            if not correction.verdict.better:
                weights, learnt = np.zeros_like(weights), learnt.silenced()
                weights[0] = start.bias + correction.verdict.mean
            elif correction.skew is None:
                weights[0] += correction.shift
        return _model(layout, weights, learnt, curves.deviations, correction)

    @property
    def _name(self) -> str:
        return type(self).__module__.rsplit(".", 1)[-1]

    def _measures_again(self, schema: Schema) -> bool:
        """Return whether the spread of the residuals is released once more after the additive start.

        It is in a regression that has steps of the additive model and trees or random Fourier features, with `share`
        between 0 and 1.
        """
        return not schema.classes and self.steps > 0 and self._count > 0 and 0 < self.share < 1

    def _budget(self, schema: Schema, noise: float) -> Budget:
        """Return the releases of each stage of a training.

        `noise` is the noise multiplier of a single Gaussian release that costs as much as all these releases together.
        In a regression the fractions of the start and of the check depend on `schema.rows / noise`.
        """
        share = self.share if self._count and self.steps else float(self.steps > 0)
        # classes: their frequencies; regression: the target's mean twice, its spread, the mean of the last residuals
        count = 1 if schema.classes else 4 + self._measures_again(schema)
        start, check = START_FRACTION, 0.0
        if not schema.classes:
            signal = schema.rows / noise
            needed = count * (self.bias_clip / (BIAS_TOLERANCE * signal)) ** 2
            start = min(max(START_FRACTION, needed), MAX_START_FRACTION)
            if self.bias_clip > 1:  # predictions that follow the median need not be near the mean
                check = min(MAX_CHECK_FRACTION, (CHECK_SIGNAL / signal) ** 2)
        stages = {"steps": Releases(count=self.steps, fraction=share), **self._interaction_releases(1 - share)}
        return Budget(
            start=Releases(count=count, fraction=start),
            check=Releases(count=2, fraction=check),
            **{name: each.scaled(1 - start - check) for name, each in stages.items()},
        )

    def _start(self, data: CodedData, noise: float, bias_clip: float, rng: Rng) -> Start:
        """Release and return the bias of each output and, for a regression, the spread of the target.

        For more than two classes the bias is the log frequencies minus their mean. For two classes it is the logit at
        which clipped gradients sum to zero. The unit of a classification, a factor on all steps, also follows from the
        released frequencies (`_unit_of_classes`). `noise` is the noise multiplier of each release. `bias_clip` is the
        clip of the residuals whose mean moves the bias of a regression, as a multiple of `Start.unit`.
        """
        layout = data.layout
        if not layout.classes:
            return regression_start(data, noise, rng, residual_clip=self.residual_clip, bias_clip=bias_clip)
        counts = np.maximum(release(TargetSums(classes=layout.classes), data.rows, noise, rng), noise / 2) + 0.5
        frequencies = counts / counts.sum()
        logs = np.log(frequencies)
        bias = _zero_of_clipped_gradients(logs[1:] - logs[:1]) if layout.classes == 2 else logs - logs.mean()
        return Start(bias=bias, unit=_unit_of_classes(frequencies))

    def _curves(
        self, data: CodedData, start: Start, noise: float, most_noise: float, rng: Rng, report: Callable[[int], None]
    ) -> Curves:
        """Release and return an additive model: the mean of its weights over the last half of the steps, made monotone.

        `noise` is the noise multiplier of one step; if it is infinite there is no step, only the bias. `most_noise`
        bounds the standard deviation of the noise in an output, in units of `start.unit`. `report` is called after each
        step with the number of finished steps.
        """
        layout, steps = data.layout, self.steps
        weights = np.zeros((layout.width, layout.outputs))
        weights[0] = start.bias
        if not math.isfinite(noise):
            return Curves(weights=weights, deviations=np.zeros(0))
        basis, length = layout.basis, layout.basis.length
        sensitivity = layout.length * length
        moved = noise * sensitivity * math.sqrt(steps) * length / (1 - MOMENTUM)
        stable = layout.stable / (layout.curvature * layout.schema.rows * length**2)
        rate = min(most_noise / moved, stable) * start.unit
        coefficients = np.zeros((basis.width, layout.outputs))
        coefficients[0] = weights[0]
        velocity, average = np.zeros_like(coefficients), np.zeros_like(weights)
        for step in range(steps):
            noisy = release(GradientSums(layout=layout, weights=weights, unit=start.unit), data.rows, noise, rng)
            velocity = MOMENTUM * velocity + noisy
            coefficients = coefficients + rate * velocity
            weights = basis.weights(coefficients)
            if step >= steps // 2:
                average += weights / (steps - steps // 2)
            report(step + 1)
        monotone = Monotone.of(layout.schema, self.monotone)
        return Curves(
            weights=monotone.scores(average, layout.starts, layout.levels),
            deviations=rate * noise * sensitivity * response(steps) * basis.deviations,
        )


def _unit_of_classes(frequencies: np.ndarray) -> float:
    """Return the factor on all steps of a classification: 1, and less where a class is rare.

    It is `min(1, variance / RARE)` with `variance = (1 - sum(frequencies**2)) * classes / (classes - 1)`, where
    `frequencies` (classes,) are the released frequencies of the classes. The sums of gradients by which columns differ
    shrink in proportion to this variance. Noise does not shrink, so outputs have to move less by the same factor.

    >>> _unit_of_classes(np.array([0.5, 0.5])), round(_unit_of_classes(np.array([0.05, 0.95])), 2)
    (1.0, 0.3)
    """
    classes = len(frequencies)
    variance = float(1 - (frequencies**2).sum()) * classes / (classes - 1)
    return min(1.0, variance / RARE)


def _zero_of_clipped_gradients(logits: np.ndarray) -> np.ndarray:
    """Return the bias (1,) of two classes at which gradients clipped to [-1/2, 1/2] sum to zero over rows.

    `logits` (1,) are the log odds of the second class: the logarithm of its frequency minus the logarithm of the
    frequency of the first class.
    """
    return np.asarray(np.sign(logits) * np.log(2 * np.exp(np.abs(logits)) - 1))


def _model(
    layout: CodedLayout,
    weights: np.ndarray,
    learnt: Interactions,
    deviations: np.ndarray,
    correction: Correction | None,
) -> Model:
    """Return the released model; its tensors and its architecture have the names that stored models have.

    `weights` and `deviations` are as in `Curves`, and `learnt` are the trees or features. `correction` is None in a
    classification. Its skew correction and its shift are stored if it has a skew correction and the check passed. In
    every other case they are not stored: `weights` contain the shift already or, if the check failed, the constant
    prediction.
    """
    classes, levels, features = layout.classes, sum(layout.levels), learnt.frequencies.shape[1]
    tensors = {"bias": weights[:1], "scores": weights[1 : 1 + levels], "slopes": weights[1 + levels :]}
    tensors |= {"leaves": learnt.leaves} | ({"swings": learnt.amplitudes} if features else {})
    tensors = as_outputs(tensors, classes) | {"columns": learnt.columns, "right": learnt.right}
    tensors |= {"turns": learnt.frequencies.astype(np.float32)} if features else {}
    tensors["bias"] = tensors["bias"][0]
    skew: list[float] = []
    if correction is not None and correction.verdict.better and correction.skew is not None:
        skew = [correction.skew.centre, correction.skew.spread, correction.skew.strength, correction.shift]
    architecture: dict[str, Any] = {
        "name": "trees",
        "levels": list(layout.levels),
        "outputs": len(tensors["bias"]),
        "numbers": len(tensors["slopes"]),
        "trees": len(learnt.columns),
        "depth": learnt.columns.shape[1],
        "waves": features,
        "deviations": [float(value) for value in deviations / (2 if classes == 2 else 1)],
        "clipped": classes == 2,
        "bent": skew,
    }
    return Model(schema=layout.schema, features=(layout.feature,), architecture=architecture, tensors=tensors)
