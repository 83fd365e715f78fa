"""`privaware list`: what there is to choose from, read off the folders: the first sentence of each card."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from privaware.cli import _options as o
from privaware.cli._terminal import show
from privaware.errors import WrongInput

__all__ = ["catalogue"]

app = typer.Typer()
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
"""Where each kind is; selectors and transformations share a folder."""


@app.command("list", epilog="Example: privaware list learners")
def list_(
    kind: Annotated[str | None, typer.Argument(help="learners, datasets, models and so on.")] = None,
    seed: o.SEED = None,
    json: o.JSON = False,
) -> None:
    """What there is to choose from."""
    listed = catalogue(kind)
    lines = []
    for heading, things in listed.items():
        lines += [f"{heading}:", *(f"  {thing['name']:<18} {thing['what']}" for thing in things)]
    show(listed, lines, json)


def catalogue(kind: str | None = None) -> dict[str, list[dict[str, Any]]]:
    """Names and one line each, for one kind or for all of them.

    >>> "linear" in [thing["name"] for thing in catalogue("learners")["learners"]]
    True
    """
    kinds = [*FOLDERS, "spaces"]
    if kind is not None and kind not in kinds:
        raise WrongInput(f"expected one of {', '.join(kinds)}, got {kind!r}")
    return {each: _listed(each) for each in kinds if kind in (None, each)}


def _listed(kind: str) -> list[dict[str, Any]]:
    from privaware import selectors
    from privaware.models.spaces import Space, spaces
    from privaware.registry import card, names

    if kind == "spaces":
        return [{"name": name, "what": Space.load(name).what} for name in spaces()]
    apart = {"selectors": selectors.selectors, "transformations": selectors.transformations}
    folder = FOLDERS[kind]
    known = apart[kind]() if kind in apart else names(folder)
    return [{"name": name, "what": _first_paragraph(card(folder, name))} for name in known]


def _first_paragraph(text: str) -> str:
    return " ".join(text.strip().split("\n\n")[0].split())
