"""Private selection in the CF accountant, computed from the privacy profile of one run only.

1. K is the number of runs, and w(u) = f'(1 - u), where f is the generating function of K. On neighbouring rows an event
   of probability u has a probability of at most U(u). (`_selection.py` has the derivation.) G(s) = sup over u of
   (w(u) - s w(U(u)))_+ is convex and falls from E[K] to 0, so it is a sum of hinge functions c (a - s)_+.
2. The expectation of a hinge at s = exp(e - l) is c a times the divergence of one run at the epsilon e - ln a. Hence

       delta(e) <= sum over hinges of c a delta_run(e - ln a).

3. U follows from the profile delta'_run of the other direction: U(u) = inf over x of (e^x u + delta'_run(x)).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from privaware.accounting import _cf
from privaware.accounting._cf_sum import LossSum, TooSlow
from privaware.accounting._quadrature import Array
from privaware.events import Selected

_DOTS = 2000
"""Number of epsilons at which a privacy profile is tabulated."""

_RANKS = 1500
"""Number of values of u, a probability, at which the supremum in G(s) is taken (see the docstring of this module)."""

_MAX_HINGES = 20_000
"""Largest number of hinge functions whose sum is G(s); `TooSlow` is raised for more."""

_LEAST = 1e-14
"""Smallest delta; smaller ones are below the rounding errors of sums."""

Run = tuple[LossSum, LossSum]
"""The composed privacy losses of one run, when a row is removed and when it is added."""


def epsilon(selected: Selected, runs: Sequence[Run], delta: float) -> float:
    """Return the epsilon at `delta` of one private selection without other releases.

    `runs` has the composed losses of one run, a pair (row removed, row added), for each alternative in which the run
    can affect a row; the largest epsilon counts. Epsilon is infinite if `selected.mean` (the expected number of runs)
    times the failure probability of a run is `delta` or more. Raise `TooSlow` if `delta` is below `_LEAST`, or if no
    bound is found.
    """
    failure = _failure(selected, runs)
    if failure >= delta:
        return math.inf
    if delta < _LEAST:
        raise TooSlow
    rest = (delta - failure) / (1 - failure)
    return max(_crossing(*bound, rest) for bound in _bounds(selected, runs, rest))


def profile(selected: Selected, runs: Sequence[Run]) -> tuple[Array, Array, float]:
    """Return an array of epsilons >= 0, the delta of `selected` at each, and a bound on the probability of failure.

    The deltas hold if no run fails; failure means that any run fails. `runs` has a pair of losses (row removed, row
    added) of one run for each alternative; the largest delta over alternatives and directions is returned. Raise
    `TooSlow` if no bound is found.
    """
    bounds = _bounds(selected, runs, 1e-9)
    top = max(_crossing(width, deltas, 1e-11) for width, deltas in bounds)
    if not math.isfinite(top):
        raise TooSlow
    epsilons = np.linspace(0.0, top, _DOTS)
    logs = [np.interp(epsilons, w * np.arange(len(d)), np.log(np.maximum(d, 1e-300))) for w, d in bounds]
    return epsilons, np.minimum(np.exp(np.max(logs, axis=0)), 1.0), _failure(selected, runs)


def _failure(selected: Selected, runs: Sequence[Run]) -> float:
    return min(1.0, selected.mean * max(total.failure for run in runs for total in run))


def _crossing(width: float, deltas: Array, delta: float) -> float:
    """Return the epsilon at which delta falls to `delta`, where `deltas[i]` is delta at the epsilon `i * width`.

    Between two multiples ln(delta) is interpolated. Return 0.0 if `deltas[0]` is small enough, and infinity if no delta
    is.
    """
    below = np.flatnonzero(deltas <= delta)
    if not len(below):
        return math.inf
    at = int(below[0])
    if at == 0:
        return 0.0
    low, high = (math.log(max(float(d), 1e-300)) for d in deltas[at - 1 : at + 1])
    return width * (at - (math.log(delta) - high) / (low - high))


def _bounds(selected: Selected, runs: Sequence[Run], delta: float) -> list[tuple[float, Array]]:
    """Return (width, deltas) of `selected` for every alternative and direction; `deltas[i]` is at `i * width`.

    `runs` has a pair of losses (row removed, row added) of one run for each alternative. The deltas hold if no run
    fails; the caller accounts for failures. They reach far enough down to solve for `delta`. Equal directions give one
    result. Raise `TooSlow` if no bound is found.
    """
    out = []
    for run in runs:
        sound = [replace(total, log_survival=0.0) for total in run]
        tops = [_cf.epsilon(total, min(1e-11, 1e-4 * delta) / selected.mean) for total in sound]
        if not math.isfinite(top := max(tops)):
            raise TooSlow
        epsilons = np.linspace(0.0, max(top, 1e-12), _DOTS + 1)
        here, other = (_cf.deltas(total, epsilons) for total in sound)
        for a, b in ((here, other), (other, here)):
            out.append((float(epsilons[1]), _selected(selected, epsilons, a, b)))
            if sound[0] == sound[1]:
                break
    return out


def _selected(selected: Selected, epsilons: Array, here: Array, other: Array) -> Array:
    width = float(epsilons[1])
    if _log_gamma(selected) < -100:  # the values of u would span too many orders of magnitude
        raise TooSlow
    both = np.append(-epsilons[:0:-1], epsilons)
    back = np.append(_mirrored(epsilons, here)[:0:-1], other)
    logs = np.append(-math.inf, np.linspace(min(-46.0, _log_gamma(selected) - 7), 0.0, _RANKS))
    ranks = np.exp(logs)
    reach = np.min(np.multiply.outer(ranks, np.exp(np.minimum(both, 600.0))) + back, axis=1)
    best, worst = _weight(selected, ranks), _weight(selected, np.minimum(reach, 1.0))
    if worst[-1] <= 0 or worst.min() <= 0:
        raise TooSlow
    # Below `first` the supremum is at u = 0, or so near it that a straight line to s = 0 is accurate enough.
    first, last = -min(math.ceil(6 / width), _DOTS), math.ceil(float(np.log(best / worst).max()) / width) + 1
    if last - first > _MAX_HINGES:
        raise TooSlow
    x = width * np.arange(first, last + 1)
    s = np.exp(x)
    heights = np.zeros(len(x))
    for start in range(0, len(x), 512):
        lines = best - np.multiply.outer(s[start : start + 512], worst)
        heights[start : start + 512] = np.maximum(lines.max(axis=1), 0.0)
    slopes = np.diff(np.append(selected.mean, heights)) / np.diff(np.append(0.0, s))
    hinges = np.diff(np.append(slopes, 0.0)) * s
    # delta(e) = sum over x of hinges(x) * delta_run(e - x), a convolution, because both lie on one lattice.
    count = len(epsilons) - 1 + max(last, 0) + 1
    run = _on_line(epsilons, here, other, -last, count - first)
    return np.minimum(np.convolve(run, hinges, mode="valid")[:count], 1.0)  # type: ignore[no-any-return]


def _on_line(epsilons: Array, here: Array, other: Array, low: int, high: int) -> Array:
    """Return the deltas of one run at the epsilons `k * width`, for each k from `low` to `high`, both included.

    `width` is the distance of two of the equally spaced `epsilons` >= 0, at which `here` are the deltas. `other` are
    the deltas of the other direction there, from which those at negative epsilons follow. Beyond the table, delta is 0
    at a positive epsilon e and `1 - exp(e)` at a negative one.
    """
    width, size = float(epsilons[1]), len(epsilons)
    k = np.arange(low, high + 1)
    at = np.minimum(np.abs(k), size - 1)
    right = np.where(np.abs(k) < size, here[at], 0.0)
    left = np.where(np.abs(k) < size, other[at], 0.0)
    shrink = np.exp(-width * np.abs(k))
    return np.where(k >= 0, right, 1 - shrink + shrink * left)


def _mirrored(epsilons: Array, deltas: Array) -> Array:
    """Return the delta of one direction at `-epsilons`: `1 - exp(-e) + exp(-e) * delta` at each e of `epsilons`.

    `deltas` are the deltas of the other direction at `epsilons` >= 0.
    """
    shrink = np.exp(-epsilons)
    return 1 - shrink + shrink * deltas  # type: ignore[no-any-return]


@lru_cache(maxsize=256)
def _log_gamma(selected: Selected) -> float:
    """Return ln(gamma), where gamma is a parameter of the distribution of the number of runs of `selected`.

    The distribution is negative binomial or logarithmic; for Poisson the result is 0. Bisection finds the gamma for
    which the expected number of runs is `selected.mean`.
    """
    if selected.distribution == "poisson":
        return 0.0
    eta = selected.shape or 0.0

    def log_mean(x: float) -> float:  # ln of eta (1 - g) / (g (1 - g^eta)) at ln g = -x
        odds = x + math.log(-math.expm1(-x))
        if eta == 0:
            return odds - math.log(x)
        if eta > 0:
            return odds + math.log(eta) - math.log(-math.expm1(-eta * x))
        return odds + math.log(-eta) + eta * x - math.log(-math.expm1(eta * x))

    low, high = 1e-12, 1.0
    while log_mean(high) < math.log(selected.mean):
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if log_mean(middle) < math.log(selected.mean) else (low, middle)
    return -high


def _weight(selected: Selected, u: Array) -> Array:
    """Return w(u): the density of the best of K runs divided by the density of one run.

    K is the random number of runs of `selected`. The ratio is taken at an output that one run exceeds with probability
    u.
    """
    if selected.distribution == "poisson":
        return selected.mean * np.exp(-np.minimum(selected.mean * u, 700.0))
    power, log_gamma = 1 + (selected.shape or 0.0), _log_gamma(selected)
    with np.errstate(divide="ignore"):
        mix = np.logaddexp(log_gamma, math.log(-math.expm1(log_gamma)) + np.log(u))
    return selected.mean * np.exp(power * (log_gamma - mix))  # type: ignore[no-any-return]


def atoms(epsilons: Array, deltas: Array) -> tuple[Array, Array]:
    """Return losses and probabilities of a release with these `deltas` at `epsilons`, linear in e^epsilon between them.

    A point above a straight line between two other points is left out, because delta is convex in e^epsilon.
    """
    kept: list[tuple[float, float]] = [(-math.inf, 1.0)]  # delta is 1 where e^epsilon is 0
    for e, d in zip(epsilons.tolist(), np.minimum(deltas, 1.0).tolist()):
        while len(kept) > 1:
            (a, da), (b, db) = kept[-2:]
            share = math.exp(b - e) * math.expm1(a - b) / math.expm1(a - e)
            if db <= da + (d - da) * share:
                break
            kept.pop()
        kept.append((e, d))
    points = np.array(kept[1:])
    e, d = points[:, 0], points[:, 1]
    slopes = np.diff(d) / np.expm1(np.diff(e))  # times e^-(left epsilon)
    fall = np.append(-slopes, 0.0)
    before = np.append(1 - d[0], -slopes * np.exp(np.diff(e)))
    probs = np.maximum(before - fall, 0.0)
    return e, probs / probs.sum()
