"""The noise of Tramer and Boneh's settings and what it costs, stored for machines without accountants.

    python -m benchmarks.tramer_boneh_prices

Writes `tramer_boneh_prices.json` beside this file. `grid` is Table 12: the noise that their search ends
at, which halves [0.1, 100] until the classic epsilons of both ends differ by at most 0.01 and takes the
larger noise. `sizes` is Table 15 with the private normalisation charged. `curves` has the epsilon after
some epochs of Table 13's settings, classic and ours. `figure9` compares with amplification by iteration.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from privaware.accounting import OPACUS_ORDERS, _rdp, calibrate, epsilon
from privaware.events import Event, Gaussian
from privaware.learners.iteration_amplification import percentile_epsilon

FILE = Path(__file__).with_name("tramer_boneh_prices.json")
DELTA = 1e-5
BATCHES = (512, 1024, 2048, 4096, 8192, 16384)
EPOCHS = {60_000: (15, 25, 40), 50_000: (30, 60, 120)}
MORE_ORDERS = (*OPACUS_ORDERS, *(float(2**k) for k in range(6, 14)))
"""Their list ends at 63, below which no epsilon under ln(1 / delta) / 62 can be seen."""

CELLS = {
    "mnist linear": (60_000, 4096, 40, 8),
    "mnist cnn": (60_000, 1024, 25, 8),
    "fashion_mnist linear": (60_000, 8192, 40, 0),
    "fashion_mnist cnn": (60_000, 2048, 40, 0),
    "cifar10 linear": (50_000, 8192, 60, 8),
    "cifar10 cnn": (50_000, 8192, 60, 8),
}
"""Table 13: rows, batch, epochs and the noise of the normalisation (0 where groups are free)."""


@lru_cache(maxsize=100_000)
def divergences(rate: float, noise: float, orders: tuple[float, ...]) -> np.ndarray:
    return np.array([_rdp.sampled_gaussian(rate, noise, order) for order in orders])


def classic(
    noise: float,
    *,
    rate: float,
    steps: int,
    norm: float = 0.0,
    delta: float = DELTA,
    orders: tuple[float, ...] = OPACUS_ORDERS,
) -> float:
    """The epsilon that their accountant prints; `norm` is the noise of the normalisation, 0 for none."""
    curve = steps * divergences(rate, noise, orders)
    if norm:
        curve = curve + np.asarray(orders) / norm**2
    return _rdp.convert(orders, curve, delta, classic=True)


def searched(price: Callable[[float], float], target: float = 3.0, near: float = 0.01) -> float:
    """The noise at which their bisection stops."""
    low, high = 0.1, 100.0
    dear, cheap = math.inf, price(high)
    while dear - cheap > near:
        middle = (low + high) / 2
        found = price(middle)
        if found > target:
            low, dear = middle, found
        else:
            high, cheap = middle, found
    return high


def event(rate: float, steps: int, noise: float, norm: float) -> Event:
    made = steps * Gaussian(noise=noise).sampled(rate=rate)
    return made + 2 * Gaussian(noise=norm) if norm else made


def grid() -> dict[str, float]:
    """By rows, batch, epochs and noise of the normalisation."""
    out = {}
    for rows, several in EPOCHS.items():
        for batch in BATCHES:
            for epochs in several:
                for norm in (0, 6, 8):
                    facts = {"rate": batch / rows, "steps": epochs * (rows // batch), "norm": norm}
                    out[f"{rows} {batch} {epochs} {norm}"] = searched(partial(classic, **facts))
    return out


def sizes() -> dict[str, dict[str, float]]:
    """Table 15: batches of 8,192 of 10,000 to 50,000 rows, delta 1 / 2N, as many steps as 50,000 rows would have."""
    out = {}
    for rows in (10_000, 25_000, 50_000):
        for epochs in (15, 30, 60, 120):
            steps, rate, delta = epochs * 50_000 // 8192, 8192 / rows, 1 / (2 * rows)
            price = partial(classic, rate=rate, steps=steps, norm=8, delta=delta)
            noise = searched(price, near=1e-3)
            ours = epsilon(event(rate, steps, noise, 8), delta)
            out[f"{rows} {epochs}"] = {"steps": steps, "noise": noise, "delta": delta, "ours": ours}
    return out


def curves(noises: dict[str, float]) -> dict[str, list[tuple[int, float, float]]]:
    """Epoch, classic epsilon and ours, for each of Table 13's settings on scattering features."""
    out = {}
    for name, (rows, batch, epochs, norm) in CELLS.items():
        noise, rate = noises[f"{rows} {batch} {epochs} {norm}"], batch / rows
        at = sorted({1, 2, 3, 5, 8, *range(10, epochs, 5), epochs})
        out[name] = [
            (
                epoch,
                classic(noise, rate=rate, steps=epoch * (rows // batch), norm=norm),
                epsilon(event(rate, epoch * (rows // batch), noise, norm), DELTA),
            )
            for epoch in at
        ]
    return out


def iteration_noise(target: float, rows: int, batch: int, epochs: int) -> float:
    """The noise at which amplification by iteration has epsilon `target` for 99% of the rows."""
    low, high = 1e-3, 1e5
    for _ in range(200):
        middle = math.sqrt(low * high)
        price = percentile_epsilon(middle, rows=rows, batch=batch, epochs=epochs, delta=DELTA)
        low, high = (middle, high) if price > target else (low, middle)
    return high


def figure9() -> dict[str, Any]:
    """Ten epochs of batches of 512 of 50,000 rows: the noise for each epsilon, and where iteration needs less."""
    facts: dict[str, Any] = {"rate": 512 / 50_000, "steps": 10 * (50_000 // 512)}
    prices: dict[str, Callable[[float], float]] = {
        "classic": partial(classic, **facts),
        "more orders": partial(classic, **facts, orders=MORE_ORDERS),
        "ours": lambda z: epsilon(event(noise=z, norm=0, **facts), DELTA),
    }
    lines = []
    for target in map(float, np.geomspace(0.05, 100, 34)):
        line = {"epsilon": target, "iteration": iteration_noise(target, 50_000, 512, 10)}
        for name, last in (("classic", OPACUS_ORDERS[-1]), ("more orders", MORE_ORDERS[-1])):
            reachable = target > math.log(1 / DELTA) / (last - 1)
            line[name] = _noise(prices[name], target) if reachable else None
        line["ours"] = calibrate(lambda z: event(noise=z, norm=0, **facts), target, DELTA)
        lines.append(line)
    return {"lines": lines, "crossings": {name: crossings(prices[name]) for name in prices}}


def _noise(price: Callable[[float], float], target: float) -> float:
    low, high = 0.05, 1e4
    while high / low > 1 + 1e-4:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if price(middle) > target else (low, middle)
    return high


def crossings(price: Callable[[float], float]) -> list[float]:
    """The epsilons at which descent with iteration's noise costs just as much."""

    def dearer(target: float) -> bool:
        return price(iteration_noise(target, 50_000, 512, 10)) > target

    found = []
    for low, high in pairwise(map(float, np.geomspace(0.05, 100, 34))):
        if dearer(low) != dearer(high):
            first = dearer(low)
            while high / low > 1.001:
                middle = math.sqrt(low * high)
                low, high = (middle, high) if dearer(middle) == first else (low, middle)
            found.append(math.sqrt(low * high))
    return found


def figure10() -> dict[str, dict[str, float]]:
    """For each epsilon: iteration's noise by batch size, ten epochs; descent's at 2,048 and 30 epochs."""
    out = {}
    for target in (0.5, 1.0, 2.0, 3.0):
        line = {f"iteration {batch}": iteration_noise(target, 50_000, batch, 10) for batch in (128, 512, 2048)}
        price = partial(classic, rate=2048 / 50_000, steps=30 * (50_000 // 2048))
        line["descent"] = _noise(price, target)
        out[f"{target:g}"] = line
    return out


def main() -> None:
    noises = grid()
    made = {"grid": noises, "sizes": sizes(), "curves": curves(noises), "figure9": figure9(), "figure10": figure10()}
    FILE.write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
