"""A schema drafted from the rows, for a person to confirm."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from privaware.data._data import target_of
from privaware.data._raw import Raw
from privaware.data._values import Words, got, numbers_of, quoted, words_of
from privaware.errors import WrongInput
from privaware.schema import LARGEST, Column, Schema

if TYPE_CHECKING:
    import pandas as pd

FEW = 20
"""Up to this many distinct whole numbers, a target is a set of classes unless `task` says otherwise."""

MANY = 100
"""A draft proposes no more classes than this: beyond it the target is an identifier or free text."""


IDENTIFIERS = frozenset(("id", "uuid", "guid"))
"""Words that make the name of a column that of an identifier."""

DRAFTED = "drafted from the rows and moved outward"
"""How a drafted bound is marked in what a schema assumes."""

NOUGHT = 1e-100
"""Numbers closer to 0 than this count as 0 when a bound is drafted."""


def draft(raw: Raw, *, target: str, task: str | None = None, unit: str = "row", cap: int = 1) -> Schema:
    """A schema read off the rows, for a person to confirm: taking it assumes that all of it is public.

    Bounds are never those of the rows: each is moved outward by `outward`. The draft says `reviewed = false` until its
    owner writes `reviewed = true` into the file.
    """
    if task not in (None, "classification", "regression"):
        raise WrongInput(f"expected task classification or regression, got {quoted(task)}")
    with raw.named():
        values = target_of(raw, target)
        if len(values) == 0:
            raise WrongInput("expected at least one row to draft a schema from, got none; write the schema yourself")
        facts = {
            **_draft_target(raw, values, task),
            "target": target,
            "rows": len(values),
            "unit": unit,
            "cap": cap,
            "reviewed": False,
        }
        if raw.frame is None:
            return _draft_images(raw, facts)
        return _draft_table(raw, raw.frame, facts)


def outward(low: float, high: float) -> tuple[float, float]:
    """The next 1, 2 or 5 times a power of ten strictly beyond each end; a 0 moves by a hundredth of the other end.

    >>> outward(17, 90), outward(-2, 5.5), outward(0, 99999)
    ((10.0, 100.0), (-5.0, 10.0), (-1000.0, 100000.0))
    """
    ends = [0.0 if abs(end) < NOUGHT else float(np.clip(end, -LARGEST, LARGEST)) for end in (-low, high)]
    widened = [_beyond(end) if end else 0.0 for end in ends]
    scale = max(map(abs, widened)) or 100.0
    first, second = (end or 10.0 ** (math.floor(math.log10(scale)) - 2) for end in widened)
    return max(-first, -LARGEST), min(second, LARGEST)


def _beyond(number: float) -> float:
    """The least 1, 2 or 5 times a power of ten (or minus one) above a number other than 0."""
    exponent = math.floor(math.log10(abs(number)))
    steps = (float(f"{digit}e{power}") for power in range(exponent - 1, exponent + 2) for digit in (1, 2, 5))
    signed = sorted(math.copysign(step, number) for step in steps)
    return next(step for step in signed if step > number)


def typed(frame: pd.DataFrame, drafted: Schema) -> Schema:
    """The schema with columns by their names and types alone, so that no row changes it.

    Numbers, truth values and categories are what their type says; text is undecided, because only a count over rows
    tells numbers from categories; columns named as identifiers, dates and what is no single value are not used.
    """
    return replace(drafted, columns=tuple(_typed_column(column.name, frame[column.name]) for column in drafted.columns))


def _typed_column(name: str, values: pd.Series) -> Column:
    import pandas as pd

    if IDENTIFIERS & set(words_of_name(name)):
        return Column(name=name, kind="ignore")
    if isinstance(values.dtype, pd.CategoricalDtype):
        return Column(name=name, kind="category")
    if values.dtype.kind in "biuf":
        return Column(name=name)
    if values.dtype.kind != "O":
        return Column(name=name, kind="ignore")
    try:
        words_of(values)
    except WrongInput:  # lists, records and bytes are no single values
        return Column(name=name, kind="ignore")
    return Column(name=name, kind="undecided")


def words_of_name(name: str) -> list[str]:
    return name.lower().replace("_", " ").replace("-", " ").split()


def _draft_table(raw: Raw, frame: pd.DataFrame, facts: dict[str, Any]) -> Schema:
    target, unit = facts["target"], facts["unit"]
    if unit not in ("row", "label") and (unit not in frame.columns or unit == target):
        raise WrongInput(f"expected --unit among the columns {raw.columns_shown(target)}, got {quoted(unit)}")
    excluded = (target,) if unit in ("row", "label") else (target, unit)
    columns = tuple(draft_column(name, frame[name]) for name in frame.columns if name not in excluded)
    form = "text" if {column.kind for column in columns} - {"ignore"} == {"text"} else "table"
    if form == "table":
        columns = tuple(replace(c, kind="ignore") if c.kind == "text" else c for c in columns)
    assumed = ["the number of rows", "the names and kinds of the columns"]
    assumptions = {
        "number": f"the range of {{}}, {DRAFTED}",
        "category": "the categories of {}",
        "text": "that {} is text",
        "ignore": "that {} may be left out",
    }
    assumed += [assumptions[column.kind].format(column.name) for column in columns]
    assumed += [f"the classes of {target}" if "classes" in facts else f"the range of {target}, {DRAFTED}"]
    return Schema(columns=columns, form=form, assumed=tuple(assumed), **facts)


def draft_column(name: str, values: pd.Series) -> Column:
    """Numbers by their range, words by their categories; identifiers and constants are ignored."""
    try:
        numbers, missing = numbers_of(values)
    except WrongInput:  # lists, records and bytes are no single values
        return Column(name=name, kind="ignore")
    if (np.isnan(numbers) & ~missing).any():
        return _draft_words(name, words_of(values), missing)
    finite = numbers[np.isfinite(numbers)]
    if len(np.unique(finite)) < 2 or _is_identifier(name, finite):
        return Column(name=name, kind="ignore")
    policy = "category" if len(finite) < len(numbers) else "refuse"
    low, high = outward(finite.min(), finite.max())
    return Column(name=name, low=low, high=high, missing=policy)


def _draft_words(name: str, words: Words, missing: np.ndarray) -> Column:
    distinct = sorted({words.spellings[code] for code in np.unique(words.codes[~missing])})
    if len(distinct) < 2:
        return Column(name=name, kind="ignore")
    if len(distinct) > max(FEW, len(missing) // 10):
        sentences = np.mean([" " in word and any(c.isalpha() for c in word) for word in distinct])
        return Column(name=name, kind="text" if sentences > 0.5 else "ignore")
    return Column(
        name=name,
        kind="category",
        categories=tuple(distinct),
        missing="category" if missing.any() else "refuse",
        unseen="other",
    )


def _is_identifier(name: str, numbers: np.ndarray) -> bool:
    """Whether whole numbers, all different, look like identifiers of rows rather than measurements."""
    if len(numbers) <= FEW or len(np.unique(numbers)) != len(numbers) or (numbers != np.round(numbers)).any():
        return False
    return bool((IDENTIFIERS | {"index", "key"}) & set(words_of_name(name))) or np.ptp(numbers) == len(numbers) - 1


def _draft_target(raw: Raw, values: pd.Series, task: str | None) -> dict[str, Any]:
    numbers, missing = numbers_of(values)
    if missing.any():
        raise WrongInput(
            f"expected a target in every row, but {quoted(values.name)} is empty in "
            f"{raw.place(int(np.argmax(missing)))}; remove or fill such rows"
        )
    numeric = bool(np.isfinite(numbers).all())
    few = numeric and len(np.unique(numbers)) <= FEW and bool((numbers == np.round(numbers)).all())
    if task == "regression" or (task is None and numeric and not few):
        if not numeric:
            at = int(np.argmin(np.isfinite(numbers)))
            raise WrongInput(
                f"target {quoted(values.name)}, {raw.place(at)}: expected a finite number for a "
                f"regression{got(values.iloc[at])}"
            )
        low, high = outward(numbers.min(), numbers.max())
        return {"low": low, "high": high}
    classes = tuple(sorted(words_of(values).distinct(), key=_order))
    if not 2 <= len(classes) <= MANY:
        raise WrongInput(
            f"expected 2 to {MANY} classes in the target {quoted(values.name)}, got {len(classes)}; "
            "name another target, or declare the classes in a schema"
        )
    return {"classes": classes}


def _draft_images(raw: Raw, facts: dict[str, Any]) -> Schema:
    if raw.images is None or facts["unit"] not in ("row", "label"):
        raise WrongInput(f"expected unit row or label for images, got {quoted(facts['unit'])}")
    shape = tuple(int(size) for size in raw.images.shape[1:])
    target = "the classes" if "classes" in facts else f"the range of the target, {DRAFTED}"
    assumed = ("the number of rows", "the size of the images", target)
    return Schema(form="image", shape=shape, assumed=assumed, **facts)


def _order(word: str) -> tuple[float, str]:
    """Classes in the order of their numbers, then of their words."""
    try:
        number = float(word)
    except ValueError:
        number = np.inf
    return (number if number == number else np.inf, word)
