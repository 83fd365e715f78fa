"""A ledger as JSON, and as the lines of `privaware ledger`."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from privaware.events import Event, describe, from_json
from privaware.ledger._entry import Entry, Facts, plain
from privaware.ledger._spent import epsilon_of, limit_of

__all__ = ["printable", "printed_lines"]

EQUAL_WITHIN = 1e-3
"""Relative difference of two epsilons below which they are printed as equal."""


def printable(path: Path, facts: Facts, entries: tuple[Entry, ...], spent: float) -> dict[str, Any]:
    """Return the whole ledger as plain values; the epsilon of an event is its cost without the other events."""
    events = []
    alone: dict[Event, float] = {}
    for entry in entries:
        if entry.event is not None:
            if entry.event not in alone:
                alone[entry.event] = epsilon_of(entry.event, facts.delta)
            absent = {"partition": None, "run": None, "seed": None, "rows": None}
            events.append(absent | plain(entry) | {"epsilon": alone[entry.event]})
    return {
        "path": str(path),
        "epsilon_spent": spent,
        **(asdict(facts) | {"partitions": list(facts.partitions)}),
        "limit": limit_of(entries),
        "events": events,
        "limits": [plain(entry) for entry in entries if entry.kind == "limit"],
        "finished": [entry.run for entry in entries if entry.kind == "finished"],
        "audits": [plain(entry) for entry in entries if entry.kind == "audit"],
        "head": entries[-1].hash,
    }


def printed_lines(ledger: Mapping[str, Any]) -> list[str]:
    """Return the spent epsilon and the limit, then one line for each charge, from the JSON of a ledger."""
    spent = f"Spent: epsilon {ledger['epsilon_spent']:.5g} of {ledger['limit']:g} at delta {ledger['delta']:g}"
    lines = [f"{spent}, unit {ledger['unit']}, {ledger['relation']}"]
    for entry in ledger["events"]:
        head = f"{entry['number']:>4}  {entry['time']}  {entry['who']}  {entry['what']}"
        lines.append(f"{head}  epsilon {entry['epsilon']:.4g}: {describe(from_json(entry['event']))}")
    return [*lines, *_explained(ledger)]


def _explained(ledger: Mapping[str, Any]) -> list[str]:
    """Explain why the charges do not add up to the spent epsilon, and how much epsilon remains."""
    spent, limit = ledger["epsilon_spent"], ledger["limit"]
    if not math.isfinite(spent):
        return [
            f"No finite epsilon is proven at delta {ledger['delta']:g} for the entries with epsilon inf, "
            "or for all entries together."
        ]
    added = sum(entry["epsilon"] for entry in ledger["events"])
    lines = []
    if len(ledger["events"]) > 1 and added > spent * (1 + EQUAL_WITHIN):
        lines.append(
            f"The charges add up to epsilon {added:.4g}, but their composition costs only {spent:.4g}: "
            "epsilon is the worst "
            "case of one release, and the worst case of all releases at once is unlikely."
        )
    if not ledger["events"]:
        lines.append(f"Nothing was charged yet. Remaining: epsilon {limit:g}.")
    elif spent < limit * (1 - EQUAL_WITHIN):
        lines.append(
            f"Remaining: epsilon {limit - spent:.4g}. A run with a slightly larger epsilon may also fit, "
            "because charges "
            "compose (`privaware fit ... --dry-run` shows its cost)."
        )
    else:
        lines.append(
            f"Nothing remains. `privaware ledger {shlex.quote(ledger['path'])} --set-limit E` raises the "
            "limit and records "
            "the change; all releases together then have a weaker guarantee."
        )
    return lines
