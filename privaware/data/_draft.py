"""A schema proposed from the rows themselves, for a person to confirm."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from privaware.data._data import target_of
from privaware.data._read import Raw
from privaware.data._values import Words, numbers_of, short, some, words_of
from privaware.errors import WrongInput
from privaware.schema import Column, Schema

if TYPE_CHECKING:
    import pandas as pd

FEW = 20
"""Up to this many distinct whole numbers, a target is a set of classes unless told otherwise."""

MANY = 100
"""A draft proposes no more classes than this: beyond it the target is an identifier or free text."""


def draft(raw: Raw, *, target: str, task: str | None = None, unit: str = "row", cap: int = 1) -> Schema:
    """A schema read off the rows, for a person to confirm: all of it is thereby assumed public."""
    if task not in (None, "classification", "regression"):
        raise WrongInput(f"expected task classification or regression, got {short(task)}")
    values = target_of(raw, target)
    if len(values) == 0:
        raise WrongInput("expected at least one row to draft a schema from, got none; write the schema yourself")
    facts = {
        **_draft_target(values, task),
        "target": target,
        "rows": len(values),
        "unit": unit,
        "cap": cap,
        "reviewed": False,
    }
    if raw.frame is None:
        return _draft_images(raw, facts)
    return _draft_table(raw.frame, facts)


def _draft_table(frame: pd.DataFrame, facts: dict[str, Any]) -> Schema:
    target, unit = facts["target"], facts["unit"]
    if unit not in ("row", "label") and (unit not in frame.columns or unit == target):
        others = [name for name in frame.columns if name != target]
        raise WrongInput(f"expected --unit among the columns {some(others)}, got {short(unit)}")
    apart = (target,) if unit in ("row", "label") else (target, unit)
    columns = tuple(_draft_column(name, frame[name]) for name in frame.columns if name not in apart)
    form = "text" if {column.kind for column in columns} - {"ignore"} == {"text"} else "table"
    if form == "table":
        columns = tuple(replace(c, kind="ignore") if c.kind == "text" else c for c in columns)
    assumed = ["the number of rows", "the names and kinds of the columns"]
    words = {
        "number": "the range of {}",
        "category": "the categories of {}",
        "text": "that {} is text",
        "ignore": "that {} may be left out",
    }
    assumed += [words[column.kind].format(column.name) for column in columns]
    assumed += [f"the {'classes' if 'classes' in facts else 'range'} of {target}"]
    return Schema(columns=columns, form=form, assumed=tuple(assumed), **facts)


def _draft_column(name: str, values: pd.Series) -> Column:
    """Numbers by their range, words by their categories; names of rows and constants are left out."""
    try:
        numbers, gaps = numbers_of(values)
    except WrongInput:  # lists, records and bytes are no single values
        return Column(name=name, kind="ignore")
    if (np.isnan(numbers) & ~gaps).any():
        return _draft_words(name, words_of(values), gaps)
    known = numbers[np.isfinite(numbers)]
    if len(np.unique(known)) < 2 or _names_rows(name, known):
        return Column(name=name, kind="ignore")
    missing = "category" if len(known) < len(numbers) else "refuse"
    return Column(name=name, low=float(known.min()), high=float(known.max()), missing=missing)


def _draft_words(name: str, words: Words, gaps: np.ndarray) -> Column:
    distinct = sorted({words.spellings[at] for at in np.unique(words.at[~gaps])})
    if len(distinct) < 2:
        return Column(name=name, kind="ignore")
    if len(distinct) > max(FEW, len(gaps) // 10):
        spaced = np.mean([" " in word and any(c.isalpha() for c in word) for word in distinct])
        return Column(name=name, kind="text" if spaced > 0.5 else "ignore")
    return Column(
        name=name,
        kind="category",
        categories=tuple(distinct),
        missing="category" if gaps.any() else "refuse",
        unseen="other",
    )


def _names_rows(name: str, known: np.ndarray) -> bool:
    """Whether whole numbers, all different, look like the names of rows rather than measurements."""
    if len(known) <= FEW or len(np.unique(known)) != len(known) or (known != np.round(known)).any():
        return False
    called = name.lower().replace("_", " ").replace("-", " ").split()
    return bool({"id", "index", "key"} & set(called)) or np.ptp(known) == len(known) - 1


def _draft_target(values: pd.Series, task: str | None) -> dict[str, Any]:
    numbers, gaps = numbers_of(values)
    if gaps.any():
        raise WrongInput(
            f"expected a target in every row, but {short(values.name)} is empty in row "
            f"{int(np.argmax(gaps)) + 1}; remove or fill such rows"
        )
    numeric = bool(np.isfinite(numbers).all())
    few = numeric and len(np.unique(numbers)) <= FEW and bool((numbers == np.round(numbers)).all())
    if task == "regression" or (task is None and numeric and not few):
        if not numeric:
            at = int(np.argmin(np.isfinite(numbers)))
            raise WrongInput(
                f"target {short(values.name)}, row {at + 1}: expected a finite number for a "
                f"regression, got {short(values.iloc[at])}"
            )
        low, high = _range(float(numbers.min()), float(numbers.max()))
        return {"low": low, "high": high}
    classes = tuple(sorted(words_of(values).distinct(), key=_order))
    if not 2 <= len(classes) <= MANY:
        raise WrongInput(
            f"expected 2 to {MANY} classes in the target {short(values.name)}, got {len(classes)}; "
            "name another target, or declare the classes in a schema"
        )
    return {"classes": classes}


def _draft_images(raw: Raw, facts: dict[str, Any]) -> Schema:
    if raw.images is None or facts["unit"] not in ("row", "label"):
        raise WrongInput(f"expected unit row or label for images, got {short(facts['unit'])}")
    shape = tuple(int(size) for size in raw.images.shape[1:])
    known = "the classes" if "classes" in facts else "the range of the target"
    assumed = ("the number of rows", "the size of the images", known)
    return Schema(form="image", shape=shape, assumed=assumed, **facts)


def _range(low: float, high: float) -> tuple[float, float]:
    return (low, high) if high > low else (low, low + max(1.0, abs(low)))


def _order(word: str) -> tuple[float, str]:
    """Classes in the order of their numbers, then of their words."""
    try:
        number = float(word)
    except ValueError:
        number = np.inf
    return (number if number == number else np.inf, word)
