"""Scores of predictions and of attacks. They have no noise: scores on private rows are for the data owner only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from privaware.errors import WrongInput

__all__ = [
    "MIN_BASELINE_AUC",
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
    """Return the fraction of rows that are predicted correctly.

    Parameters
    ----------
    truth, predictions
        The true and the predicted classes.

    Returns
    -------
    float
        The accuracy.

    Examples
    --------
    >>> round(accuracy(np.array([0, 1, 1]), np.array([0, 1, 0])), 3)
    0.667
    """
    from sklearn.metrics import accuracy_score

    return float(accuracy_score(truth, predictions))


def r2(truth: np.ndarray, predictions: np.ndarray) -> float:
    """Return the fraction of the variance that is explained.

    Parameters
    ----------
    truth, predictions
        The true and the predicted numbers.

    Returns
    -------
    float
        The coefficient of determination. For a constant truth, or fewer than two rows, it is 1 if all predictions are
        exact, else 0.
    """
    from sklearn.metrics import r2_score

    if len(truth) < 2:  # scikit-learn does not define R2 for fewer than two rows
        return float(np.array_equal(truth, predictions))
    return float(r2_score(truth, predictions))


def mean_absolute_error(truth: np.ndarray, predictions: np.ndarray) -> float:
    """Return the mean absolute error, in the unit of the target.

    Parameters
    ----------
    truth, predictions
        The true and the predicted numbers.

    Returns
    -------
    float
        The mean of `abs(truth - predictions)`.
    """
    from sklearn.metrics import mean_absolute_error as error

    return float(error(truth, predictions))


def internal(task: str, truth: np.ndarray, predictions: np.ndarray) -> dict[str, float | None]:
    """Return scores on rows that may be private, and scores of the best constant; never write or release them.

    Parameters
    ----------
    task
        "classification" or "regression".
    truth, predictions
        The true and the predicted values of at least one row: class codes from 0 on, or numbers.

    Returns
    -------
    dict
        `test_score` is the accuracy or R2. `constant_score` is the accuracy of the most frequent class of `truth`, or 0
        for regression. For regression there are also `mae` and `constant_mae`, the mean absolute errors of the
        predictions and of the median of `truth`; `test_score` and `mae` are None if a prediction is not finite.
    """
    if task == "classification":
        best = float(np.bincount(truth).max() / len(truth))
        return {"test_score": accuracy(truth, predictions), "constant_score": best}
    constant = {"constant_score": 0.0, "constant_mae": float(np.abs(truth - np.median(truth)).mean())}
    if not np.isfinite(predictions).all():
        return {"test_score": None, "mae": None, **constant}
    error = mean_absolute_error(truth, predictions)
    return {"test_score": r2(truth, predictions), "mae": error, **constant}


def auc(inside: np.ndarray, outside: np.ndarray) -> float:
    """Return the probability that a member scores higher than a non-member; ties count one half.

    Parameters
    ----------
    inside, outside
        The scores of members and of non-members.

    Returns
    -------
    float
        The area under the ROC curve. Without members or without non-members `WrongInput` is raised.

    Examples
    --------
    >>> auc(np.array([2.0, 3.0]), np.array([1.0, 2.0]))
    0.875
    """
    members, _ = _placements(inside, outside)
    return float(members.mean())


def auc_interval(inside: np.ndarray, outside: np.ndarray, confidence: float = 0.95) -> tuple[float, float]:
    """Return a confidence interval of the AUC, by DeLong's variance and a normal approximation.

    Parameters
    ----------
    inside, outside
        The scores of members and of non-members.
    confidence
        The confidence of the interval.

    Returns
    -------
    tuple of float
        The lower and the upper end, within [0, 1]. A single member, or a single non-member, adds no variance. Without
        members or without non-members `WrongInput` is raised.
    """
    from scipy.special import ndtri

    members, others = _placements(inside, outside)
    variance = sum(float(side.var(ddof=1)) / len(side) for side in (members, others) if len(side) > 1)
    reach = float(ndtri(0.5 + confidence / 2)) * math.sqrt(variance)
    middle = float(members.mean())
    return max(0.0, middle - reach), min(1.0, middle + reach)


def _scores(inside: np.ndarray, outside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores of members and of non-members as floats; raise `WrongInput` if there are none of one kind."""
    if not len(inside) or not len(outside):
        raise WrongInput(f"expected scores of members and of others, got {len(inside)} and {len(outside)}")
    return np.asarray(inside, dtype=float), np.asarray(outside, dtype=float)


def _placements(inside: np.ndarray, outside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the fraction of non-members below each member's score, and of members above each non-member's score.

    `inside` are the scores of members, and `outside` the scores of non-members. Ties count one half. Raise `WrongInput`
    without members or without non-members.
    """
    from scipy.stats import rankdata

    inside, outside = _scores(inside, outside)
    ranks, count = rankdata(np.concatenate([inside, outside])), len(inside)
    members = (ranks[:count] - rankdata(inside)) / len(outside)
    return members, 1 - (ranks[count:] - rankdata(outside)) / count


def tailored_auc(value: float) -> float:
    """Return the AUC, or 0.5 if it is lower: an attacker who is worse than guessing would guess (DPMLBench).

    Parameters
    ----------
    value
        The AUC.

    Returns
    -------
    float
        `max(value, 0.5)`.
    """
    return max(value, 0.5)


def utility_loss(score: float, baseline: float) -> float:
    """Return the fraction of the accuracy without privacy that is lost (DPMLBench, equation 6).

    Parameters
    ----------
    score
        The accuracy with privacy.
    baseline
        The accuracy without privacy, above 0.

    Returns
    -------
    float
        `1 - score / baseline`.
    """
    return 1 - score / baseline


MIN_BASELINE_AUC = 0.55
"""AUC below which a baseline hardly leaks: a fraction of its leakage would be little more than noise."""


def privacy_leakage(auc_private: float, auc_baseline: float) -> float | None:
    """Return the leakage of a private model as a fraction of the leakage without privacy (DPMLBench, equation 7).

    Parameters
    ----------
    auc_private, auc_baseline
        The AUC of an attack on the private model, and on the model without privacy.

    Returns
    -------
    float or None
        `(tailored_auc(auc_private) - 0.5) / (tailored_auc(auc_baseline) - 0.5)`, where `tailored_auc(value)` is
        `max(value, 0.5)`. None if `auc_baseline` is below `MIN_BASELINE_AUC`, 0.55.

    Examples
    --------
    >>> privacy_leakage(0.51, 0.75), privacy_leakage(0.5, 0.505)
    (0.04..., None)
    """
    if tailored_auc(auc_baseline) < MIN_BASELINE_AUC:
        return None
    return (tailored_auc(auc_private) - 0.5) / (tailored_auc(auc_baseline) - 0.5)


@dataclass(frozen=True, kw_only=True)
class TprAtFpr:
    """The true positive rate `tpr` at the threshold that at most the fraction `fpr` of the non-members exceeds.

    `interval` is a two-sided confidence interval of the true positive rate at that threshold. `fpr_at_most` is a
    one-sided upper confidence limit of the false positive rate there (both Clopper-Pearson). With few non-members
    `fpr_at_most` is far above `fpr`.
    """

    fpr: float
    tpr: float
    interval: tuple[float, float]
    fpr_at_most: float

    def to_json(self) -> dict[str, Any]:
        """Return `tpr`, `interval` and `fpr_at_most` as JSON values."""
        return {"tpr": self.tpr, "interval": list(self.interval), "fpr_at_most": self.fpr_at_most}


def tpr_at_fpr(inside: np.ndarray, outside: np.ndarray, fpr: float, confidence: float = 0.95) -> TprAtFpr:
    """Return the true positive rate at the threshold that at most the fraction `fpr` of the non-members exceeds.

    Among the n scores of non-members in descending order, counted from 0, the threshold is the score number
    `min(floor(fpr * n), n - 1)`. Scores of members are not used to choose it.

    Parameters
    ----------
    inside, outside
        The scores of members and of non-members.
    fpr
        The largest false positive rate.
    confidence
        The confidence of the interval of the true positive rate, and of the limit of the false positive rate.

    Returns
    -------
    TprAtFpr
        The fraction of members that score above the threshold, and its limits. Without members or without non-members
        `WrongInput` is raised.

    Examples
    --------
    >>> tpr_at_fpr(np.arange(50, 150), np.arange(100), 0.01).tpr
    0.51
    """
    inside, outside = _scores(inside, outside)
    highest = np.sort(outside)[::-1]
    threshold = highest[min(math.floor(fpr * len(highest)), len(highest) - 1)]
    hits, false = int((inside > threshold).sum()), int((highest > threshold).sum())
    alpha = 1 - confidence
    low, high = (float(side) for side in clopper_pearson(np.array(hits), len(inside), alpha / 2))
    at_most = float(clopper_pearson(np.array(false), len(highest), alpha)[1])
    return TprAtFpr(fpr=fpr, tpr=hits / len(inside), interval=(low, high), fpr_at_most=at_most)


def clopper_pearson(hits: np.ndarray, of: int, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Return one-sided Clopper-Pearson limits of a probability; each fails with probability at most `alpha`.

    Parameters
    ----------
    hits
        The number of successes.
    of
        The number of trials.
    alpha
        The error probability of each limit.

    Returns
    -------
    tuple of numpy.ndarray
        The lower and the upper limits, in the shape of `hits`.
    """
    from scipy.special import betaincinv

    low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), of - hits + 1, alpha), 0.0)
    high = np.where(hits < of, betaincinv(hits + 1, np.maximum(of - hits, 1), 1 - alpha), 1.0)
    return low, high
