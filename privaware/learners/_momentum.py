"""Gradient descent with momentum whose effect on the noise is known, shared by the learners of tables."""

from __future__ import annotations

import numpy as np

__all__ = ["MOMENTUM", "response"]

MOMENTUM = 0.9
"""The momentum coefficient."""


def response(steps: int) -> float:
    """Return the standard deviation of the mean of the last half of `steps` iterates, at learning rate 1.

    Each step gets noise of standard deviation 1.

    Only the effect of momentum is counted: the gradient is taken to be zero.

    >>> response(1)
    1.0
    """
    age = np.arange(steps)[:, None] - np.arange(steps)[None, :] + 1  # steps since each noise draw
    moved = np.where(age > 0, (1 - MOMENTUM ** np.maximum(age, 0)) / (1 - MOMENTUM), 0.0)
    return float(np.linalg.norm(moved[steps // 2 :].mean(axis=0)))
