"""The risk of attacks: the largest rates that the releases of a model allow, and the rates that an audit measured."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from privaware.card import ModelCard
from privaware.errors import WrongInput
from privaware.events import NOTHING
from privaware.guarantee import AttackRates, attack_rates
from privaware.metrics import clopper_pearson
from privaware.report import _charts, _words

NAME = "audit.json"
MAX_FILE_BYTES = 1_000_000
"""Largest number of bytes that are read from an audit file."""
FPRS = (0.001, 0.01, 0.1)
NUMBERS = ("epsilon_lower", "epsilon_claimed", "delta", "confidence", "auc")


@dataclass(frozen=True, kw_only=True)
class AuditRecord:
    """The checked content of an audit file, which may come from an untrusted source.

    `attack` names the attack, and `assumes` says in words what it assumes. `epsilon_claimed` and `delta` are the tested
    claim. `epsilon_lower` is the measured lower bound of epsilon at `confidence`. `refuted` is True unless the file
    says false. `members` and `non_members` are numbers of canaries, 0 if they are not recorded. `roc` has the measured
    points (false positive rate, true positive rate), at most 100. `rates` has the true positive rate and the ends of
    its interval by false positive rate; it is empty, and `auc_interval` is None, in a file of an earlier version.
    """

    attack: str
    epsilon_lower: float
    epsilon_claimed: float
    delta: float
    confidence: float
    refuted: bool
    assumes: str
    auc: float
    members: int = 0
    non_members: int = 0
    auc_interval: tuple[float, float] | None = None
    rates: Mapping[float, tuple[float, float, float]] = field(default_factory=dict, hash=False)
    roc: tuple[tuple[float, float], ...]


def read_audit(folder: str | Path) -> AuditRecord | None:
    """Return the audit in a model folder; raise `WrongInput` if the file is damaged.

    Parameters
    ----------
    folder
        The model folder.

    Returns
    -------
    AuditRecord or None
        The audit, or None if the folder has no `audit.json`.
    """
    path = Path(folder) / NAME
    if not path.is_file():
        return None
    try:
        with open(path, "rb") as file:
            content = json.loads(file.read(MAX_FILE_BYTES).decode("utf-8"))
        facts: dict[str, Any] = {name: str(content[name]) for name in ("attack", "assumes")}
        facts |= {name: _number(content[name]) for name in NUMBERS}
        record = AuditRecord(
            **facts,
            refuted=content["refuted"] is not False,
            members=int(_number(content.get("members", 0))),
            non_members=int(_number(content.get("non_members", 0))),
            auc_interval=_interval(content.get("auc_interval")),
            rates={float(fpr): _rate(rate) for fpr, rate in dict(content.get("tpr_at_fpr", {})).items()},
            roc=tuple((_number(point[0]), _number(point[1])) for point in content["roc"][:100]),
        )
    except (OSError, LookupError, TypeError, ValueError, RecursionError):
        raise WrongInput(f"{NAME} is damaged: expected what `privaware audit` wrote; run the audit again") from None
    return record


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not (math.isfinite(value) and value >= 0):
        raise ValueError(value)
    return float(value)


def largest_rates(card: ModelCard) -> AttackRates:
    """Return upper bounds on the true positive rates of any membership attack on all releases of a card together.

    The method `at` of the result returns them for an array of false positive rates.
    """
    event = sum((part.event for part in card.events), start=NOTHING)
    return attack_rates(event, card.guarantee.epsilon, card.guarantee.delta)


def risk_view(card: ModelCard, audit: AuditRecord | None, draw: Callable[..., str]) -> dict[str, Any]:
    """Return the risk of attacks for a page: the membership game in words, bounds on attacks, and a chart.

    The bounds are the largest true positive rates at the false positive rates `FPRS`. The chart has the curve of these
    bounds, and the measured curve of the `audit` unless it is None. `draw(function, argument)` returns the SVG of the
    chart that `function(argument)` makes.
    """
    rates = largest_rates(card)
    points = [
        (f"{100 * fpr:g}%", _words.percent(float(tpr))) for fpr, tpr in zip(FPRS, rates.at(np.array(FPRS)), strict=True)
    ]
    curves: dict[str, tuple[tuple[float, float], ...]] = {"best possible attacker": _curve(rates)}
    if audit is not None:
        curves["this audit"] = audit.roc
    curves["guessing"] = ((_charts.LEAST_RATE, _charts.LEAST_RATE), (1.0, 1.0))
    source = (
        "the trade-off function of all releases together, which is more exact than one pair of epsilon and delta"
        if rates.of_events
        else "epsilon and delta alone, because the trade-off function of these releases is not known"
    )
    return {
        "svg": draw(_charts.rates, curves),
        "game": _words.attack_game(card.guarantee.unit, card.guarantee.relation),
        "bounds": [_words.attack_bound(fpr, tpr) for fpr, tpr in points],
        "correct": _words.percent(rates.accuracy),
        "alternative": "; ".join(f"{tpr} at a false positive rate of {fpr}" for fpr, tpr in points),
        "source": source,
    }


def audit_view(card: ModelCard, audit: AuditRecord) -> dict[str, Any]:
    """Return the result of an audit as text, and `rates`: true positive rates at each false positive rate in `FPRS`.

    `possible` is the largest rate that the releases of `card` allow, and `measured` is the rate that the audit found.
    """
    possible = largest_rates(card).at(np.array(FPRS))
    claim = _words.rounded_up(audit.epsilon_claimed)
    verdict = (
        f"The claim is refuted: with 99.9% confidence epsilon is larger than {claim}. Do not rely on this model."
        if audit.refuted
        else f"The claim of epsilon {claim} is not refuted. This does not prove the "
        "claim: another attack may show more."
    )
    return {
        "attack": audit.attack,
        "lower": _words.rounded_down(audit.epsilon_lower),
        "claim": claim,
        "confidence": f"{_words.number(100 * audit.confidence)}%",
        "assumes": audit.assumes,
        "verdict": verdict,
        "refuted": audit.refuted,
        "auc": None if audit.auc_interval is None else _with_interval(audit.auc, audit.auc_interval, audit.confidence),
        "rates": [
            {
                "fpr": f"{_words.number(100 * fpr)}%",
                "possible": _words.percent(float(most)),
                "measured": _measured(audit, fpr),
            }
            for fpr, most in zip(FPRS, possible, strict=True)
        ],
    }


def _measured(audit: AuditRecord, fpr: float) -> str:
    """Return the measured true positive rate at the false positive rate `fpr`, with its interval, as percentages.

    Both are read from `audit.rates`. If an audit of an earlier version lacks them, the rate is the largest true
    positive rate of all points in `audit.roc` with a false positive rate of at most `fpr`, with its Clopper-Pearson
    interval if the number of members is known. Without such a point, the text says that there are too few canaries.
    """
    if fpr in audit.rates:
        tpr, *ends = (f"{_words.number(100 * rate, 3)}%" for rate in audit.rates[fpr])
        return f"{tpr} ({' to '.join(ends)})"
    rates = [tpr for at, tpr in audit.roc if at <= fpr * (1 + 1e-9)]
    if not rates:
        return "too few canaries to tell"
    shown = f"{_words.number(100 * max(rates), 3)}%"
    if not audit.members or not 0 < audit.confidence < 1:
        return shown
    hits = np.array(round(audit.members * min(max(rates), 1.0)))
    low, high = (float(end) for end in clopper_pearson(hits, audit.members, (1 - audit.confidence) / 2))
    return f"{shown} ({_words.number(100 * low, 3)}% to {_words.number(100 * high, 3)}%)"


def _with_interval(value: float, ends: tuple[float, float], confidence: float) -> str:
    low, high = (_words.number(end, 3) for end in ends)
    return f"{_words.number(value, 3)}, {_words.number(100 * confidence)}% interval {low} to {high}"


def _rate(rate: Any) -> tuple[float, float, float]:
    low, high = rate["interval"]
    return _number(rate["tpr"]), _number(low), _number(high)


def _interval(ends: Any) -> tuple[float, float] | None:
    """Return the two ends of an interval; None in a file of an earlier version, which has none."""
    return None if ends is None else (_number(ends[0]), _number(ends[1]))


def _curve(rates: AttackRates) -> tuple[tuple[float, float], ...]:
    fprs = np.geomspace(_charts.LEAST_RATE, 1.0, 60)
    return tuple(zip(fprs.tolist(), rates.at(fprs).tolist(), strict=True))
