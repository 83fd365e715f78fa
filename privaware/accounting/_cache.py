"""Cache calibrated noise multipliers on disk. An entry is only a hint: its cost is computed again before it is used."""

from __future__ import annotations

import hashlib
import json
from importlib import metadata
from typing import Any

from privaware._files import atomic_write, cache_folder
from privaware.events import Event, to_json

VERSION = 4
"""Version of the accountants; a change of any accountant raises it, which invalidates old entries."""


def fingerprint(*parts: Any) -> str:
    """Return the name of the cache entry for the public values `parts` (events, numbers, words): a SHA-256 in hex."""
    plain = [to_json(part) if isinstance(part, Event) else part for part in parts]
    text = json.dumps([VERSION, metadata.version("dp-accounting"), *plain], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def read(name: str) -> dict[str, Any] | None:
    """Return the cache entry called `name`, or None if it does not exist or cannot be read."""
    try:
        entry = json.loads((cache_folder() / "noise" / f"{name}.json").read_text())
    except (OSError, ValueError):
        return None
    return entry if isinstance(entry, dict) else None


def write(name: str, entry: dict[str, Any]) -> None:
    """Write the cache entry called `name`. A disk error is ignored, because a missing entry only costs time."""
    place = cache_folder() / "noise"
    try:
        place.mkdir(parents=True, exist_ok=True)
        atomic_write(place / f"{name}.json", json.dumps(entry).encode())
    except OSError:
        return
