"""A folder is its own registry: adding a file adds the algorithm.

`find("learners", "linear")` is the one public name of `privaware/learners/linear.py`. Other packages
add theirs as entry points of the group `privaware.learners` (and so on), each naming an object.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from functools import lru_cache
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from privaware.errors import WrongInput

__all__ = ["card", "find", "names", "settings"]


@lru_cache
def names(kind: str) -> list[str]:
    """What the folder `kind` holds, and what other packages add to it.

    >>> "linear" in names("learners")
    True
    """
    own = (path.stem for path in (Path(__file__).parent / kind).glob("*.py"))
    return sorted({*(name for name in own if not name.startswith("_")), *_others(kind)})


def find(kind: str, name: str) -> Any:
    """The algorithm called `name`; a wrong name is answered with the close ones."""
    if name in _others(kind):
        return _others(kind)[name].load()
    if name not in names(kind):
        known = names(kind)
        close = difflib.get_close_matches(str(name), known) or known
        raise WrongInput(f"{kind} has nothing called {name!r}; did you mean {' or '.join(close)}?")
    module = import_module(f"privaware.{kind}.{name}")
    return getattr(module, module.__all__[0])


def card(kind: str, name: str) -> str:
    """The docstring that is the algorithm's card: the file's own, or the object's."""
    if name in _others(kind):
        return find(kind, name).__doc__ or ""
    return import_module(f"privaware.{kind}.{name}").__doc__ or ""


def settings(pairs: Iterable[str]) -> dict[str, Any]:
    """Settings of an algorithm as a person writes them, NAME=VALUE: a value is JSON, or else a word.

    >>> settings(["steps=50", "hidden=[16, 8]", "columns=age+town"])
    {'steps': 50, 'hidden': [16, 8], 'columns': 'age+town'}
    """
    made: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise ValueError(f"{pair!r:.40}")
        try:
            made[name] = json.loads(text)
        except ValueError:
            made[name] = text
    return made


@lru_cache
def _others(kind: str) -> dict[str, metadata.EntryPoint]:
    return {point.name: point for point in metadata.entry_points(group=f"privaware.{kind}")}
