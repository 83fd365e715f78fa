"""What the scores of an audit prove: a lower bound on epsilon, and whether the claim is refuted."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from privaware.accounting import TradeOff, epsilon, trade_off
from privaware.attacks import _bounds
from privaware.attacks._gradient_canaries import CanaryScores
from privaware.errors import PrivawareError
from privaware.events import Event
from privaware.metrics import auc, auc_interval, tailored_auc, tpr_at_fpr

SHOWN = 0.95
"""Confidence of the lower bound on epsilon that an audit shows."""
ALARM = 0.999
"""Confidence at which an audit refutes the claimed epsilon."""
GUESSED_FRACTIONS = tuple((low, high) for high in (0.5, 0.25, 0.1, 0.05, 0.02) for low in (high, 0.0))
"""Pairs of fractions (out, in) of the canaries that are guessed to be out and to be in.

The canaries with the lowest scores are guessed to be out, and those with the highest scores to be in. Each pair is
tested at an equal part of the error. Pairs with `out = 0` are for sampled canaries, which may be in the data without
ever taking part, so that only guesses of "in" are reliable.
"""
FPRS = (0.001, 0.01, 0.1)
"""False positive rates at which true positive rates are reported."""

ANY = "nothing beyond independent coin flips: it holds for every mechanism"
GAUSSIAN = "that noise is Gaussian and independent between canaries, as the claim says; only its size is tested"
INDEPENDENT = "that noise is independent between canaries, as the claim says"
RUNS = "nothing beyond independent runs: it holds for every mechanism"


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """A lower bound on epsilon at `delta`, and whether it refutes the claim. Other rows or attacks may show more.

    `epsilon_lower` holds with `confidence`, and `epsilon_alarm` with 99.9%. The claim is `refuted` if `epsilon_alarm`
    exceeds `epsilon_claimed`, or if the trade-off function of the claimed events is refuted with 99.9% confidence.
    `method` names the test, and `assumes` the assumptions of the bounds. `inside` and `outside` are the scores with and
    without the canary: of runs, or of canaries that were and were not in the data. They are left out of `repr` and
    `to_json`.
    """

    epsilon_claimed: float
    delta: float
    epsilon_lower: float
    epsilon_alarm: float
    refuted: bool
    method: str
    assumes: str
    confidence: float = SHOWN
    inside: np.ndarray = field(repr=False, compare=False)
    outside: np.ndarray = field(repr=False, compare=False)

    def to_json(self) -> dict[str, Any]:
        """Return a dictionary of JSON values: the fields without the scores, and what the scores give.

        These are the numbers of scores (`members` and `non_members`), the AUC and true positive rates with intervals,
        and `roc`, a list of pairs [false positive rate, true positive rate].
        """
        area = auc(self.inside, self.outside)
        rates = [tpr_at_fpr(self.inside, self.outside, fpr, self.confidence) for fpr in FPRS]
        return {
            "members": len(self.inside),
            "non_members": len(self.outside),
            "auc": area,
            "auc_interval": list(auc_interval(self.inside, self.outside, self.confidence)),
            "tailored_auc": tailored_auc(area),
            "tpr_at_fpr": {f"{rate.fpr:g}": rate.to_json() for rate in rates},
            "epsilon_lower": self.epsilon_lower,
            "epsilon_claimed": self.epsilon_claimed,
            "delta": self.delta,
            "confidence": self.confidence,
            "epsilon_alarm": self.epsilon_alarm,
            "refuted": self.refuted,
            "method": self.method,
            "assumes": self.assumes,
            "roc": _corners(self.inside, self.outside),
        }


def evidence_of_canaries(canaries: CanaryScores, claim: Event, delta: float, *, gradients: bool) -> Evidence:
    """Return the evidence of one run with canaries against the `claim`, the events that were charged, at `delta`.

    `gradients` says whether the canaries are in gradient space. If so, their scores are independent if the noise is:
    a Gaussian claim is tested by Student's statistic, and any other claim in the same way as independent runs.
    Otherwise the canaries are rows, which share one model, so only guesses are sound.
    """
    inside, outside = canaries.sides
    shift = _bounds.shift_of(claim) if gradients else None
    if shift is not None:
        lower, alarm = (
            _bounds.epsilon_of_shift(_bounds.shift_lower(inside, outside, confidence=level), delta)
            for level in (SHOWN, ALARM)
        )
        return _evidence((inside, outside), claim, delta, (lower, alarm), method="gaussian", assumes=GAUSSIAN)
    if gradients:
        return replace(evidence_of_runs(inside, outside, claim, delta), assumes=INDEPENDENT)
    bounds = (_guessed(canaries, delta, SHOWN), _guessed(canaries, delta, ALARM))
    refuted = _refuted(canaries, claim)
    return _evidence((inside, outside), claim, delta, bounds, method="guesses", assumes=ANY, refuted=refuted)


def evidence_of_runs(inside: np.ndarray, outside: np.ndarray, claim: Event, delta: float) -> Evidence:
    """Return the evidence of independent runs against a claim at `delta`, by Clopper-Pearson limits.

    `inside` and `outside` are the scores of runs with and without one row. The trade-off function of the `claim` (the
    events that were charged) is tested too, if it can be computed.
    """
    lower, alarm = (_bounds.epsilon_lower(inside, outside, delta=delta, confidence=level) for level in (SHOWN, ALARM))
    curve = _curve(claim)
    refuted = curve is not None and _bounds.scores_refute(inside, outside, curve.powers, confidence=ALARM)
    return _evidence(
        (inside, outside), claim, delta, (lower, alarm), method="clopper_pearson", assumes=RUNS, refuted=refuted
    )


def _evidence(
    scores: tuple[np.ndarray, np.ndarray],
    claim: Event,
    delta: float,
    bounds: tuple[float, float],
    *,
    method: str,
    assumes: str,
    refuted: bool = False,
) -> Evidence:
    """Build the evidence; `bounds` are `epsilon_lower` and `epsilon_alarm`, and `scores` are `inside` and `outside`.

    `method` names the test and `assumes` its assumptions, in words. `epsilon_claimed` is the epsilon of `claim` at
    `delta`. The claim counts as refuted if `epsilon_alarm` exceeds it, or if `refuted` is true. `refuted` says whether
    the trade-off function of the claim is refuted, which it may be even if the epsilon at one delta is not.
    """
    claimed = epsilon(claim, delta)
    return Evidence(
        epsilon_claimed=claimed,
        delta=delta,
        epsilon_lower=bounds[0],
        epsilon_alarm=bounds[1],
        refuted=refuted or bounds[1] > claimed,
        method=method,
        assumes=assumes,
        inside=scores[0],
        outside=scores[1],
    )


def _guesses(canaries: CanaryScores) -> list[dict[str, int]]:
    """Return the numbers of canaries, guesses and right guesses for each pair of fractions in `GUESSED_FRACTIONS`.

    A pair is (fraction guessed to be out, fraction guessed to be in). The keys are "canaries", "guesses" and "correct".
    """
    order, count = np.argsort(canaries.scores, kind="stable"), len(canaries)
    tried = []
    for shares in GUESSED_FRACTIONS:
        low, high = (int(share * count) for share in shares)
        correct = int(canaries.inside[order[count - high :]].sum() + (~canaries.inside[order[:low]]).sum())
        tried.append({"canaries": count, "guesses": low + high, "correct": correct})
    return tried


def _guessed(canaries: CanaryScores, delta: float, confidence: float) -> float:
    """Return the best lower bound on epsilon at `delta` that guesses about `canaries` prove; 0 if they prove nothing.

    Every pair in `GUESSED_FRACTIONS` is tried. The bound holds with `confidence`: each pair gets an equal part of the
    error.
    """
    level = 1 - (1 - confidence) / len(GUESSED_FRACTIONS)
    return max(_bounds.epsilon_from_guesses(**tried, delta=delta, confidence=level) for tried in _guesses(canaries))


def _refuted(canaries: CanaryScores, claim: Event) -> bool:
    """Return whether guesses about `canaries` refute the trade-off function of `claim` with 99.9% confidence.

    Return False if the trade-off function cannot be computed.
    """
    curve, level = _curve(claim), (1 - ALARM) / len(GUESSED_FRACTIONS)
    return curve is not None and any(
        _bounds.guesses_refute(curve.false_rate, level, **tried) for tried in _guesses(canaries)
    )


def _curve(claim: Event) -> TradeOff | None:
    try:
        return trade_off(claim)
    except PrivawareError:
        return None


def _corners(inside: np.ndarray, outside: np.ndarray) -> list[list[float]]:
    """Return at most 25 points [false positive rate, true positive rate] of the measured ROC curve.

    `inside` and `outside` are the scores of members and of non-members. The false positive rates ascend and are about
    evenly spaced on a logarithmic scale.
    """
    thresholds = np.sort(outside)[::-1]
    at = np.unique(np.geomspace(1, len(thresholds), 25).astype(int)) - 1
    return [[(index + 1) / len(thresholds), float((inside > thresholds[index]).mean())] for index in at.tolist()]
