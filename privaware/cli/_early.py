"""Checks before slow imports: data, models and learners that do not exist."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from privaware._files import unfinished_run
from privaware._validate import nearest
from privaware.errors import WrongInput
from privaware.registry import expect_name, names


def expect_data(data: str, *, or_model: bool = False) -> None:
    """Raise `WrongInput` if `data` is neither an existing path nor a built-in data set.

    If `or_model`, the command also takes a model folder, and the error says so.

    The error suggests the most similar path or name, if one is similar enough. An empty name or a name with a zero
    character passes: reading it raises later.
    """
    if "\0" in data or not data or os.path.exists(data) or data in names("datasets"):
        return  # other problems are reported when it is read
    near = _nearest_path(data, {*names("datasets"), *_beside(data)} - {data})  # a dead link is beside itself
    model = "a model folder, " if or_model else ""
    raise WrongInput(
        f"expected {model}a data file, a folder of images or a built-in data set (`privaware data list`), but there is "
        f"nothing called {data!r:.80}" + (f"; did you mean {near}?" if near else "")
    )


def expect_model(folder: Path) -> None:
    """Raise `WrongInput` if `folder` has no `model.json`, and suggest the nearest model folder next to it.

    A name with a zero character passes: reading it raises later.
    """
    if "\0" in str(folder) or (folder / "model.json").is_file():
        return
    if (unfinished := unfinished_run(folder)) is not None:
        raise WrongInput(unfinished)
    models = (name for name in _beside(str(folder)) if Path(name, "model.json").is_file())
    near = _nearest_path(str(folder), models)
    raise WrongInput(
        f"expected a model folder with model.json, got {str(folder)!r:.120}; "
        + (f"did you mean {near}?" if near else "make one with `privaware fit`")
    )


def expect_learner(learner: str) -> None:
    """Raise `WrongInput` if there is no learner of this name; "auto" is accepted."""
    if learner != "auto":
        expect_name("learners", learner)


def expect_named(kind: str, name: str | None) -> None:
    """Raise `WrongInput` if `name` is not a name of this `kind`, such as "strategies"; None is accepted."""
    if name is not None:
        expect_name(kind, name)


def _nearest_path(path: str, known: Iterable[str]) -> str | None:
    """Return the `nearest` of the `known` paths and names; an ending such as ".csv" alone makes none similar."""
    stems = {name: os.path.splitext(name)[0] for name in known}
    near = nearest(os.path.splitext(path)[0], stems.values())
    alike = [name for name, stem in stems.items() if stem == near]
    return nearest(path, alike) or next(iter(alike), None)


def _beside(path: str) -> list[str]:
    """Return the paths of all files and folders directly in the folder that contains `path`, except hidden ones.

    Each path begins with the folder as it is written in `path`. Return an empty list if the folder cannot be read.
    """
    folder = os.path.dirname(path)
    try:
        return [os.path.join(folder, name) for name in os.listdir(folder or ".") if not name.startswith(".")]
    except OSError:
        return []
