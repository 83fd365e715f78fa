"""Remembers calibrated noises on disk. An entry is only a hint: it is used if it still describes the very same
event.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

from privaware.events import Event, to_json

VERSION = 1  # raise it whenever an accountant changes


def folder() -> Path:
    """`PRIVAWARE_CACHE`, or the platform's folder for caches of this user."""
    if named := os.environ.get("PRIVAWARE_CACHE"):
        return Path(named)
    home = Path.home()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local")) / "privaware" / "Cache"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "privaware"
    return Path(os.environ.get("XDG_CACHE_HOME", home / ".cache")) / "privaware"


def fingerprint(*parts: Any) -> str:
    """A name for public values: events, numbers, words."""
    plain = [to_json(part) if isinstance(part, Event) else part for part in parts]
    text = json.dumps([VERSION, metadata.version("dp-accounting"), *plain], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def read(name: str) -> dict[str, Any] | None:
    """The entry, or None if there is none that can be understood."""
    try:
        entry = json.loads((folder() / "noise" / f"{name}.json").read_text())
    except (OSError, ValueError):
        return None
    return entry if isinstance(entry, dict) else None


def write(name: str, entry: dict[str, Any]) -> None:
    """Whole or not at all; a disk that refuses only costs time."""
    place = folder() / "noise"
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=place, suffix=".part", delete=False) as file:
            json.dump(entry, file)
        os.replace(file.name, place / f"{name}.json")
    except OSError:
        return
