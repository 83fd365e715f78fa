"""Recognise a repeated command whose run has finished: its result is in the folder, and nothing is charged."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from privaware.card import ModelCard
from privaware.errors import WrongInput
from privaware.ledger import Entry, Ledger
from privaware.workflow.run.output import STAGED, sha256
from privaware.workflow.run.result_file import result_name
from privaware.workflow.run.resume import was_charged_for

__all__ = ["finished_entry", "may_be_paid", "published_result"]


def published_result(folder: Path) -> dict[str, Any] | None:
    """Return the content of the result file in a folder that holds no model.

    Return None if the folder holds a model, no result file, or a file that cannot be read.
    """
    name = result_name(folder)
    try:
        content = None if name is None else json.loads((folder / name).read_bytes())
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def finished_entry(
    folder: Path,
    ledger: Ledger,
    key: str,
    digest: Callable[[], str | None],
    is_moved: Callable[[Entry], bool] = lambda _: False,
) -> Entry | None:
    """Return the charge of the run that wrote the files in `folder`, or None.

    The charge is returned only if the command (`key`) and the rows are the same, the run is closed, and its files are
    unchanged. A run with another key, because its folder was moved, counts if `is_moved(charge)` is true. `digest`
    returns the digest of the rows; it is not called if the charge does not name rows.
    """
    entry = None if (charge := _charge_named(folder)) is None else ledger.entry(charge)
    if entry is None or entry.run is None or not (entry.run.rpartition("-")[0] == key or is_moved(entry)):
        return None
    closing = ledger.closing(entry.run)
    if closing is None or not closing.files:
        return None
    if not was_charged_for(entry, digest):
        return None
    return entry if _holds(folder, closing.files) else None


def may_be_paid(folder: Path | None, ledger: Ledger, key: str, digest: Callable[[], str | None] | None = None) -> bool:
    """Return whether the command `key` would charge nothing.

    It charges nothing if one of its runs is not closed, or if `folder` (unless None) has the complete result of one,
    published or staged. `digest` returns the digest of the rows, and runs for other rows do not count. If `digest` is
    None, no rows are read, and the answer holds if the rows are the same.
    """
    entries = ledger.entries()
    closed = {entry.run: entry.files or {} for entry in entries if entry.kind == "finished"}
    places = [] if folder is None else [folder, folder / STAGED]
    return any(
        entry.run not in closed or (closed[entry.run] and any(_holds(place, closed[entry.run]) for place in places))
        for entry in entries
        if entry.kind == "spend" and entry.run is not None and entry.run.rpartition("-")[0] == key
        if digest is None or was_charged_for(entry, digest)
    )


def _holds(folder: Path, files: Mapping[str, str]) -> bool:
    """Return whether `folder` has all `files`, names with SHA-256 hashes, unchanged."""
    return all((folder / name).is_file() and sha256(folder / name) == hash for name, hash in files.items())


def _charge_named(folder: Path) -> str | None:
    """Return the hash of the charge that the model or other result in `folder` names; None if none can be read."""
    if (folder / "model.json").is_file():
        try:
            return ModelCard.read(folder).ledger.entry
        except (OSError, WrongInput):
            return None
    entry = (published_result(folder) or {}).get("ledger")
    return entry if isinstance(entry, str) else None
