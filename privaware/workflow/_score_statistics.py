"""Scores, tables and their 95% intervals, computed from the noisy cells of `_score_cells.py`; this is post-processing.

Intervals cover two sources of error: the held-out rows are a sample, and the cells have Laplace noise.

* A fraction, such as an accuracy, has an interval by the inversion of a test. It contains every `fraction` for which
  `(1 - fraction) * hits - fraction * misses` is within `QUANTILE` standard deviations of 0. If hardly a row is counted,
  the interval is [0, 1].
* R2 is `1 - error / variance`. Its interval comes from the inversion of a test too. It contains every `r2` for which
  `(1 - r2) * variance - error` is within `QUANTILE` standard deviations of 0. It is [-1, 1] if the noise could hide the
  errors and the whole variance of the target.
* Other statistics have a parametric bootstrap interval. Rows are drawn again from the noisy cells, and Laplace noise of
  the same scale is added again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from privaware.workflow._score_cells import DECILES, LOG_ODDS, ScoreCells

CONFIDENCE = 0.95
"""Confidence of every interval."""
INFORMATIVE = 0.5
"""Largest width of an interval of a fraction that says something about the fraction."""
RESAMPLES = 400
"""Number of bootstrap samples behind an interval."""
QUANTILE = 2.1
"""Half-width of an interval of a fraction, in standard deviations; Laplace noise has longer tails than a normal one."""
QUANTILE_OF_ALL = 3.0
"""Half-width, in standard deviations, of intervals that hold at all nine thresholds at once, and so at the best."""
FORECAST_RELEASES = 50
"""Number of simulated releases from which the interval of a score is forecast."""
FORECAST_COVERS = 0.9
"""Fraction of the simulated releases whose intervals reach at most as far to one side of the score as the forecast."""
CRITERION = "balanced accuracy"
"""What the released threshold maximises: the mean of sensitivity and specificity."""
Statistic = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyCells:
    """The noisy sums over held-out rows ("cells") of a score, and the score, tables and intervals computed from them.

    `cells` is the layout of the sums, and `noisy` holds their values, with Laplace noise of scale `scale`. `draw`
    generates the bootstrap samples. `unit` is the width of the target range, by which a mean absolute error is
    multiplied.
    """

    cells: ScoreCells
    noisy: np.ndarray
    scale: float
    draw: np.random.Generator
    unit: float = 1.0

    @property
    def rows(self) -> float:
        """The noisy number of held-out rows, at least 0: the sum of the first group of cells; each row adds 1 to it."""
        return max(0.0, float(self.noisy[: self.cells.sizes[0]].sum()))

    def score(self) -> dict[str, float]:
        """Return the `value` of the score, and the ends `low` and `high` of its 95% interval.

        An accuracy or a mean absolute error (in units of the target) has an interval of a fraction, R2 one of a ratio,
        and AUC a bootstrap interval. R2 is clipped to [-1, 1].
        """
        if self.cells.metric == "r2":
            return self._r2()
        return self._bootstrap(self._auc) if self.cells.metric == "auc" else self._in_unit(*self._right_and_wrong())

    def forecast(self) -> tuple[float, float]:
        """Return the ends of the interval to expect for the score of these cells, if they had no noise yet.

        Releases of the cells are simulated. In the fraction `FORECAST_COVERS` of them, the interval reaches at most as
        far below the score as in the forecast, and in the same fraction at most as far above the score.
        """
        worst, best = (-1.0, 1.0) if self.cells.metric == "r2" else (0.0, self.unit)
        below, above = [], []
        for noise in self.draw.laplace(0, self.scale, (FORECAST_RELEASES, self.noisy.size)):
            score = replace(self, noisy=self.noisy + noise).score()
            below.append(score["value"] - score["low"] if score["low"] > worst else best - worst)
            above.append(score["high"] - score["value"] if score["high"] < best else best - worst)
        value = self.score()["value"]
        low, high = (float(np.quantile(each, FORECAST_COVERS)) for each in (below, above))
        return max(worst, value - low), min(best, value + high)

    def constant(self) -> dict[str, float]:
        """Return the score of a constant prediction with its interval.

        An AUC of 0.5 and an R2 of 0 hold by definition, so both ends of their interval are this value. For accuracy the
        constant is the most frequent class, and for the mean absolute error it is the private median.
        """
        by_definition = {"auc": 0.5, "r2": 0.0}.get(self.cells.metric)
        if by_definition is not None:
            return dict.fromkeys(("value", "low", "high"), by_definition)
        if self.cells.metric == "mae":
            return self._in_unit(self.noisy[2:3], self.noisy[3:])
        group = self.noisy[slice(None) if self.cells.classes == 2 else slice(self.cells.sizes[0], None)]
        classes = group.reshape(self.cells.classes, -1)
        most = int(classes.sum(axis=1).argmax())
        return self._rate(classes[most], np.delete(classes, most, axis=0).ravel())

    def confusion(self) -> dict[str, list[list[float]]]:
        """Return the noisy confusion matrix and its intervals, rounded to two decimal places.

        `confusion[true][predicted]` is the matrix. The ends of its intervals are the matrices `confusion_low` and
        `confusion_high`.
        """
        names = ("confusion", "confusion_low", "confusion_high")
        ends = (np.round(end, 2) for end in self._estimate(self._confusion))
        return {name: end.tolist() for name, end in zip(names, ends, strict=True)}

    def threshold(self) -> dict[str, Any]:
        """Return the threshold from 0.1 to 0.9 with the largest noisy balanced accuracy, for two classes.

        The threshold `value` is on the probability of the second class; its interval is from `low` to `high`.
        `balanced_accuracy` and `at_half` are the balanced accuracies at the threshold and at 0.5. `sensitivity` and
        `specificity` are at the threshold, for the second class; their intervals hold at all thresholds at once. Each
        of these four entries is a dictionary with its own `value`, `low` and `high`. `criterion` names what is
        maximised.
        """
        best = int(self._balanced(self.noisy[None])[0].argmax())
        draws = DECILES[self._balanced(self._samples[0]).argmax(axis=1)]
        low, high = np.quantile(draws, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
        value, halves = float(DECILES[best]), self._halves(self._decile_edges[best])
        return {
            "criterion": CRITERION,
            "value": value,
            "low": min(float(low), value),
            "high": max(float(high), value),
            "balanced_accuracy": self._bootstrap(lambda cells: self._balanced(cells).max(axis=1)),
            "at_half": self._bootstrap(lambda cells: self._balanced(cells)[:, len(DECILES) // 2]),
            "sensitivity": self._rate(halves[1][1], halves[1][0], QUANTILE_OF_ALL),
            "specificity": self._rate(halves[0][0], halves[0][1], QUANTILE_OF_ALL),
        }

    def calibration(self) -> list[dict[str, float]]:
        """Return a dictionary for each tenth of the predicted probability: noisy number of `rows` and observed rate.

        With two classes the probability of the second class is predicted, and the rate is the frequency of this class.
        With more classes it is the probability of the predicted class, and the rate is how often the prediction is
        right.

        The numbers of rows are whole, at least 0, and add up to the noisy number of held-out rows, rounded. `from` and
        `to` are the ends of the tenth. `observed` is the rate, with its interval from `low` to `high`; without rows it
        is the middle of the interval. `needed` is the number of rows from which on this interval is at most
        `INFORMATIVE` wide for a rate of 0.5.
        """
        ends = np.array([0.0, *DECILES, 1.0])
        last_edge_below = np.arange(len(self.cells.edges) + 1) - 1  # of each bin
        groups = np.searchsorted(self._decile_edges, last_edge_below, side="right")
        misses, hits = self.noisy[: self.cells.sizes[0]].reshape(2, -1)
        counts = counts_adding_up(np.bincount(groups, hits + misses, len(ends) - 1), round(self.rows))
        bins = []
        for at, rows in enumerate(counts):
            inside = groups == at
            rate = self._rate(hits[inside], misses[inside])
            edges = {"from": float(ends[at]), "to": float(ends[at + 1])}
            needed = rows_needed(int(inside.sum()), self.scale)
            bins.append({**edges, "rows": float(rows), "needed": needed, "observed": rate.pop("value"), **rate})
        return bins

    @cached_property
    def _samples(self) -> tuple[np.ndarray, np.ndarray]:
        """A pair: noised bootstrap samples, of shape (RESAMPLES, cells), and the mean of each cell without noise."""
        count = max(1, round(float(self.noisy[: self.cells.sizes[0]].sum())))
        resampled, centres = [], []
        for group in np.split(self.noisy, np.cumsum(self.cells.sizes)[:-1]):
            likely = np.maximum(group, 0.0)
            nothing = max(count - likely.sum(), 0.0)  # rows that add less than 1 to the group
            chances = np.append(likely, nothing) + 1e-9
            chances /= chances.sum()
            resampled.append(self.draw.multinomial(count, chances, RESAMPLES)[:, :-1])
            centres.append(count * chances[:-1])
        noise = self.draw.laplace(0, self.scale, (RESAMPLES, self.noisy.size))
        return np.concatenate(resampled, axis=1) + noise, np.concatenate(centres)

    def _estimate(self, statistic: Statistic) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the value of `statistic` on the noisy cells, and both ends of its basic bootstrap interval.

        `statistic` maps cells (samples, cells) to values (samples, ...).

        An end on the wrong side of the value is moved to the value.
        """
        resampled, centre = self._samples
        value = statistic(self.noisy[None])[0]
        errors = statistic(resampled) - statistic(centre[None])
        reach = (1 - CONFIDENCE) / 2
        low, high = value - np.quantile(errors, 1 - reach, axis=0), value - np.quantile(errors, reach, axis=0)
        return value, np.minimum(low, value), np.maximum(high, value)

    def _bootstrap(self, statistic: Statistic) -> dict[str, float]:
        ends = (float(np.clip(end, 0, 1)) for end in self._estimate(statistic))
        return dict(zip(("value", "low", "high"), ends, strict=True))

    def _in_unit(self, hits: np.ndarray, misses: np.ndarray) -> dict[str, float]:
        return {name: self.unit * end for name, end in self._rate(hits, misses).items()}

    def _right_and_wrong(self) -> tuple[np.ndarray, np.ndarray]:
        """Return two arrays of cells, whose sums are the numbers of right and of wrong predictions.

        For the metric mae the first sum is instead the total of `error`, and the second the total of `1 - error`, as
        fractions of the target range.
        """
        if self.cells.metric == "mae":
            return self.noisy[:1], self.noisy[1:2]
        if self.cells.classes > 2:
            wrong, right = self._histogram(self.noisy[None])[0]
            return right, wrong
        (low_right, low_wrong), (high_wrong, high_right) = self._halves(self.cells.edges.index(0.0))
        return np.append(low_right, high_right), np.append(low_wrong, high_wrong)

    def _rate(self, hits: np.ndarray, misses: np.ndarray, quantile: float = QUANTILE) -> dict[str, float]:
        """Return `value`, the fraction `hits.sum() / (hits.sum() + misses.sum())` clipped to [0, 1], with its interval.

        The interval is from `low` to `high`, and `quantile` is its half-width in standard deviations. If the noisy
        total is not positive, `value` is the middle of the interval.
        """
        low, high = fraction_interval(hits, misses, self.scale, quantile)
        value = float(np.clip(_ratio(hits.sum(), hits.sum() + misses.sum(), (low + high) / 2), 0, 1))
        return {"value": value, "low": min(low, value), "high": max(high, value)}

    def _auc(self, cells: np.ndarray) -> np.ndarray:
        negative, positive = self._histogram(cells).swapaxes(0, 1)
        below = negative.cumsum(axis=1) - negative / 2
        return _ratio((below * positive).sum(axis=1), negative.sum(axis=1) * positive.sum(axis=1), 0.5)

    def _r2(self) -> dict[str, float]:
        """Return the `value` of R2, clipped to [-1, 1], and the ends `low` and `high` of its interval.

        The value is -1 if noise made the variance of the target zero or negative. A row adds at most 1 to the sum of
        errors, so the variance of this sum over samples of rows is at most its mean; so it is for deviations.
        """
        error, variance = (float(sums[0]) for sums in _error_and_variance(self.noisy[None]))
        noise = self.draw.laplace(0, self.scale, (RESAMPLES, self.noisy.size))
        spread = np.cov(_error_and_variance(self.noisy + noise)) + np.diag([max(error, 0.0), max(variance, 0.0)])
        smallest, largest = ratio_interval(error, variance, spread, 2.0)
        value = float(np.clip(1 - _ratio(error, variance, 2.0), -1, 1))
        return {"value": value, "low": min(1 - largest, value), "high": max(1 - smallest, value)}

    def _histogram(self, cells: np.ndarray) -> np.ndarray:
        """Return the first group of `cells` (samples, cells), reshaped to (samples, 2, bins).

        The second axis is the true class, or wrong and right for more than two classes.
        """
        return cells[:, : self.cells.sizes[0]].reshape(len(cells), 2, -1)

    def _confusion(self, cells: np.ndarray) -> np.ndarray:
        if self.cells.classes > 2:
            return cells[:, self.cells.sizes[0] :].reshape(len(cells), self.cells.classes, -1)
        return self._split(cells, self.cells.edges.index(0.0))

    def _split(self, cells: np.ndarray, edge: int) -> np.ndarray:
        """Return the counts of each true class below and above the edge number `edge`, of shape (samples, 2, 2).

        `cells` is (samples, cells). The second axis is the true class; the third is below, then above.
        """
        histogram = self._histogram(cells)
        return np.stack([histogram[:, :, : edge + 1].sum(axis=2), histogram[:, :, edge + 1 :].sum(axis=2)], axis=2)

    def _balanced(self, cells: np.ndarray) -> np.ndarray:
        """Return the balanced accuracy with each decile as threshold, of shape (samples, 9).

        `cells`, of shape (samples, cells), holds the cells of two classes. A class whose noisy number of rows is not
        positive has the recall 0.5.
        """
        tables = np.stack([self._split(cells, edge) for edge in self._decile_edges], axis=1)
        found = [_ratio(tables[:, :, at, at], tables[:, :, at].sum(axis=2), 0.5) for at in (0, 1)]
        return np.asarray(np.clip(found[0], 0, 1) + np.clip(found[1], 0, 1)) / 2

    @property
    def _decile_edges(self) -> np.ndarray:
        """The index in `cells.edges` of each of the nine deciles 0.1 to 0.9 of the probability.

        For two classes the edges are log-odds, so the deciles are looked up as log-odds.
        """
        return np.searchsorted(self.cells.edges, LOG_ODDS if self.cells.classes == 2 else DECILES)

    def _halves(self, edge: int) -> list[list[np.ndarray]]:
        """Return a list for each of the two true classes: its noisy cells below and above the edge number `edge`."""
        return [[line[: edge + 1], line[edge + 1 :]] for line in self._histogram(self.noisy[None])[0]]


def fraction_interval(
    hits: np.ndarray, misses: np.ndarray, scale: float, quantile: float = QUANTILE
) -> tuple[float, float]:
    """Return the interval of the fraction `hits.sum() / (hits.sum() + misses.sum())`.

    Each cell of `hits` and `misses` has Laplace noise of scale `scale`. `quantile` is the half-width in standard
    deviations. The interval is [0, 1] if the noise is too large for the number of rows.

    >>> [round(end, 3) for end in fraction_interval(np.array([80.0]), np.array([20.0]), 1.0)]
    [0.701, 0.874]
    >>> fraction_interval(np.array([3.0]), np.array([-2.0]), 10.0)
    (0.0, 1.0)
    """
    hit, count = float(hits.sum()), float(hits.sum() + misses.sum())
    rows, noise = quantile**2 * max(count, 0.0), 2 * (quantile * scale) ** 2
    # The ends solve square * fraction**2 + linear * fraction + constant = 0.
    square = count**2 + rows - noise * (len(hits) + len(misses))
    linear = -2 * hit * count - rows + 2 * noise * len(hits)
    constant = hit**2 - noise * len(hits)
    root = linear**2 - 4 * square * constant
    if square <= 0 or root < 0:
        return 0.0, 1.0
    low, high = ((-linear + sign * math.sqrt(root)) / (2 * square) for sign in (-1, 1))
    return float(np.clip(low, 0, 1)), float(np.clip(high, 0, 1))


def counts_adding_up(noisy: np.ndarray, total: int) -> list[int]:
    """Return whole numbers, at least 0, that add up to `total` and are nearly proportional to the counts `noisy`.

    Negative counts become 0. Rounded up are the numbers with the largest fractions. If no count is positive, the total
    is spread evenly.

    >>> counts_adding_up(np.array([60.4, -20.0, 40.3, 19.3]), 100)
    [50, 0, 34, 16]
    """
    clipped = np.maximum(noisy, 0.0)
    clipped = clipped if clipped.sum() > 0 else np.ones(len(noisy))
    scaled = clipped * (total / clipped.sum())
    counts = np.floor(scaled).astype(int)
    counts[np.argsort(counts - scaled, kind="stable")[: total - int(counts.sum())]] += 1
    return counts.tolist()


def ratio_interval(part: float, of: float, covariance: np.ndarray, most: float) -> tuple[float, float]:
    """Return the interval of the ratio of two noisy sums, `part / of`, within [0, `most`].

    The interval contains every `ratio` for which `part - ratio * of` is within `QUANTILE` standard deviations of 0.
    `covariance` is the covariance matrix of `(part, of)`. The interval is all of [0, `most`] if `of` may be 0 and the
    test excludes no end.

    >>> [round(end, 3) for end in ratio_interval(50.0, 100.0, np.diag([25.0, 25.0]), 2.0)]
    [0.387, 0.624]
    >>> ratio_interval(50.0, 5.0, np.diag([25.0, 25.0]), 2.0)
    (2.0, 2.0)
    >>> ratio_interval(5.0, 5.0, np.diag([25.0, 25.0]), 2.0)
    (0.0, 2.0)
    """
    # The ends solve square * ratio**2 - 2 * linear * ratio + constant = 0, or are the ends of the range.
    square = of**2 - QUANTILE**2 * float(covariance[1, 1])
    linear = of * part - QUANTILE**2 * float(covariance[0, 1])
    constant = part**2 - QUANTILE**2 * float(covariance[0, 0])
    inside = [end for end in (0.0, most) if square * end**2 - 2 * linear * end + constant <= 0]
    roots = np.roots([square, -2 * linear, constant])
    inside += [float(root.real) for root in roots if not root.imag and 0 <= root.real <= most]
    if not inside:
        inside = [most if part > most * of else 0.0]
    return min(inside), max(inside)


def rows_needed(cells: int, scale: float) -> int:
    """Return the smallest number of rows, half of them hits, whose fraction of hits has an informative interval.

    An interval of at most the width `INFORMATIVE` is informative. The hits are spread over `cells` cells, and the
    misses over as many. `scale` is the scale of the Laplace noise of each cell.

    >>> rows_needed(1, 1.0), rows_needed(1, 10.0), rows_needed(3, 10.0)
    (19, 101, 170)
    """
    few, enough = 0, 1
    while not _is_informative(enough, cells, scale):
        few, enough = enough, 2 * enough
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (few, middle) if _is_informative(middle, cells, scale) else (middle, enough)
    return enough


def _is_informative(rows: int, cells: int, scale: float) -> bool:
    half = np.full(cells, rows / 2 / cells)
    low, high = fraction_interval(half, half, scale)
    return high - low <= INFORMATIVE


def _error_and_variance(cells: np.ndarray) -> np.ndarray:
    """Return, from cells of R2 (samples, 4), two lines: the sums of squared errors and of squared deviations.

    Deviations are those of the target from its mean.
    """
    count, squares = np.maximum(cells[:, :2].sum(axis=1), 1.0), cells[:, 2]
    return np.stack([cells[:, 0], squares - (squares + cells[:, 3]) ** 2 / count])


def _ratio(part: Any, of: Any, otherwise: float) -> Any:
    """Return `part / of`, or `otherwise` where `of` is at most 1e-9, because noise made it zero or negative."""
    safe = np.asarray(of) > 1e-9
    return np.where(safe, part / np.where(safe, of, 1.0), otherwise)
