"""What can be refused before anything heavy is imported: data, models and learners that are not there."""

from __future__ import annotations

import os
from pathlib import Path

from privaware._validate import nearest
from privaware.errors import WrongInput
from privaware.registry import expect_name, names

__all__ = ["expect_data", "expect_learner", "expect_model", "expect_named"]

ALIKE = 0.75
"""Paths that share an ending are not near for that alone."""


def expect_data(data: str) -> None:
    """Refuses a path that is not there and no built-in data set, with the nearest name that is."""
    if "\0" in data or not data or os.path.exists(data) or data in names("datasets"):
        return  # what else may be wrong with it is said where it is read
    near = nearest(data, [*names("datasets"), *_beside(data)], ALIKE)
    raise WrongInput(
        "expected a data file, a folder of images or a built-in data set (`privaware data list`), but there is nothing "
        f"called {data!r:.80}" + (f"; did you mean {near}?" if near else "")
    )


def expect_model(folder: Path) -> None:
    """Refuses what is not the folder of a model."""
    if "\0" in str(folder) or (folder / "model.json").is_file():
        return
    near = nearest(str(folder), [name for name in _beside(str(folder)) if Path(name, "model.json").is_file()], ALIKE)
    raise WrongInput(
        f"expected a model folder with model.json, got {str(folder)!r:.120}; "
        + (f"did you mean {near}?" if near else "make one with `privaware fit`")
    )


def expect_learner(learner: str) -> None:
    """Refuses a learner that is not there."""
    if learner != "auto":
        expect_name("learners", learner)


def expect_named(kind: str, name: str | None) -> None:
    """Refuses a name that is not among those of its kind, such as strategies; none is fine."""
    if name is not None:
        expect_name(kind, name)


def _beside(path: str) -> list[str]:
    """Files and folders in the same place, spelt as the path is."""
    folder = os.path.dirname(path)
    try:
        return [os.path.join(folder, name) for name in os.listdir(folder or ".") if not name.startswith(".")]
    except OSError:
        return []
