"""`privaware list`: the available algorithms, with the first paragraph of each card."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from privaware._validate import shown, suggestion
from privaware.cli import _options as o
from privaware.cli._terminal import show
from privaware.errors import WrongInput

__all__ = ["catalogue"]

app = typer.Typer()
FOLDERS = ("learners", "selectors", "preprocessing", "strategies", "attacks", "models", "datasets", "features")
"""Folders that are their own registries, each listed under its name."""
COLUMNS = {"phase": "phase", "unit": "unit", "guarantee": "guarantee", "auxiliary": "auxiliary data"}
"""Facts that are listed about a learner, and their labels."""


def _complete_kind(incomplete: str) -> list[str]:
    return [kind for kind in (*FOLDERS, "spaces") if kind.startswith(incomplete)]


_KIND = "What to list, such as learners, datasets or models. Default: everything."
KIND = Annotated[str | None, typer.Argument(help=_KIND, autocompletion=_complete_kind)]


@app.command("list", epilog="Example: privaware list learners")
def list_(kind: KIND = None, seed: o.SEED = None, json: o.JSON = False) -> None:
    """List the available learners, selectors, strategies, attacks, models and data sets."""
    listed = catalogue(kind)
    lines = []
    for heading, things in listed.items():
        lines.append(f"{heading}:")
        for thing in things:
            lines.append(f"  {thing['name']:<18} {thing['what']}")
            facts = [f"{word}: {thing[key]}" for key, word in COLUMNS.items() if thing.get(key)]
            lines += [f"  {'':<18} [{'; '.join(facts)}]"] if facts else []
    show(listed, lines, json)


def catalogue(kind: str | None = None) -> dict[str, list[dict[str, Any]]]:
    """Return names and descriptions, for one kind or for all kinds.

    >>> "linear" in [thing["name"] for thing in catalogue("learners")["learners"]]
    True
    """
    kinds = [*FOLDERS, "spaces"]
    if kind is not None and kind not in kinds:
        raise WrongInput(f"there is no list of {shown(kind)}; {suggestion(kind, kinds)}")
    return {each: _listed(each) for each in kinds if kind in (None, each)}


def _listed(kind: str) -> list[dict[str, Any]]:
    from privaware.models.spaces import Space, spaces
    from privaware.registry import card, names

    if kind == "spaces":
        return [{"name": name, "what": Space.load(name).what} for name in spaces()]
    facts = _learner_facts if kind == "learners" else lambda name: {}
    return [{"name": name, "what": _first_paragraph(card(kind, name)), **facts(name)} for name in names(kind)]


def _learner_facts(name: str) -> dict[str, str]:
    from privaware.learners import auxiliary_data, find_learner

    learner = find_learner(name)
    auxiliary = auxiliary_data(learner)
    return {"phase": learner.phase, "unit": learner.unit, "guarantee": learner.guarantee, "auxiliary": auxiliary}


def _first_paragraph(text: str) -> str:
    return " ".join(text.strip().split("\n\n")[0].split())
