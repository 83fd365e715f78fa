"""Scores, for the owner's eyes unless they are paid for."""

from __future__ import annotations

import numpy as np

__all__ = ["accuracy", "internal", "mean_absolute_error", "r2"]


def accuracy(truth: np.ndarray, predicted: np.ndarray) -> float:
    """The share of rows that are right.

    >>> accuracy(np.array([0, 1, 1]), np.array([0, 1, 0])).__round__(3)
    0.667
    """
    return float(np.mean(truth == predicted))


def r2(truth: np.ndarray, predicted: np.ndarray) -> float:
    """The share of the variance that is explained; a constant truth gives 0 unless it is met exactly."""
    rest, all_ = float(((truth - predicted) ** 2).sum()), float(((truth - truth.mean()) ** 2).sum())
    return 1 - rest / all_ if all_ > 0 else float(rest == 0)


def mean_absolute_error(truth: np.ndarray, predicted: np.ndarray) -> float:
    """The mean distance, in the target's own unit."""
    return float(np.abs(truth - predicted).mean())


def internal(task: str, truth: np.ndarray, predicted: np.ndarray) -> dict[str, float | None]:
    """Scores on rows that may be private, beside the best constant's: never written or released."""
    if task == "classification":
        best = float(np.bincount(truth).max() / len(truth))
        return {"test_score": accuracy(truth, predicted), "constant_score": best}
    error = mean_absolute_error(truth, predicted)
    return {"test_score": r2(truth, predicted), "mae": error, "constant_score": 0.0}
