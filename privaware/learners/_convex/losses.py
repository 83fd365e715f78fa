"""Convex losses of a margin and a target, with their derivatives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

__all__ = ["LOSSES", "Loss"]

Array = np.ndarray


@dataclass(frozen=True, kw_only=True)
class Loss:
    """A convex loss of (margin, target): its `value`, and its first two derivatives by the margin (`slopes`).

    For any margin and target, `slope` is a bound on the absolute first derivative and `curvature` on the second one.
    """

    value: Callable[[Array, Array], Array]
    slopes: Callable[[Array, Array], tuple[Array, Array]]
    slope: float
    curvature: float


def _logistic_value(margin: Array, target: Array) -> Array:
    right = margin * target
    return np.maximum(-right, 0.0) + np.log(1 + np.exp(-np.abs(right)))


def _logistic_slopes(margin: Array, target: Array) -> tuple[Array, Array]:
    # 1 / (1 + e^z) by tanh, which neither overflows nor branches
    wrong = 0.5 - 0.5 * np.tanh(0.5 * margin * target)
    return -target * wrong, wrong * (1 - wrong)


def _logcosh_value(margin: Array, target: Array) -> Array:
    apart = np.abs(margin - target)
    return apart + np.log1p(np.exp(-2 * apart)) - np.log(2.0)


def _logcosh_slopes(margin: Array, target: Array) -> tuple[Array, Array]:
    slope = np.tanh(margin - target)
    return slope, 1 - slope**2


def _squared_slopes(margin: Array, target: Array) -> tuple[Array, Array]:
    return margin - target, np.ones_like(margin)


LOSSES = {
    "logistic": Loss(value=_logistic_value, slopes=_logistic_slopes, slope=1.0, curvature=0.25),
    "logcosh": Loss(value=_logcosh_value, slopes=_logcosh_slopes, slope=1.0, curvature=1.0),
    "squared": Loss(value=lambda m, y: 0.5 * (m - y) ** 2, slopes=_squared_slopes, slope=np.inf, curvature=1.0),
}
