"""Scores of predictions. On private rows they are for the owner's eyes unless they are paid for."""

from __future__ import annotations

import numpy as np

__all__ = ["accuracy", "internal", "mean_absolute_error", "r2"]


def accuracy(truth: np.ndarray, predictions: np.ndarray) -> float:
    """The fraction of rows that are predicted correctly.

    >>> round(accuracy(np.array([0, 1, 1]), np.array([0, 1, 0])), 3)
    0.667
    """
    from sklearn.metrics import accuracy_score

    return float(accuracy_score(truth, predictions))


def r2(truth: np.ndarray, predictions: np.ndarray) -> float:
    """The fraction of the variance that is explained; a constant truth gives 0, or 1 where it is met exactly."""
    from sklearn.metrics import r2_score

    if len(truth) < 2:  # no variance: scikit-learn calls it undefined
        return float(np.array_equal(truth, predictions))
    return float(r2_score(truth, predictions))


def mean_absolute_error(truth: np.ndarray, predictions: np.ndarray) -> float:
    """The mean distance, in the target's own unit."""
    from sklearn.metrics import mean_absolute_error as error

    return float(error(truth, predictions))


def internal(task: str, truth: np.ndarray, predictions: np.ndarray) -> dict[str, float | None]:
    """Scores on rows that may be private, beside the best constant's: never written or released.

    A regression that diverged has no scores: they are None.
    """
    if task == "classification":
        best = float(np.bincount(truth).max() / len(truth))
        return {"test_score": accuracy(truth, predictions), "constant_score": best}
    if not np.isfinite(predictions).all():
        return {"test_score": None, "mae": None, "constant_score": 0.0}
    error = mean_absolute_error(truth, predictions)
    return {"test_score": r2(truth, predictions), "mae": error, "constant_score": 0.0}
