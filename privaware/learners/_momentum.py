"""Gradient descent with momentum whose noise has a known effect: what the learners of tables share."""

from __future__ import annotations

import numpy as np

__all__ = ["MOMENTUM", "response"]

MOMENTUM = 0.9


def response(steps: int) -> float:
    """The deviation that noise of 1 in each step gives the mean of the last half of them, by momentum alone.

    >>> response(1)
    1.0
    """
    age = np.arange(steps)[:, None] - np.arange(steps)[None, :] + 1  # of the noise of each step, at each step
    moved = np.where(age > 0, (1 - MOMENTUM ** np.maximum(age, 0)) / (1 - MOMENTUM), 0.0)
    return float(np.linalg.norm(moved[steps // 2 :].mean(axis=0)))
