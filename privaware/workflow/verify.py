"""Checks a model folder: its guarantee is recomputed from its events by both accountants and compared."""

from __future__ import annotations

import hashlib
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from privaware import accounting
from privaware.card import ModelCard
from privaware.errors import PrivawareError, WrongInput
from privaware.events import NOTHING, Event
from privaware.ledger import Ledger
from privaware.model import TENSORS
from privaware.workflow.predict import load

__all__ = ["Verdict", "verify"]

SLACK = 1e-6
"""Relative rounding error by which the recomputed epsilon may exceed the stated one."""
LOOSE = 0.01
"""A stated epsilon that exceeds the recomputed one by this fraction belongs to other events."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """`problems` says in words why a model is not valid."""

    valid: bool
    epsilon: dict[str, float | None]
    delta: float
    problems: list[str]
    certified: bool

    def json(self) -> dict[str, Any]:
        """The fields of `privaware verify --json`."""
        return {name: getattr(self, name) for name in ("valid", "epsilon", "delta", "problems", "certified")}


def verify(model: str | Path, *, ledger: str | Path | None = None) -> Verdict:
    """Recomputes the guarantee of a model folder; with `ledger` also the chain and the entry it names."""
    card = load(model).card
    guarantee, delta = card.guarantee, card.guarantee.delta
    if not math.isfinite(guarantee.epsilon) or delta == 0:
        raise WrongInput(
            f"model.json: expected a finite epsilon and delta in (0, 1), got {guarantee.epsilon!r} and {delta!r}"
        )
    event = sum((part.event for part in card.events), start=NOTHING)
    problems = _changed_tensors(Path(model), card)
    bounds: dict[str, Any] = {}
    try:
        bounds = accounting.bounds(event, delta)
        spent = accounting.epsilon(event, delta)
        if not guarantee.epsilon * (1 - LOOSE) <= spent <= guarantee.epsilon * (1 + SLACK):
            problems.append(f"the events cost epsilon {spent:.6g}, the model claims {guarantee.epsilon:.6g}")
    except PrivawareError as problem:
        problems.append(str(problem))
    except OverflowError:  # a count of hundreds of digits
        problems.append("the events are too many to be priced")
    problems += _contradictions(card)
    if ledger is not None:
        problems += _against_ledger(Path(ledger), card, event)
    return Verdict(
        valid=not problems,
        epsilon={name: bounds.get(name) for name in ("pld", "cf", "rdp")},
        delta=delta,
        problems=problems,
        certified=guarantee.certified and card.schema.reviewed and not problems,
    )


def _changed_tensors(folder: Path, card: ModelCard) -> list[str]:
    """What loads may still not be what was released."""
    if hashlib.sha256((folder / TENSORS).read_bytes()).hexdigest() == card.tensors:
        return []
    return [f"{TENSORS} is not the file that was released: its hash differs from model.json"]


def _contradictions(card: ModelCard) -> list[str]:
    """Where the guarantee contradicts the schema, or its own seed."""
    stated, declared = card.guarantee.json(), card.schema.json()
    problems = [
        f"the guarantee is for {name} {stated[name]!r:.80}, the schema for {declared[name]!r:.80}"
        for name in ("unit", "cap", "relation")
        if name in stated and stated[name] != declared[name]
    ]
    if card.guarantee.certified and card.guarantee.seed is not None:
        problems.append("the model is called certified although its run was seeded")
    return problems


def _against_ledger(path: Path, card: ModelCard, event: Event) -> list[str]:
    problems = Ledger.verify(path)
    if problems:
        return problems
    ledger = Ledger.open(path)
    entry = ledger.entry(card.ledger.entry) if card.ledger.entry else None
    if entry is None:
        return ["the ledger has no entry with the hash that the model names"]
    if entry.event != event:
        return [f"the ledger entry {entry.number} was charged for other events than the model names"]
    stated, charged = card.guarantee.json(), {**asdict(ledger.facts), "seed": entry.seed}
    return [
        f"the ledger says {name} {charged[name]!r:.80}, the model {stated[name]!r:.80}"
        for name in ("delta", "unit", "cap", "relation", "seed")
        if name in stated and stated[name] != charged[name]
    ]
