"""What a regression releases beside its gradients: mean and spread of the target, a last correction, and a check.

* Start: the mean of the target, its spread, and the mean again with less noise (`regression_start`).
* Skew correction: prices, wages and amounts have a long tail above. Clipped gradients hardly see the tail, and columns
  act on such targets as factors rather than as terms. So outputs far from the mean are moved from a line towards an
  exponential (`SkewCorrection`). Whether this is done follows from the released mean and spread and from the declared
  bounds of the target.
* Last residuals: their mean moves all outputs, because clipped gradients draw outputs from the mean to the median.
* Check: one release gives the mean of the outputs. Another says whether the squared error of the outputs is smaller
  than the squared error of a constant prediction, their own noisy mean (`judge`). If it is not smaller by at least the
  noise, a constant replaces the model: the released mean of the target, moved towards the mean of the outputs.

Privacy: skew correction has no cost of its own: a function of one row's output and of released numbers. Each other
release is a sum of terms in [-1, 1], or a histogram: one row moves it by at most 1.

>>> SkewCorrection.of(mean=-0.7, spread=0.3, strength=0.3)
SkewCorrection(centre=-0.7, spread=0.3, strength=0.3)
>>> SkewCorrection.of(mean=0.0, spread=0.3, strength=0.3) is None
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privaware.data import ChangingParts, release
from privaware.learners._boosting.coded_rows import CodedRows
from privaware.learners._boosting.derivatives import LATTICE
from privaware.learners._boosting.gradient_sums import ArraySum, TargetSums
from privaware.learners._boosting.stages import CodedData, Noises, Start
from privaware.learners._row_functions import LOG2E, exp2
from privaware.noise import Rng

SPREADS = 2.0 ** np.arange(-8, 0.5, 0.5)
"""Candidate values for the spread of the target, or of residuals, both scaled so that half the target's range is 1."""

INSIDE = 0.85
"""The spread is the smallest of `SPREADS` within which this fraction of the rows lie, measured from the centre."""

NEAR = 3.0
"""A target is skewed only if its lower bound is at most this far below its mean, in spreads of the target."""

TAIL = 4.0
"""A target is skewed only if its upper bound is at least this far above its mean, in spreads of the target."""

SKEW = 2.0
"""A target is skewed only if its upper bound is at least this many times as far from its mean as its lower bound."""

FAR = 8.0
"""Distance from the mean at which outputs are clipped before the skew correction, in spreads."""

MOST_GAIN = 1.0
"""Gains of rows (`GainSums`) are clipped at this absolute value, in squared units (`Start.unit`)."""

MOST_DISTANCE = 2.0
"""Distances of outputs from the mean of the target are clipped at this value, in units (`Start.unit`)."""


def regression_start(data: CodedData, noise: float, rng: Rng, *, residual_clip: float, bias_clip: float) -> Start:
    """Release the mean of the target and its spread, and return them as a `Start`: its bias and its unit.

    There are three releases, each with noise multiplier `noise`. The mean is released twice. The second time targets
    are clipped to `bias_clip * unit` around the first mean, which needs less noise; with a `bias_clip` of 4 predictions
    follow about the mean of the target, with 1 the median. `unit` is `residual_clip` times the spread.
    """
    rows, declared = data.rows, data.layout.schema.rows
    noisy = release(TargetSums(classes=0), rows, noise, rng)
    mean = float(np.clip(noisy[0] / declared, -1, 1))
    unit = residual_clip * _spread(release(SpreadCounts(centre=mean), rows, noise, rng), declared)
    noisy = release(ResidualSums(clip=bias_clip * unit, centre=mean), rows, noise, rng)
    bias = np.clip(mean + bias_clip * unit * np.clip(noisy / declared, -1, 1), -1, 1)
    return Start(bias=bias, unit=unit)


def residual_spread(data: CodedData, noise: float, rng: Rng) -> float:
    """Release and return the spread of the residuals of the outputs so far, one of `SPREADS`.

    `noise` is the noise multiplier of this one release. The spread is the smallest candidate that about 85% (`INSIDE`)
    of the absolute residuals do not exceed.
    """
    return _spread(release(SpreadCounts(centre=0.0), data.rows, noise, rng), data.layout.schema.rows)


def _spread(noisy: np.ndarray, rows: int) -> float:
    """Return the smallest of `SPREADS` within which at least `INSIDE * rows` rows lie, by noisy counts.

    `noisy` are the counts of `SpreadCounts` plus noise, and `rows` is the declared number of rows. The difference
    between `rows` and the sum of the noisy counts is divided equally among all counts, so that the noise of many empty
    cells cannot hide rows.
    """
    enough = np.cumsum(noisy + (rows - noisy.sum()) / len(noisy)) >= INSIDE * rows
    return float(SPREADS[np.argmax(enough)])


@dataclass(frozen=True, kw_only=True)
class SpreadCounts(ArraySum):
    """The number of rows in each cell of the distance `|target - output - centre|`: (len(SPREADS),).

    Cell i holds distances above `SPREADS[i - 1]` and up to `SPREADS[i]`; the last cell holds larger distances too.
    Outputs come from the model so far; the rows store them. A row changes the counts by 1.
    """

    centre: float

    def partial(self, part: CodedRows) -> np.ndarray:
        residuals = part.target.astype(float) - part.values[0].astype(float)
        cells = np.searchsorted(SPREADS, np.abs(residuals - self.centre))
        return np.bincount(np.minimum(cells, len(SPREADS) - 1), minlength=len(SPREADS)).astype(float)


@dataclass(frozen=True, kw_only=True)
class ResidualSums(ArraySum):
    """One number (1,): the sum over rows of `(target - output - centre) / clip`, each clipped to [-1, 1].

    Outputs come from the model so far; the rows store them. A row changes the sum by at most 1.
    """

    clip: float
    centre: float = 0.0

    def partial(self, part: CodedRows) -> np.ndarray:
        residuals = (part.target - part.values[0] - np.float32(self.centre)) / np.float32(self.clip)
        return np.array([LATTICE.round(residuals).sum(dtype=np.float64)])


def is_skewed(mean: float, spread: float) -> bool:
    """Return whether a target in [-1, 1] is skewed: near its lower bound -1 and far from its upper bound 1.

    With `below = 1 + mean` and `above = 1 - mean` it is if `below <= NEAR * spread` and
    `above >= max(TAIL * spread, SKEW * below)`.
    """
    below, above = 1 + mean, 1 - mean
    return below <= NEAR * spread and above >= max(TAIL * spread, SKEW * below)


@dataclass(frozen=True, kw_only=True)
class SkewCorrection:
    """A correction of outputs: `centre + spread * u` becomes `centre + spread * (exp(strength * u) - 1) / strength`.

    Here u is `(output - centre) / spread`, clipped to [-FAR, FAR].
    """

    centre: float
    spread: float
    strength: float

    @classmethod
    def of(cls, mean: float, spread: float, strength: float) -> SkewCorrection | None:
        """Return the correction for a target in [-1, 1] with the released `mean` and `spread`.

        Its centre is `mean`. The result is None if the target is not skewed (`is_skewed`) or if `strength` is 0.
        """
        corrects = strength > 0 and is_skewed(mean, spread)
        return cls(centre=mean, spread=spread, strength=strength) if corrects else None

    def __call__(self, outputs: np.ndarray) -> np.ndarray:
        away = np.clip((outputs.astype(np.float64) - self.centre) / self.spread, -FAR, FAR)
        factors = exp2(LOG2E * self.strength * away).astype(np.float64)
        return np.asarray(self.centre + self.spread / self.strength * (factors - 1))

    def change(self, part: CodedRows) -> None:
        """Correct the outputs that the rows of `part` store, in place, each by itself."""
        part.values[0] = self(part.values[0])


@dataclass(frozen=True, kw_only=True)
class Correction:
    """The last step of a regression, as released.

    `skew` is the skew correction of the outputs, or None. `verdict` says whether the outputs are better than a
    constant. If `verdict.better`, the number `shift` is added to all outputs; it includes `verdict.shift` already.
    """

    skew: SkewCorrection | None
    shift: float
    verdict: Verdict


def correct(data: CodedData, start: Start, strength: float, clip: float, noises: Noises, rng: Rng) -> Correction:
    """Correct the outputs for skew, release their mean residual, check them (`judge`), and return all three results.

    `strength` is the strength of the skew correction, from 0 to 1. The correction changes the outputs that the rows of
    `data` store, in place; the shift is only returned. `clip` is where residuals are clipped, in units of `start.unit`.
    Predictions that follow the median (`clip` of at most 1) are not corrected for skew. If `noises.check` is infinite,
    there is no check, and the verdict is that the outputs are better.
    """
    rows, mean, unit = data.layout.schema.rows, float(start.bias[0]), start.unit
    skew = SkewCorrection.of(mean, unit, strength) if clip > 1 else None
    if skew is not None:
        data.rows.update(skew.change)
    residuals = release(ResidualSums(clip=clip * unit), data.rows, noises.start, rng)
    shift = float(clip * unit * np.clip(residuals[0] / rows, -1, 1))
    if not math.isfinite(noises.check):
        return Correction(skew=skew, shift=shift, verdict=Verdict(mean=0.0, shift=0.0, better=True))
    outputs, deviation = OutputSums(mean=mean, shift=shift, unit=unit), clip * noises.start / rows
    verdict = judge(data.rows, outputs, rows=rows, deviation=deviation, noise=noises.check, rng=rng)
    return Correction(skew=skew, shift=shift + verdict.shift, verdict=verdict)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The result of the check of a regression against a constant prediction: the noisy mean of the model's outputs.

    If `better`, the outputs predict the targets better than the constant, and `shift` is to be added to all of them. If
    not, the model is to be replaced by the constant `Start.bias + mean`.
    """

    mean: float
    shift: float
    better: bool


def judge(
    parts: ChangingParts[CodedRows], outputs: OutputSums, *, rows: int, deviation: float, noise: float, rng: Rng
) -> Verdict:
    """Release the mean of the outputs, and whether the outputs predict better than this noisy mean as a constant.

    These are two releases with noise multiplier `noise`. `parts` are the private rows and `rows` is their declared
    number. `outputs.shift` is added to every output first, and outputs are measured from `outputs.mean`, the released
    mean of the target. Outputs are better if the noisy sum of `GainSums` is at least `noise`. The constant is the mean
    of the outputs, not of the targets, because gains are clipped: clipped gains favour outputs that have only moved
    from the mean of a skewed target to its median.

    Both `outputs.mean` and the mean of the shifted outputs estimate the mean of the target, each with noise of standard
    deviation `deviation`, a multiple of `outputs.unit`. `Verdict.mean`, which is to be added to `outputs.mean`, and
    `Verdict.shift`, which is to be added to the outputs, move each estimate towards the other by the same weight, which
    makes the variance least.
    """
    away = float(release(outputs, parts, noise, rng)[0]) / rows
    weight = deviation**2 / (2 * deviation**2 + (MOST_DISTANCE * noise / rows) ** 2)
    moved = MOST_DISTANCE * outputs.unit * float(np.clip(away, -1, 1))
    gains = GainSums(mean=outputs.mean + moved, shift=outputs.shift, unit=outputs.unit)
    better = bool(release(gains, parts, noise, rng)[0] >= noise)  # less is no more than noise
    return Verdict(mean=weight * moved, shift=-weight * moved, better=better)


@dataclass(frozen=True, kw_only=True)
class OutputSums(ArraySum):
    """One number: the sum over rows of `(output + shift - mean) / (MOST_DISTANCE * unit)`, each clipped to [-1, 1].

    A row changes it by at most 1. `shift` is added to every output, `mean` is the released mean of the target, and
    `unit` is `Start.unit`.
    """

    mean: float
    shift: float
    unit: float

    def partial(self, part: CodedRows) -> np.ndarray:
        away = (part.values[0].astype(np.float64) + self.shift - self.mean) / (MOST_DISTANCE * self.unit)
        return np.array([LATTICE.round(away).sum(dtype=np.float64)])


@dataclass(frozen=True, kw_only=True)
class GainSums(ArraySum):
    """One number: the sum over rows of the squared error of `mean` minus the squared error of the output.

    The gain of a row is `((target - mean)**2 - (target - output - shift)**2) / (MOST_GAIN * unit**2)`, clipped to [-1,
    1], so a row changes the sum by at most 1. `mean` is a constant prediction, and `shift` is added to every output.
    `unit` is `Start.unit`.
    """

    mean: float
    shift: float
    unit: float

    def partial(self, part: CodedRows) -> np.ndarray:
        target = part.target.astype(np.float64)
        outputs = part.values[0].astype(np.float64) + self.shift
        gains = ((target - self.mean) ** 2 - (target - outputs) ** 2) / (MOST_GAIN * self.unit**2)
        return np.array([LATTICE.round(gains).sum(dtype=np.float64)])
