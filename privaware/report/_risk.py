"""An audit beside the claim: what it proved, and its measured rates below the largest that the events allow."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from privaware.accounting import TradeOff, trade_off
from privaware.card import ModelCard
from privaware.errors import PrivawareError, WrongInput
from privaware.events import NOTHING
from privaware.report import _charts, _words

__all__ = ["AuditRecord", "audit_view", "largest_rates", "read_audit"]

NAME = "audit.json"
SMALL = 1_000_000
FPRS = (0.001, 0.01, 0.1)
NUMBERS = ("epsilon_lower", "epsilon_claimed", "delta", "confidence", "auc")


@dataclass(frozen=True, kw_only=True)
class AuditRecord:
    """What the file of an audit says, checked: it may come from anywhere."""

    attack: str
    epsilon_lower: float
    epsilon_claimed: float
    delta: float
    confidence: float
    refuted: bool
    assumes: str
    auc: float
    roc: tuple[tuple[float, float], ...]


def read_audit(folder: str | Path) -> AuditRecord | None:
    """The audit in a model folder, if there is one; a damaged file is refused with a sentence."""
    path = Path(folder) / NAME
    if not path.is_file():
        return None
    try:
        with open(path, "rb") as file:
            content = json.loads(file.read(SMALL).decode("utf-8"))
        facts: dict[str, Any] = {name: str(content[name]) for name in ("attack", "assumes")}
        facts |= {name: _number(content[name]) for name in NUMBERS}
        record = AuditRecord(
            **facts,
            refuted=content["refuted"] is not False,
            roc=tuple((_number(point[0]), _number(point[1])) for point in content["roc"][:100]),
        )
    except (OSError, LookupError, TypeError, ValueError, RecursionError):
        raise WrongInput(f"{NAME} is damaged: expected what `privaware audit` wrote; run the audit again") from None
    return record


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not (math.isfinite(value) and value >= 0):
        raise ValueError(value)
    return float(value)


def largest_rates(card: ModelCard, fprs: np.ndarray) -> np.ndarray:
    """The largest true positive rate of any attack at these false positive rates, from the events of a card.

    By the trade-off of all events together; by epsilon and delta alone where that cannot be computed.
    """
    event = sum((part.event for part in card.events), start=NOTHING)
    guarantee = card.guarantee
    alone = TradeOff(np.array([min(guarantee.epsilon, 700.0)]), np.array([guarantee.delta]))
    try:
        return np.minimum(trade_off(event).powers(fprs), alone.powers(fprs))
    except PrivawareError:
        return alone.powers(fprs)


def audit_view(card: ModelCard, audit: AuditRecord, draw: Callable[..., str]) -> dict[str, Any]:
    """The words, the table and the chart of an audit."""
    possible = largest_rates(card, np.array(FPRS))
    lower = f"{math.floor(1000 * audit.epsilon_lower) / 1000:g}"
    claim = _words.rounded_up(audit.epsilon_claimed)
    verdict = (
        f"The claim is refuted: with 99.9% confidence epsilon is larger than {claim}. Do not rely on this model."
        if audit.refuted
        else f"The claim of epsilon {claim} is not refuted. That is no proof of it: another attack may show more."
    )
    return {
        "attack": audit.attack,
        "lower": lower,
        "claim": claim,
        "confidence": f"{100 * audit.confidence:g}%",
        "assumes": audit.assumes,
        "verdict": verdict,
        "refuted": audit.refuted,
        "rates": [
            {"fpr": f"{100 * fpr:g}%", "possible": _words.percent(float(most)), "measured": _measured(audit.roc, fpr)}
            for fpr, most in zip(FPRS, possible, strict=True)
        ],
        "svg": draw(roc_chart, _curve(card), audit.roc),
    }


def _measured(roc: tuple[tuple[float, float], ...], fpr: float) -> str:
    """The rate at the largest measured false positive rate that is no larger."""
    rates = [tpr for at, tpr in roc if at <= fpr * (1 + 1e-9)]
    return f"{100 * max(rates):.3g}%" if rates else "too few canaries to tell"


def _curve(card: ModelCard) -> tuple[tuple[float, float], ...]:
    fprs = np.geomspace(1e-4, 1.0, 60)
    return tuple(zip(fprs.tolist(), largest_rates(card, fprs).tolist(), strict=True))


def roc_chart(possible: tuple[tuple[float, float], ...], measured: tuple[tuple[float, float], ...]) -> Any:
    """Both curves on logarithmic axes, next to guessing."""
    import altair as alt

    names = ("largest possible", "this audit", "guessing")
    curves: Mapping[str, tuple[tuple[float, float], ...]] = {
        names[0]: possible,
        names[1]: measured,
        names[2]: ((1e-4, 1e-4), (1.0, 1.0)),
    }
    rows = [{"who": who, "x": x, "y": max(y, 1e-4)} for who, points in curves.items() for x, y in points if x >= 1e-4]
    scale = alt.Scale(domain=list(names), range=[_charts.ORANGE, _charts.BLUE, _charts.GREY])
    dash = alt.Scale(domain=list(names), range=[[1, 0], [1, 0], [6, 4]])
    legend = alt.Legend(title=None, orient="top", symbolStrokeWidth=3, symbolSize=400)
    axis = alt.Axis(format="~%", values=[1e-4, 1e-3, 1e-2, 0.1, 1.0])
    edge = alt.Scale(type="log", domain=[1e-4, 1])
    chart = alt.Chart(alt.InlineData(values=rows)).mark_line(strokeWidth=3, clip=True)
    return _charts.styled(
        chart.encode(
            x=alt.X("x:Q", title="false alarms", axis=axis, scale=edge),
            y=alt.Y("y:Q", title="members found", axis=axis, scale=edge),
            color=alt.Color("who:N", scale=scale, legend=legend),
            strokeDash=alt.StrokeDash("who:N", scale=dash, legend=legend),
        ).properties(width=_charts.WIDTH, height=300)
    )
