"""Does a model folder keep its word? Everything is recomputed from its events, by both accountants."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privaware import accounting
from privaware.errors import PrivawareError, WrongInput
from privaware.events import NOTHING, Event, from_json
from privaware.ledger import Ledger
from privaware.model import Model, read_facts

__all__ = ["Verdict", "verify"]

SLACK = 1e-6
"""Relative difference that rounding may make between the claim and its recomputation."""


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
        return {
            name: getattr(self, name)
            for name in ("valid", "epsilon", "delta", "problems", "certified")
        }


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
        if spent > claim * (1 + SLACK):
            problems.append(f"the events cost epsilon {spent:.6g}, the model claims {claim:.6g}")
    except PrivawareError as problem:
        problems.append(str(problem))
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
    numbers: list[Any] = [
        guarantee.get(name) if isinstance(guarantee, dict) else None
        for name in ("epsilon", "delta")
    ]
    if not all(
        isinstance(n, (int, float)) and not isinstance(n, bool) and 0 <= n < float("inf")
        for n in numbers
    ):
        raise WrongInput(
            f"model.json: expected epsilon and delta in its guarantee, got {guarantee!r:.120}"
        )
    if not 0 < numbers[1] < 1:
        raise WrongInput(f"model.json: expected delta in (0, 1), got {numbers[1]!r}")
    return float(numbers[0]), float(numbers[1])


def _event(facts: dict[str, Any]) -> Event:
    parts = facts["events"]
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise WrongInput(f"model.json: expected a list of events, got {parts!r:.120}")
    return sum((from_json(part.get("event")) for part in parts), start=NOTHING)


def _damage(folder: Path, facts: dict[str, Any]) -> list[str]:
    try:
        Model.load(folder)
        content = (folder / "model.safetensors").read_bytes()
    except WrongInput as problem:
        return [str(problem)]
    if hashlib.sha256(content).hexdigest() != facts.get("tensors"):
        return [
            "model.safetensors is not the file that was released: its hash differs from model.json"
        ]
    return []


def _against_ledger(path: Path, facts: dict[str, Any], event: Event) -> list[str]:
    problems = Ledger.verify(path)
    if problems:
        return problems
    named = facts.get("ledger")
    entry = Ledger.open(path).entry(str(named.get("entry"))) if isinstance(named, dict) else None
    if entry is None:
        return ["the ledger has no entry with the hash that the model names"]
    if entry.event != event:
        return [
            f"the ledger entry {entry.number} was charged for other events than the model names"
        ]
    return []
