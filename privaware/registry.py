"""A registry of algorithms without a list: adding a file to a folder adds the algorithm.

`find("learners", "linear")` returns the first name in the `__all__` of `privaware/learners/linear.py`. Other packages
add algorithms as entry points of the group `privaware.learners` (and so on), each of which names an object. An entry
point replaces a file of the same name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import is_dataclass
from functools import lru_cache
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from privaware._validate import shown, suggestion
from privaware.errors import WrongInput

__all__ = ["card", "expect_name", "expect_protocol", "find", "members", "names", "settings"]


def names(kind: str) -> list[str]:
    """Return the names of the algorithms in the folder `kind`, and of those that other packages add.

    Parameters
    ----------
    kind
        A folder, such as "learners" or "selectors".

    Returns
    -------
    list of str
        The sorted names.

    Examples
    --------
    >>> "linear" in names("learners")
    True
    """
    return sorted({*_files(kind), *_entry_points(kind)})


def find(kind: str, name: str) -> Any:
    """Return the algorithm called `name`; an unknown name raises `WrongInput` with the nearest known name.

    Parameters
    ----------
    kind
        A folder, such as "learners".
    name
        The name of an algorithm.

    Returns
    -------
    object
        The first name in the `__all__` of the file, or the object of the entry point: a class, a function, or for
        "datasets" a `Source`.
    """
    expect_name(kind, name)
    if name in _entry_points(kind):
        return _entry_points(kind)[name].load()
    module = import_module(f"privaware.{kind}.{name}")
    return getattr(module, module.__all__[0])


def expect_name(kind: str, name: str) -> None:
    """Raise `WrongInput` for an unknown name, without importing any file of the folder.

    Parameters
    ----------
    kind
        A folder, such as "learners".
    name
        The name to check.
    """
    known = names(kind)
    if name not in known:
        raise WrongInput(f"{kind} has nothing called {shown(name)}; {suggestion(name, known)}")


def expect_protocol(kind: str, name: str, algorithm: Any, protocol: Any) -> Any:
    """Return the class `algorithm` if it is a dataclass with all public members of `protocol`; else raise `WrongInput`.

    Only the names of the members are checked.

    Parameters
    ----------
    kind, name
        The folder, such as "learners", and the name of the algorithm, for the message.
    algorithm
        The class of the algorithm, not an instance. It may come from another package.
    protocol
        The protocol of this kind of algorithm.

    Returns
    -------
    type
        The same class.
    """
    missing = [member for member in members(protocol) if not hasattr(algorithm, member)]
    if missing:
        raise WrongInput(
            f"{kind}: {name} has no {missing[0]!r}, which the protocol {protocol.__name__} asks for; inherit from "
            f"{protocol.__module__}.{protocol.__name__} and define it"
        )
    if not is_dataclass(algorithm):
        raise WrongInput(
            f"{kind}: expected {name} as a dataclass of public settings, got another object; add "
            "@dataclass(frozen=True, kw_only=True)"
        )
    return algorithm


def members(protocol: Any) -> list[str]:
    """Return the public attributes and methods of a protocol, including inherited ones.

    Parameters
    ----------
    protocol
        A protocol class.

    Returns
    -------
    list of str
        The sorted names.
    """
    classes = [base for base in protocol.__mro__ if base.__dict__.get("_is_protocol", False)]
    every = {name for base in classes for name in (*vars(base), *vars(base).get("__annotations__", {}))}
    return sorted(name for name in every if not name.startswith("_"))


def card(kind: str, name: str) -> str:
    """Return the card of an algorithm: the docstring of its file, or of its object if another package adds it.

    Parameters
    ----------
    kind
        A folder, such as "learners".
    name
        The name of a known algorithm, one of `names(kind)`.

    Returns
    -------
    str
        The docstring, or an empty text.
    """
    if name in _entry_points(kind):
        return find(kind, name).__doc__ or ""
    return import_module(f"privaware.{kind}.{name}").__doc__ or ""


def settings(pairs: Iterable[str]) -> dict[str, Any]:
    """Parse settings written as NAME=VALUE; a value is JSON, or else text. Raise `ValueError` for a setting without =.

    Parameters
    ----------
    pairs
        The settings.

    Returns
    -------
    dict
        The values by name.

    Examples
    --------
    >>> settings(["steps=50", "hidden=[16, 8]", "columns=age+town"])
    {'steps': 50, 'hidden': [16, 8], 'columns': 'age+town'}
    """
    values: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise ValueError(f"{pair!r:.40}")
        try:
            values[name] = json.loads(text)
        except ValueError:
            values[name] = text
    return values


@lru_cache
def _files(kind: str) -> tuple[str, ...]:
    files = (path.stem for path in (Path(__file__).parent / kind).glob("*.py"))
    return tuple(name for name in files if not name.startswith("_"))


@lru_cache
def _entry_points(kind: str) -> dict[str, metadata.EntryPoint]:
    return {point.name: point for point in metadata.entry_points(group=f"privaware.{kind}")}
