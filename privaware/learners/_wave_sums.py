"""Random waves over the levels of a few columns: what boosting learns of columns that act together, beside trees.

A wave is the cosine of a random phase and of a random turn for the level of each of one to four columns; numbers turn
it by their place and their rank, smoothly. Columns that the additive start found strong come more often. Outputs are
a bias and a weight for each wave, found by gradient descent with momentum on what the model before leaves. A row of
waves is measured from the private mean of all rows and has length 1 at most.

Why a row moves the sums by no more: angles are sums of table entries, one column after another, and cosines are
computed entry by entry (`_row_functions`), so a row of waves is a function of the row alone, bit for bit. It lies on
a lattice of 12 bits and the row's gradient on one of 20: their products are summed exactly, in any order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from privaware.data import ChangingParts, Sum, release
from privaware.exact_sums import Lattice, Total, add_outer_sum, clip_rows, column_sums
from privaware.learners._centring import Centre
from privaware.learners._code_tables import Lookup
from privaware.learners._coded_rows import CodedLayout, CodedRows
from privaware.learners._derivatives import LATTICE, derivatives
from privaware.learners._leaf_sums import ArraySum, GradientSums
from privaware.learners._momentum import MOMENTUM, response
from privaware.learners._row_functions import cosine
from privaware.noise import Rng

__all__ = ["WAVE_STEPS", "learn_waves", "most_noise_of_waves", "random_turns"]

WAVE_STEPS = 100
"""Steps of gradient descent on the weights of waves."""

READ = (1, 2, 3, 4)
"""How many columns a wave reads, in turn."""

SCALES = (0.5, 0.7, 1.0)
"""Widths of the kernels that the waves stand for, in deviations of a number."""

APART = 1.4
"""How far apart two categories are, in deviations of a number."""

ROWS = Lattice(bound=1.0, bits=12)
WEIGHT_BITS = 20
ROWS_AT_ONCE = 2**12
"""Rows whose random Fourier features are computed at once."""

MOST_NOISE = 1.5
"""The deviation that noise may give a logit before later steps correct it, from rows / noise = `SURE` on."""

MOST_NOISE_OF_NUMBERS = 0.25
"""The deviation that noise may give a regression, in units, before later steps correct it."""

SURE = 150.0
"""Value of rows / noise below which the deviation allowed to logits shrinks in proportion."""

STEADY = 4.0
"""Largest step times curvature in a classification; rows are centred, so they share no direction."""

STEADY_OF_NUMBERS = 1.9
"""Largest step times curvature in a regression; rows are centred, so they share no direction."""


def most_noise_of_waves(layout: CodedLayout, noise: float) -> float:
    """What noise alone may do to an output, in units, by the noise multiplier of all releases together."""
    return MOST_NOISE * min(1.0, layout.schema.rows / noise / SURE) if layout.classes else MOST_NOISE_OF_NUMBERS


def random_turns(
    layout: CodedLayout, waves: int, generator: np.random.Generator, chances: np.ndarray | None = None
) -> np.ndarray:
    """What the bias, each level and each slope turn each wave by: (weights of an additive model, waves), in turns.

    Columns come by their `chances` (equal ones by default), none of them twice in a wave.
    """
    turns = np.zeros((layout.width, waves))
    turns[0] = generator.random(waves)
    able = len(layout.levels) if chances is None else np.count_nonzero(chances)
    for wave in range(waves):
        read = min(READ[wave % len(READ)], able)
        frequency = 1 / (2 * math.pi * generator.choice(SCALES) * math.sqrt(read))
        for at in generator.choice(len(layout.levels), read, replace=False, p=chances):
            _turn(layout, turns[:, wave], int(at), frequency, generator)
    return turns


def _turn(layout: CodedLayout, turns: np.ndarray, at: int, frequency: float, generator: np.random.Generator) -> None:
    """Adds what one column turns a wave by."""
    column, start, size = layout.schema.used[at], int(layout.starts[at]), layout.levels[at]
    if column.kind == "category":
        turns[start : start + size] = APART * frequency * generator.standard_normal(size)
        return
    known = size - (column.missing == "category")
    frequency, of_missing = frequency * generator.standard_normal(), frequency * generator.standard_normal()
    by_number = at in layout.numbered
    ranks = (np.arange(known) + 0.5) / known - 0.5
    turns[start : start + known] = (1 if by_number else 2) * math.sqrt(3) * frequency * ranks
    turns[start + known : start + size] = APART * of_missing
    if by_number:
        turns[1 + sum(layout.levels) + layout.numbered.index(at)] = math.sqrt(3) / 2 * frequency


def learn_waves(
    coded: tuple[CodedLayout, ChangingParts[CodedRows]],
    turns: np.ndarray,
    noises: tuple[float, float],
    scales: tuple[float, float],
    rng: Rng,
) -> tuple[np.ndarray, np.ndarray]:
    """Weights (waves, outputs) and what they add to the bias; the outputs of the rows are changed by both.

    `noises` are those of the mean of the waves and of a step, `scales` the most that noise may do to an output, in
    units, and the unit of gradients.
    """
    (layout, rows), (of_mean, of_step), (most, unit) = coded, noises, scales
    declared = layout.schema.rows
    rows.update(partial(_add_waves, layout=layout, turns=turns))
    centre = Centre.of(release(WaveMeans(), rows, of_mean, rng), rows=declared, deviation=of_mean)
    rows.update(partial(_centre_waves, centre=centre))
    steady = STEADY if layout.classes else STEADY_OF_NUMBERS
    rate = most * declared / (of_step * layout.length * response(WAVE_STEPS))
    rate = min(rate, steady / layout.curvature) / declared
    weights = np.zeros((turns.shape[1], layout.outputs))
    velocity, average = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(WAVE_STEPS):
        sums = WaveSums(layout=layout, weights=weights, unit=unit)
        velocity = MOMENTUM * velocity + release(sums, rows, of_step, rng)
        weights = weights + rate * velocity
        if step >= WAVE_STEPS // 2:
            average += weights / (WAVE_STEPS - WAVE_STEPS // 2)
    rows.update(WaveSums(layout=layout, weights=average, unit=unit).add_outputs)
    by_output, bias = centre.outputs_for(unit * average.T, np.zeros(layout.outputs))
    return by_output.T * _length(turns.shape[1]), bias


@dataclass(frozen=True, kw_only=True)
class WaveMeans(ArraySum):
    """The sum of the waves of all rows; a row moves it by 1."""

    sensitivity: float = 1.0

    def partial(self, part: CodedRows) -> np.ndarray:
        return np.asarray(column_sums(part.waves, ROWS))


@dataclass(frozen=True, kw_only=True, eq=False)
class WaveSums(Sum[CodedRows, Total, np.ndarray]):
    """Gradients times waves (waves, outputs), at outputs that have the waves with these weights added, times `unit`."""

    layout: CodedLayout
    weights: np.ndarray
    unit: float

    def partial(self, part: CodedRows) -> Total:
        total = Total()
        for at in range(0, max(len(part), 1), ROWS_AT_ONCE):
            rows = slice(at, at + ROWS_AT_ONCE)
            waves = part.waves[rows]
            values = part.values[:, rows] + self._outputs(waves)
            gradients, _ = derivatives(self.layout, values, part.target[rows], self.unit, curved=False)
            add_outer_sum(total, waves, gradients.T, ROWS, LATTICE)
        return total

    def merge(self, left: Total, right: Total) -> Total:
        return left.merge(right)

    def release(self, total: Total, noise: float, rng: Rng) -> np.ndarray:
        return np.asarray(rng.gaussian(total.value, noise=noise, sensitivity=self.layout.length))

    def add_outputs(self, part: CodedRows) -> None:
        """Adds the waves to the outputs of the rows, which then need them no more."""
        for at in range(0, len(part), ROWS_AT_ONCE):
            part.values[:, at : at + ROWS_AT_ONCE] += self._outputs(part.waves[at : at + ROWS_AT_ONCE])
        part.waves = part.waves[:0]

    def _outputs(self, waves: np.ndarray) -> np.ndarray:
        """What the waves add to the outputs (outputs, rows): sums of products of two lattices, exact in any order."""
        largest = max(float(np.abs(self.weights).max()), 2.0**-99)
        coarse = Lattice(bound=largest, bits=WEIGHT_BITS).nearest(self.weights)
        return np.asarray((self.unit * (waves @ coarse)).astype(np.float32).T)


def _add_waves(part: CodedRows, layout: CodedLayout, turns: np.ndarray) -> None:
    """Gives each row its waves, scaled so that their length is about 1, and clipped to it."""
    angles, lookup = GradientSums(layout=layout, weights=turns, unit=1.0), Lookup()
    part.waves = np.empty((len(part), turns.shape[1]))
    for at in range(0, len(part), ROWS_AT_ONCE):
        rows = slice(at, at + ROWS_AT_ONCE)
        waves = cosine(angles.outputs(part, rows, lookup)).T * np.float32(_length(turns.shape[1]))
        part.waves[rows] = clip_rows(waves, 1.0, ROWS)


def _centre_waves(part: CodedRows, centre: Centre) -> None:
    centre.move(part.waves, ROWS)


def _length(waves: int) -> float:
    """What cosines are multiplied by: their squares are a half on average."""
    return math.sqrt(2 / waves)
