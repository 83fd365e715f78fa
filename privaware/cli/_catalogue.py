"""What there is to choose from, read off the folders: the first line of each card."""

from __future__ import annotations

from typing import Any

from privaware.errors import WrongInput
from privaware.models.spaces import Space, spaces
from privaware.registry import card, find, names

__all__ = ["catalogue"]

FOLDERS = {
    "learners": "learners",
    "selectors": "selectors",
    "transformations": "selectors",
    "strategies": "strategies",
    "attacks": "attacks",
    "models": "models",
    "datasets": "datasets",
    "features": "features",
}


def catalogue(kind: str | None = None) -> dict[str, list[dict[str, Any]]]:
    """Names and one line each, for one kind or for all.

    >>> "linear" in [thing["name"] for thing in catalogue("learners")["learners"]]
    True
    """
    kinds = [*FOLDERS, "spaces"]
    if kind is not None and kind not in kinds:
        raise WrongInput(f"expected one of {', '.join(kinds)}, got {kind!r}")
    return {each: _listed(each) for each in kinds if kind in (None, each)}


def _listed(kind: str) -> list[dict[str, Any]]:
    if kind == "spaces":
        return [{"name": name, "what": Space.load(name).what} for name in spaces()]
    folder = FOLDERS[kind]
    known = names(folder)
    if folder == "selectors":
        known = [name for name in known if _chooses(name) == (kind == "selectors")]
    return [{"name": name, "what": _first_sentence(card(folder, name))} for name in known]


def _chooses(name: str) -> bool:
    """Whether a paid transformation is a selector: one that releases names of columns."""
    return bool(getattr(find("selectors", name), "selects", False))


def _first_sentence(words: str) -> str:
    return " ".join(words.strip().split("\n\n")[0].split())
