"""The owner's statement about a model, in a TOML file: who is responsible for it, and what it is for.

>>> owner_statement({"owner": "Town hospital", "limitations": ["not for children"]})
{'owner': 'Town hospital', 'limitations': ['not for children']}
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from privaware._validate import expect
from privaware.errors import WrongInput

LABELS = {
    "name": "name",
    "owner": "owner",
    "owner_type": "kind of owner",
    "contact": "contact",
    "intended_use": "intended use",
    "intended_users": "intended users",
    "not_intended_for": "not intended for",
    "data": "data",
    "region": "region",
    "sector": "sector",
    "licence": "licence",
    "limitations": "limitations",
}
"""Entries that a statement may have, with their labels on a page."""
LISTS = ("intended_users", "limitations")
MAX_CHARACTERS = 4000
"""Largest number of characters of a text."""

MAX_TEXTS = 50
"""Largest number of texts in a list."""


def owner_statement(statement: str | Path | Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the checked entries of a statement, or of the TOML file that holds it.

    Parameters
    ----------
    statement
        A mapping, a TOML file, or None for an empty statement.

    Returns
    -------
    dict
        The entries. `intended_users` and `limitations` are lists of at most 50 texts; all others are texts. A text has
        1 to 4000 characters. A name that is not in `LABELS`, or another value, raises `WrongInput`.

    Examples
    --------
    >>> owner_statement({"limitations": "only adults"})
    {'limitations': ['only adults']}
    """
    if statement is None:
        return {}
    entries = dict(statement) if isinstance(statement, Mapping) else _read(Path(statement))
    entries |= {name: [entries[name]] for name in LISTS if _is_text(entries.get(name))}
    for name, entry in entries.items():
        expect(name in LABELS, "--describe", f"entries among {', '.join(LABELS)}", name)
        if name in LISTS:
            listed = isinstance(entry, (list, tuple)) and len(entry) <= MAX_TEXTS and all(map(_is_text, entry))
            expect(listed, "--describe", f"{name} as a list of at most {MAX_TEXTS} texts", entry)
        else:
            expect(_is_text(entry), "--describe", f"{name} as text of at most {MAX_CHARACTERS} characters", entry)
    return {name: list(entry) if name in LISTS else entry for name, entry in entries.items()}


def _is_text(entry: Any) -> bool:
    return isinstance(entry, str) and 0 < len(entry) <= MAX_CHARACTERS


def _read(path: Path) -> dict[str, Any]:
    where = f"--describe={str(path)!r}"
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise WrongInput(f"{where}: expected a TOML file, got none: {problem.strerror or problem}") from None
    except (ValueError, RecursionError) as problem:
        raise WrongInput(f"{where}: expected UTF-8 text in TOML: {problem!s:.200}") from None
