"""The sample-size law of Bao et al.: the epsilon at which a model reaches an accuracy is `ln(alpha + beta / rows)`.

For each number of rows a model is trained until it reaches the accuracy, and the epsilon spent until then is recorded.
The law is fitted to these epsilons by least squares. Its standard deviations come from fits to resampled repeats.

Paper: Bao, Bauer and Bindschaedler, section VI-B and Figure 6: alpha 1.1 and beta 8,922.4 for 85% on MNIST. Their own
fit gives 0.564 at 13,574 rows, where the text says 1.
Privacy: stopping at a score uses test rows, so this is an evaluation on public rows. Drawing rows with replacement to
enlarge a data set changes the unit: one person is then in several rows, and an epsilon for one row is not an epsilon
for a person. The result says how many.
Use when: you may ask for more rows and want to know what they are worth.

>>> fit = sample_size({n: [math.log(1.1 + 8922.4 / n)] * 2 for n in (10_000, 30_000, 60_000)})
>>> round(fit.alpha, 3), round(fit.beta), round(fit.epsilon(13_574), 3), round(fit.rows(1.0))
(1.1, 8922, 0.564, 5514)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privaware.errors import WrongInput
from privaware.workflow._curves import Point, lines, point
from research.studies._result import Result
from research.studies._sweep import sweep
from research.studies._trials import Outcome, Rows, Setting, Trial

__all__ = ["sample_size", "SampleSizeFit", "steps_to"]

FITS = 400
"""Number of resampled fits behind the standard deviations."""


@dataclass(frozen=True, kw_only=True)
class SampleSizeFit(Result):
    """The fitted law.

    `repeated` is how often a person is in the largest set, on average; 1 keeps the row as the unit.
    """

    alpha: float
    beta: float
    alpha_spread: float
    beta_spread: float
    misfit: float
    repeated: float
    note: str
    points: tuple[Point, ...]

    def epsilon(self, rows: float) -> float:
        """Return the predicted epsilon for a number of rows."""
        return math.log(self.alpha + self.beta / rows)

    def rows(self, epsilon: float) -> float:
        """Return the predicted number of rows for an epsilon; infinite below `ln(alpha)`."""
        rest = math.exp(epsilon) - self.alpha
        return self.beta / rest if rest > 0 else math.inf

    def chart(self) -> Any:
        ends = [point.x for point in self.points]
        at = np.geomspace(min(ends), max(ends), 40)
        curve = [point(f"ln({self.alpha:.3g} + {self.beta:.5g} / rows)", n, [self.epsilon(n)]) for n in at]
        return lines([*self.points, *curve], x="training rows", y="epsilon to get there")


def sample_size(spent: Mapping[int, Sequence[float]], *, available: int | None = None, seed: int = 0) -> SampleSizeFit:
    """Fit the law to `spent`, which maps a number of rows to the epsilons of its repeats.

    `available` is the number of different rows; larger sets contain some of them several times.
    """
    sizes = sorted(spent)
    if len(sizes) < 2 or min(sizes, default=0) < 1:
        raise WrongInput(f"expected epsilons for at least two numbers of rows, got {sizes!r:.120}")
    values = [np.asarray(spent[n], dtype=float) for n in sizes]
    if any(not len(v) or not np.isfinite(v).all() or (v <= 0).any() for v in values):
        raise WrongInput("expected at least one epsilon above 0 for each number of rows")
    means = np.array([v.mean() for v in values])
    alpha, beta = _fit(np.array(sizes, dtype=float), means)
    rng = np.random.default_rng(seed)
    fits = np.array(
        [
            _fit(np.array(sizes, dtype=float), np.array([rng.choice(v, len(v)).mean() for v in values]))
            for _ in range(FITS)
        ]
    )
    predicted = np.log(alpha + beta / np.array(sizes))
    repeated = max(1.0, max(sizes) / available) if available else 1.0
    return SampleSizeFit(
        alpha=alpha,
        beta=beta,
        alpha_spread=float(fits[:, 0].std(ddof=1)),
        beta_spread=float(fits[:, 1].std(ddof=1)),
        misfit=float(np.sqrt(np.mean((predicted - means) ** 2))),
        repeated=repeated,
        note=_note(repeated),
        points=tuple(point("measured", n, v.tolist()) for n, v in zip(sizes, values)),
    )


def _note(repeated: float) -> str:
    if repeated <= 1:
        return "every row is in a set once at most"
    return (
        f"rows were drawn with replacement: a person is in the largest set {repeated:.3g} times on average, so "
        "epsilon holds for one drawn row, not for a person"
    )


def _fit(rows: np.ndarray, epsilons: np.ndarray) -> tuple[float, float]:
    """Fit by least squares on epsilon; the start is a linear fit, because `e^epsilon` is linear in `1 / rows`."""
    from scipy.optimize import least_squares

    line = np.stack([np.ones_like(rows), 1 / rows], axis=1)
    initial = np.linalg.lstsq(line, np.exp(np.minimum(epsilons, 50)), rcond=None)[0]
    first = np.array([max(initial[0], 1.0), max(initial[1], 1e-6)])
    size = np.array([1.0, first[1]])
    solution = least_squares(
        lambda at: np.log(at[0] + at[1] * size[1] / rows) - epsilons,
        first / size,
        bounds=([1e-9, 0.0], [np.inf, np.inf]),
    )
    return float(solution.x[0]), float(solution.x[1] * size[1])


def steps_to(
    rows: Rows,
    setting: Setting,
    sizes: Sequence[int],
    *,
    accuracy: float,
    every: int,
    repeats: int = 10,
    **options: Any,
) -> dict[int, list[int | None]]:
    """Return, for each size, the steps that each repeat took to reach `accuracy`; None if it was not reached.

    Repeats of one size have their own initial weights, samples and noise on the same resampled rows.
    """
    steps: dict[int, list[int | None]] = {}
    for size in sizes:
        trials = [Trial(curve=f"{size} rows", x=size, seed=seed, setting=setting) for seed in range(repeats)]
        outcomes = sweep(trials, rows.resampled(size, 0), every=every, reach=accuracy, **options)
        steps[size] = [first_step(outcome, accuracy) for outcome in outcomes]
    return steps


def first_step(outcome: Outcome, accuracy: float) -> int | None:
    pairs = zip(outcome.steps, outcome.scores, strict=True)
    return next((step for step, score in pairs if score >= accuracy), None)
