"""`privaware list`: the available algorithms, with the first paragraph of each card."""

from __future__ import annotations

from collections.abc import Iterable
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
HOW = {"learners": " (--set NAME=VALUE)", "strategies": " (--option NAME=VALUE)"}
"""The option that takes settings of a learner or a strategy, for the heading above a list of settings."""


def _complete_kind(incomplete: str) -> list[str]:
    return [kind for kind in (*FOLDERS, "spaces") if kind.startswith(incomplete)]


_KIND = "What to list, such as learners, datasets or models. Default: everything."
KIND = Annotated[str | None, typer.Argument(help=_KIND, autocompletion=_complete_kind)]


_NAME = "One of the listed names, to show its settings with defaults and ranges."
NAME = Annotated[str | None, typer.Argument(help=_NAME)]


@app.command("list", epilog="Example: privaware list learners, or privaware list learners linear")
def list_(kind: KIND = None, name: NAME = None, seed: o.NO_SEED = None, json: o.JSON = False) -> None:
    """List the available algorithms, models, search spaces and data sets, or the settings of one."""
    if kind is not None and name is not None:
        facts, lines = _details(kind, name)
        show({kind: [facts]}, lines, json)
        return
    listed = catalogue(kind)
    lines = []
    for heading, things in listed.items():
        lines.append(f"{heading}:")
        width = _width(thing["name"] for thing in things)
        for thing in things:
            lines.append(f"  {thing['name']:<{width}} {thing['what']}")
            about = [f"{word}: {thing[key]}" for key, word in COLUMNS.items() if thing.get(key)]
            lines += [f"  {'':<{width}} [{'; '.join(about)}]"] if about else []
    show(listed, lines, json)


def _details(kind: str, name: str) -> tuple[dict[str, Any], list[str]]:
    """Return what is known about `name` in the list `kind`, as a dict for JSON and as lines for a person.

    The dict has its entries in `catalogue` and its `settings` with defaults and ranges, or, for a search space, its
    `choices`. Raise `WrongInput` if the kind or the name is unknown.
    """
    from privaware.models.spaces import Space
    from privaware.registry import find
    from privaware.workflow.run.learner_settings import described_settings

    things = {thing["name"]: thing for thing in catalogue(kind)[kind]}
    if name not in things:
        raise WrongInput(f"there is nothing called {shown(name)} in {kind}; {suggestion(name, list(things))}")
    settings = [] if kind == "spaces" else described_settings(find(kind, name))
    choices = {key: list(values) for key, values in Space.load(name).choices.items()} if kind == "spaces" else {}
    lines = [f"{name}: {things[name]['what']}"]
    facts = [f"{word}: {things[name][key]}" for key, word in COLUMNS.items() if things[name].get(key)]
    lines += [f"  [{'; '.join(facts)}]"] if facts else []
    lines += [f"Settings{HOW.get(kind, '')}:"] if settings else ["Choices:"] if choices else ["No settings."]
    width = _width([*choices, *(setting.name for setting in settings)])
    lines += [f"  {key:<{width}} {', '.join(map(str, values))}" for key, values in choices.items()]
    for setting in settings:
        lines.append(f"  {setting.name:<{width}} {setting.sentence}")
        lines += [f"  {'':<{width}} {setting.what}"] if setting.what else []
    listed = {"choices": choices} if choices else {"settings": [setting.json() for setting in settings]}
    return {**things[name], **listed}, lines


def _width(names: Iterable[str]) -> int:
    """Return the width of a printed column of `names`, in characters: the length of the longest name, at least 18."""
    return max([18, *map(len, names)])


def catalogue(kind: str | None = None) -> dict[str, list[dict[str, Any]]]:
    """Return the list of each kind by its name; only of `kind`, unless it is None.

    A kind is one of `FOLDERS` or "spaces". Each thing in a list is a dict with its `name` and a description, `what`.
    For learners, the facts in `COLUMNS` are added. Raise `WrongInput` for an unknown kind.

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
