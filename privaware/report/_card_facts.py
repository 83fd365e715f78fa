"""What several formats of a card say alike, in words that follow from the card alone."""

from __future__ import annotations

import re
from typing import Any

from privaware.card import ModelCard
from privaware.events import describe
from privaware.report import _words

__all__ = [
    "NOT_STATED",
    "composition",
    "mechanisms",
    "model_name",
    "neighbours",
    "paid_choices",
    "plain",
    "stated",
    "task",
    "unprotected",
]

NOT_STATED = "Not stated by the owner."


def stated(card: ModelCard, name: str, otherwise: str = NOT_STATED) -> str:
    """What the owner says under a name, on one line."""
    entry = card.description.get(name)
    text = "; ".join(map(str, entry)) if isinstance(entry, list) else entry
    return " ".join(text.split()) if isinstance(text, str) and text.strip() else otherwise


def model_name(card: ModelCard) -> str:
    """The name that the owner gave, or the learner and its target."""
    return stated(card, "name", f"{card.learner} for {card.schema.target}")


def task(card: ModelCard) -> str:
    """The kind of model as Hugging Face names it."""
    kind = card.schema.task
    return {"image": f"image-{kind}", "text": f"text-{kind}"}.get(card.schema.form, f"tabular-{kind}")


def neighbours(card: ModelCard) -> str:
    """Which data sets are adjacent."""
    guarantee = card.guarantee
    whom = _words.protected_unit(guarantee.unit, card.schema.cap)
    return (
        f"Adjacent data sets differ in {whom}; relation {guarantee.relation} ({_words.neighbours(guarantee.relation)})."
    )


def mechanisms(card: ModelCard) -> list[str]:
    """Every release and its noise."""
    return [
        f"{part.what}: {_words.tidy(describe(part.event), card.guarantee.epsilon)}"
        + ("" if part.epsilon is None else f" (epsilon {_words.rounded_up(part.epsilon)} alone)")
        for part in card.events
    ]


def composition(card: ModelCard) -> str:
    """How the epsilon of all releases was computed."""
    guarantee = card.guarantee
    known = ", ".join(
        f"{name} {_words.rounded_up(epsilon)}" for name, epsilon in guarantee.accountants.items() if epsilon is not None
    )
    return (
        f"All releases are composed adaptively by numerical accountants: {known}. pld and cf are independent and must "
        f"agree; reported is {guarantee.method}. Sampling: {guarantee.sampler}."
    )


def unprotected(card: ModelCard) -> str:
    """What is in the open: the assumptions of the guarantee."""
    return " ".join(f"{line.rstrip('.')}." for line in card.guarantee.assumptions) or "None."


def paid_choices(card: ModelCard) -> str:
    """How preprocessing and hyper-parameters were chosen, and whether that was paid for."""
    schema = card.schema
    bounds = "Bounds and categories were declared before a row was read."
    if not schema.reviewed:
        bounds = "Bounds and categories were read off the rows without noise, and are not part of the epsilon."
    elif any("bound" in part.what.lower() or "schema" in part.what.lower() for part in card.events):
        bounds = "Bounds and categories were released under differential privacy and are part of the epsilon."
    tuned = "Hyper-parameters follow from public facts (declared rows, columns, classes, epsilon); nothing was tuned."
    if card.search.get("workflow") == "standard":
        tuned = "Hyper-parameters were searched on the same rows without noise: the epsilon does not cover that."
    elif card.search:
        tuned = "Hyper-parameters were searched; the search is among the releases and part of the epsilon."
    return f"{bounds} {tuned} Plan: {' '.join(_words.tidy(f'{line}.', card.guarantee.epsilon) for line in card.plan)}"


def plain(text: Any) -> str:
    """A text inside Markdown: on one line, and nothing in it means anything.

    >>> plain("a <b> | c")
    'a \\\\<b\\\\> \\\\| c'
    """
    return re.sub(r"([\\`*_{}\[\]<>#|!~$])", r"\\\1", " ".join(str(text).split()))
