"""Remembers calibrated noises on disk. An entry is only a hint: its noise is priced again before it is used."""

from __future__ import annotations

import hashlib
import json
from importlib import metadata
from typing import Any

from privaware._files import atomic_write, cache_folder
from privaware.events import Event, to_json

VERSION = 4  # raise it whenever an accountant changes


def fingerprint(*parts: Any) -> str:
    """A name for public values: events, numbers, words."""
    plain = [to_json(part) if isinstance(part, Event) else part for part in parts]
    text = json.dumps([VERSION, metadata.version("dp-accounting"), *plain], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def read(name: str) -> dict[str, Any] | None:
    """The entry, or None if there is none that can be understood."""
    try:
        entry = json.loads((cache_folder() / "noise" / f"{name}.json").read_text())
    except (OSError, ValueError):
        return None
    return entry if isinstance(entry, dict) else None


def write(name: str, entry: dict[str, Any]) -> None:
    """A disk that refuses only costs time, and so does another process that writes the same entry."""
    place = cache_folder() / "noise"
    try:
        place.mkdir(parents=True, exist_ok=True)
        atomic_write(place / f"{name}.json", json.dumps(entry).encode())
    except OSError:
        return
