"""A schema drafted from the rows, which a person confirms."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from privaware.data._code import has_date_type
from privaware.data._data import target_of
from privaware.data._draft_column import FEW_VALUES, draft_column, is_free_text, outward
from privaware.data._names import UNNAMED, is_identifier_name
from privaware.data._raw import Raw
from privaware.data._values import got, no_single_values, numbers_of, quoted, words_of
from privaware.errors import WrongInput
from privaware.schema import DATE_PARTS, NOT_USED, Column, Schema

if TYPE_CHECKING:
    import pandas as pd

MAX_TEXT_COLUMNS = 3
"""Largest number of text columns, without any other column, that may be a data set of texts."""

MAX_CLASSES = 100
"""Largest number of classes that a drafted schema proposes. A target with more values raises `WrongInput`."""

DRAFTED = "drafted from the rows and moved outward"
"""Phrase that marks a drafted bound in `Schema.assumed`."""


def draft(
    raw: Raw,
    *,
    target: str,
    task: str | None = None,
    unit: str = "row",
    cap: int = 1,
    not_persons: Collection[str] = (),
) -> Schema:
    """Return a schema read off the rows. A person must confirm it, because its use makes its content public.

    Drafted bounds are never bounds of the rows: each is moved outward. The draft says `reviewed = false` until its
    owner writes `reviewed = true` into the file.

    Parameters
    ----------
    raw : Raw
        The rows.
    target : str
        The name of the column to predict.
    task : str, optional
        "classification" or "regression". By default a target of numbers is a regression, unless its values are at most
        `FEW_VALUES` different integers, or for images all integers from 0 to the largest.
    unit : str
        "row", "label" or the column that identifies the person of a row.
    cap : int
        The largest number of rows used for each person.
    not_persons : collection of str
        Columns that identify nobody, although their names suggest it.

    Returns
    -------
    Schema
        The draft.
    """
    with raw.named():
        facts = _facts(raw, target=target, task=task, unit=unit, cap=cap)
        if raw.frame is None:
            return _draft_images(raw, facts)
        columns = tuple(
            draft_column(name, raw.frame[name], identifies=is_identifier_name(name) and name not in not_persons)
            if name != raw.image
            else Column(name=name, kind="image")
            for name in _feature_names(raw, facts)
        )
        return Schema(columns=columns, form=_form(columns), assumed=_assumed(columns, facts), **facts)


def typed(
    raw: Raw,
    *,
    target: str,
    task: str | None = None,
    unit: str = "row",
    cap: int = 1,
    not_persons: Collection[str] = (),
    labels: pd.Series | None = None,
) -> Schema:
    """Return a schema without bounds, whose columns follow from names and types; only free text is found by values.

    The classes or the range of the target, and the number of rows, are read off the rows, as in `draft`. Numbers,
    dates, truth values and categories follow from types. Columns whose values look like free text get the kind text;
    that they hold text is assumed to be public. Other columns of words, and the other columns of a text file, are
    undecided, because only a count over rows tells their kind. Columns that are named like identifiers are not used,
    unless their type is boolean. Columns of lists or records are not used. If at most `MAX_TEXT_COLUMNS` columns are
    used and all of them are free text, the schema has the form text, which needs no bounds.

    Parameters
    ----------
    raw, target, task, unit, cap, not_persons
        As for `draft`.
    labels : pandas.Series, optional
        The target of all rows, if `raw` holds only the first rows.

    Returns
    -------
    Schema
        The schema.
    """
    with raw.named():
        raw.expect_even()
        facts = _facts(raw, target=target, task=task, unit=unit, cap=cap, labels=labels)
        if raw.frame is None:
            return _draft_images(raw, facts)
        names = _feature_names(raw, facts)
        identifiers = {name for name in names if is_identifier_name(name) and name not in not_persons}
        if not raw.typed and not all(map(UNNAMED.fullmatch, raw.columns or ())):  # an index beside named columns
            identifiers |= set(filter(UNNAMED.fullmatch, names))
        columns = tuple(
            _typed_column(name, raw.frame[name], typed=raw.typed, identifies=name in identifiers)
            if name != raw.image
            else Column(name=name, kind="image")
            for name in names
        )
        if _form(columns) == "text" and len([each for each in columns if each.kind == "text"]) <= MAX_TEXT_COLUMNS:
            return Schema(columns=columns, form="text", assumed=_assumed(columns, facts), **facts)
        return Schema(columns=columns, **facts)


def _facts(
    raw: Raw, *, target: str, task: str | None, unit: str, cap: int, labels: pd.Series | None = None
) -> dict[str, Any]:
    """Return the fields of `Schema` about the target, the rows and the unit, as a dictionary of arguments.

    `target`, `unit` and `cap` are entered as given, `rows` is the number of rows, and the classes or the range follow
    from the target. `labels`, if given, are used instead of the target in `raw`. Raise `WrongInput` if there are no
    rows, for an unknown `task`, and if the target is absent or not usable for `task`.
    """
    if task not in (None, "classification", "regression"):
        raise WrongInput(f"expected task classification or regression, got {quoted(task)}")
    values = target_of(raw, target) if labels is None else labels
    if len(values) == 0:
        raise WrongInput("expected at least one row in the data, got none; check the file")
    about = _draft_target(raw, values, task)
    if raw.image and raw.images is not None:
        about["shape"] = tuple(int(size) for size in raw.images.shape[1:])
    return {**about, "target": target, "rows": len(values), "unit": unit, "cap": cap, "reviewed": False}


def _feature_names(raw: Raw, facts: dict[str, Any]) -> list[str]:
    """Return the names of the columns of `raw` other than the target and the unit that `facts` has.

    Raise `WrongInput` if the unit is neither "row" nor "label" nor a column other than the target.
    """
    names, target, unit = raw.columns or [], facts["target"], facts["unit"]
    if unit not in ("row", "label") and (unit not in names or unit == target):
        raise WrongInput(
            f"expected --unit among the columns {raw.columns_shown(target)}, got {quoted(unit)}"
            f"{raw.advice(unit, without=target)}"
        )
    return [name for name in names if name != target and (unit in ("row", "label") or name != unit)]


def _form(columns: tuple[Column, ...]) -> str:
    """Return "text" if all used columns are of kind text, else "table", in which texts are hashed."""
    return "text" if {column.kind for column in columns} - set(NOT_USED) == {"text"} else "table"


def _typed_column(name: str, values: pd.Series, *, typed: bool, identifies: bool) -> Column:
    """Return a column without bounds, whose kind depends on its name and type; only free text is found by values.

    If `identifies` (the column is named like an identifier) and the type is not boolean, the kind is "identifier". If
    the file declares types (`typed`), categories, dates, numbers and booleans follow from the type, and a column of
    lists or records is ignored. Any other column is "text" if it looks like free text, else "undecided".
    """
    import pandas as pd

    if identifies and values.dtype.kind != "b":
        return Column(name=name, kind="identifier")
    if typed:
        if isinstance(values.dtype, pd.CategoricalDtype):
            return Column(name=name, kind="category")
        if has_date_type(values):
            return date_column(name, values)
        if values.dtype.kind in "biufm":
            return Column(name=name, kind="boolean" if values.dtype.kind == "b" else "number")
        if no_single_values(values):
            return Column(name=name, kind="ignore")
    if is_free_text(values):  # raises for one list or record: one row must not remove the column
        return Column(name=name, kind="text")
    return Column(name=name, kind="undecided", fold=True)


def date_column(name: str, values: pd.Series, missing: str = "refuse") -> Column:
    """Return a column of dates without bounds, by the type of `values`: a type of days has no hours."""
    without_hours = str(values.dtype).startswith(("date32", "date64"))
    return Column(name=name, kind="date", missing=missing, parts=DATE_PARTS[:-1] if without_hours else ())


def _assumed(columns: tuple[Column, ...], facts: dict[str, Any]) -> tuple[str, ...]:
    """Return the facts that the draft assumes to be public, one phrase each; `facts` are those of `_facts`."""
    sentences = {
        "number": f"the range of {{}}, {DRAFTED}",
        "date": f"the range of {{}}, {DRAFTED}",
        "category": "the categories of {}",
        "boolean": "that {} is true or false",
        "time": "that {} is a time of day",
        "text": "that {} is text",
        "image": "that {} names images, and their size",
        "identifier": "that {} may be left out",
        "ignore": "that {} may be left out",
    }
    assumed = ["the number of rows", "the names and kinds of the columns"]
    for column in columns:
        assumed.append(sentences[column.kind].format(column.name))
        if column.kind in ("number", "date", "time") and column.unseen == "other":
            assumed.append(f"that a value of {column.name} of another kind is missing")
        if column.fold:
            assumed.append(f"that case and blanks do not count in {column.name}")
    target = facts["target"]
    assumed += [f"the classes of {target}" if "classes" in facts else f"the range of {target}, {DRAFTED}"]
    return tuple(assumed)


def _draft_target(raw: Raw, values: pd.Series, task: str | None) -> dict[str, Any]:
    """Return the `classes` of the target `values`, or `low` and `high` for a regression, by field of `Schema`.

    If `task` is None, finite numbers are a regression unless `_are_class_codes` holds for them, and anything else is a
    classification. `raw` names rows in messages and tells whether they are images. Raise `WrongInput` if the target of
    a row is missing, if one is not finite for a regression, and if there are not 2 to `MAX_CLASSES` classes.
    """
    numbers, missing = numbers_of(values)
    if missing.any():
        raise WrongInput(
            f"expected a target in every row, but {quoted(values.name)} is empty in {int(missing.sum())} of "
            f"{len(missing)}, the first of them {raw.place(int(np.argmax(missing)))}; remove or fill such rows"
        )
    numeric = bool(np.isfinite(numbers).all())
    counted = numeric and _are_class_codes(np.unique(numbers), of_images=raw.images is not None)
    if task == "regression" or (task is None and numeric and not counted):
        if not numeric:
            at = int(np.argmin(np.isfinite(numbers)))
            raise WrongInput(
                f"target {quoted(values.name)}, {raw.place(at)}: expected a finite number for a "
                f"regression{got(values.iloc[at])}{_hint(numbers)}"
            )
        low, high = outward(numbers.min(), numbers.max())
        return {"low": low, "high": high}
    classes = tuple(sorted(words_of(values).distinct(), key=_order))
    if not 2 <= len(classes) <= MAX_CLASSES:
        words = " (words such as NA and none count as missing)" if len(classes) < 2 else ""
        raise WrongInput(
            f"expected 2 to {MAX_CLASSES} classes in the target {quoted(values.name)}, got {len(classes)}{words}; "
            f"name another target, or declare the classes in a schema{_hint(numbers)}"
        )
    return {"classes": classes}


def _hint(numbers: np.ndarray) -> str:
    """Return advice, the end of a message, if only the first of `numbers` is not finite; otherwise an empty text.

    `numbers` are the target of each row. Then the first row may hold second names of the columns.
    """
    alone = len(numbers) > 1 and not np.isfinite(numbers[0]) and np.isfinite(numbers[1:]).all()
    return "; if the first row holds second names or units of the columns, remove it" if alone else ""


def _are_class_codes(distinct: np.ndarray, *, of_images: bool) -> bool:
    """Return whether the `distinct` numbers of a target are classes: integers, at most `FEW_VALUES` of them.

    For images (`of_images`) more integers are classes, too, if every integer from 0 to the largest occurs.
    """
    if len(distinct) <= FEW_VALUES:
        return bool((distinct == np.round(distinct)).all())
    return of_images and np.array_equal(distinct, np.arange(len(distinct)))


def _draft_images(raw: Raw, facts: dict[str, Any]) -> Schema:
    if raw.images is None or facts["unit"] not in ("row", "label"):
        raise WrongInput(f"expected unit row or label for images, got {quoted(facts['unit'])}")
    shape = tuple(int(size) for size in raw.images.shape[1:])
    target = "the classes" if "classes" in facts else f"the range of the target, {DRAFTED}"
    assumed = ("the number of rows", "the size of the images", target)
    return Schema(form="image", shape=shape, assumed=assumed, **facts)


def _order(word: str) -> tuple[float, str]:
    """Return the sort key of classes: numbers first, in their order, then words."""
    try:
        number = float(word)
    except ValueError:
        number = np.inf
    return (number if number == number else np.inf, word)
