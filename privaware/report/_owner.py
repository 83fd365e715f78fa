"""What the owner of a model says of it, in a TOML file: who answers for it, and what it is for.

>>> owner_statement({"owner": "Town hospital", "limitations": ["not for children"]})
{'owner': 'Town hospital', 'limitations': ['not for children']}
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from privaware._validate import expect, shown
from privaware.errors import WrongInput

__all__ = ["LABELS", "owner_statement"]

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
"""The entries that a statement may have, and how a page calls them."""
LISTS = ("intended_users", "limitations")
LONGEST = 4000
"""Most characters of a text."""

MOST = 50
"""Most texts of a list."""


def owner_statement(statement: str | Path | Mapping[str, Any] | None) -> dict[str, Any]:
    """The entries of a statement, or of the TOML file that holds it: known names, short texts or lists of them.

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
            listed = isinstance(entry, (list, tuple)) and len(entry) <= MOST and all(map(_is_text, entry))
            expect(listed, "--describe", f"{name} as a list of at most {MOST} texts", entry)
        else:
            expect(_is_text(entry), "--describe", f"{name} as text of at most {LONGEST} characters", entry)
    return {name: list(entry) if name in LISTS else entry for name, entry in entries.items()}


def _is_text(entry: Any) -> bool:
    return isinstance(entry, str) and 0 < len(entry) <= LONGEST


def _read(path: Path) -> dict[str, Any]:
    where = f"--describe {shown(str(path))}"
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise WrongInput(f"{where}: expected a TOML file, got none: {problem.strerror or problem}") from None
    except (ValueError, RecursionError) as problem:
        raise WrongInput(f"{where}: expected UTF-8 text in TOML: {problem!s:.200}") from None
