"""Parse search spaces from TOML files and dictionaries, and check them field by field."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from privaware._validate import expect
from privaware.errors import WrongInput

__all__ = ["FIELDS", "parse", "read", "spaces"]

FOLDER = Path(__file__).parent
"""Folder of the spaces that come with the package."""
FIELDS = ("what", "learner", "choices", "when", "build", "priced")
"""Fields of a space."""


def spaces() -> list[str]:
    """Return the names of the spaces that come with the package.

    >>> "fcn" in spaces()
    True
    """
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def read(name: str) -> dict[str, Any]:
    """Return the fields of the space `name` of the package, or else of the TOML file at the path `name`.

    Raise `WrongInput` if the file cannot be read, is not TOML or has wrong fields.
    """
    path = FOLDER / f"{name}.toml" if name in spaces() else Path(name)
    try:
        return parse(tomllib.loads(path.read_text()), name)
    except (OSError, UnicodeDecodeError):
        raise WrongInput(f"expected a space among {', '.join(spaces())} or a TOML file, got {name!r:.120}") from None
    except tomllib.TOMLDecodeError as problem:
        raise WrongInput(f"{name!r:.120} is not TOML: {problem!s:.120}") from None
    except RecursionError:
        raise WrongInput(f"expected a space of a few levels, got {name!r:.120}, which is nested too deeply") from None


def parse(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the fields of a space from the dictionary `table`, with lists as tuples and defaults for absent fields.

    A wrong field raises `WrongInput`, whose message begins with `where`.
    """
    if unknown := [key for key in table if key not in FIELDS]:
        raise WrongInput(f"{where}: expected fields among {', '.join(FIELDS)}, got {unknown[0]!r}")
    choices, when, build = (table.get(key, {}) for key in ("choices", "when", "build"))
    for name, value in (("choices", choices), ("when", when), ("build", build)):
        expect(isinstance(value, Mapping), where, f"{name} as a table", value)
    priced = table.get("priced", ())
    for name, values in choices.items():
        expect(_is_list(values), f"{where}, choice {name!r}", "a list", values)
    for name, rules in when.items():
        lists = isinstance(rules, Mapping) and all(_is_list(values) for values in rules.values())
        expect(lists, f"{where}, condition of {name!r}", "lists of values by choice", rules)
    names = _is_list(priced) and all(isinstance(name, str) for name in priced)
    expect(names, where, "priced as a list of choices", priced)
    return {
        "what": str(table.get("what", "")),
        "learner": str(table.get("learner", "dpsgd")),
        "choices": {name: tuple(values) for name, values in choices.items()},
        "when": {name: {other: tuple(values) for other, values in rules.items()} for name, rules in when.items()},
        "build": dict(build),
        "priced": tuple(priced),
    }


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))
