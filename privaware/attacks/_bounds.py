"""Lower bounds on epsilon from the scores of an attack.

A lower bound is evidence against a claim, never a guarantee of its own.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> inside, outside = rng.normal(4, 1, 2000), rng.normal(0, 1, 2000)
>>> 2 < epsilon_lower(inside, outside, delta=1e-5) < 10
True
>>> epsilon_lower(outside, rng.normal(0, 1, 2000), delta=1e-5) < 0.5
True
"""

from __future__ import annotations

from typing import Any

import numpy as np

from privaware.errors import WrongInput

__all__ = ["epsilon_lower"]

THRESHOLDS = 400
"""Candidate thresholds tried on the first half; more only cost time."""


def epsilon_lower(
    inside: Any, outside: Any, *, delta: float, confidence: float = 0.95, pilot: tuple[Any, Any] | None = None
) -> float:
    """The epsilon below which these scores are not possible, with this confidence; 0 when nothing is proved.

    `inside` and `outside` are scores of independent runs with and without the canary. A threshold
    splits the scores in two; (epsilon, delta) bounds the chance of either side under one world by
    that under the other, both ways round, so four inequalities are tested. The best threshold
    and inequality are chosen on the first half of the scores and tested on the second, by
    Clopper-Pearson limits that hold together with `confidence`. With `pilot`, scores of other runs
    or of a simulation, they are chosen on those, and all scores are tested.
    """
    if not 0 <= delta < 1 or not 0 < confidence < 1:
        raise WrongInput(f"expected delta in [0, 1) and confidence in (0, 1), got {delta!r} and {confidence!r}")
    second = _scores(inside, outside)
    if pilot is None:
        first = [scores[: len(scores) // 2] for scores in second]
        second = [scores[len(scores) // 2 :] for scores in second]
    else:
        first = _scores(*pilot)
    values = np.unique(np.concatenate(first))  # thresholds lie between scores, so that rounding breaks no tie
    thresholds = (values[1:] + values[:-1]) / 2 if len(values) > 1 else values
    if len(thresholds) > THRESHOLDS:
        thresholds = thresholds[np.linspace(0, len(thresholds) - 1, THRESHOLDS).astype(int)]
    alpha, runs = (1 - confidence) / 2, [len(scores) for scores in second]
    expected = [_above(scores, thresholds) * (of / len(scores)) for scores, of in zip(first, runs, strict=True)]
    bounds = _bounds(expected, runs, delta, alpha)
    way, at = np.unravel_index(int(np.argmax(bounds)), bounds.shape)
    tested = _bounds([_above(scores, thresholds[[at]]) for scores in second], runs, delta, alpha)
    return max(0.0, float(tested[way, 0]))


def _scores(inside: Any, outside: Any) -> list[np.ndarray]:
    sides = [np.asarray(scores, dtype=float).ravel() for scores in (inside, outside)]
    for name, values in zip(("inside", "outside"), sides, strict=True):
        if len(values) < 4 or np.isnan(values).any():
            raise WrongInput(f"expected at least four scores {name}, none of them NaN, got {len(values)}")
    return sides


def _bounds(above: list[np.ndarray], runs: list[int], delta: float, alpha: float) -> np.ndarray:
    """A lower bound on epsilon for each of the four inequalities (first axis) and each threshold.

    `above` is how many of the `runs` inside and outside score at least the threshold.
    """
    (above_in, above_out), (n, m) = above, runs
    pairs = [
        (above_in, n, above_out, m),
        (above_out, m, above_in, n),
        (n - above_in, n, m - above_out, m),
        (m - above_out, m, n - above_in, n),
    ]
    rows = []
    for often, of, seldom, among in pairs:
        at_least = _clopper_pearson(often, of, alpha)[0]
        at_most = _clopper_pearson(seldom, among, alpha)[1]
        rows.append(np.log(np.maximum(at_least - delta, 1e-300) / at_most))
    return np.array(rows)


def _above(scores: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    return np.asarray(len(scores) - np.searchsorted(np.sort(scores), thresholds, side="left"))


def _clopper_pearson(hits: np.ndarray, of: int, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """One-sided limits, each missing the true chance with probability at most `alpha`."""
    from scipy.special import betaincinv

    low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), of - hits + 1, alpha), 0.0)
    high = np.where(hits < of, betaincinv(hits + 1, np.maximum(of - hits, 1), 1 - alpha), 1.0)
    return low, high
