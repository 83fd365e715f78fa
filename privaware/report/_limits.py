"""What a guarantee does not say, from the facts of a card: read before a model is relied on."""

from __future__ import annotations

from privaware.card import ModelCard
from privaware.report import _words

__all__ = ["limitations"]

LEARNED_ELSEWHERE = {
    "sentences": "Texts are read by a network that learned from public text: should some of these very rows have been "
    "in that text, what the network learned from them is not covered by the guarantee.",
    "extractor": "Images are read by a network that learned from public photographs: should some of these very images "
    "have been among them, what the network learned from them is not covered by the guarantee.",
}
"""What to say of features that learned from data of others."""


def limitations(card: ModelCard) -> list[str]:
    """One sentence each, those of the owner last."""
    guarantee, schema = card.guarantee, card.schema
    lines = []
    if guarantee.unit == "row":
        lines.append(
            "The unit is one row: somebody with several rows is protected less, up to as many times the epsilon."
        )
    elif guarantee.unit in _words.LABEL_UNITS:
        lines.append("Only labels are protected: nothing here hides the other columns of a row.")
    else:
        lines.append(
            f"At most {schema.cap:,} row{'s' if schema.cap > 1 else ''} with one value of '{guarantee.unit}' were "
            "used; the others were left out."
        )
    lines.append(
        "What is true of many is not hidden: a model may say something of a person because it is true of people like "
        "them, whether they were in the data or not."
    )
    lines.append("Every other release from the same rows adds to the epsilon: the ledger of these rows has the total.")
    lines.append(
        "The noise weighs most on small groups: test the model on the people it is used for, with rows of your own."
    )
    if schema.form == "table":
        lines.append("Numbers outside the declared bounds are clipped to them; what was not declared is not known.")
    named = [str(feature.get("name")) for feature in card.features]
    lines += [LEARNED_ELSEWHERE[name] for name in named if name in LEARNED_ELSEWHERE]
    owner = card.description.get("limitations", [])
    return [*lines, *(line for line in owner if isinstance(owner, list) and isinstance(line, str))]
