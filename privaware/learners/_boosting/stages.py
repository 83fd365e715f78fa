"""The values that the stages of a training pass on: the budget of each stage, the rows, and what was released."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np

from privaware.data import ChangingParts
from privaware.events import NOTHING, Event, Gaussian
from privaware.learners._boosting.coded_rows import CodedLayout, CodedRows

__all__ = ["Budget", "CodedData", "Curves", "Interactions", "Noises", "Releases", "Stage", "Start"]


@dataclass(frozen=True, kw_only=True)
class Releases:
    """`count` Gaussian releases that together take a `fraction` of the budget; none if the fraction is 0.

    >>> Releases(count=4, fraction=0.25).noise(2.0)
    8.0
    """

    count: int = 0
    fraction: float = 0.0

    def noise(self, noise: float) -> float:
        """Return the noise multiplier of one release, where the whole budget is one release with multiplier `noise`.

        It is infinity if the fraction is 0.
        """
        return noise * math.sqrt(self.count / self.fraction) if self.fraction else math.inf

    def scaled(self, factor: float) -> Releases:
        """Return the same releases with `factor` times their fraction."""
        return replace(self, fraction=factor * self.fraction)


@dataclass(frozen=True, kw_only=True)
class Noises:
    """The noise multiplier of one release of each stage (see `Budget`); infinity means that the stage has no release.

    `all` is the noise multiplier of the one Gaussian release that costs as much as all releases together.
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
        """Return the event of all releases, which together are one Gaussian release with multiplier `noise`."""
        every = [getattr(self, field.name) for field in fields(self)]
        return sum((each.count * Gaussian(noise=each.noise(noise)) for each in every if each.fraction), start=NOTHING)

    def noises(self, noise: float) -> Noises:
        """Return the noise multiplier of one release of each stage, if `noise` is the multiplier for all together."""
        return Noises(all=noise, **{field.name: getattr(self, field.name).noise(noise) for field in fields(self)})


@dataclass(frozen=True, kw_only=True, eq=False)
class CodedData:
    """Private rows as ordinal codes, and their public layout."""

    layout: CodedLayout
    rows: ChangingParts[CodedRows]


@dataclass(frozen=True, kw_only=True, eq=False)
class Start:
    """The released `bias` of each output, and the `unit`: the output that a gradient of 1 stands for.

    In a regression the bias is the mean of the target, and the unit is its spread times `residual_clip`. In a
    classification the unit is a factor on all steps, below 1 if a class is rare.
    """

    bias: np.ndarray
    unit: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Curves:
    """The released `weights` of an additive model, and the standard `deviations` that noise alone gave them.

    `weights` are (bias, scores of all levels and slopes, outputs); scores and slopes add to the outputs of a row. There
    is one deviation for the scores of each column, then one for each slope; there are none without a step.
    """

    weights: np.ndarray
    deviations: np.ndarray


@dataclass(frozen=True, kw_only=True, eq=False)
class Stage:
    """What trees or random Fourier features start from, once the additive model is added to the outputs.

    `unit` is the residual of a regression that gives a gradient of 1. `chances` are the probabilities with which
    columns are read, by what the additive model found; None for equal ones. `most_noise` is the largest standard
    deviation that noise may give an output, in units. `report` takes the number of trees or steps that are done.
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

    `columns` (trees, depth) and `right` (trees, depth, levels) are splits, `leaves` (trees, leaves, outputs) scores.
    `frequencies` (weights of an additive model, features) are in revolutions; `amplitudes` are (features, outputs).
    """

    columns: np.ndarray
    right: np.ndarray
    leaves: np.ndarray
    frequencies: np.ndarray
    amplitudes: np.ndarray
    bias: np.ndarray

    @classmethod
    def none(cls, layout: CodedLayout, depth: int) -> Interactions:
        """Return interactions with no tree (of this `depth`), no feature and a bias of 0, in the shapes of `layout`."""
        return cls(
            columns=np.zeros((0, depth), np.int64),
            right=np.zeros((0, depth, max(layout.levels)), bool),
            leaves=np.zeros((0, 2**depth, layout.outputs)),
            frequencies=np.zeros((layout.width, 0)),
            amplitudes=np.zeros((0, layout.outputs)),
            bias=np.zeros(layout.outputs),
        )

    def silenced(self) -> Interactions:
        """Return the same trees and features with scores and amplitudes of 0; the bias stays."""
        return replace(self, leaves=np.zeros_like(self.leaves), amplitudes=np.zeros_like(self.amplitudes))
