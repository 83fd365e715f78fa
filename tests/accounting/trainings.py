"""DP-SGD as an event."""

from __future__ import annotations

from privaware.events import Event, Gaussian

DELTA = 1e-5


def training(noise: float = 1.0, rate: float = 0.01, steps: int = 1000) -> Event:
    return steps * Gaussian(noise=noise).sampled(rate=rate)
