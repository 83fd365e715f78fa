"""Chernoff bounds, which the PLD and the CF accountant use to choose where to compute. They affect speed only."""

from __future__ import annotations

import math
from collections.abc import Callable


def bound_on_epsilon(t: float, k: float, delta: float) -> float:
    """Return the Chernoff bound on epsilon at `delta`, where k = K(t), the log moment generating function of the loss.

    It solves delta = exp(K(t) - t eps) t^t / (1+t)^(1+t) for eps, which is the RDP conversion of order 1+t.
    """
    return (k - math.log(delta) + t * math.log(t) - (1 + t) * math.log1p(t)) / t


def saddle(curve: Callable[[float], float], height: Callable[[float, float], float], guess: float) -> float:
    """Return the t > 0 that about minimises `height(t, curve(t))`; the search starts at `guess`.

    `curve(t)` is the logarithm of the moment generating function of a privacy loss, and `height` a bound that follows
    from it. The search moves ln(t) by steps down to 1/16, so t is within several per cent of the minimum. Every t gives
    an accountant a correct result; a t near the minimum gives it quickly.
    """

    def f(u: float) -> float:
        value = height(math.exp(u), curve(math.exp(u)))
        return value if math.isfinite(value) else math.inf

    u = math.log(min(max(guess, 1e-16), 1e7))
    step, best = 1.0, f(u)
    for way in (1.0, -1.0):
        while -40 < u + way * step < 18 and (value := f(u + way * step)) < best:
            u, best = u + way * step, value
    for _ in range(4):
        step /= 2
        left, right = f(u - step), f(u + step)
        if min(left, right) < best:
            u, best = (u - step, left) if left < right else (u + step, right)
    return math.exp(u)


def guess(variance: float, delta: float) -> float:
    """Return the approximate saddle point at `delta` of a Gaussian loss with this `variance`, as a first guess."""
    return math.sqrt(2 * math.log(1 / delta) / max(variance, 1e-12))
