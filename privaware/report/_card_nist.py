"""A checklist after NIST SP 800-226, "Guidelines for Evaluating Differential Privacy Guarantees" (March 2025).

The checklist follows the pyramid of the guidelines from the top: the guarantee, what can undermine it, and its
foundations. Each item states what the card shows. A fact that only the owner knows is an open box, and hazards that the
card shows are named.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from privaware.card import ModelCard
from privaware.guarantee import protection
from privaware.report import _words
from privaware.report._bought_score import bought_score
from privaware.report._card_facts import (
    NOT_STATED,
    attacker,
    composition,
    mechanisms,
    model_name,
    neighbours,
    paid_choices,
    plain,
    stated,
    unprotected,
)
from privaware.report._sentences import accountants_sentence, arithmetic_sentence, guarantee_words, noise_sentence


@dataclass(frozen=True, kw_only=True)
class ChecklistItem:
    """One item of the checklist: a `factor`, in a `layer` of the pyramid of NIST SP 800-226, and its `answer`.

    `shown` is True if the card, with the owner's statement, answers the item. It is False if the owner must still
    confirm the answer. `hazard` names what weakens the guarantee, and may be empty.
    """

    layer: str
    factor: str
    answer: str
    shown: bool
    hazard: str = ""


def nist_markdown(card: ModelCard) -> str:
    """Return the checklist after NIST SP 800-226 as Markdown.

    The card, with the owner's statement, answers a ticked box. The owner must answer an open box.
    """
    lines = [
        f"# {plain(model_name(card))}: checklist after NIST SP 800-226",
        "",
        "A ticked box is answered by `model.json` or by the owner's statement in it. `privaware verify` recomputes the "
        "guarantee in `model.json`. The owner must answer an open box.",
    ]
    layer = ""
    for item in nist_items(card):
        if item.layer != layer:
            layer = item.layer
            lines += ["", f"## {layer}", ""]
        lines.append(f"- [{'x' if item.shown else ' '}] **{item.factor}.** {plain(item.answer)}")
        if item.hazard:
            lines.append(f"  - **Hazard:** {plain(item.hazard)}")
    lines += ["", "## Sign-off", "", "- [ ] Name and role:", "- [ ] Date:", "- [ ] Signature:", ""]
    return "\n".join(lines)


def nist_items(card: ModelCard) -> list[ChecklistItem]:
    """Return all items of the checklist, by layer: the guarantee, what can undermine it, and its foundations."""
    return [*_guarantee(card), *_undermining(card), *_foundations(card)]


def _guarantee(card: ModelCard) -> list[ChecklistItem]:
    guarantee, schema = card.guarantee, card.schema
    epsilon, delta = _words.rounded_up(guarantee.epsilon), _words.rounded_up(guarantee.delta)
    layer = "The guarantee"
    weak = protection(guarantee.epsilon) == "weak"
    large = f"epsilon {epsilon} is a weak guarantee. {attacker(card)}" if weak else ""
    likely = (
        ""
        if guarantee.delta * schema.rows < 1
        else "delta times the declared rows is 1 or more: such a delta allows publishing a row."
    )
    several = (
        ""
        if guarantee.unit != "row"
        else "somebody with several rows is protected less; is each row a different person?"
    )
    labels = "only labels are protected." if guarantee.unit in _words.LABEL_UNITS else several
    uncertified = "" if guarantee.certified else "the guarantee is not certified: its own sentence says why."
    return [
        ChecklistItem(
            layer=layer, factor="Epsilon", shown=True, hazard=large, answer=f"{epsilon}, all releases together."
        ),
        ChecklistItem(
            layer=layer, factor="Delta", shown=True, hazard=likely, answer=f"{delta}, of {schema.rows:,} rows."
        ),
        ChecklistItem(layer=layer, factor="Unit of privacy", shown=True, hazard=labels, answer=neighbours(card)),
        ChecklistItem(layer=layer, factor="Composition", shown=True, answer=composition(card)),
        ChecklistItem(layer=layer, factor="Statement", shown=True, hazard=uncertified, answer=guarantee_words(card)),
        ChecklistItem(
            layer=layer,
            factor="Budget over time",
            shown=False,
            answer="All other releases from the same rows are in one ledger; its total and its limit are acceptable.",
        ),
    ]


def _undermining(card: ModelCard) -> list[ChecklistItem]:
    layer = "What can undermine it"
    guarantee = card.guarantee
    drafted = (
        ""
        if card.schema.reviewed
        else "ranges and categories were read from the rows without noise, and nobody has reviewed them."
    )
    tuned = "settings were chosen without noise." if card.search.get("workflow") == "standard" else drafted
    seeded = "" if guarantee.seed is None else "the noise was seeded: whoever knows the seed can remove it."
    unproven = next((why for part in card.events if (why := _words.unproven_reason(part.event))), "")
    infinite = "" if math.isfinite(guarantee.epsilon) else "no finite epsilon is proven."
    score = bought_score(card)
    utility = (
        "No score was bought: the utility is not known to readers."
        if score is None
        else f"{score.name} {_words.number(score.value, 4)} on held-out rows, bought for epsilon "
        f"{_words.rounded_up(score.epsilon)}. {score.constant_sentence}".rstrip()
    )
    return [
        ChecklistItem(
            layer=layer,
            factor="Algorithms and correctness",
            shown=True,
            hazard=unproven or infinite,
            answer=f"{'; '.join(mechanisms(card))}. {accountants_sentence(card)}",
        ),
        ChecklistItem(
            layer=layer, factor="Preprocessing and tuning", shown=True, hazard=tuned, answer=paid_choices(card)
        ),
        ChecklistItem(
            layer=layer,
            factor="Randomness and floating point",
            shown=True,
            hazard=seeded,
            answer=f"{noise_sentence(card)} {arithmetic_sentence(card)}".strip(),
        ),
        ChecklistItem(
            layer=layer,
            factor="Side channels",
            shown=False,
            hazard="time seen from outside the process is not protected.",
            answer="Nobody but the owner could watch the run: its duration, load or memory.",
        ),
        ChecklistItem(layer=layer, factor="Utility", shown=score is not None, answer=utility),
        ChecklistItem(
            layer=layer,
            factor="Bias",
            shown=False,
            hazard="noise weighs most on small groups, and can make existing bias worse.",
            answer="The model was tested on the groups it is used for, with rows of the user's own.",
        ),
    ]


def _foundations(card: ModelCard) -> list[ChecklistItem]:
    layer = "What it stands on"
    return [
        ChecklistItem(
            layer=layer,
            factor="Trust model",
            shown=True,
            answer=f"Central: the curator sees the rows and is trusted. {unprotected(card)}",
        ),
        ChecklistItem(
            layer=layer,
            factor="Data security and access control",
            shown=False,
            answer="Rows, ledger and the key of the digests are readable by their owner only.",
        ),
        ChecklistItem(
            layer=layer,
            factor="Data collection exposure",
            shown=stated(card, "data") != NOT_STATED,
            hazard="differential privacy protects what is released, not what was collected.",
            answer=f"Data: {stated(card, 'data')}",
        ),
        ChecklistItem(
            layer=layer,
            factor="Owner and intended use",
            shown=stated(card, "owner") != NOT_STATED and stated(card, "intended_use") != NOT_STATED,
            answer=f"Owner: {stated(card, 'owner')} Intended use: {stated(card, 'intended_use')}",
        ),
    ]
