"""Scores of predictions and of attacks. On private rows they are for the owner's eyes unless they are paid for."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privaware.errors import WrongInput

__all__ = [
    "LEAST_BASELINE",
    "TprAtFpr",
    "accuracy",
    "auc",
    "auc_interval",
    "clopper_pearson",
    "internal",
    "mean_absolute_error",
    "privacy_leakage",
    "r2",
    "tailored_auc",
    "tpr_at_fpr",
    "utility_loss",
]


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


def auc(inside: np.ndarray, outside: np.ndarray) -> float:
    """The chance that a member scores higher than a non-member; ties count half.

    >>> auc(np.array([2.0, 3.0]), np.array([1.0, 2.0]))
    0.875
    """
    members, _ = _placements(inside, outside)
    return float(members.mean())


def auc_interval(inside: np.ndarray, outside: np.ndarray, confidence: float = 0.95) -> tuple[float, float]:
    """Limits of the AUC: DeLong's variance and a normal approximation."""
    from scipy.special import ndtri

    members, others = _placements(inside, outside)
    variance = sum(float(side.var(ddof=1)) / len(side) for side in (members, others) if len(side) > 1)
    reach = float(ndtri(0.5 + confidence / 2)) * math.sqrt(variance)
    middle = float(members.mean())
    return max(0.0, middle - reach), min(1.0, middle + reach)


def _placements(inside: np.ndarray, outside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each member the share of non-members below it, for each non-member the share of members above it."""
    from scipy.stats import rankdata

    inside, outside = np.asarray(inside, dtype=float), np.asarray(outside, dtype=float)
    if not len(inside) or not len(outside):
        raise WrongInput(f"expected scores of members and of others, got {len(inside)} and {len(outside)}")
    ranks, count = rankdata(np.concatenate([inside, outside])), len(inside)
    members = (ranks[:count] - rankdata(inside)) / len(outside)
    return members, 1 - (ranks[count:] - rankdata(outside)) / count


def tailored_auc(value: float) -> float:
    """An attacker who is worse than guessing would guess: the AUC, or 0.5 (DPMLBench)."""
    return max(value, 0.5)


def utility_loss(score: float, baseline: float) -> float:
    """The share of the accuracy without privacy that privacy costs (DPMLBench, equation 6)."""
    return 1 - score / baseline


LEAST_BASELINE = 0.55
"""AUC below which a model without privacy hardly leaks: a share of its leakage would be little more than noise."""


def privacy_leakage(auc_private: float, auc_baseline: float) -> float | None:
    """What a private model leaks of what one without privacy does, by tailored AUCs (DPMLBench, equation 7).

    None, printed as "undefined", where the baseline's AUC is below `LEAST_BASELINE`: there is nothing to share.

    >>> privacy_leakage(0.51, 0.75), privacy_leakage(0.5, 0.505)
    (0.04..., None)
    """
    if tailored_auc(auc_baseline) < LEAST_BASELINE:
        return None
    return (tailored_auc(auc_private) - 0.5) / (tailored_auc(auc_baseline) - 0.5)


@dataclass(frozen=True, kw_only=True)
class TprAtFpr:
    """The true-positive rate at the threshold where at most a share `fpr` of the non-members is above.

    `interval` holds the true rate at that threshold; the false-positive rate there is at most `fpr_at_most`, each
    with the confidence asked for (Clopper-Pearson). With few non-members it is far above `fpr`.
    """

    fpr: float
    tpr: float
    interval: tuple[float, float]
    fpr_at_most: float


def tpr_at_fpr(inside: np.ndarray, outside: np.ndarray, fpr: float, confidence: float = 0.95) -> TprAtFpr:
    """The threshold comes from the non-members alone, so the members' rate is tested on scores that did not choose it.

    >>> tpr_at_fpr(np.arange(50, 150), np.arange(100), 0.01).tpr
    0.51
    """
    highest = np.sort(np.asarray(outside, dtype=float))[::-1]
    threshold = highest[min(math.floor(fpr * len(highest)), len(highest) - 1)]
    hits, false = int((np.asarray(inside) > threshold).sum()), int((highest > threshold).sum())
    alpha = 1 - confidence
    low, high = (float(side) for side in clopper_pearson(np.array(hits), len(inside), alpha / 2))
    at_most = float(clopper_pearson(np.array(false), len(highest), alpha)[1])
    return TprAtFpr(fpr=fpr, tpr=hits / len(inside), interval=(low, high), fpr_at_most=at_most)


def clopper_pearson(hits: np.ndarray, of: int, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """One-sided limits of a chance, each missing it with probability at most `alpha`."""
    from scipy.special import betaincinv

    low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), of - hits + 1, alpha), 0.0)
    high = np.where(hits < of, betaincinv(hits + 1, np.maximum(of - hits, 1), 1 - alpha), 1.0)
    return low, high
