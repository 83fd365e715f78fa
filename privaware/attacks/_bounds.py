"""Lower bounds on epsilon from the scores of an attack, or from its guesses in one run.

A canary is a row or a gradient that an audit plants. A lower bound is evidence against a claim, never a guarantee of
its own. `epsilon_lower` needs independent runs. `epsilon_from_guesses` needs one run with many canaries. `shift_lower`
needs independent Gaussian scores.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> inside, outside = rng.normal(4, 1, 2000), rng.normal(0, 1, 2000)
>>> 2 < epsilon_lower(inside, outside, delta=1e-5) < 10
True
>>> epsilon_lower(outside, rng.normal(0, 1, 2000), delta=1e-5) < 0.5
True
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from privaware.accounting._gaussian import epsilon as gaussian_epsilon
from privaware.errors import WrongInput
from privaware.events import Event, Gaussian, leaves
from privaware.metrics import clopper_pearson

FalseRate = Callable[[float], float]
"""Maps a true positive rate to the smallest false positive rate of any attack on a mechanism."""
Powers = Callable[[np.ndarray], np.ndarray]
"""Maps false positive rates to the largest true positive rates of any attack on a mechanism."""
Value = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Maps the arrays of limits that `_limits` returns to what each inequality proves at each threshold.

Larger is better.
"""

THRESHOLDS = 400
"""Largest number of thresholds tried on the first half of the scores; more thresholds only take time."""


def epsilon_lower(
    inside: Any, outside: Any, *, delta: float, confidence: float = 0.95, pilot: tuple[Any, Any] | None = None
) -> float:
    """Return a lower bound on epsilon that holds with `confidence`; 0 if the scores prove nothing.

    `inside` and `outside` are scores of independent runs with and without the canary. A threshold splits the scores
    into two sets. (epsilon, delta)-DP bounds the probability of either set with the canary by the probability without
    it, and vice versa, so four inequalities are tested. The best threshold and inequality are chosen on the first half
    of the scores and tested on the second half, by Clopper-Pearson limits that hold jointly with `confidence`. With
    `pilot` (scores with and without the canary, of other runs or of a simulation), they are chosen on the pilot, and
    all scores are tested. Raise `WrongInput` for fewer than four scores on a side, for NaN, and for a `delta` or
    `confidence` out of range.
    """
    if not 0 <= delta < 1 or not 0 < confidence < 1:
        raise WrongInput(f"expected delta in [0, 1) and confidence in (0, 1), got {delta!r} and {confidence!r}")

    def bounds(at_least: np.ndarray, at_most: np.ndarray) -> np.ndarray:
        return np.asarray(np.log(np.maximum(at_least - delta, 1e-300) / at_most))

    return max(0.0, _best_inequality(_scores(inside, outside), bounds, confidence, pilot))


def scores_refute(inside: Any, outside: Any, powers: Powers, *, confidence: float = 0.999) -> bool:
    """Return whether scores of independent runs refute a trade-off function, with `confidence`.

    `inside` and `outside` are scores of runs with and without the canary. `powers` returns the largest true positive
    rate at each false positive rate. `epsilon_lower` tests only one pair (epsilon, delta) of such a function.
    """

    def margins(at_least: np.ndarray, at_most: np.ndarray) -> np.ndarray:
        return at_least - powers(at_most.ravel()).reshape(at_most.shape)

    return _best_inequality(_scores(inside, outside), margins, confidence) > 0


def _best_inequality(
    second: list[np.ndarray], value: Value, confidence: float, pilot: tuple[Any, Any] | None = None
) -> float:
    """Return the `value` of the best threshold and inequality, tested on the second half of the scores.

    `second` has two arrays: all scores with the canary, and all scores without it. `value` maps the two results of
    `_limits` to a number for each inequality and threshold; the two limits of an inequality hold jointly with
    `confidence`. The best threshold and inequality are chosen on the first half of the scores. With `pilot` they are
    chosen on the pilot, and all scores are tested.
    """
    if pilot is None:
        first = [scores[: len(scores) // 2] for scores in second]
        second = [scores[len(scores) // 2 :] for scores in second]
    else:
        first = _scores(*pilot)
    values = np.unique(np.concatenate(first))  # thresholds lie between scores, so that rounding cannot break ties
    thresholds = (values[1:] + values[:-1]) / 2 if len(values) > 1 else values
    if len(thresholds) > THRESHOLDS:
        thresholds = thresholds[np.linspace(0, len(thresholds) - 1, THRESHOLDS).astype(int)]
    alpha, runs = (1 - confidence) / 2, [len(scores) for scores in second]
    expected = [_above(scores, thresholds) * (of / len(scores)) for scores, of in zip(first, runs, strict=True)]
    guessed = value(*_limits(expected, runs, alpha))
    way, at = np.unravel_index(int(np.argmax(guessed)), guessed.shape)
    tested = value(*_limits([_above(scores, thresholds[[at]]) for scores in second], runs, alpha))
    return float(tested[way, 0])


def _scores(inside: Any, outside: Any) -> list[np.ndarray]:
    sides = [np.asarray(scores, dtype=float).ravel() for scores in (inside, outside)]
    for name, values in zip(("inside", "outside"), sides, strict=True):
        if len(values) < 4 or np.isnan(values).any():
            wrong = f"{len(values)}, {np.isnan(values).sum()} of them NaN"
            raise WrongInput(f"expected at least four scores {name}, none of them NaN, got {wrong}")
    return sides


def _limits(above: list[np.ndarray], runs: list[int], alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Return lower limits and upper limits of probabilities, each with shape (4 inequalities, thresholds).

    `above` has, for runs with and without the canary, how many of the `runs` score at least each threshold. An
    inequality compares the probability of one event on both sides. The events are "at least the threshold", then "below
    the threshold". For each event the lower limit is first of the side with the canary, then of the side without it;
    the upper limit is of the opposite side. Each limit is wrong with probability at most `alpha`.
    """
    (above_in, above_out), (n, m) = above, runs
    pairs = [
        (above_in, n, above_out, m),
        (above_out, m, above_in, n),
        (n - above_in, n, m - above_out, m),
        (m - above_out, m, n - above_in, n),
    ]
    at_least = [clopper_pearson(often, of, alpha)[0] for often, of, _, _ in pairs]
    at_most = [clopper_pearson(seldom, among, alpha)[1] for _, _, seldom, among in pairs]
    return np.array(at_least), np.array(at_most)


def _above(scores: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    return np.asarray(len(scores) - np.searchsorted(np.sort(scores), thresholds, side="left"))


def guesses_p_value(epsilon: float, delta: float, *, canaries: int, guesses: int, correct: int) -> float:
    """Return an upper bound on the probability of at least `correct` right guesses about an (epsilon, delta)-DP run.

    Each of `canaries` canaries was in the run with probability 1/2, independently. `guesses` is the number of canaries
    about which a guess was made, all in one run; abstentions do not count. Raise `WrongInput` unless `correct <=
    guesses <= canaries`.

    Paper: Steinke, Nasr, Jagielski, "Privacy auditing with one (1) training run" (2023), appendix D.

    >>> round(guesses_p_value(0.0, 0.0, canaries=10, guesses=10, correct=9), 4)
    0.0107
    """
    from scipy.special import bdtr, bdtrc

    _expect_guesses(canaries, guesses, correct)
    chance = 1 / (1 + math.exp(-epsilon))
    above = float(bdtrc(correct - 1, guesses, chance)) if correct else 1.0
    if delta == 0 or not correct:
        return min(1.0, above)
    fewer = np.arange(1, correct + 1)
    below = np.where(fewer < correct, bdtr(np.maximum(correct - 1 - fewer, 0), guesses, chance), 0.0)
    within = float(bdtr(correct - 1, guesses, chance)) - below  # correct - i <= successes < correct
    return min(1.0, above + 2 * canaries * delta * float((within / fewer).max()))


def epsilon_from_guesses(
    *, canaries: int, guesses: int, correct: int, delta: float, confidence: float = 0.95, most: float = 100.0
) -> float:
    """Return the largest epsilon, up to `most`, that `correct` right guesses refute with `confidence`.

    Return 0 if they refute no epsilon.

    There were `guesses` guesses about one run, in which each of `canaries` canaries was with probability 1/2. An
    epsilon is refuted at `delta` if `guesses_p_value` is below `1 - confidence`.

    >>> round(epsilon_from_guesses(canaries=100, guesses=100, correct=90, delta=0.0), 3)
    1.631
    """
    counts = {"canaries": canaries, "guesses": guesses, "correct": correct}
    return _largest(lambda epsilon: guesses_p_value(epsilon, delta, **counts) < 1 - confidence, most)


def guesses_refute(false_rate: FalseRate, level: float, *, canaries: int, guesses: int, correct: int) -> bool:
    """Return whether `correct` or more right guesses have a probability below `level`, given a trade-off function.

    `false_rate` returns the smallest false positive rate of any attack on the mechanism at a true positive rate. Each
    of `canaries` canaries was in the run with probability 1/2, and `guesses` of them were guessed. Let
    `right` be the probability that at least k guesses are right and a random canary is guessed right, and `wrong` the
    probability that at least k - 1 guesses are right and this canary is guessed wrong. Flipping the coin of the
    canary exchanges the two events, so `wrong >= false_rate(right)` for every k.

    Paper: Mahloujifar, Melis, Chaudhuri, "Auditing f-differential privacy in one run" (2024), algorithm 3.
    """
    _expect_guesses(canaries, guesses, correct)
    right, wrong, total = level * correct / canaries, level * (guesses - correct) / canaries, guesses / canaries
    for count in range(correct - 1, -1, -1):
        below = max(wrong, false_rate(right))
        right += count / (guesses - count) * (below - wrong)
        wrong = below
        if right + wrong > total * (1 + 1e-12):
            return True
    return False


def shift_lower(inside: Any, outside: Any, *, confidence: float = 0.95) -> float:
    """Return a lower bound on the distance of two sets of independent Gaussian scores, in standard deviations.

    It holds with `confidence`; the scores `inside` should be higher than `outside`. The bound inverts the noncentral t
    distribution of Student's statistic, which is exact for equal variances. It is 0 if nothing is proved. A Gaussian
    mechanism with orthogonal canaries gives such scores in one run; then the bound is a lower bound on the mu of its
    Gaussian differential privacy. Unlike `epsilon_lower` and guesses, it assumes that the noise has the claimed form.

    Paper: after Agrawal, Wei, Singh, Magdon-Ismail, Zikas, "Let's ask Gauss: improved one-run privacy auditing" (2026),
    with an exact limit instead of the limit of the paper.
    """
    statistic, freedom, root = _student(*_scores(inside, outside))
    alpha = 1 - confidence
    return _largest(lambda shift: _noncentral_above(statistic, freedom, shift * root) < alpha, 1e6)


def shift_of(event: Event) -> float | None:
    """Return the total mu of an event that consists of Gaussian releases of all rows; None for any other event.

    It is `sqrt(sum_i 1 / noise[i]**2)` over the noise multipliers of the releases.

    >>> shift_of(4 * Gaussian(noise=2.0))
    1.0
    """
    parts = list(leaves(event))
    if not parts or not all(isinstance(part, Gaussian) for part, _ in parts):
        return None
    return math.sqrt(sum(count / part.noise**2 for part, count in parts if isinstance(part, Gaussian)))


def epsilon_of_shift(shift: float, delta: float) -> float:
    """Return the epsilon at `delta` of Gaussian releases with total mu `shift`; 0 if `shift` is not above 0."""
    return gaussian_epsilon(shift, delta) if shift > 0 else 0.0


def _student(inside: np.ndarray, outside: np.ndarray) -> tuple[float, int, float]:
    """Return Student's statistic of the difference of the means of `inside` and `outside`, and its degrees of freedom.

    The third result is the ratio of the statistic's noncentrality to the shift in standard deviations.
    """
    freedom = len(inside) + len(outside) - 2
    apart = float(inside.mean() - outside.mean())
    squares = ((inside - inside.mean()) ** 2).sum() + ((outside - outside.mean()) ** 2).sum()
    deviation = max(math.sqrt(float(squares) / freedom), 1e-9 * abs(apart), 1e-300)
    root = 1 / math.sqrt(1 / len(inside) + 1 / len(outside))
    return apart / deviation * root, freedom, root


def _noncentral_above(statistic: float, freedom: int, noncentrality: float) -> float:
    """Return the probability that a noncentral t variable is at least `statistic`.

    `freedom` is its number of degrees of freedom, and `noncentrality` its parameter. The probability is the mean of
    normal probabilities over the distribution of the sample deviation.
    """
    from scipy.special import ndtr

    roots, weights = _chi_nodes(freedom)
    return float(weights @ ndtr(noncentrality - statistic * roots))


@lru_cache(maxsize=16)
def _chi_nodes(freedom: int) -> tuple[np.ndarray, np.ndarray]:
    """Return 401 values of `sqrt(X / freedom)` and their weights, which add up to 1, for numerical integration.

    X has the chi-squared distribution with `freedom` degrees of freedom.
    """
    from scipy.special import gammainccinv, gammaincinv, ndtr

    at = np.linspace(-9.0, 9.0, 401)
    halves = np.where(at < 0, gammaincinv(freedom / 2, ndtr(at)), gammainccinv(freedom / 2, ndtr(-at)))
    density = np.exp(-(at**2) / 2)
    return np.sqrt(2 * halves / freedom), density / density.sum()


def _largest(refuted: Callable[[float], bool], most: float) -> float:
    """Return the largest refuted value from 0 to `most`, or slightly less (60 bisections); 0 if 0 is not refuted.

    `refuted` must be true up to some value, and false above it.
    """
    if not refuted(0.0):
        return 0.0
    low, high = 0.0, min(1.0, most)
    while high < most and refuted(high):
        low, high = high, min(2 * high, most)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def _expect_guesses(canaries: int, guesses: int, correct: int) -> None:
    if not (0 <= correct <= guesses <= canaries and canaries > 0):
        raise WrongInput(
            f"expected 0 <= correct <= guesses <= canaries, canaries >= 1, got {correct}, {guesses} and {canaries}"
        )
