"""A record for the Differential Privacy Deployments Registry of OpenDP: YAML, to be completed by its owner.

The form is the form of 2026: basic, dp_variant, privacy_loss, deployment_model, accounting, implementation,
administrative.
"""

from __future__ import annotations

import re
from typing import Any

from privaware.card import ModelCard
from privaware.report import _words
from privaware.report._bought_score import bought_score
from privaware.report._card_facts import (
    architecture_name,
    attacker,
    composition,
    mechanisms,
    model_name,
    neighbours,
    paid_choices,
    stated,
    unprotected,
)
from privaware.report._limits import limitations
from privaware.report._sentences import arithmetic_sentence, guarantee_words, introduction, noise_sentence
from privaware.report._yaml import yaml

SECTORS = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
TIMING = "Time seen from outside the process is not protected."


def registry_yaml(card: ModelCard) -> str:
    """Return the record as YAML text in the form of OpenDP's registry of deployments."""
    return yaml(registry_record(card))


def registry_record(card: ModelCard) -> dict[str, Any]:
    """Return the record as plain values; its status is "Draft", because the owner must complete it."""
    name, day = model_name(card), card.created[:10]
    slug = re.sub(r"[^a-z0-9]+", "-", f"{name} {stated(card, 'owner', '')} {day[:4]}".lower()).strip("-")
    return {
        "url_slug": slug,
        "deployment": {
            "basic": _basic(card, name, day),
            "dp_variant": {
                "variant_name": "Approximate DP" if card.guarantee.delta else "Pure DP",
                "data_domain": f"Data sets of form {card.schema.form} with the schema of model.json "
                f"({len(card.schema.columns)} columns, target {card.schema.target}).",
                "unprotected_quantities": unprotected(card),
            },
            "privacy_loss": _privacy_loss(card),
            "deployment_model": _deployment_model(card),
            "accounting": {
                "post_processing": "Everything computed from the released tensors is post-processing: predictions, "
                "curves of columns, this record.",
                "composition": composition(card),
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": paid_choices(card),
                "mechanisms": "\n".join(f"- {line}" for line in (*mechanisms(card), _implementation(card))),
                "justification": "\n".join(f"- {line}" for line in limitations(card)),
            },
            "administrative": {"registry_authors": [stated(card, "owner")], "status": "Draft", "tier": 3},
        },
    }


def _implementation(card: ModelCard) -> str:
    sentences = (f"Implemented by privaware {card.version}.", noise_sentence(card), arithmetic_sentence(card), TIMING)
    return " ".join(filter(None, sentences))


def _basic(card: ModelCard, name: str, day: str) -> dict[str, Any]:
    score = bought_score(card)
    quality = (
        f" Its {score.name} on held-out rows is {_words.number(score.value, 4)}, released with noise. "
        f"{score.constant_sentence}".rstrip()
        if score is not None
        else ""
    )
    sector, curator = stated(card, "sector", ""), stated(card, "owner_type", "")
    return {
        "name": name,
        "data_curators": [
            {"data_curator_name": stated(card, "owner")} | ({"data_curator_type": curator} if curator else {})
        ],
        "description": f"A model ({card.learner}, {architecture_name(card)}). "
        f"{introduction(card, card.guarantee.certified)} {stated(card, 'data', '')}{quality}".strip(),
        "intended_use": stated(card, "intended_use"),
        "data_product_type": "Machine learning model",
        "data_product_region": stated(card, "region"),
        "publication_date": day,
        **({"data_product_sector": sector} if sector in SECTORS else {}),
    }


def _privacy_loss(card: ModelCard) -> dict[str, Any]:
    guarantee = card.guarantee
    return {
        "privacy_unit": _words.protected_unit(guarantee.unit, card.schema.cap).split(";")[0],
        "privacy_unit_details": neighbours(card),
        "privacy_parameters": {
            "epsilon": float(_words.rounded_up(guarantee.epsilon).replace(",", "")),
            "delta": guarantee.delta,
        },
        "privacy_parameters_details": f"{guarantee_words(card)} {attacker(card)}"
        + ("" if guarantee.certified else " This guarantee is not certified."),
    }


def _deployment_model(card: ModelCard) -> dict[str, Any]:
    return {
        "model_name": "Central",
        "model_name_details": "The curator holds the rows and runs the mechanisms; the release is the model folder.",
        "actors": "\n".join(
            (
                "- The curator, who holds the rows and their ledger and is trusted with both.",
                "- Everybody who sees the model, trusted with nothing: arbitrary side knowledge is assumed.",
            )
        ),
        "release_type": "One release",
        "release_type_details": f"This release is entry {card.ledger.entry} of the ledger of the data set."
        if card.ledger.entry
        else "This release names no ledger entry.",
        "data_source_type": "Static",
        "access_type": "Non-interactive",
        "access_type_details": "Users receive the model and cannot query the rows.",
    }
