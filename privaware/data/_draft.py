"""A schema proposed from the rows themselves, for a person to confirm."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from privaware.data._raw import Raw, numbers_of, some, words_of
from privaware.errors import WrongInput
from privaware.schema import Column, Schema

if TYPE_CHECKING:
    import pandas as pd

FEW = 20
"""Up to this many distinct whole numbers, a target is a set of classes unless told otherwise."""


def draft(
    raw: Raw, *, target: str, task: str | None = None, unit: str = "row", cap: int = 1
) -> Schema:
    """A schema read off the rows, for a person to confirm: everything in it is thereby assumed public."""
    if raw.frame is None:
        return _draft_images(raw, target)
    frame = raw.frame
    if target not in frame.columns:
        raise WrongInput(
            f"expected a target among the columns {some(list(frame.columns))}, got {target!r}; name one with --target"
        )
    if unit not in ("row", "label") and unit not in frame.columns:
        raise WrongInput(
            f"expected --unit among the columns {some(list(frame.columns))}, got {unit!r}"
        )
    if len(frame) == 0:
        raise WrongInput(
            "expected at least one row to draft a schema from, got none; write the schema yourself instead"
        )
    others = [name for name in frame.columns if name not in (target, unit)]
    columns = tuple(_draft_column(name, frame[name]) for name in others)
    texts = [column.name for column in columns if column.kind == "text"]
    numbers = [column for column in columns if column.kind in ("number", "category")]
    form = "text" if texts and not numbers else "table"
    if form == "table":
        columns = tuple(replace(c, kind="ignore") if c.kind == "text" else c for c in columns)
    facts = _draft_target(frame[target], task)
    assumed = ["the number of rows", "the names and kinds of the columns"]
    assumed += [f"the range of {column.name}" for column in columns if column.kind == "number"]
    assumed += [
        f"the categories of {column.name}" for column in columns if column.kind == "category"
    ]
    assumed += [f"the {'classes' if 'classes' in facts else 'range'} of {target}"]
    return Schema(columns=columns, target=target, rows=len(frame), unit=unit, cap=cap, form=form,
                  reviewed=False, assumed=tuple(assumed), **facts)  # fmt: skip


def _draft_column(name: str, values: pd.Series) -> Column:
    words = words_of(values)
    numbers, gaps = numbers_of(values)
    missing = "category" if (np.isnan(numbers) & gaps).any() or gaps.any() else "refuse"
    if not (np.isnan(numbers) & ~gaps).any() and not gaps.all():
        known = numbers[np.isfinite(numbers)]
        if len(known) == 0:
            return Column(name=name, kind="ignore")
        low, high = float(known.min()), float(known.max())
        return Column(name=name, low=low, high=high if high > low else low + 1.0, missing=missing)
    distinct = sorted(set(words[~gaps]))
    if len(distinct) > max(FEW, len(words) // 10):
        spaced = np.mean([" " in word for word in distinct[:1000]])
        return Column(name=name, kind="text" if spaced > 0.5 else "ignore")
    if not distinct:
        return Column(name=name, kind="ignore")
    return Column(
        name=name, kind="category", categories=tuple(distinct), missing=missing, unseen="other"
    )


def _draft_target(values: pd.Series, task: str | None) -> dict[str, Any]:
    numbers, gaps = numbers_of(values)
    if gaps.any():
        raise WrongInput(
            f"expected a target in every row, but {values.name!r} is empty in row {int(np.argmax(gaps)) + 1}; remove or fill such rows"
        )
    numeric = np.isfinite(numbers).all()
    few = numeric and len(np.unique(numbers)) <= FEW and (numbers == np.round(numbers)).all()
    if task == "regression" or (task is None and numeric and not few):
        if not numeric:
            raise WrongInput(
                f"expected numbers in the target {values.name!r} for --task regression, got text"
            )
        low, high = float(numbers.min()), float(numbers.max())
        return {"low": low, "high": high if high > low else low + 1.0}
    classes = tuple(sorted(set(words_of(values)), key=lambda word: (_as_number(word), word)))
    if len(classes) < 2:
        raise WrongInput(
            f"expected at least two classes in the target {values.name!r}, got {len(classes)}; declare them in a schema"
        )
    return {"classes": classes}


def _draft_images(raw: Raw, target: str) -> Schema:
    assert raw.images is not None
    assert raw.labels is not None
    if len(raw.labels) == 0:
        raise WrongInput("expected at least one image to draft a schema from, got none")
    classes = tuple(
        sorted({str(label) for label in raw.labels}, key=lambda word: (_as_number(word), word))
    )
    if len(classes) < 2:
        raise WrongInput(f"expected images of at least two classes, got {len(classes)}")
    shape = tuple(int(size) for size in raw.images.shape[1:])
    return Schema(target=target, classes=classes, rows=len(raw.labels), form="image", shape=shape, reviewed=False,
                  assumed=("the number of rows", "the size of the images", "the classes"))  # fmt: skip


def _as_number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return float("inf")
