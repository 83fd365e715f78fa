"""Sentences that several card formats share, computed from the card alone."""

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
    """Return the owner's statement under `name`, on one line, or `otherwise`."""
    entry = card.description.get(name)
    text = "; ".join(map(str, entry)) if isinstance(entry, list) else entry
    return " ".join(text.split()) if isinstance(text, str) and text.strip() else otherwise


def model_name(card: ModelCard) -> str:
    """Return the name that the owner gave, or the learner and its target."""
    return stated(card, "name", f"{card.learner} for {card.schema.target}")


def task(card: ModelCard) -> str:
    """Return the task as Hugging Face names it."""
    kind = card.schema.task
    return {"image": f"image-{kind}", "text": f"text-{kind}"}.get(card.schema.form, f"tabular-{kind}")


def neighbours(card: ModelCard) -> str:
    """Say which data sets are neighbours."""
    guarantee = card.guarantee
    whom = _words.protected_unit(guarantee.unit, card.schema.cap)
    return (
        f"Adjacent data sets differ in {whom}; relation {guarantee.relation} ({_words.neighbours(guarantee.relation)})."
    )


def mechanisms(card: ModelCard) -> list[str]:
    """Return a line for every release, with its noise."""
    return [
        f"{part.what}: {_words.tidy(describe(part.event), card.guarantee.epsilon)}"
        + ("" if part.epsilon is None else f" (epsilon {_words.rounded_up(part.epsilon)} alone)")
        for part in card.events
    ]


def composition(card: ModelCard) -> str:
    """Say how the epsilon of all releases was computed."""
    guarantee = card.guarantee
    known = ", ".join(
        f"{name} {_words.rounded_up(epsilon)}" for name, epsilon in guarantee.accountants.items() if epsilon is not None
    )
    return (
        f"The cost of all releases is composed adaptively by numerical accountants: {known}. pld and "
        "cf are independent and "
        f"must agree. The reported epsilon is that of {guarantee.method}. Sampling: {guarantee.sampler}."
    )


def unprotected(card: ModelCard) -> str:
    """Return the assumptions of the guarantee: what it does not protect."""
    return " ".join(f"{line.rstrip('.')}." for line in card.guarantee.assumptions) or "None."


def paid_choices(card: ModelCard) -> str:
    """Say how preprocessing and hyper-parameters were chosen, and whether this was charged."""
    schema = card.schema
    bounds = "Ranges and categories were declared before a row was read."
    if not schema.reviewed:
        bounds = "Ranges and categories were read from the rows without noise. Their cost is not part of epsilon."
    elif any("bound" in part.what.lower() or "schema" in part.what.lower() for part in card.events):
        bounds = "Ranges and categories were released under differential privacy. Their cost is part of epsilon."
    tuned = (
        "Hyper-parameters are defaults for the declared rows, columns, classes and "
        "epsilon. They were not tuned on the rows."
    )
    if card.search.get("workflow") == "standard":
        tuned = (
            "Hyper-parameters were searched on the same rows without noise. The cost "
            "of this search is not part of epsilon."
        )
    elif card.search:
        tuned = "Hyper-parameters were searched under differential privacy. The cost of the search is part of epsilon."
    plan = " ".join(_words.tidy(line.rstrip(".") + ".", card.guarantee.epsilon) for line in card.plan)
    return f"{bounds} {tuned} Plan: {plan}"


def plain(text: Any) -> str:
    """Return a text for Markdown, on one line and with all special characters escaped.

    >>> plain("a <b> | c")
    'a \\\\<b\\\\> \\\\| c'
    """
    return re.sub(r"([\\`*_{}\[\]<>#|!~$])", r"\\\1", " ".join(str(text).split()))
