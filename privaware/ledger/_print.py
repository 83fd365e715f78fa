"""How a ledger prints: the JSON of `privaware ledger` and of `Ledger.json`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from privaware.events import Event
from privaware.ledger._entry import Entry, Facts, plain
from privaware.ledger._spent import epsilon_of, limit_of

__all__ = ["printable"]


def printable(path: Path, facts: Facts, entries: tuple[Entry, ...], spent: float) -> dict[str, Any]:
    """The whole ledger as plain values; an event's own epsilon is that of the event alone."""
    events = []
    alone: dict[Event, float] = {}
    for entry in entries:
        if entry.event is not None:
            if entry.event not in alone:
                alone[entry.event] = epsilon_of(entry.event, facts.delta)
            absent = {"partition": None, "run": None, "seed": None}
            events.append(absent | plain(entry) | {"epsilon": alone[entry.event]})
    return {
        "path": str(path),
        "epsilon_spent": spent,
        **(asdict(facts) | {"partitions": list(facts.partitions)}),
        "limit": limit_of(entries),
        "events": events,
        "limits": [plain(entry) for entry in entries if entry.kind == "limit"],
        "finished": [entry.run for entry in entries if entry.kind == "finished"],
        "head": entries[-1].hash,
    }
