"""Private gradient descent on an additive model first, then on random Fourier features of a few columns each.

Every column is coded by public levels (`features.codes`). The training has four stages:

1. Bias: the frequencies of the classes, or the mean and the spread of the target. The spread is the unit of residuals.
2. Additive start: `steps` of gradient descent with momentum on one score for each level, one slope for each number and
   a few smooth cosines over the levels of each number. A regression then releases the spread of its residuals, which is
   the unit of the features.
3. Random Fourier features: `count` cosines of random sums of one to four columns. Columns with a larger effect in the
   additive start are read more often, at no privacy cost; columns with a monotone direction are not read. Rows of
   features are centred at their released mean, and 100 steps of gradient descent with momentum find the amplitudes. The
   noise in an output depends neither on `count` nor on the kinds of columns. With classes and categories, amplitudes
   that noise alone explains are shrunk, at no privacy cost: the additive start stays as it is where columns do not
   interact.
4. Regression only: outputs are corrected for a skewed target, the mean of the last residuals moves the bias, and two
   releases compare the model with a constant, the noisy mean of its outputs. If its squared error is not smaller by at
   least the noise, a constant replaces the model: the released mean of the target, moved towards that noisy mean.

Gradients of classes are clipped to half their largest length, which halves the noise. For two classes the model undoes
the effect of the clip on probabilities. Where classes are very unequal (of two, one with less than a fifth of the
rows), all steps are smaller: sums of gradients shrink with the variance of the class, and noise does not.

Paper: Rahimi and Recht 2007, Random Features for Large-Scale Kernel Machines; sets of columns after Duvenaud,
Nickisch, Rasmussen 2011, Additive Gaussian Processes, arXiv:1112.4394; the additive start after Nori, Caruana, Bu,
Shen, Kulkarni 2021, Accuracy, Interpretability, and Differential Privacy via Explainable Boosting, arXiv:2106.09680.
Privacy: (epsilon, delta) for one row added or removed. All releases are Gaussian, and together they are one Gaussian
release with the given noise multiplier. The sensitivity of each, in steps that can be checked:

1. A row's clipped gradient has length at most G: 1/2 for two classes, sqrt(2)/2 for more, 1 for a regression.
2. Bias, spread, last residuals and check are histograms, or sums of terms in [-1, 1]: a row moves each by at most 1.
3. A step of the additive start adds the gradient to: the bias (weight 1); one level of each of k categories (weight 1);
   one level of each of m numbers (weight 1/4); the slope of each number (weight 3/4 times a number in [-1, 1]); and the
   cosines of each number (weights whose squares sum to at most 1). The squared weights sum to at most
   1 + k + (1/16 + 9/16 + 1) m = 1 + k + 13/8 m, so a row moves the sums by at most G sqrt(1 + k + 13/8 m).
4. A row of features is clipped to length 1: a row moves the sum for the mean of the features by at most 1.
5. A row of centred features is clipped to length 1. A step adds its outer product with the gradient, of length at most
   1 * G: a row moves the sums by at most G.
6. Features and gradients are functions of one row alone, bit for bit, on public lattices, so sums are exact in any
   order and the bounds hold for the computed sums.

Use when: columns of a table interact, and there are thousands of rows; `boosted` is faster from tens of thousands on.

>>> from privaware.schema import Column, Schema
>>> schema = Schema(columns=(Column(name="age", low=0, high=99),), classes=("no", "yes"), rows=1000)
>>> Fourier(steps=4).cost(schema, noise=1.0).events[2:]  # doctest: +ELLIPSIS
(Gaussian(noise=5.923...), Repeated(event=Gaussian(noise=13.589...), count=100))
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from privaware._validate import expect_count
from privaware.errors import WrongInput
from privaware.events import Event
from privaware.learners._boosting.additive_start import AdditiveStart
from privaware.learners._boosting.fourier_sums import FEATURE_STEPS, learn_amplitudes, random_frequencies
from privaware.learners._boosting.stages import Interactions, Releases, Stage
from privaware.noise import Rng
from privaware.schema import Schema

__all__ = ["Fourier"]

MEAN_FRACTION = 0.05
"""Fraction of the random Fourier features' budget that releases their mean; the steps take `1 - MEAN_FRACTION`."""

DEPTH = 3
"""Depth that the released model states for its trees, though it has no tree."""


@dataclass(frozen=True, kw_only=True)
class Fourier(AdditiveStart):
    """A learner that starts from an additive model and adds random Fourier features.

    `skew_correction` is the strength, from 0 to 1, with which outputs for a skewed regression target are corrected.
    `AdditiveStart` explains the other settings.

    Parameters
    ----------
    count : int
        Number of random Fourier features.
    """

    _piece: ClassVar[str] = "random Fourier feature"

    count: int = 512
    share: float = 0.4
    skew_correction: float = 0.3

    def __post_init__(self) -> None:
        expect_count(self._name, 0, count=self.count)
        super().__post_init__()

    def cost(self, schema: Schema, noise: float) -> Event:
        event = super().cost(schema, noise)
        if self.count and not self._chances(schema, None).any():
            raise WrongInput("fourier: expected a column without a monotone direction, got none; take additive")
        return event

    @property
    def _count(self) -> int:
        return self.count

    @property
    def _interaction_steps(self) -> int:
        return FEATURE_STEPS if self.count else 0

    def _interaction_releases(self, fraction: float) -> dict[str, Releases]:
        used = fraction if self.count else 0.0
        return {
            "feature_mean": Releases(count=1, fraction=used * MEAN_FRACTION),
            "feature_steps": Releases(count=FEATURE_STEPS, fraction=used * (1 - MEAN_FRACTION)),
        }

    def _interactions(self, stage: Stage, rng: Rng) -> Interactions:
        layout = stage.data.layout
        none = Interactions.none(layout, DEPTH)
        chances = self._chances(layout.schema, stage.chances)
        if not math.isfinite(stage.noises.feature_steps) or not chances.any():  # no column that a feature may read
            return none
        frequencies = random_frequencies(layout, self.count, rng.initial, chances)
        learnt = learn_amplitudes(stage, frequencies, rng)
        return replace(none, frequencies=frequencies, amplitudes=learnt.amplitudes, bias=learnt.bias)

    def _chances(self, schema: Schema, chances: np.ndarray | None) -> np.ndarray:
        """Return the probability (columns,) with which a feature reads each column in `schema.used`.

        The probabilities are proportional to `chances`, or equal if it is None. A column with a direction in `monotone`
        has 0. If every column has a direction, all probabilities are 0; otherwise they sum to 1.
        """
        free = np.array([float(column.name not in self.monotone) for column in schema.used])
        free = free if chances is None else free * chances
        return np.asarray(free / max(free.sum(), 1e-99))
