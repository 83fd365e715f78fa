"""A command that is repeated after its run has ended: its result lies in the folder, and nothing is charged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from privaware.card import ModelCard
from privaware.errors import WrongInput
from privaware.ledger import Entry, Ledger
from privaware.workflow.run.output import sha256
from privaware.workflow.run.result_file import result_name

__all__ = ["finished_entry", "published_result"]


def published_result(folder: Path) -> dict[str, Any] | None:
    """The result in a folder that holds no model."""
    name = result_name(folder)
    try:
        content = None if name is None else json.loads((folder / name).read_bytes())
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def finished_entry(folder: Path, ledger: Ledger, key: str, digest: Callable[[], str | None]) -> Entry | None:
    """The charge of the very run whose files lie in the folder, unchanged: same command, same rows, and closed."""
    entry = None if (charge := _charge_named(folder)) is None else ledger.entry(charge)
    if entry is None or entry.run is None or entry.run.rpartition("-")[0] != key:
        return None
    closing = ledger.closing(entry.run)
    if closing is None or not closing.files:
        return None
    if entry.rows is not None and entry.rows != digest():
        return None
    same = all((folder / name).is_file() and sha256(folder / name) == hash for name, hash in closing.files.items())
    return entry if same else None


def _charge_named(folder: Path) -> str | None:
    """The hash of the ledger entry that the result in a folder names."""
    if (folder / "model.json").is_file():
        try:
            return ModelCard.read(folder).ledger.entry
        except (OSError, WrongInput):
            return None
    entry = (published_result(folder) or {}).get("ledger")
    return entry if isinstance(entry, str) else None
