"""Chernoff bounds, which both accountants use to find where to look: no result depends on how well they are met."""

from __future__ import annotations

import math
from collections.abc import Callable


def bound_on_epsilon(t: float, k: float, delta: float) -> float:
    """Chernoff: delta(eps) <= exp(K(t) - t eps) t^t / (1+t)^(1+t), solved for eps: the conversion of RDP, order 1+t."""
    return (k - math.log(delta) + t * math.log(t) - (1 + t) * math.log1p(t)) / t


def saddle(curve: Callable[[float], float], height: Callable[[float, float], float], guess: float) -> float:
    """The t > 0 that minimises `height(t, K(t))`, to a few per cent: any t is right, a near one is quick."""

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
    """Where the saddle would be if a loss of this variance were Gaussian."""
    return math.sqrt(2 * math.log(1 / delta) / max(variance, 1e-12))
