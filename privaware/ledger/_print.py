"""A ledger as JSON, and as the lines of `privaware ledger`."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from privaware._rounded import rounded_down, rounded_up
from privaware.events import Event
from privaware.ledger._entry import NOT_RESUMED, Entry, Facts, plain, unfinished
from privaware.ledger._spent import epsilon_of, limit_of

MARK = 8
"""Characters of the keyed digest of the rows by which the entries of a ledger for several data are told apart."""
EQUAL_WITHIN = 1e-3
"""Largest relative difference of two epsilons that `explained_lines` treats as equal."""


def printable(
    path: Path, facts: Facts, entries: tuple[Entry, ...], spent: float, totals: Sequence[float] | None = None
) -> dict[str, Any]:
    """Return the whole ledger as plain values.

    Parameters
    ----------
    path, facts, entries, spent
        The file of the ledger, its facts, its entries, and the epsilon of all charges together.
    totals
        The epsilon of all charges up to and including each charge. Default: the charges are returned without totals.

    Returns
    -------
    dict
        The path, the facts and the present `limit`; `created`, with the first limit; `epsilon_spent`; `events`, with
        the epsilon of each charge alone, and with the unit and the cap of the ledger; `limits`, the changes of the
        limit; `open`, the charges of runs that have not finished; `closings`, the entries that close runs, which have
        no time, each with the number of its charge in `of`; `finished`, the keys of finished runs; `audits`; and
        `head`, the hash of the last entry.
    """
    events = []
    alone: dict[Event, float] = {}
    for entry in entries:
        if entry.event is not None:
            if entry.event not in alone:
                alone[entry.event] = epsilon_of(entry.event, facts.delta)
            absent = {"partition": None, "run": None, "seed": None, "rows": None}
            protects = {"unit": facts.unit, "cap": facts.cap}
            events.append(absent | plain(entry) | protects | {"epsilon": alone[entry.event]})
    for event, total in zip(events, totals or (), strict=totals is not None):
        event["total"] = total
    charged = {entry.run: entry.number for entry in entries if entry.kind == "spend"}
    changes = [entry for entry in entries if entry.kind == "limit"]
    return {
        "path": str(path),
        "created": {name: getattr(entries[0], name) for name in ("time", "who")} | {"limit": facts.limit},
        "epsilon_spent": spent,
        **(asdict(facts) | {"partitions": list(facts.partitions)}),
        "limit": limit_of(entries),
        "events": events,
        "limits": [plain(entry) | {"limit_before": limit_of(entries[: entry.number])} for entry in changes],
        "open": [
            {name: getattr(entry, name) for name in ("number", "time", "who", "what", "run")}
            for entry in unfinished(entries)
        ],
        "closings": [
            {name: getattr(entry, name) for name in ("number", "who", "what", "run")} | {"of": charged.get(entry.run)}
            for entry in entries
            if entry.kind == "finished"
        ],
        "finished": [entry.run for entry in entries if entry.kind == "finished"],
        "audits": [plain(entry) for entry in entries if entry.kind == "audit"],
        "head": entries[-1].hash,
    }


def ledger_lines(ledger: Mapping[str, Any]) -> list[str]:
    """Return the spent epsilon, a table of all entries, and the unfinished runs.

    Parameters
    ----------
    ledger : Mapping
        The result of `Ledger.json(totals=True)`.

    Returns
    -------
    list of str
        Lines for a terminal.
    """
    spent = f"Spent: epsilon {rounded_up(ledger['epsilon_spent'])} of {rounded_up(ledger['limit'])}"
    first = f"{spent} at delta {rounded_up(ledger['delta'])}. Protected: {_protected(ledger)}."
    return [first, *_table(ledger), *_open_lines(ledger)]


def unit_words(facts: Mapping[str, Any]) -> str:
    """Return the `unit` of a ledger or of a charge, with its `cap` on the rows of a person if the unit is a column.

    >>> unit_words({"unit": "row", "cap": 1}), unit_words({"unit": "patient", "cap": 3})
    ('row', 'patient (cap 3)')
    """
    return facts["unit"] if facts["unit"] in ("row", "label") else f"{facts['unit']} (cap {facts['cap']})"


def _protected(facts: Mapping[str, Any]) -> str:
    """Return what the guarantee of a ledger with these `facts` hides: the change between neighbouring data.

    >>> _protected({"unit": "patient", "cap": 3, "relation": "add_remove"})
    'adding or removing one patient (cap 3)'
    """
    if facts["unit"] == "label":
        return "the label of one row"
    change = "replacing" if facts["relation"] == "replace_one" else "adding or removing"
    return f"{change} one {unit_words(facts)}"


def ledger_rows(ledger: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return all entries in order, each with the texts of its `number`, `time`, `who`, `what` and its amounts.

    `ledger` is the result of `Ledger.json(totals=True)`. The amounts are `epsilon`, the cost of one charge alone,
    `total`, the composition of all charges up to it, and `limit`, the limit at that time. `unit` is the unit and the
    cap of a charge. `unit`, `epsilon` and `total` are empty for entries other than charges, and `time` is empty for an
    entry that closes a run. If the charges are for different rows, `what` of a charge ends with a mark of its rows.
    """
    created, limit = ledger["created"], rounded_up(ledger["created"]["limit"])
    empty = {"time": "", "unit": "", "epsilon": "", "total": ""}
    rows = [{**empty, "number": "0", "time": created["time"], "who": created["who"], "what": "created", "limit": limit}]
    several_data = len({entry["rows"] for entry in ledger["events"]} - {None}) > 1
    several = (ledger["events"], ledger["limits"], ledger["closings"], ledger["audits"])
    for entry in sorted((entry for entries in several for entry in entries), key=lambda entry: int(entry["number"])):
        row = {**empty, **{name: str(entry[name]) for name in ("number", "time", "who", "what") if name in entry}}
        if entry.get("kind") == "limit":
            limit = rounded_up(entry["limit"])
            row["what"] = f"limit changed from {rounded_up(entry['limit_before'])} to {limit}"
        elif entry.get("kind") == "spend":
            row |= {name: rounded_up(entry[name]) for name in ("epsilon", "total")} | {"unit": unit_words(entry)}
            if several_data and entry["rows"] is not None:
                row["what"] += f" (data {entry['rows'][:MARK]})"
        elif "of" in entry:
            row["what"] = f"entry {entry['of']} {entry['what']}"
        rows.append(row | {"limit": limit})
    return [row | {"time": row["time"][:19].replace("T", " ")} for row in rows]


def _table(ledger: Mapping[str, Any]) -> list[str]:
    """Return the lines of a table: one of headings, then one for each entry of the ledger, in order.

    `ledger` is the result of `Ledger.json(totals=True)`.
    """
    headings = {"number": "entry", "time": "time (UTC)"}
    names = ("number", "time", "who", "unit", "epsilon", "total", "limit", "what")
    rows = [tuple(headings.get(name, name) for name in names)]
    rows += [tuple(row[name] for name in names) for row in ledger_rows(ledger)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join([row[0].rjust(widths[0]), *map(str.ljust, row[1:-1], widths[1:-1]), row[-1]]) for row in rows]


def _open_lines(ledger: Mapping[str, Any]) -> list[str]:
    return [
        f"Entry {entry['number']} ({entry['what']}) is charged but not finished. {_way_on(entry)} "
        f"To give it up, type `privaware ledger {shlex.quote(ledger['path'])} --close {entry['number']}`; "
        "its epsilon stays spent."
        for entry in ledger["open"]
    ]


def _way_on(entry: Mapping[str, Any]) -> str:
    """Return a sentence on how the unfinished run of `entry`, an entry of `open`, goes on."""
    if entry["run"].startswith(NOT_RESUMED):
        return "If its process still trains, wait. If not, it cannot be resumed, because it had no checkpoint."
    return (
        "To resume it, repeat its command or call with the same data, settings and --out (of `train`: checkpoint); "
        "nothing is charged again."
    )


def explained_lines(ledger: Mapping[str, Any]) -> list[str]:
    """Return sentences that explain the spent epsilon of a ledger, and how much of its limit remains.

    `ledger` is the result of `Ledger.json`. If the charges add up to more than the spent epsilon, the first sentence
    says why. If the spent epsilon is infinite, the only sentence says so.
    """
    spent, limit = ledger["epsilon_spent"], ledger["limit"]
    if not math.isfinite(spent):
        return [
            f"No finite epsilon is proven at delta {rounded_up(ledger['delta'])} for the entries with an infinite "
            "epsilon, or for all entries together."
        ]
    added = sum(entry["epsilon"] for entry in ledger["events"])
    lines = []
    if len(ledger["events"]) > 1 and added > spent * (1 + EQUAL_WITHIN):
        lines.append(
            f"The charges add up to epsilon {rounded_up(added)}, but their composition costs only {rounded_up(spent)}: "
            "epsilon is the worst case of one release, and the worst case of all releases at once is unlikely."
        )
    if not ledger["events"]:
        lines.append(f"Nothing was charged yet. Remaining: epsilon {rounded_down(limit)}.")
    elif spent < limit * (1 - EQUAL_WITHIN):
        lines.append(
            f"Remaining: epsilon {rounded_down(limit - spent)}. A run with a larger epsilon may also fit, because "
            "charges compose (`privaware fit ... --dry-run` shows its cost)."
        )
    else:
        lines.append(
            f"Nothing remains. `privaware ledger {shlex.quote(ledger['path'])} --set-limit E` raises the limit and "
            "records the change; all releases together then have a weaker guarantee."
        )
    return lines
