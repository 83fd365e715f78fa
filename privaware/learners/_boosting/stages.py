"""The values that the stages of a training pass on: the budget of each stage, the rows, and what was released."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np

from privaware.data import ChangingParts
from privaware.events import NOTHING, Event, Gaussian
from privaware.learners._boosting.coded_rows import CodedLayout, CodedRows


@dataclass(frozen=True, kw_only=True)
class Releases:
    """`count` Gaussian releases of equal noise that together take a `fraction` of the budget; none if `fraction` is 0.

    The budget is measured by `1 / noise_multiplier**2`, which adds up over Gaussian releases.

    >>> Releases(count=4, fraction=0.25).noise(2.0)
    8.0
    """

    count: int = 0
    fraction: float = 0.0

    def noise(self, noise: float) -> float:
        """Return the noise multiplier of one of these releases: `noise * sqrt(count / fraction)`.

        `noise` is the noise multiplier of the one Gaussian release that would take the whole budget. The result is
        infinity if `fraction` is 0.
        """
        return noise * math.sqrt(self.count / self.fraction) if self.fraction else math.inf

    def scaled(self, factor: float) -> Releases:
        """Return as many releases with the fraction `factor * fraction`."""
        return replace(self, fraction=factor * self.fraction)


@dataclass(frozen=True, kw_only=True)
class Noises:
    """The noise multiplier of one release of each stage of a training; infinity means that the stage has no release.

    The stages are those of `Budget`. `all` is the noise multiplier of the one Gaussian release that costs as much as
    all releases of all stages together.
    """

    all: float
    start: float
    steps: float
    trees: float
    feature_mean: float
    feature_steps: float
    check: float


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The releases of each stage; their fractions sum to 1.

    The stages are `start` (bias and, in a regression, spread), `steps` of the additive model, `trees`, the mean of the
    random Fourier features (`feature_mean`), the steps on their amplitudes (`feature_steps`), and the `check` of a
    regression against a constant. `start` also holds later releases of a regression: the spread of residuals and the
    mean of the last residuals.
    """

    start: Releases
    steps: Releases = Releases()
    trees: Releases = Releases()
    feature_mean: Releases = Releases()
    feature_steps: Releases = Releases()
    check: Releases = Releases()

    def cost(self, noise: float) -> Event:
        """Return the event (the privacy cost) of all releases of all stages.

        They cost as much as one Gaussian release with noise multiplier `noise`.
        """
        every = [getattr(self, field.name) for field in fields(self)]
        return sum((each.count * Gaussian(noise=each.noise(noise)) for each in every if each.fraction), start=NOTHING)

    def noises(self, noise: float) -> Noises:
        """Return the noise multiplier of one release of each stage.

        `noise` is the noise multiplier of a single Gaussian release that costs as much as all these releases together.
        """
        return Noises(all=noise, **{field.name: getattr(self, field.name).noise(noise) for field in fields(self)})


@dataclass(frozen=True, kw_only=True, eq=False)
class CodedData:
    """Private rows as ordinal codes (`rows`), and the public facts of their codes (`layout`)."""

    layout: CodedLayout
    rows: ChangingParts[CodedRows]


@dataclass(frozen=True, kw_only=True, eq=False)
class Start:
    """The first releases of a training: the `bias` of each output (outputs,), and the `unit` of outputs.

    In a regression the bias is the mean of the target, and the unit is its spread times `residual_clip`: the residual
    that gives a gradient of 1. In a classification the unit is a factor on all steps, below 1 if a class is rare.
    """

    bias: np.ndarray
    unit: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Curves:
    """The released weights of an additive model, and the standard deviations that noise alone gave them.

    `weights` (1 + all levels + slopes, outputs) are the bias, the score of each level of each column, and the slope of
    each number; a row's output is the bias plus the scores of its levels plus slope times number. `deviations` has one
    number for the scores of each column, then one for each slope; it is empty if no step was taken.
    """

    weights: np.ndarray
    deviations: np.ndarray


@dataclass(frozen=True, kw_only=True, eq=False)
class Stage:
    """The state from which trees or random Fourier features are learned, after the additive model.

    `data` holds the rows with their outputs, and `noises` the noise multipliers. `unit` is the residual of a regression
    that gives a gradient of 1; in a classification it is a factor on all steps. `chances` (columns,) are the
    probabilities with which columns are read, from what the additive model found; None means equal ones. `most_noise`
    is the largest standard deviation that noise may give an output, as a multiple of `unit`. `report` is called with
    the number of finished trees or steps.
    """

    data: CodedData
    noises: Noises
    unit: float
    chances: np.ndarray | None
    most_noise: float
    report: Callable[[int], None]


@dataclass(frozen=True, kw_only=True, eq=False)
class Interactions:
    """Trees and random Fourier features as they are released, and what they add to the bias.

    `columns` (trees, depth) and `right` (trees, depth, levels) are the splits of trees (see `Splits`), and `leaves`
    (trees, leaves, outputs) the scores of their leaves. `frequencies` (weights of an additive model, features) are in
    revolutions (see `random_frequencies`), and `amplitudes` are (features, outputs). `bias` (outputs,) is added to the
    bias.
    """

    columns: np.ndarray
    right: np.ndarray
    leaves: np.ndarray
    frequencies: np.ndarray
    amplitudes: np.ndarray
    bias: np.ndarray

    @classmethod
    def none(cls, layout: CodedLayout, depth: int) -> Interactions:
        """Return interactions without trees, without features and with a bias of 0, in the shapes that `layout` gives.

        `depth` is the depth that the empty arrays of trees have.
        """
        return cls(
            columns=np.zeros((0, depth), np.int64),
            right=np.zeros((0, depth, max(layout.levels)), bool),
            leaves=np.zeros((0, 2**depth, layout.outputs)),
            frequencies=np.zeros((layout.width, 0)),
            amplitudes=np.zeros((0, layout.outputs)),
            bias=np.zeros(layout.outputs),
        )

    def silenced(self) -> Interactions:
        """Return a copy whose leaf scores and amplitudes are 0; splits, frequencies and bias stay."""
        return replace(self, leaves=np.zeros_like(self.leaves), amplitudes=np.zeros_like(self.amplitudes))
