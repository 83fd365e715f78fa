"""The largest epsilon at which one curve of scores is above another, with a confidence interval."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privaware._validate import expect_in
from privaware.errors import WrongInput

POINTS_PER_SEGMENT = 200
"""Number of points, between two neighbouring epsilons, at which the confidence interval is evaluated."""


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """The largest epsilon at which the simple model is better, with a confidence interval from `low` to `high`.

    `estimate` is 0 if the simple model is never better. `estimate` is None if the simple model is still better at the
    largest epsilon tried; then `above` is that epsilon, and otherwise `above` is None. `low` is 0 if the simple model
    is significantly better at no epsilon. `high` is None if the interval has no upper end among the epsilons tried.
    With one repeat `confidence` is None, `low` is the last epsilon tried at which the simple model is better, and
    `high` is the next epsilon tried, or None if no larger epsilon was tried; both are 0 if the simple model is never
    better.
    """

    low: float
    high: float | None
    estimate: float | None
    above: float | None
    confidence: float | None

    @property
    def never(self) -> bool:
        return self.estimate == 0

    @property
    def sentence(self) -> str:
        """The crossing and its interval in words, with a warning if there was only one repeat."""
        if self.confidence is None:
            return f"{self._claim} One repeat gives no confidence interval, so another run may answer differently."
        if self.estimate is None:
            if self.above is None or math.isclose(self.low, self.above):
                return self._claim
            sure = f"up to epsilon {self.low:.4g}" if self.low else "at no epsilon tried"
            return f"{self._claim} Its lead is statistically significant {sure}."
        if self.high == 0:
            return self._claim
        span = f"at least {self.low:.4g}, with no upper bound among the epsilons tried"
        if self.high is not None:
            span = f"between {self.low:.4g} and {self.high:.4g}"
        return f"{self._claim} At {self.confidence:.0%} confidence it is {span}."

    @property
    def _claim(self) -> str:
        if self.estimate is None:
            better = "the simple model is better even at the largest epsilon tried"
            return f"The crossover epsilon is above {self.above:.4g}: {better}."
        if self.never:
            return "The crossover epsilon is 0: the simple model was better at no epsilon tried."
        between = (
            "" if self.confidence else f", between the epsilons {self.low:.4g} and {self.high:.4g} that were tried"
        )
        return f"The crossover epsilon is {self.estimate:.4g}{between}."

    def json(self) -> dict[str, Any]:
        """Return the fields, `sentence`, and `never` (whether `estimate` is 0) as plain values for JSON."""
        return {**vars(self), "never": self.never, "sentence": self.sentence}


def crossing(epsilons: Sequence[float], simple: Any, complex: Any, *, confidence: float = 0.95) -> Crossing:
    """Estimate where the complex model overtakes the simple one.

    Parameters
    ----------
    epsilons
        The epsilons tried, in ascending order.
    simple, complex
        Scores of the two models, of shape (repeats, epsilons). Higher is better, and row i of both is one pair.
    confidence
        The confidence of the interval, between 0 and 1.

    Returns
    -------
    Crossing
        The estimate and its interval. The estimate is the last epsilon at which the mean difference of scores falls to
        zero. Between two epsilons the differences are interpolated linearly in log epsilon. `low` is the largest
        epsilon at which a paired t-test finds the simple model better. `high` is the smallest epsilon from which on the
        test finds the complex model better everywhere. Each end is wrong with probability `(1 - confidence) / 2`.
        Epsilons that do not rise from above 0, scores of another shape or not finite, and a `confidence` outside (0, 1)
        raise `WrongInput`.

    >>> result = crossing([0.1, 1.0, 10.0], [[0.6, 0.7, 0.7]] * 2, [[0.5, 0.6, 0.8]] * 2)
    >>> round(result.estimate, 2)  # half-way in log epsilon
    3.16
    """
    grid = np.asarray(epsilons, dtype=float)
    gaps = np.asarray(simple, dtype=float) - np.asarray(complex, dtype=float)
    _check(grid, gaps, confidence)
    mean = gaps.mean(axis=0)
    estimate = _last_above(np.log(grid), mean)
    above = float(grid[-1]) if mean[-1] > 0 else None
    if len(gaps) == 1:
        wins = np.flatnonzero(mean > 0)
        low = float(grid[wins[-1]]) if len(wins) else 0.0
        after = grid[grid > low]
        end = None if above else float(after[0]) if low else 0.0
        return Crossing(low=low, high=end, estimate=None if above else estimate, above=above, confidence=None)
    at, lower, upper = _bands(grid, gaps, confidence)
    return Crossing(
        low=_last_above(at, lower),
        high=_below_from(at, upper),
        estimate=None if above else estimate,
        above=above,
        confidence=confidence,
    )


def _check(grid: np.ndarray, gaps: np.ndarray, confidence: float) -> None:
    rising = grid.ndim == 1 and grid.size > 0 and bool((np.diff(grid) > 0).all())
    if not rising or not (grid > 0).all() or not np.isfinite(grid).all():
        raise WrongInput(f"expected epsilons above 0 in rising order, got {grid.tolist()!r:.120}")
    if gaps.ndim != 2 or gaps.shape[1] != grid.size or not len(gaps):
        raise WrongInput(f"expected scores of shape (repeats, {grid.size}) for both models, got {gaps.shape}")
    if not np.isfinite(gaps).all():
        raise WrongInput("expected finite scores, got some that are not")
    expect_in("", "(0, 1)", confidence=confidence)


def _bands(grid: np.ndarray, gaps: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a fine grid of log epsilons, and both ends of the t-interval of the mean difference at each grid point.

    `grid` holds the epsilons. `gaps`, of shape (repeats, epsilons), holds the score of the simple model minus the score
    of the complex model. `confidence` is the level of the interval at each point, such as 0.95. Between epsilons each
    repeat is interpolated linearly in log epsilon.
    """
    from scipy import stats

    logs = np.log(grid)
    pieces = [np.linspace(a, b, POINTS_PER_SEGMENT, endpoint=False) for a, b in itertools.pairwise(logs)]
    at = np.concatenate([*pieces, logs[-1:]])
    lines = np.stack([np.interp(at, logs, gap) for gap in gaps])
    repeats = len(gaps)
    reach = stats.t.ppf((1 + confidence) / 2, repeats - 1) * lines.std(axis=0, ddof=1) / math.sqrt(repeats)
    mean = lines.mean(axis=0)
    return at, mean - reach, mean + reach


def _last_above(at: np.ndarray, values: np.ndarray) -> float:
    """Return the last epsilon at which `values` crosses zero from above, interpolated linearly in log epsilon.

    `at` holds the log epsilons of `values`. Return 0 if `values` is never above zero, and the largest epsilon if it is
    still above zero there.
    """
    wins = np.flatnonzero(values > 0)
    return _zero_after(at, values, wins[-1]) if len(wins) else 0.0


def _below_from(at: np.ndarray, values: np.ndarray) -> float | None:
    """Return the epsilon from which on `values` is below zero, interpolated linearly in log epsilon.

    `at` holds the log epsilons of `values`. Return 0 if `values` is below zero everywhere, and None if it is not below
    zero at the largest epsilon.
    """
    not_below = np.flatnonzero(values >= 0)
    if not len(not_below):
        return 0.0
    return None if not_below[-1] + 1 == len(at) else _zero_after(at, values, not_below[-1])


def _zero_after(at: np.ndarray, values: np.ndarray, last: int) -> float:
    """Return the epsilon between positions `last` and `last + 1` at which `values` is zero.

    If `last` is the last position, return the largest epsilon.

    `at` holds the log epsilons of `values`, between which `values` is interpolated linearly.
    """
    if last + 1 == len(at):
        return float(np.exp(at[-1]))
    share = values[last] / (values[last] - values[last + 1])
    return float(np.exp(at[last] + share * (at[last + 1] - at[last])))
