"""What accuracy to expect of `fit` at an epsilon: curves measured on other tables, and a pilot that weights them.

A curve holds the accuracy of `fit` on one measured table at several epsilons. Curves are compared by their gain,
`(accuracy - constant) / (1 - constant)`: the fraction of the errors of a constant prediction that the model avoids. The
gain follows mostly from the signal, `rows * epsilon / cap / max(classes, FEWEST_CLASSES)`, so a curve is read at the
signal of another table. `cap` is 1, or the number of rows of a person that count. `python -m
research.comparisons.advise write` writes the curves to `curves.json`.

Without a pilot, the estimate is the spread over measured tables of similar size. A pilot releases the noisy accuracy of
a model of this table that was trained at a small epsilon. Variants of every curve, with larger and smaller gains, are
then weighted by how well they explain this accuracy. The estimate is read from the weighted variants.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

SHOWN = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Epsilons at which the expected accuracy is shown."""
GRID = np.geomspace(0.03, 10.0, 101)
"""Epsilons at which curves are read; every estimated epsilon is one of them, or infinity."""
QUANTILES = (0.1, 0.5, 0.9)
"""Probabilities of the quantiles that are the low end, the estimate and the high end of an interval."""
FEWEST_CLASSES = 4
"""Smallest number of classes by which a signal is divided, also if the table has fewer classes."""
MANY_CLASSES = 5
"""Tables with at least this many classes are compared among themselves, because `auto` trains another learner."""
SIZE_SPREAD = 0.5
"""Standard deviation of the Gaussian weight of a curve by log10(rows of its table / rows of the table of the pilot)."""
POWERS = (0.5, 0.7, 1.0, 1.4, 2.0)
"""Each variant of a curve has the remaining errors `(1 - gain)**power` for one of these powers."""
POWER_SPREAD = 1.0
"""Standard deviation of the Gaussian weight of a variant by log2 of its power."""
SHIFTS = (-0.4, -0.2, 0.0, 0.2, 0.4)
"""Each variant of a curve has its gains shifted along the axis of the signal (a log10) by one of these numbers."""
SHIFT_SPREAD = 0.3
"""Standard deviation of the Gaussian weight of a variant by its shift, in powers of ten of the signal."""
TOLERANCE = 0.02
"""Difference from the requested accuracy within which another accuracy counts about as much."""
SEED_SPREAD = 0.01
"""Standard deviation of the accuracy of `fit` between two runs with different noise."""


@dataclass(frozen=True, kw_only=True)
class TableFacts:
    """Public facts about a table; below `least_epsilon`, `auto` trains a constant prediction.

    `rows` and `classes` are numbers. `cap` is the number of rows that the noise hides together: the rows of one person,
    or 1.
    """

    rows: int
    classes: int
    least_epsilon: float
    cap: int = 1

    def signal(self, epsilon: Any) -> Any:
        """Return `log10(rows * epsilon / cap / max(classes, FEWEST_CLASSES))`."""
        return np.log10(self.rows * np.asarray(epsilon) / self.cap / max(self.classes, FEWEST_CLASSES))


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The `accuracies` (fractions) of `fit` at `epsilons` on one measured table, without runs that trained a constant.

    `constant` is the accuracy of the constant prediction of the most frequent class.
    """

    table: str
    rows: int
    classes: int
    constant: float
    epsilons: tuple[float, ...]
    accuracies: tuple[float, ...]

    def gains(self, signals: np.ndarray) -> np.ndarray:
        """Return the gain, (accuracy - constant) / (1 - constant), at each of `signals` (see `TableFacts.signal`).

        Measured gains are clipped to [0, 0.999], and a gain below the gain at a smaller epsilon is raised to it.
        Between measured signals the gain is interpolated linearly. Beyond them it is the gain at the nearest measured
        signal.
        """
        facts = TableFacts(rows=self.rows, classes=self.classes, least_epsilon=0.0)
        measured = (np.array(self.accuracies) - self.constant) / (1 - self.constant)
        return np.interp(signals, facts.signal(self.epsilons), np.maximum.accumulate(np.clip(measured, 0.0, 0.999)))


@dataclass(frozen=True, kw_only=True)
class Pilot:
    """What a pilot released: the `accuracy` of its model, and `error`, the standard error of this accuracy.

    `signal` is `TableFacts.signal` of the training rows at the epsilon of the pilot. `constant` is the released
    accuracy of a constant prediction, or None if it was not released.
    """

    accuracy: float
    error: float
    signal: float
    constant: float | None

    def json(self) -> dict[str, Any]:
        """Return the released `accuracy` and its standard `error`, rounded to four decimal places."""
        return {"accuracy": round(self.accuracy, 4), "error": round(self.error, 4)}


@dataclass(frozen=True, kw_only=True, eq=False)
class Expected:
    """Possible curves of a table: `accuracies` has shape (curves, epsilons of `GRID`), and `weights` one per curve."""

    accuracies: np.ndarray
    weights: np.ndarray

    def at(self, epsilon: float) -> tuple[float, float, float]:
        """Return the weighted 10%, 50% and 90% quantiles of the accuracies of the curves at `epsilon`.

        Between the epsilons of `GRID`, accuracies are interpolated linearly in log epsilon. Outside `GRID` the
        accuracies at its nearest end are taken.
        """
        column = [np.interp(math.log(epsilon), np.log(GRID), curve) for curve in self.accuracies]
        return _quantiles(np.array(column), self.weights)

    def needed(self, accuracy: float) -> tuple[float, float, float]:
        """Return the weighted 10%, 50% and 90% quantiles of the epsilon that each curve needs for `accuracy`.

        A curve needs the smallest epsilon of `GRID` at which it reaches `accuracy`, or infinity if it never does.
        """
        reached = self.accuracies >= accuracy
        first = np.where(reached.any(axis=1), GRID[reached.argmax(axis=1)], math.inf)
        return _quantiles(first, self.weights)

    def posterior(self, accuracy: float) -> tuple[float, float, float]:
        """Return the 10%, 50% and 90% quantiles of the epsilon that gives `accuracy`.

        Before the accuracy is known, every epsilon of `GRID` is equally probable. The probability of an epsilon is then
        proportional to the sum of `weight * exp(-((a - accuracy) / TOLERANCE)**2 / 2)` over the curves, where `a` is
        the accuracy of a curve at this epsilon.
        """
        passing = self.weights @ np.exp(-(((self.accuracies - accuracy) / TOLERANCE) ** 2) / 2)
        return _quantiles(GRID, passing)

    def chance(self, accuracy: float) -> float:
        """Return the probability (fraction of the weight of the curves) of reaching `accuracy` at epsilon 10 or less.

        It is above 1/2 exactly if the median of the accuracies at epsilon 10 (`at`) is at least `accuracy`.
        """
        reached = self.accuracies.max(axis=1) >= accuracy
        return float(self.weights[reached].sum() / self.weights.sum())

    def curve(self) -> list[dict[str, float]]:
        """Return a dictionary for each epsilon of `SHOWN`: the `epsilon`, the median `accuracy`, and `low` and `high`.

        `low` and `high` are the 10% and 90% quantiles of the accuracy. Accuracies are rounded to three decimal places.
        """
        points = {epsilon: self.at(epsilon) for epsilon in SHOWN}
        return [
            {"epsilon": epsilon, "accuracy": round(middle, 3), "low": round(low, 3), "high": round(high, 3)}
            for epsilon, (low, middle, high) in points.items()
        ]


def of_others(curves: Sequence[Curve], facts: TableFacts) -> Expected:
    """Return the accuracies to expect of a table with `facts`, one curve for each of `curves` of other tables.

    The gain of a curve is read at the signals of `facts` at the epsilons of `GRID`. Each curve keeps its own accuracy
    of a constant prediction, which is also its accuracy below `facts.least_epsilon`. All curves have the same weight.
    """
    accuracies = [_accuracies(curve.gains(facts.signal(GRID)), curve.constant, facts) for curve in curves]
    return Expected(accuracies=np.array(accuracies), weights=np.ones(len(curves)))


def of_pilot(curves: Sequence[Curve], facts: TableFacts, pilot: Pilot) -> Expected:
    """Return variants of `curves` (each of `SHIFTS` with each of `POWERS`), weighted by how well they fit the pilot.

    A variant has the gain `1 - (1 - gain(signal - shift))**power`. It has less weight if its accuracy at `pilot.signal`
    is far from `pilot.accuracy`, if its table has another size, if its shift is far from 0, or if its power is far from
    1. If `pilot.constant` is not None, it replaces the accuracy of a constant prediction on every curve. `facts` are
    the facts of the table of the pilot.
    """
    signals = np.append(facts.signal(GRID), pilot.signal)
    error = math.hypot(pilot.error, SEED_SPREAD)
    accuracies, distances = [], []
    for curve in curves:
        constant = curve.constant if pilot.constant is None else pilot.constant
        for shift in SHIFTS:
            remaining = 1 - curve.gains(signals - shift)
            for power in POWERS:
                *gains, gain = 1 - remaining**power
                accuracies.append(_accuracies(np.array(gains), constant, facts))
                terms = (
                    (constant + (1 - constant) * gain - pilot.accuracy) / error,
                    math.log10(curve.rows / facts.rows) / SIZE_SPREAD,
                    math.log2(power) / POWER_SPREAD,
                    shift / SHIFT_SPREAD,
                )
                distances.append(sum(term**2 for term in terms))
    nearest = np.array(distances) - min(distances)
    return Expected(accuracies=np.array(accuracies), weights=np.exp(-nearest / 2))


def _accuracies(gains: np.ndarray, constant: float, facts: TableFacts) -> np.ndarray:
    """Return constant + (1 - constant) * gains at each epsilon of `GRID`; `constant` below `facts.least_epsilon`."""
    return np.where(facts.least_epsilon > GRID, constant, constant + (1 - constant) * gains)


def _quantiles(values: np.ndarray, weights: np.ndarray) -> tuple[float, float, float]:
    """Return the weighted quantiles of `values` at the probabilities `QUANTILES`.

    Each is the smallest value whose cumulative weight reaches this fraction of the total weight.
    """
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    low, middle, high = (float(values[order][np.searchsorted(total, share * total[-1])]) for share in QUANTILES)
    return low, middle, high


@cache
def measured_curves(many_classes: bool) -> tuple[Curve, ...]:
    """Return the measured curves: if `many_classes`, of tables with `MANY_CLASSES` classes or more, else with fewer."""
    stored: Mapping[str, Any] = json.loads(files("privaware.workflow").joinpath("curves.json").read_text("utf-8"))

    def frozen(value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    curves = (Curve(**{name: frozen(value) for name, value in entry.items()}) for entry in stored["curves"])
    return tuple(curve for curve in curves if (curve.classes >= MANY_CLASSES) == many_classes)
