"""Checked facts to what the template prints: text, tables and drawings, each ready to be escaped."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from privaware.card import Guarantee, ModelCard
from privaware.report import _charts, _words
from privaware.schema import Column

__all__ = ["view"]

ALARMS = (0.001, 0.01, 0.1)
BARS = 24  # more would not be read; the table has them all
LONG = 40  # a longer table is folded
NAMED = 12  # categories or classes that are spelt out

ACCOUNTANTS = {
    "pld": "privacy loss distribution",
    "cf": "characteristic function, our own and independent",
    "rdp": "Rényi divergences",
    "rdp_classic": "Rényi divergences by the classic conversion, for comparing with old papers",
}


def view(card: ModelCard) -> dict[str, Any]:
    """Everything the template names."""
    return {
        "card": card,
        "schema": card.schema,
        "title": f"{card.learner} for {card.schema.target}",
        "band": _band(card),
        "guarantee": _guarantee(card),
        "assumed": _assumed(card),
        "events": _events(card),
        "budget": _budget(card),
        "risk": _risk(card.guarantee),
        "columns": [_column(column) for column in card.schema.columns],
        "target": _target(card),
        "features": [_pairs(feature) for feature in card.features],
        "architecture": _pairs(card.architecture),
        "settings": _pairs(card.settings),
        "long": LONG,
    }


def _assumed(card: ModelCard) -> tuple[str, ...]:
    """What the guarantee assumes, and what of the schema it has not said already."""
    said = card.guarantee.assumptions
    more = [words for words in card.schema.assumed if not any(words in each for each in said)]
    return tuple(dict.fromkeys((*said, *more)))


def _band(card: ModelCard) -> tuple[str, str] | None:
    """Why this model is not for release, where it is not: believed over any claim to the contrary."""
    claim = card.guarantee
    if claim.seed is not None:
        seeded = (
            f"The noise came from seed {_words.value(claim.seed)}, so whoever knows the seed can "
            "take it away again. Use this run for testing only."
        )
        return "seeded, not for release", seeded
    why_not = next((why for part in card.events if (why := _words.unproven(part.event))), None)
    if why_not:
        return f"not certified: {why_not}", "At least one part has no proven guarantee."
    if not math.isfinite(claim.epsilon):
        return "not certified: no finite epsilon is proven", "Nothing bounds what this reveals."
    if claim.certified:
        return None
    pld, cf = claim.accountants.get("pld"), claim.accountants.get("cf")
    if pld is not None and cf is not None and abs(pld - cf) > 0.005 * max(pld, cf):
        return "not certified: the accountants disagree", "Do not rely on the epsilon below."
    return "not certified: the run did not earn it", "Do not rely on the epsilon below."


def _guarantee(card: ModelCard) -> dict[str, Any]:
    claim = card.guarantee
    accountants = [
        {
            "name": name,
            "words": ACCOUNTANTS.get(name, ""),
            "value": "cannot tell" if epsilon is None else _words.bound(epsilon, 6),
            "reported": name == claim.method,
        }
        for name, epsilon in claim.accountants.items()
    ]
    return {
        "epsilon": _words.bound(claim.epsilon),
        "delta": _words.bound(claim.delta),
        "plain": _words.likelihood(claim.epsilon, claim.delta, _changed(card)),
        "whom": _words.whom(claim.unit, card.schema.cap),
        "neighbours": _words.neighbours(claim.relation),
        "method": claim.method,
        "known_method": claim.method in claim.accountants,
        "accountants": accountants,
    }


def _changed(card: ModelCard) -> str:
    """The one change that the guarantee hides."""
    claim = card.guarantee
    whom = _words.whom(claim.unit, card.schema.cap).split(";")[0]
    swapped = claim.relation == "replace_one" or claim.unit in _words.LABELS
    return f"Change {whom} in any way" if swapped else f"Take out {whom}, or put it in"


def _events(card: ModelCard) -> list[dict[str, str]]:
    return [
        {
            "what": part.what,
            "formula": _words.formula(part.event),
            "epsilon": "not known" if part.epsilon is None else _words.bound(part.epsilon),
        }
        for part in card.events
    ]


def _budget(card: ModelCard) -> dict[str, Any]:
    """The bars and what they mean in words; no drawing where there is no finite number to draw."""
    known = [
        (part.what, part.epsilon, _words.bound(part.epsilon))
        for part in card.events
        if part.epsilon is not None and math.isfinite(part.epsilon)
    ]
    total = card.guarantee.epsilon
    if not known or not math.isfinite(total):
        return {"svg": None, "words": "There is no finite epsilon to draw."}
    together = ("together", total, _words.bound(total))
    svg = _charts.render(_charts.budget(known[:BARS], together))
    return {
        "svg": svg,
        "alternative": "; ".join([*(f"{what}: {said}" for what, _, said in known[:BARS]), f"together: {together[2]}"]),
        "words": _sum_in_words([epsilon for _, epsilon, _ in known], total),
        "left": max(0, len(known) - BARS),
    }


def _sum_in_words(parts: list[float], total: float) -> str:
    added, composed = _words.bound(math.fsum(parts)), _words.bound(total)
    if len(parts) == 1:
        return f"One part did it all: epsilon {composed}. Nothing else touched the data."
    if total <= math.fsum(parts):
        return (
            f"The parts add up to {added}, but together they cost {composed}: parts do not add up, "
            "because composition is sub-additive (the noise of one part also hides the others)."
        )
    return (
        f"The parts add up to {added} and together they cost {composed}: parts do not add up. "
        "Composition is sub-additive in epsilon and delta taken as a pair, but here each part alone "
        "is given the whole delta, which together they share."
    )


def _risk(claim: Guarantee) -> dict[str, Any]:
    points = [
        (f"{100 * alarm:g}%", _words.percent(_charts.power(claim.epsilon, claim.delta, alarm))) for alarm in ALARMS
    ]
    return {
        "svg": _charts.render(_charts.risk(claim.epsilon, claim.delta)),
        "game": _words.game(claim.unit, claim.relation),
        "said": [_words.found(alarm, share) for alarm, share in points],
        "alternative": "; ".join(f"{share} at {alarm} false alarms" for alarm, share in points),
    }


def _column(column: Column) -> dict[str, str]:
    if column.kind == "number":
        bounded = column.low is not None and column.high is not None
        declared = f"{_span(column.low, column.high)}" if bounded else "no bounds declared"
        if column.bins:
            declared += f", {len(column.bins) + 1:,} public bins"
    elif column.kind == "category":
        declared = _several(column.categories, "categories", "category")
    else:
        declared = "not used" if column.kind == "ignore" else ""
    return {
        "name": column.name,
        "kind": column.kind,
        "declared": declared,
        "missing": _words.value(column.missing),
        "unseen": column.unseen if column.kind == "category" else "",
    }


def _target(card: ModelCard) -> str:
    schema = card.schema
    if schema.classes:
        return _several(schema.classes, "classes", "class")
    if schema.low is None or schema.high is None:
        return "a number, no bounds declared"
    return f"a number, {_span(schema.low, schema.high)}"


def _span(low: float | None, high: float | None) -> str:
    return f"{_words.number(low or 0, 12)} to {_words.number(high or 0, 12)}"


def _several(names: tuple[str, ...], many: str, one: str) -> str:
    said = f"{len(names):,} {many if len(names) != 1 else one}"
    return f"{said}: {', '.join(names)}" if len(names) <= NAMED else said


def _pairs(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name, _words.value(item)) for name, item in values.items()]
