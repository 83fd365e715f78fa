"""Random Fourier features of a few columns, and gradient descent on their amplitudes: the last stage of `fourier`.

A feature is the cosine of an angle: a random phase, plus a random angle for the level of each of one to four columns. A
number adds to the angle in proportion to its place between its bounds and to its rank among its levels. Columns
with a larger effect in the additive start are read more often. Outputs are a bias plus an amplitude times each feature.

Why a row moves the sums by no more than declared:

1. Angles are sums of table entries, one column after another, and cosines are computed entry by entry
   (`_row_functions.py`). So a row of features is a function of the row alone, bit for bit.
2. A row of features is clipped to length 1 on a lattice of 12 bits, so the sum of all rows moves by at most 1.
3. Rows are then centred at the released mean and clipped to length 1 again, on the same lattice.
4. A row's gradient has length at most G = `layout.length`, on a lattice of 20 bits. The outer product of the row and
   its gradient has length at most 1 * G, so the sums of a step move by at most G.
5. Products of the two lattices are summed exactly, in any order, so step 4 holds for the computed sums too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from privaware.data import Sum, release
from privaware.exact_sums import Lattice, Total, add_outer_sum, clip_rows, column_sums
from privaware.features._fourier import CATEGORY_DISTANCE, NUMBER_SCALE
from privaware.learners._boosting.coded_rows import CodedLayout, CodedRows
from privaware.learners._boosting.derivatives import LATTICE, MOMENTUM, derivatives, response
from privaware.learners._boosting.gradient_sums import ArraySum, GradientSums, Lookup
from privaware.learners._boosting.stages import Stage
from privaware.learners._centring import Centre
from privaware.learners._row_functions import cosine
from privaware.noise import Rng

FEATURE_STEPS = 100
"""Steps of gradient descent on the amplitudes."""

COLUMNS_READ = (1, 2, 3, 4)
"""Numbers of columns that a feature reads: the first feature reads one column, the second two, and so on in turn."""

WIDTHS = (0.5, 0.7, 1.0)
"""Widths of the Gaussian kernels that the features approximate, in standard deviations of a number."""

ROWS = Lattice(bound=1.0, bits=12)
"""Entries of a row of features are multiples of 2^-12 in [-1, 1]."""
AMPLITUDE_BITS = 20
"""Amplitudes are rounded to about this many bits, relative to the largest one, before outputs are computed."""
ROWS_AT_ONCE = 2**12
"""Rows whose random Fourier features are computed at once."""

MOST_NOISE = 1.5
"""Largest standard deviation that the noise of all steps may give a logit, where `rows / noise` is at least `SURE`."""

MOST_NOISE_OF_NUMBERS = 0.25
"""Largest standard deviation that the noise of all steps may give the output of a regression, in `Stage.unit`."""

SURE = 150.0
"""Value of `rows / noise` below which the standard deviation allowed to logits shrinks in proportion to it."""

STEADY = 4.0
"""Largest product of learning rate, number of rows and curvature of the loss, in a classification.

Rows are centred, so they share no direction, and steps of this size stay stable.
"""

STEADY_OF_NUMBERS = 1.9
"""Largest product of learning rate, number of rows and curvature of the loss, in a regression.

Rows are centred, so they share no direction, and steps of this size stay stable.
"""

MOST_DROPPED = 0.75
"""Largest fraction by which amplitudes that noise alone explains are shrunk: with classes and categories only.

With number columns they shrink less, in proportion to the fraction of categories among the columns. A regression does
not shrink them.
"""

KEPT_BY_SIGNAL = 2.5
"""The factor on amplitudes is `least + KEPT_BY_SIGNAL * signal`, at most 1 (see `_kept`)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Amplitudes:
    """The released amplitudes of random Fourier features, and what they add to the bias.

    An output is `bias + features @ amplitudes`, with `amplitudes` (features, outputs) and `bias` (outputs,).
    """

    amplitudes: np.ndarray
    bias: np.ndarray


def random_frequencies(
    layout: CodedLayout, count: int, generator: np.random.Generator, chances: np.ndarray | None = None
) -> np.ndarray:
    """Draw and return the frequencies of `count` random Fourier features, in revolutions: (weights, count).

    The rows of the result are the weights of an additive model: the bias (here the phase of a feature), each level,
    each slope. They add up to the angle of a feature, as weights add up to an output. A feature reads one to four
    columns, none twice, drawn with the probabilities `chances` (columns,); None means equal probabilities. Entries of
    columns that a feature does not read are 0.
    """
    frequencies = np.zeros((layout.width, count))
    frequencies[0] = generator.random(count)
    able = len(layout.levels) if chances is None else np.count_nonzero(chances)
    for feature in range(count):
        read = min(COLUMNS_READ[feature % len(COLUMNS_READ)], able)
        scale = 1 / (2 * math.pi * generator.choice(WIDTHS) * math.sqrt(read))
        for at in generator.choice(len(layout.levels), read, replace=False, p=chances):
            _add_column(layout, frequencies[:, feature], int(at), scale, generator)
    return frequencies


def _add_column(
    layout: CodedLayout, frequencies: np.ndarray, at: int, scale: float, generator: np.random.Generator
) -> None:
    """Draw what the levels and the slope of column `at` add to the angle of one feature, and set it in `frequencies`.

    `frequencies` (weights of an additive model,) belong to this one feature and are changed in place. Draws are normal,
    in revolutions. The draw of a number has standard deviation `scale` for each standard deviation of the number. The
    draw of a category's level, or of a missing number, has standard deviation `CATEGORY_DISTANCE * scale`.
    """
    column, start, size = layout.schema.used[at], int(layout.starts[at]), layout.levels[at]
    if column.kind == "category":
        frequencies[start : start + size] = CATEGORY_DISTANCE * scale * generator.standard_normal(size)
        return
    known = size - (column.missing == "category")
    of_number, of_missing = scale * generator.standard_normal(), scale * generator.standard_normal()
    by_number = at in layout.numbered
    ranks = (np.arange(known) + 0.5) / known - 0.5
    frequencies[start : start + known] = (1 if by_number else 2) * NUMBER_SCALE * of_number * ranks
    frequencies[start + known : start + size] = CATEGORY_DISTANCE * of_missing
    if by_number:
        frequencies[1 + sum(layout.levels) + layout.numbered.index(at)] = NUMBER_SCALE / 2 * of_number


def learn_amplitudes(stage: Stage, frequencies: np.ndarray, rng: Rng) -> Amplitudes:
    """Release the mean of the features, then `FEATURE_STEPS` steps of gradient descent, and return the amplitudes.

    `frequencies` are the result of `random_frequencies`. The amplitudes are the mean over the last half of the steps,
    times `_kept`. Features times amplitudes are added to the outputs of the rows in `stage.data`, in place. The
    returned amplitudes and bias are for features before centring and before scaling to norm 1.
    """
    layout, rows, noises = stage.data.layout, stage.data.rows, stage.noises
    declared = layout.schema.rows
    rows.update(partial(_add_features, layout=layout, frequencies=frequencies))
    noisy = release(FeatureMeans(), rows, noises.feature_mean, rng)
    centre = Centre.of(noisy, rows=declared, deviation=noises.feature_mean)
    rows.update(partial(_centre_features, centre=centre))
    steady = STEADY if layout.classes else STEADY_OF_NUMBERS
    most_noise = MOST_NOISE * min(1.0, declared / noises.all / SURE) if layout.classes else MOST_NOISE_OF_NUMBERS
    rate = most_noise * declared / (noises.feature_steps * layout.length * response(FEATURE_STEPS))
    rate = min(rate, steady / layout.curvature) / declared
    weights = np.zeros((frequencies.shape[1], layout.outputs))
    velocity, average = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(FEATURE_STEPS):
        sums = FeatureSums(layout=layout, weights=weights, unit=stage.unit)
        velocity = MOMENTUM * velocity + release(sums, rows, noises.feature_steps, rng)
        weights = weights + rate * velocity
        if step >= FEATURE_STEPS // 2:
            average += weights / (FEATURE_STEPS - FEATURE_STEPS // 2)
        stage.report(step + 1)
    deviation = rate * noises.feature_steps * layout.length * response(FEATURE_STEPS)
    average *= _kept(average, deviation, _least_kept(layout))
    rows.update(FeatureSums(layout=layout, weights=average, unit=stage.unit).add_outputs)
    by_output, bias = centre.outputs_for(stage.unit * average.T, np.zeros(layout.outputs))
    return Amplitudes(amplitudes=by_output.T * _feature_scale(frequencies.shape[1]), bias=bias)


def _kept(amplitudes: np.ndarray, deviation: float, least: float) -> float:
    """Return the factor by which released amplitudes are shrunk: `min(1, least + KEPT_BY_SIGNAL * signal)`.

    `signal` is the fraction of the squared norm of `amplitudes` (features, outputs) that noise does not explain:
    `max(0, 1 - deviation**2 * size / |amplitudes|**2)`. `deviation` is the standard deviation of the noise in one
    amplitude. Amplitudes of zeros have signal 0. The factor is computed from released values, so it has no privacy
    cost.

    >>> _kept(np.ones((4, 1)), deviation=1.0, least=0.25), _kept(np.ones((4, 1)), deviation=0.5, least=0.25)
    (0.25, 1.0)
    """
    square = float((amplitudes**2).sum())
    signal = max(0.0, 1 - deviation**2 * amplitudes.size / square) if square else 0.0
    return min(1.0, least + KEPT_BY_SIGNAL * signal)


def _least_kept(layout: CodedLayout) -> float:
    """Return the smallest factor on amplitudes: 1 in a regression, else `1 - MOST_DROPPED * fraction`.

    Here `fraction` is the fraction of categories among the columns. Interactions of numbers are smooth, so features of
    numbers help even where noise hides them. Interactions of categories have to be learnt for each pair of levels.
    """
    used = layout.schema.used
    share = sum(column.kind == "category" for column in used) / len(used)
    return 1 - MOST_DROPPED * share if layout.classes else 1.0


@dataclass(frozen=True, kw_only=True)
class FeatureMeans(ArraySum):
    """The sum of the random Fourier features of all rows (features,); a row changes it by at most 1 in L2 norm.

    `release` returns this sum plus noise, not a mean.
    """

    def partial(self, part: CodedRows) -> np.ndarray:
        return np.asarray(column_sums(part.features, ROWS))


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureSums(Sum[CodedRows, Total, np.ndarray]):
    """The sum over rows of features times negative gradients (features, outputs).

    Gradients are taken at the outputs so far plus `unit * (features @ weights)`, with `weights` (features, outputs).
    `unit` is the residual of a regression that gives a gradient of 1, and `layout` holds the public facts. A row
    changes the sum by at most the norm of its gradient, because its features have norm at most 1.
    """

    layout: CodedLayout
    weights: np.ndarray
    unit: float

    def partial(self, part: CodedRows) -> Total:
        total = Total()
        for at in range(0, max(len(part), 1), ROWS_AT_ONCE):
            rows = slice(at, at + ROWS_AT_ONCE)
            features = part.features[rows]
            values = part.values[:, rows] + self._outputs(features)
            gradients, _ = derivatives(self.layout, values, part.target[rows], self.unit, curved=False)
            add_outer_sum(total, features, gradients.T, ROWS, LATTICE)
        return total

    def release(self, total: Total, noise: float, rng: Rng) -> np.ndarray:
        return np.asarray(rng.gaussian(total.value, noise=noise, sensitivity=self.layout.length))

    def add_outputs(self, part: CodedRows) -> None:
        """Add `unit * (features @ weights)` to the outputs of the rows in `part`, in place, and drop their features."""
        for at in range(0, len(part), ROWS_AT_ONCE):
            part.values[:, at : at + ROWS_AT_ONCE] += self._outputs(part.features[at : at + ROWS_AT_ONCE])
        part.features = part.features[:0]

    def _outputs(self, features: np.ndarray) -> np.ndarray:
        """Return `unit * (features @ weights)` in float32, transposed: (outputs, rows).

        Weights are rounded to `AMPLITUDE_BITS` bits, so the products are exact and do not depend on other rows.
        """
        largest = max(float(np.abs(self.weights).max()), 2.0**-99)
        coarse = Lattice(bound=largest, bits=AMPLITUDE_BITS).nearest(self.weights)
        return np.asarray((self.unit * (features @ coarse)).astype(np.float32).T)


def _add_features(part: CodedRows, layout: CodedLayout, frequencies: np.ndarray) -> None:
    """Compute the random Fourier features of each row of `part`, and store them in `part.features` (rows, features).

    Rows of features are scaled to a norm of about 1, clipped to norm 1 and rounded to multiples of 2^-12. `frequencies`
    (weights of an additive model, features) are the result of `random_frequencies`.
    """
    angles, lookup = GradientSums(layout=layout, weights=frequencies, unit=1.0), Lookup()
    part.features = np.empty((len(part), frequencies.shape[1]))
    for at in range(0, len(part), ROWS_AT_ONCE):
        rows = slice(at, at + ROWS_AT_ONCE)
        features = cosine(angles.outputs(part, rows, lookup)).T * np.float32(_feature_scale(frequencies.shape[1]))
        part.features[rows] = clip_rows(features, 1.0, ROWS)


def _centre_features(part: CodedRows, centre: Centre) -> None:
    centre.move(part.features, ROWS)


def _feature_scale(count: int) -> float:
    """Return `sqrt(2 / count)`, which gives a row of `count` cosines a norm of about 1."""
    return math.sqrt(2 / count)
