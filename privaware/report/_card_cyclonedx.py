"""A CycloneDX 1.7 bill of materials whose only component is the model, with its model card."""

from __future__ import annotations

import json
import uuid
from datetime import datetime
from typing import Any

from privaware.card import ModelCard
from privaware.report import _words
from privaware.report._bought_score import bought_score
from privaware.report._card_facts import (
    NOT_STATED,
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
from privaware.report._sentences import data_name, guarantee_words, is_public_benchmark

REFERENCE = "model"


def cyclonedx_json(card: ModelCard) -> str:
    """Return the bill of materials of `card` as JSON text."""
    return json.dumps(cyclonedx_bom(card), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def cyclonedx_bom(card: ModelCard) -> dict[str, Any]:
    """Return the bill of materials as plain values; the same card always gives the same result."""
    name = model_name(card)
    identity = uuid.uuid5(uuid.NAMESPACE_OID, f"privaware {card.tensors} {card.ledger.entry} {card.created}")
    component: dict[str, Any] = {
        "type": "machine-learning-model",
        "bom-ref": REFERENCE,
        "name": name,
        "description": guarantee_words(card),
        "modelCard": _model_card(card),
    }
    if len(card.tensors) == 64 and set(card.tensors) <= set("0123456789abcdef"):
        component["hashes"] = [{"alg": "SHA-256", "content": card.tensors}]
    if (owner := stated(card, "owner", "")) != "":
        component["manufacturer"] = {"name": owner}
    if (licence := stated(card, "licence", "")) != "":
        component["licenses"] = [{"license": {"name": licence}}]
    metadata: dict[str, Any] = {
        "tools": {"components": [{"type": "application", "name": "privaware", "version": card.version}]},
        "component": component,
    }
    if (timestamp := _moment(card.created)) is not None:
        metadata["timestamp"] = timestamp
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.7.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.7",
        "serialNumber": f"urn:uuid:{identity}",
        "version": 1,
        "metadata": metadata,
    }


def _moment(text: str) -> str | None:
    """Return the ISO 8601 time `text` in canonical form; None if it is no time, or has no time zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.isoformat() if moment.tzinfo is not None else None


def _model_card(card: ModelCard) -> dict[str, Any]:
    schema = card.schema
    shown: dict[str, Any] = {
        "modelParameters": {
            "approach": {"type": "supervised"},
            "task": schema.task,
            "architectureFamily": architecture_name(card),
            "modelArchitecture": card.learner,
            "datasets": [
                {
                    "type": "dataset",
                    "name": stated(card, "data", data_name(card) or "private rows"),
                    "description": f"{schema.rows:,} rows with target {schema.target}.",
                    "classification": "public" if is_public_benchmark(card) else "private",
                    "sensitiveData": [f"protected: {_words.protected_unit(card.guarantee.unit, schema.cap)}"],
                }
            ],
            "inputs": [{"format": schema.form}],
            "outputs": [{"format": "class probabilities" if schema.classes else "number"}],
        },
        "considerations": _considerations(card),
        "properties": _properties(card),
    }
    score = bought_score(card)
    if score is not None:
        shown["quantitativeAnalysis"] = {
            "performanceMetrics": [
                {
                    "type": score.name,
                    "value": _words.number(score.value, 4),
                    "slice": "held-out rows, released with noise",
                    "confidenceInterval": {
                        "lowerBound": _words.number(score.low, 4),
                        "upperBound": _words.number(score.high, 4),
                    },
                }
            ]
        }
    return shown


def _considerations(card: ModelCard) -> dict[str, Any]:
    users, uses = stated(card, "intended_users", ""), stated(card, "intended_use", "")
    return {
        **({"users": [users]} if users else {}),
        **({"useCases": [uses]} if uses else {}),
        "technicalLimitations": limitations(card),
        "performanceTradeoffs": ["Noise protects the rows and costs accuracy, most of all for small groups."],
        "ethicalConsiderations": [
            {
                "name": "Membership inference and reconstruction",
                "mitigationStrategy": f"Differential privacy. {attacker(card)} {neighbours(card)}",
            },
            {"name": "Use beyond the intended one", "mitigationStrategy": stated(card, "not_intended_for", NOT_STATED)},
        ],
    }


def _properties(card: ModelCard) -> list[dict[str, str]]:
    guarantee = card.guarantee
    values = {
        "epsilon": _words.rounded_up(guarantee.epsilon),
        "delta": _words.rounded_up(guarantee.delta),
        "unit": guarantee.unit,
        "relation": guarantee.relation,
        "certified": "true" if guarantee.certified else "false",
        "composition": composition(card),
        "assumptions": unprotected(card),
        "tuning": paid_choices(card),
        "ledger_entry": card.ledger.entry or "none",
    }
    named = [{"name": f"privaware:{name}", "value": value} for name, value in values.items()]
    return named + [{"name": "privaware:mechanism", "value": line} for line in mechanisms(card)]
