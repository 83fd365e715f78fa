"""What the template prints of a card: text, tables and charts, each ready to be escaped."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from privaware.card import Guarantee, ModelCard
from privaware.events import describe
from privaware.guarantee import UNREVIEWED
from privaware.report import _charts, _words
from privaware.schema import Column

__all__ = ["view"]

FPRS = (0.001, 0.01, 0.1)
BARS = 24  # the table has the rest
LONG = 40  # a longer table is folded
NAMED = 12  # categories or classes that are listed by name

ACCOUNTANTS = {
    "pld": "privacy loss distribution",
    "cf": "characteristic function, our own and independent",
    "rdp": "Rényi divergences",
    "rdp_classic": "Rényi divergences by the classic conversion, for comparing with old papers",
}


def view(card: ModelCard, draw: Callable[..., str]) -> dict[str, Any]:
    """Everything the template names; `draw` makes an SVG of a chart and its facts."""
    return {
        "card": card,
        "schema": card.schema,
        "title": f"{card.learner} for {card.schema.target}",
        "warning": _warning(card),
        "guarantee": _guarantee(card),
        "assumed": _assumed(card),
        "events": _events(card),
        "budget": _budget(card, draw),
        "risk": _risk(card.guarantee, draw),
        "columns": [_column(column) for column in card.schema.columns],
        "target": _target(card),
        "features": [_pairs(feature) for feature in card.features],
        "architecture": _pairs(card.architecture),
        "settings": _pairs(card.settings),
        "long": LONG,
    }


def _assumed(card: ModelCard) -> tuple[str, ...]:
    """The assumptions of the guarantee, and those of the schema that are not among them."""
    stated = card.guarantee.assumptions
    more = [fact for fact in card.schema.assumed if not any(fact in line for line in stated)]
    return tuple(dict.fromkeys((*stated, *more)))


def _warning(card: ModelCard) -> tuple[str, str] | None:
    """Why this model is not for release, where it is not: whatever the card claims."""
    guarantee = card.guarantee
    if guarantee.seed is not None:
        seeded = (
            f"The noise came from seed {_words.setting(guarantee.seed)}, so whoever knows the seed can "
            "take it away again. Use this run for testing only."
        )
        return "seeded, not for release", seeded
    reason = next((why for part in card.events if (why := _words.unproven_reason(part.event))), None)
    if reason:
        return f"not certified: {reason}", "At least one part has no proven guarantee."
    if not math.isfinite(guarantee.epsilon):
        return "not certified: no finite epsilon is proven", "Nothing bounds what this reveals."
    if not card.schema.reviewed:
        drafted = (
            "Its bounds and categories are a draft read off the rows, which nobody has reviewed: what they reveal is "
            "not part of the epsilon below."
        )
        return "not certified: " + UNREVIEWED, drafted
    if guarantee.certified:
        return None
    pld, cf = guarantee.accountants.get("pld"), guarantee.accountants.get("cf")
    if pld is not None and cf is not None and abs(pld - cf) > 0.005 * max(pld, cf):
        return "not certified: the accountants disagree", "Do not rely on the epsilon below."
    return "not certified: the run did not earn it", "Do not rely on the epsilon below."


def _guarantee(card: ModelCard) -> dict[str, Any]:
    guarantee = card.guarantee
    accountants = [
        {
            "name": name,
            "words": ACCOUNTANTS.get(name, ""),
            "value": "cannot tell" if epsilon is None else _words.rounded_up(epsilon, 6),
            "reported": name == guarantee.method,
        }
        for name, epsilon in guarantee.accountants.items()
    ]
    return {
        "epsilon": _words.rounded_up(guarantee.epsilon),
        "delta": _words.rounded_up(guarantee.delta),
        "plain": _words.meaning(guarantee.epsilon, guarantee.delta, _change(card)),
        "whom": _words.protected_unit(guarantee.unit, card.schema.cap),
        "neighbours": _words.neighbours(guarantee.relation),
        "method": guarantee.method,
        "known_method": guarantee.method in guarantee.accountants,
        "accountants": accountants,
    }


def _change(card: ModelCard) -> str:
    """The change between two neighbouring data sets."""
    guarantee = card.guarantee
    whom = _words.protected_unit(guarantee.unit, card.schema.cap).split(";")[0]
    replaced = guarantee.relation == "replace_one" or guarantee.unit in _words.LABEL_UNITS
    return f"Change {whom} in any way" if replaced else f"Take out {whom}, or put it in"


def _events(card: ModelCard) -> list[dict[str, str]]:
    return [
        {
            "what": part.what,
            "how": describe(part.event),
            "epsilon": "not known" if part.epsilon is None else _words.rounded_up(part.epsilon),
        }
        for part in card.events
    ]


def _budget(card: ModelCard, draw: Callable[..., str]) -> dict[str, Any]:
    """The bars and their meaning in words; no chart where no epsilon is finite."""
    known = [
        (part.what, part.epsilon, _words.rounded_up(part.epsilon))
        for part in card.events
        if part.epsilon is not None and math.isfinite(part.epsilon)
    ]
    total = card.guarantee.epsilon
    if not known or not math.isfinite(total):
        return {"svg": None, "words": "There is no finite epsilon to draw."}
    composed = ("together", total, _words.rounded_up(total))
    bars = known[:BARS]
    return {
        "svg": draw(_charts.budget, bars, composed),
        "alternative": "; ".join(f"{what}: {text}" for what, _, text in (*bars, composed)),
        "words": _composition([epsilon for _, epsilon, _ in known], total),
        "left": max(0, len(known) - BARS),
    }


def _composition(parts: list[float], total: float) -> str:
    added, composed = _words.rounded_up(math.fsum(parts)), _words.rounded_up(total)
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


def _risk(guarantee: Guarantee, draw: Callable[..., str]) -> dict[str, Any]:
    """The attack-risk curve, and its true positive rates at a few false positive rates."""
    points = [
        (f"{100 * fpr:g}%", _words.percent(_charts.power(guarantee.epsilon, guarantee.delta, fpr))) for fpr in FPRS
    ]
    return {
        "svg": draw(_charts.risk, guarantee.epsilon, guarantee.delta),
        "game": _words.attack_game(guarantee.unit, guarantee.relation),
        "bounds": [_words.attack_bound(fpr, tpr) for fpr, tpr in points],
        "alternative": "; ".join(f"{tpr} at {fpr} false alarms" for fpr, tpr in points),
    }


def _column(column: Column) -> dict[str, str]:
    if column.kind == "number":
        bounded = column.low is not None and column.high is not None
        declared = f"{_interval(column.low, column.high)}" if bounded else "no bounds declared"
        if column.bins:
            declared += f", {len(column.bins) + 1:,} public bins"
    elif column.kind == "category":
        declared = _listed(column.categories, "categories", "category")
    else:
        declared = "not used" if column.kind == "ignore" else ""
    return {
        "name": column.name,
        "kind": column.kind,
        "declared": declared,
        "missing": _words.setting(column.missing),
        "unseen": column.unseen if column.kind == "category" else "",
    }


def _target(card: ModelCard) -> str:
    schema = card.schema
    if schema.classes:
        return _listed(schema.classes, "classes", "class")
    if schema.low is None or schema.high is None:
        return "a number, no bounds declared"
    return f"a number, {_interval(schema.low, schema.high)}"


def _interval(low: float | None, high: float | None) -> str:
    return f"{_words.number(low or 0, 12)} to {_words.number(high or 0, 12)}"


def _listed(names: tuple[str, ...], many: str, one: str) -> str:
    count = f"{len(names):,} {many if len(names) != 1 else one}"
    return f"{count}: {', '.join(names)}" if len(names) <= NAMED else count


def _pairs(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name, _words.setting(item)) for name, item in values.items()]
