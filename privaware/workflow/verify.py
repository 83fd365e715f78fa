"""Does a model folder keep its word? Everything is recomputed from its events, by both accountants."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from privaware import accounting
from privaware.errors import PrivawareError, WrongInput
from privaware.events import NOTHING, Event, from_json
from privaware.ledger import Ledger
from privaware.model import Model, read_facts

__all__ = ["Verdict", "verify"]

SLACK = 1e-6
"""Relative excess that rounding may make of the recomputed epsilon over the claim."""
LOOSE = 0.01
"""A claim that much above what its events cost was made for other events."""


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
    facts = read_facts(model)
    claim, delta = _claim(facts)
    event = _event(facts)
    problems = _damage(Path(model), facts)
    bounds: dict[str, Any] = {"pld": None, "cf": None, "rdp": None}
    try:
        bounds = accounting.bounds(event, delta)
        spent = accounting.epsilon(event, delta)
        if not claim * (1 - LOOSE) <= spent <= claim * (1 + SLACK):
            problems.append(f"the events cost epsilon {spent:.6g}, the model claims {claim:.6g}")
    except PrivawareError as problem:
        problems.append(str(problem))
    problems += _contradictions(facts)
    if ledger is not None:
        problems += _against_ledger(Path(ledger), facts, event)
    return Verdict(
        valid=not problems,
        epsilon={name: bounds[name] for name in ("pld", "cf", "rdp")},
        delta=delta,
        problems=problems,
        certified=bool(facts["guarantee"].get("certified")) and not problems,
    )


def _claim(facts: dict[str, Any]) -> tuple[float, float]:
    guarantee = facts["guarantee"]
    numbers: list[Any] = [guarantee.get(name) if isinstance(guarantee, dict) else None for name in ("epsilon", "delta")]
    if not all(
        isinstance(n, (int, float)) and not isinstance(n, bool) and 0 <= n <= sys.float_info.max for n in numbers
    ):
        raise WrongInput(f"model.json: expected epsilon and delta in its guarantee, got {guarantee!r:.120}")
    if not 0 < numbers[1] < 1:
        raise WrongInput(f"model.json: expected delta in (0, 1), got {numbers[1]!r}")
    return float(numbers[0]), float(numbers[1])


def _event(facts: dict[str, Any]) -> Event:
    parts = facts["events"]
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise WrongInput(f"model.json: expected a list of events, got {parts!r:.120}")
    return sum((from_json(part.get("event")) for part in parts), start=NOTHING)


def _damage(folder: Path, facts: dict[str, Any]) -> list[str]:
    """What cannot be loaded at all is no model and raises; what loads may still not be what was released."""
    Model.load(folder)
    content = (folder / "model.safetensors").read_bytes()
    if hashlib.sha256(content).hexdigest() != facts.get("tensors"):
        return ["model.safetensors is not the file that was released: its hash differs from model.json"]
    return []


def _contradictions(facts: dict[str, Any]) -> list[str]:
    """Where the guarantee says something else than the schema it was made for, or than its own seed."""
    guarantee, schema = facts["guarantee"], facts["schema"]
    problems = [
        f"the guarantee is for {name} {guarantee[name]!r:.80}, the schema for {schema.get(name)!r:.80}"
        for name in ("unit", "cap", "relation")
        if name in guarantee and guarantee[name] != schema.get(name)
    ]
    if guarantee.get("certified") and guarantee.get("seed") is not None:
        problems.append("the model is called certified although its run was seeded")
    return problems


def _against_ledger(path: Path, facts: dict[str, Any], event: Event) -> list[str]:
    problems = Ledger.verify(path)
    if problems:
        return problems
    named = facts.get("ledger")
    book = Ledger.open(path)
    entry = book.entry(str(named.get("entry"))) if isinstance(named, dict) else None
    if entry is None:
        return ["the ledger has no entry with the hash that the model names"]
    if entry.event != event:
        return [f"the ledger entry {entry.number} was charged for other events than the model names"]
    guarantee = facts["guarantee"]
    has = {**asdict(book.facts), "seed": entry.seed}
    return [
        f"the ledger says {name} {has[name]!r:.80}, the model {guarantee[name]!r:.80}"
        for name in ("delta", "unit", "cap", "relation", "seed")
        if name in guarantee and guarantee[name] != has[name]
    ]
