"""Noise multipliers of a paper's items, computed where the accountants are and only looked up elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

from privaware.bench._prices import Prices

__all__ = ["PaperPrices", "least", "rdp_epsilon"]

FOLDER = Path(__file__).with_name("prices")


class PaperPrices(Prices):
    """The recorded noise multipliers of a paper: one JSON file a paper."""

    def __init__(self, paper: str, record: bool = False, known: dict[str, float] | None = None) -> None:
        super().__init__(FOLDER / f"{paper}.json", record, known or {})

    def noise(self, rate: float, steps: int, epsilon: float, conversion: str = "rdp") -> float:
        """The least noise multiplier of `steps` Poisson-sampled Gaussian steps, as the paper's accountant counts."""
        key = f"{rate:.6g} x {steps}: {epsilon:.6g} by {conversion}"
        return self.look_up(key, lambda: _least_noise(rate, steps, epsilon, conversion))


def rdp_epsilon(rate: float, steps: int, noise: float, conversion: str = "rdp", delta: float = 1e-5) -> float:
    """Epsilon by Renyi divergences: `rdp` is the improved conversion with TensorFlow Privacy's orders (Bao et al.),
    `classic` the older one with the orders of Opacus 0.13 (Tramer and Boneh)."""
    from privaware.accounting import OPACUS_ORDERS, TENSORFLOW_ORDERS, _rdp
    from privaware.accounting._terms import alternatives, flatten
    from privaware.events import Gaussian

    [event] = alternatives(steps * Gaussian(noise=noise).sampled(rate=rate))
    classic = conversion == "classic"
    orders = OPACUS_ORDERS if classic else TENSORFLOW_ORDERS
    return _rdp.epsilon(flatten(event, None), delta, orders, classic=classic)  # type: ignore[arg-type]


def least(fits: Callable[[float], bool], low: float, high: float, near: float = 1e-6) -> float:
    """The least value from `low` to `high` that fits, to a factor of 1 + near; whatever is larger fits too.

    >>> round(least(lambda value: value * value >= 2, 1, 2), 5)
    1.41421
    """
    while high / low > 1 + near:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def _least_noise(rate: float, steps: int, epsilon: float, conversion: str) -> float:
    return least(lambda noise: rdp_epsilon(rate, steps, noise, conversion) <= epsilon, 1e-6, 1e5)
