"""The values that the template of the page prints: text, tables and charts, each ready to be escaped."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from privaware.card import ModelCard
from privaware.events import describe
from privaware.guarantee import CHOSEN_WITHOUT_NOISE, UNREVIEWED, attacker_sentence
from privaware.report import _words
from privaware.report._bought_score import score_view
from privaware.report._card_facts import architecture_name
from privaware.report._effects import Effects
from privaware.report._effects_view import effects_view
from privaware.report._limits import limitations
from privaware.report._owner import LABELS
from privaware.report._risk import AuditRecord, audit_view, largest_rates, risk_view
from privaware.report._sentences import (
    agree,
    guarantee_words,
    introduction,
    ledger_sentence,
    origin_sentence,
    protection_class,
    selection_sentence,
    unused_columns,
)
from privaware.schema import NOT_USED, Column

MAX_BARS = 24
"""Largest number of bars of single releases; the table lists all releases."""
MAX_MECHANISMS = 40
"""Largest number of mechanisms of one release that are listed."""
NO_RELEASE = "No release used the rows, so epsilon is 0."
"""The sentence about the budget of a model that used no row."""
FOLD_ABOVE = 20
"""Number of lines above which a page of a report folds a table."""
MAX_DIGITS = 6
"""Largest number of significant digits that the ends of a range may have without being rounded."""
MAX_NAMES = 12
"""Largest number of categories or classes that are listed by name."""

SUM_WORDS = {"waves": "random Fourier features", "bent": "skew correction"}
"""Words for entries of the architecture "trees", a sum of scores of columns, trees and random Fourier features."""

ACCOUNTANTS = {
    "pld": "privacy loss distribution",
    "cf": "characteristic function, an independent implementation",
    "rdp": "Rényi divergences",
    "rdp_classic": "Rényi divergences by the classic conversion, for comparing with old papers",
}


@dataclass(frozen=True, kw_only=True)
class PageFacts:
    """Facts that a page may show beside the card: an audit, and the effects of the columns."""

    audit: AuditRecord | None = None
    effects: Effects | None = None


def view(card: ModelCard, draw: Callable[..., str], page: PageFacts) -> dict[str, Any]:
    """Return all values of the template of the report, by name.

    `draw(function, *arguments)` returns the SVG of the chart that `function(*arguments)` makes. `page` has the audit
    and the effects, if there are any.
    """
    tidy = partial(_words.tidy, epsilon=card.guarantee.epsilon)
    warning = _warning(card, page.audit)
    rates, unused = largest_rates(card), unused_columns(card)
    return {
        "card": card,
        "schema": card.schema,
        "introduction": introduction(card, warning is None),
        "sentence": guarantee_words(card),
        "selection": selection_sentence(card),
        "ledger_total": ledger_sentence(card),
        "attacker": attacker_sentence(rates, card.schema, certified=warning is None),
        "plan": [tidy(sentence) for sentence in card.plan],
        "title": card.description.get("name") or f"{card.learner} for {card.schema.target}",
        "warning": warning,
        "guarantee": _guarantee(card, warning is None),
        "owner": _owner(card),
        "assumed": [tidy(sentence) for sentence in _assumed(card)],
        "events": _events(card),
        "budget": _budget(card),
        "risk": risk_view(card, page.audit, draw),
        "audit": None if page.audit is None else audit_view(card, page.audit),
        "score": score_view(card),
        "effects": effects_view(page.effects),
        "limitations": limitations(card, table="the table of columns on this page"),
        "columns": [_column(column) for column in card.schema.columns],
        "considered": _considered(card),
        "unused": [*unused, *_persons(card), *_unnamed(card)],
        "used": sum(column.name not in unused for column in card.schema.columns),
        "origin": origin_sentence(card),
        "whole": card.search.get("workflow") != "standard",
        "recomputable": _recomputable(card),
        "target": _target(card),
        "features": [_pairs(feature) for feature in card.features],
        "architecture": _pairs(_architecture(card)),
        "settings": _pairs(card.settings),
        "long": FOLD_ABOVE,
        "most_mechanisms": MAX_MECHANISMS,
    }


def _owner(card: ModelCard) -> list[tuple[str, str]]:
    """Return the label and the text of each entry of the owner's statement, except the name and the limitations.

    The name is the title of the page. The texts of a list are joined with commas.
    """
    said = [
        (label, card.description.get(name)) for name, label in LABELS.items() if name not in ("name", "limitations")
    ]
    texts = [(label, ", ".join(map(str, entry)) if isinstance(entry, list) else entry) for label, entry in said]
    return [(label, entry) for label, entry in texts if isinstance(entry, str) and entry]


def _considered(card: ModelCard) -> list[dict[str, str]]:
    """Return the learners that the plan considered, each as a dict with `learner`, `rule`, `reason` and `taken`.

    All are texts. `taken` is "taken", "not taken", or "not known" if the card does not record it.
    """
    taken = {"True": "taken", "False": "not taken"}
    return [
        {
            "learner": str(row.get("learner", "")),
            "rule": str(row.get("rule", "")),
            "taken": taken.get(str(row.get("taken")), "not known"),
            "reason": str(row.get("reason", "")),
        }
        for row in card.considered
    ]


def _recomputable(card: ModelCard) -> bool:
    """Whether `verify` can recompute epsilon: it is finite and every release has a proven guarantee."""
    proven = not any(_words.unproven_reason(part.event) for part in card.events)
    return proven and math.isfinite(card.guarantee.epsilon)


def _persons(card: ModelCard) -> list[str]:
    """Return the column that identifies persons, with this use in brackets.

    The list is empty if the unit of privacy is one row or one label.
    """
    unit = card.schema.unit
    return [] if unit in ("row", *_words.LABEL_UNITS) else [f"{unit} (it identifies the persons)"]


def _unnamed(card: ModelCard) -> list[str]:
    """Return a list with one phrase, which says that the data may have columns that the schema does not name.

    The list is empty unless the owner declared the schema, and the form of the data is a table.
    """
    declared = card.data.get("origin") == "declared" and card.schema.form == "table"
    return ["columns that the schema does not name, if there are any"] if declared else []


def _assumed(card: ModelCard) -> tuple[str, ...]:
    """Return the assumed facts of the schema that the guarantee does not state, and then the guarantee's assumptions.

    The line that states only the number of rows is left out if another line states it together with other facts.
    """
    stated = card.guarantee.assumptions
    more = [f"public: {fact}" for fact in card.schema.assumed if not any(fact in line for line in stated)]
    lines = dict.fromkeys((*more, *stated))
    if any("number of rows and " in line for line in lines):
        lines.pop("public: the number of rows", None)
    return tuple(lines)


def _warning(card: ModelCard, audit: AuditRecord | None) -> tuple[str, str] | None:
    """Return a heading and a sentence about the first reason why the guarantee of this model does not hold as claimed.

    The reasons are, in order: an audit that refutes the claim, a seed, a release without a proven guarantee, an
    infinite epsilon, an unreviewed schema, releases of the same rows outside the ledger, hyper-parameters or columns
    that were chosen on the rows without noise, and any other reason why the card is not certified. Return None if no
    such reason applies.
    """
    guarantee = card.guarantee
    if audit is not None and audit.refuted:
        return "not private as claimed: an audit refutes the claim", "Do not rely on the epsilon below."
    if guarantee.seed is not None:
        seeded = (
            f"The noise was generated from seed {_words.setting(guarantee.seed)}. Anybody who knows the seed can "
            "remove the noise. Use this run for testing only."
        )
        return "seeded, not for release", seeded
    reason = next((why for part in card.events if (why := _words.unproven_reason(part.event))), None)
    if reason:
        return f"not certified: {reason}", "At least one release has no proven guarantee."
    if not math.isfinite(guarantee.epsilon):
        return "not certified: no finite epsilon is proven", "There is no bound on what this model reveals."
    if not card.schema.reviewed:
        drafted = (
            "The schema was drafted from the rows. What its ranges and categories reveal about the rows "
            "is not part of the "
            "epsilon below."
        )
        return "not certified: " + UNREVIEWED, drafted
    if guarantee.overlap:
        overlap = f"The guarantee is for this release alone: {guarantee.overlap}."
        return "not certified: other releases of the same rows are not in the ledger, or not certified", overlap
    if card.search.get("workflow") == "standard":
        return f"not private: {CHOSEN_WITHOUT_NOISE}", "What this choice reveals is not part of the epsilon below."
    if guarantee.certified:
        return None
    if not agree(card):
        return "not certified: the accountants disagree", "Do not rely on the epsilon below."
    return "not certified: the run did not meet the conditions", "Do not rely on the epsilon below."


def _guarantee(card: ModelCard, certified: bool) -> dict[str, Any]:
    guarantee = card.guarantee
    plain = _words.meaning(guarantee.epsilon, guarantee.delta, _change(card))
    word, colour = protection_class(card, certified)
    accountants = [
        {
            "name": name,
            "words": ACCOUNTANTS.get(name, ""),
            "value": "not available" if epsilon is None else _words.rounded_up(epsilon),
            "reported": name == guarantee.method,
        }
        for name, epsilon in guarantee.accountants.items()
    ]
    return {
        "epsilon": _words.rounded_up(guarantee.epsilon),
        "delta": _words.rounded_up(guarantee.delta),
        "plain": plain if certified else f"Apart from the warning above, this means: {plain[0].lower()}{plain[1:]}",
        "protection": word,
        "colour": colour,
        "whom": _words.protected_unit(guarantee.unit, card.schema.cap),
        "neighbours": _words.neighbours(guarantee.relation),
        "method": guarantee.method,
        "known_method": guarantee.method in guarantee.accountants,
        "accountants": accountants,
    }


def _change(card: ModelCard) -> str:
    """Return the change between two neighbouring data sets in words, such as "Add or remove one row"."""
    guarantee = card.guarantee
    whom = _words.protected_unit(guarantee.unit, card.schema.cap).split(";")[0]
    replaced = guarantee.relation == "replace_one" or guarantee.unit in _words.LABEL_UNITS
    return f"Change {whom} in any way" if replaced else f"Add or remove {whom}"


def _events(card: ModelCard) -> list[dict[str, str]]:
    return [
        {
            "what": part.what,
            "how": _words.tidy(describe(part.event, most=MAX_MECHANISMS), card.guarantee.epsilon),
            "epsilon": "not known" if part.epsilon is None else _words.rounded_up(part.epsilon),
        }
        for part in card.events
    ]


def _budget(card: ModelCard) -> dict[str, Any]:
    """Return the entries `bars`, `words` and `left`, which describe a bar chart of the epsilons of the releases.

    `bars` has one bar for each of the first `MAX_BARS` releases with a known, finite epsilon, and a last bar for all
    releases together. A bar has the texts `what`, `epsilon` and `share`, its epsilon in per cent of the largest epsilon
    of all bars. `words` is a text that compares the sum of the single epsilons with the epsilon of all releases
    together. `left` is the number of releases with a known, finite epsilon that have no bar. If no release has a known,
    finite epsilon, or if the epsilon of all releases together is infinite, `bars` is empty, `words` says so, and there
    is no `left`.
    """
    known = [(part.what, part.epsilon) for part in card.events if part.epsilon is not None]
    known = [(what, epsilon) for what, epsilon in known if math.isfinite(epsilon)]
    total = card.guarantee.epsilon
    if not known or not math.isfinite(total):
        nothing = not card.events and total == 0
        return {"bars": [], "words": NO_RELEASE if nothing else "There is no finite epsilon to show."}
    bars = [*known[:MAX_BARS], ("together", total)]
    top = max(*(epsilon for _, epsilon in bars), 1e-9)
    return {
        "bars": [
            {"what": what, "epsilon": _words.rounded_up(epsilon), "share": f"{100 * epsilon / top:.2f}"}
            for what, epsilon in bars
        ],
        "words": _composition([epsilon for _, epsilon in known], total),
        "left": max(0, len(known) - MAX_BARS),
    }


def _composition(parts: list[float], total: float) -> str:
    added, composed = _words.rounded_up(math.fsum(parts)), _words.rounded_up(total)
    if len(parts) == 1:
        return f"One release accounts for the whole cost, epsilon {composed}."
    if total <= math.fsum(parts):
        return (
            f"The epsilons of the releases add up to {added}, but together they cost {composed}, "
            "because composition is sub-additive: the worst case of all releases at once is unlikely."
        )
    return (
        f"The epsilons of the releases add up to {added}, and together they cost {composed}. "
        "Each epsilon in the table uses the whole delta, and the total shares one delta among all releases."
    )


def _column(column: Column) -> dict[str, str]:
    declared = ""
    if column.kind in NOT_USED:
        declared = "not used"
    elif column.kind in ("category", "boolean"):
        declared = _listed(column.category_names, "categories", "category") if column.categories else ""
    elif column.kind in ("number", "date"):
        bounded = column.low is not None and column.high is not None
        declared = _interval(column.low, column.high, column.kind == "date") if bounded else "no bounds"
        if column.bins:
            declared += f", {len(column.bins) + 1:,} bins"
    return {
        "name": column.name,
        "kind": column.kind,
        "declared": declared,
        "missing": "read as an empty text" if column.kind == "text" else _words.setting(column.missing),
        "unseen": column.unseen if column.kind == "category" else "",
    }


def _target(card: ModelCard) -> str:
    schema = card.schema
    if schema.classes:
        return _listed(schema.classes, "classes", "class")
    if schema.low is None or schema.high is None:
        return "a number without bounds"
    return f"a number, {_interval(schema.low, schema.high)}"


def _interval(low: float | None, high: float | None, dates: bool = False) -> str:
    """Return a range in words; ends of more than `MAX_DIGITS` digits are rounded outward to 1% of the width or finer.

    >>> _interval(0.600324564415, 100.0), _interval(0.5, 123456.0)
    ('0.6 to 100', '0.5 to 123,456')
    """
    ends = (low or 0.0, high or 0.0)
    if dates:
        return " to ".join(map(_words.date, ends))
    width = ends[1] - ends[0]
    if width <= 0 or all(math.isclose(end, float(f"{end:.{MAX_DIGITS}g}"), rel_tol=1e-12) for end in ends):
        return " to ".join(_words.number(end, 12) for end in ends)
    decimals = 2 - math.floor(math.log10(width))
    outward = (math.floor(ends[0] * 10.0**decimals), math.ceil(ends[1] * 10.0**decimals))
    return " to ".join(_words.number(end / 10.0**decimals, 12) for end in outward)


def _listed(names: tuple[str, ...], many: str, one: str) -> str:
    count = f"{len(names):,} {many if len(names) != 1 else one}"
    return f"{count}: {', '.join(names)}" if len(names) <= MAX_NAMES else count


def _architecture(card: ModelCard) -> Mapping[str, Any]:
    """Return the entries of the architecture for a page.

    For the architecture "trees", entries of parts that the model does not have (trees, slopes of numbers, random
    Fourier features, skew correction) are left out, and names are replaced by plain words (`SUM_WORDS`).
    """
    stated = card.architecture
    if stated.get("name") != "trees":
        return stated
    unused = {"trees", "depth"} if not stated.get("trees") else set()
    unused |= {name for name in ("numbers", "waves", "bent") if not stated.get(name)}
    shown = {SUM_WORDS.get(name, name): entry for name, entry in stated.items() if name not in unused}
    return {**shown, "name": architecture_name(card)}


def _pairs(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name, _words.setting(item)) for name, item in values.items()]
