"""Noise multipliers and epsilons of Tramer and Boneh's settings, by their accountant and by ours.

Theirs is Renyi accounting with the classic conversion and orders up to 63; its epsilon of 3 is 2.2 to 2.4 by privacy
loss distributions. Their search halves [0.1, 100] until the epsilons of both ends differ by at most 0.01 and takes the
larger noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from privaware.bench import Result
from privaware.events import Event, Gaussian
from research.papers._prices import least

__all__ = ["DELTA", "bisected_noise", "classic", "curve", "dpsgd_noise", "figure9", "iteration_noise", "run_event"]

DELTA = 1e-5
TARGETS = [float(value) for value in np.geomspace(0.05, 100, 34)]


def run_event(rate: float, steps: int, noise: float, norm: float = 0.0) -> Event:
    """One training; `norm` is the noise multiplier of the private normalisation, 0 for none."""
    event: Event = steps * Gaussian(noise=noise).sampled(rate=rate)
    return event + 2 * Gaussian(noise=norm) if norm else event


def classic(
    noise: float, *, rate: float, steps: int, norm: float = 0.0, delta: float = DELTA, orders: Any = None
) -> float:
    """The epsilon that their accountant prints."""
    from privaware.accounting import OPACUS_ORDERS, _rdp
    from privaware.accounting._terms import alternatives, flatten

    [event] = alternatives(run_event(rate, steps, noise, norm))
    return _rdp.epsilon(flatten(event, None), delta, orders or OPACUS_ORDERS, classic=True)  # type: ignore[arg-type]


def bisected_noise(price: Callable[[float], float], target: float = 3.0, near: float = 0.01) -> float:
    """The noise at which their bisection stops."""
    low, high = 0.1, 100.0
    above, below = math.inf, price(high)
    while above - below > near:
        middle = (low + high) / 2
        epsilon = price(middle)
        if epsilon > target:
            low, above = middle, epsilon
        else:
            high, below = middle, epsilon
    return high


def dpsgd_noise(price: Callable[[float], float], target: float) -> float:
    """The noise at which a training costs the target, to 1e-4."""
    return least(lambda noise: price(noise) <= target, 0.05, 1e4, 1e-4)


def iteration_noise(target: float, rows: int, batch: int, epochs: int) -> float:
    """The noise at which amplification by iteration has epsilon `target` for 99% of the rows."""
    from privaware.learners.iteration_amplification import percentile_epsilon

    price = partial(percentile_epsilon, rows=rows, batch=batch, epochs=epochs, delta=DELTA)
    return least(lambda noise: price(noise) <= target, 1e-3, 1e5, 1e-12)


def curve(rows: int, batch: int, epochs: int, noise: float, norm: float) -> Result:
    """Epoch, classic epsilon and ours along one training."""
    from privaware.accounting import epsilon

    rate, each = batch / rows, rows // batch
    at = sorted({1, 2, 3, 5, 8, *range(10, epochs, 5), epochs})
    points = [
        (
            epoch,
            classic(noise, rate=rate, steps=epoch * each, norm=norm),
            epsilon(run_event(rate, epoch * each, noise, norm), DELTA),
        )
        for epoch in at
    ]
    return {"curve": [list(point) for point in points]}


def figure9() -> Result:
    """Ten epochs of batches of 512 of 50,000 rows: the noise for each epsilon, and where iteration needs less."""
    from privaware.accounting import OPACUS_ORDERS, calibrate, epsilon

    more_orders = (*OPACUS_ORDERS, *(float(2**k) for k in range(6, 14)))
    facts: dict[str, Any] = {"rate": 512 / 50_000, "steps": 10 * (50_000 // 512)}
    prices: dict[str, Callable[[float], float]] = {
        "classic": partial(classic, **facts),
        "more orders": partial(classic, **facts, orders=more_orders),
        "ours": lambda noise: epsilon(run_event(noise=noise, **facts), DELTA),
    }
    lines = []
    for target in TARGETS:
        line: dict[str, float | None] = {"epsilon": target, "iteration": iteration_noise(target, 50_000, 512, 10)}
        for name, last in (("classic", OPACUS_ORDERS[-1]), ("more orders", more_orders[-1])):
            # With orders up to `last`, no epsilon below ln(1 / delta) / (last - 1) can be certified.
            reachable = target > math.log(1 / DELTA) / (last - 1)
            line[name] = dpsgd_noise(prices[name], target) if reachable else None
        line["ours"] = calibrate(lambda noise: run_event(noise=noise, **facts), target, DELTA)
        lines.append(line)
    return {"lines": lines, "crossings": {name: crossings(prices[name]) for name in prices}}


def crossings(price: Callable[[float], float]) -> list[float]:
    """The epsilons at which DP-SGD with the noise of amplification by iteration costs just as much."""

    def costs_more(target: float) -> bool:
        return price(iteration_noise(target, 50_000, 512, 10)) > target

    out = []
    for low, high in pairwise(TARGETS):
        if costs_more(low) != (last := costs_more(high)):
            while high / low > 1.001:
                middle = math.sqrt(low * high)
                low, high = (low, middle) if costs_more(middle) == last else (middle, high)
            out.append(math.sqrt(low * high))
    return out
