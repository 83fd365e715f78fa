"""Sentences that several card formats share, computed from the card alone."""

from __future__ import annotations

import re
from typing import Any

from privaware.card import ModelCard
from privaware.events import describe
from privaware.guarantee import attacker_sentence
from privaware.report import _words
from privaware.report._risk import largest_rates
from privaware.report._sentences import (
    accountants_sentence,
    bounds_sentence,
    ledger_sentence,
    selection_sentence,
    tuning_sentence,
)

NOT_STATED = "Not stated by the owner."


def stated(card: ModelCard, name: str, otherwise: str = NOT_STATED) -> str:
    """Return the owner's statement under `name`, on one line; `otherwise` if it is missing or empty.

    The texts of a list are joined with semicolons.
    """
    entry = card.description.get(name)
    text = "; ".join(map(str, entry)) if isinstance(entry, list) else entry
    return " ".join(text.split()) if isinstance(text, str) and text.strip() else otherwise


def model_name(card: ModelCard) -> str:
    """Return the name that the owner gave to the model; without one, "LEARNER for TARGET"."""
    return stated(card, "name", f"{card.learner} for {card.schema.target}")


def architecture_name(card: ModelCard) -> str:
    """Return the name of the architecture, or "network" if it has none.

    The architecture "trees" is called "a sum of scores and trees", or "a sum of scores" if the model has no trees.
    """
    name = str(card.architecture.get("name", "network"))
    if name != "trees":
        return name
    return "a sum of scores and trees" if card.architecture.get("trees") else "a sum of scores"


def task(card: ModelCard) -> str:
    """Return the task as Hugging Face names it, such as "tabular-classification"."""
    kind = card.schema.task
    return {"image": f"image-{kind}", "text": f"text-{kind}"}.get(card.schema.form, f"tabular-{kind}")


def attacker(card: ModelCard) -> str:
    """Return a sentence with the largest fraction of correct guesses of an attacker who guesses whether a row was used.

    If it rounds to 100%, the sentence says that the attacker may always be right. It also says so if the guarantee is
    not certified.
    """
    return attacker_sentence(largest_rates(card), card.schema, certified=card.guarantee.certified)


def neighbours(card: ModelCard) -> str:
    """Return a sentence that names the unit in which adjacent data sets differ, and the neighbouring relation."""
    guarantee = card.guarantee
    whom = _words.protected_unit(guarantee.unit, card.schema.cap)
    return (
        f"Adjacent data sets differ in {whom}; relation {guarantee.relation} ({_words.neighbours(guarantee.relation)})."
    )


def mechanisms(card: ModelCard) -> list[str]:
    """Return a line for every release: what it is, its event, and the epsilon that it would cost alone, if known."""
    return [
        f"{part.what}: {_words.tidy(describe(part.event), card.guarantee.epsilon)}"
        + ("" if part.epsilon is None else f" (epsilon {_words.rounded_up(part.epsilon)} alone)")
        for part in card.events
    ]


def composition(card: ModelCard) -> str:
    """Return sentences on how the releases are composed, on the accountants, and on how rows were sampled."""
    sampler = card.guarantee.sampler
    return f"The cost of all releases is composed adaptively. {accountants_sentence(card)} Sampling: {sampler}."


def unprotected(card: ModelCard) -> str:
    """Return the assumptions of the guarantee, which say what it does not protect; "None." if there are none."""
    return " ".join(f"{line.rstrip('.')}." for line in card.guarantee.assumptions) or "None."


def paid_choices(card: ModelCard) -> str:
    """Return sentences that say how ranges, columns and hyper-parameters were chosen, and whether this was charged.

    The sentences of the plan follow, or "not recorded." if the card has none.
    """
    plan = " ".join(_words.tidy(line.rstrip(".") + ".", card.guarantee.epsilon) for line in card.plan)
    earlier = " ".join(filter(None, (selection_sentence(card), ledger_sentence(card))))
    said = " ".join(filter(None, (bounds_sentence(card), tuning_sentence(card), earlier)))
    return f"{said} Plan: {plan or 'not recorded.'}"


def plain(text: Any) -> str:
    """Return a text for Markdown, on one line and with all special characters escaped.

    >>> plain("a <b> | c")
    'a \\\\<b\\\\> \\\\| c'
    """
    return re.sub(r"([\\`*_{}\[\]<>#|!~$])", r"\\\1", " ".join(str(text).split()))
