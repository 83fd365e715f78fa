"""A folder is its own registry: adding a file adds the algorithm.

`find("learners", "linear")` is the one public name of `privaware/learners/linear.py`. Other packages
add theirs as entry points of the group `privaware.learners` (and so on), each naming an object.
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
    """What the folder `kind` holds, and what other packages add to it.

    >>> "linear" in names("learners")
    True
    """
    return sorted({*_files(kind), *_entry_points(kind)})


def find(kind: str, name: str) -> Any:
    """The algorithm called `name`; an unknown name is answered with the one nearest."""
    expect_name(kind, name)
    if name in _entry_points(kind):
        return _entry_points(kind)[name].load()
    module = import_module(f"privaware.{kind}.{name}")
    return getattr(module, module.__all__[0])


def expect_name(kind: str, name: str) -> None:
    """Refuses a name that the folder does not hold, without importing any of its files."""
    known = names(kind)
    if name in known:
        return
    raise WrongInput(f"{kind} has nothing called {shown(name)}; {suggestion(name, known)}")


def expect_protocol(kind: str, name: str, algorithm: Any, protocol: Any) -> Any:
    """The algorithm, if it is a dataclass with every member of `protocol`; one of another package may lack some."""
    missing = [member for member in members(protocol) if not hasattr(algorithm, member)]
    if missing:
        raise WrongInput(
            f"{kind}: {name} has no {missing[0]!r}, which the protocol {protocol.__name__} asks for; inherit from "
            f"{protocol.__module__}.{protocol.__name__} and define it"
        )
    if not is_dataclass(algorithm):
        raise WrongInput(f"{kind}: expected {name} as a dataclass of public settings, got {type(algorithm).__name__}")
    return algorithm


def members(protocol: Any) -> list[str]:
    """The public attributes and methods that a protocol asks for, its own and inherited ones."""
    classes = [base for base in protocol.__mro__ if base.__dict__.get("_is_protocol", False)]
    every = {name for base in classes for name in (*vars(base), *vars(base).get("__annotations__", {}))}
    return sorted(name for name in every if not name.startswith("_"))


def card(kind: str, name: str) -> str:
    """The docstring that is the algorithm's card: the file's own, or the object's."""
    if name in _entry_points(kind):
        return find(kind, name).__doc__ or ""
    return import_module(f"privaware.{kind}.{name}").__doc__ or ""


def settings(pairs: Iterable[str]) -> dict[str, Any]:
    """Settings of an algorithm as a person writes them, NAME=VALUE: a value is JSON, or else a word.

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
