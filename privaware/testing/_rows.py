"""Make synthetic rows for any schema, extreme rows, and neighbouring data sets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from privaware.data import Data, as_bytes
from privaware.errors import WrongInput
from privaware.schema import Column, Schema

WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath")
"""Words of synthetic texts."""
EXTREME_TEXTS = {
    "an empty text": "",
    "one word a thousand times": "amber " * 1000,
    "a text of unknown words": " ".join(f"w{at}" for at in range(300)),
}
"""Extreme texts, with their descriptions."""


def example(form: str = "table", *, classes: int = 2, rows: int = 24, **facts: Any) -> Schema:
    """Return a small schema to check a mechanism on.

    The bounds of a table are not symmetric, one lower bound is 0, and one column each has an own code for missing and
    for unseen values. A text has one column, and an image has 8 by 8 pixels.

    Parameters
    ----------
    form : str
        "table", "text" or "image".
    classes : int
        Number of classes; 0 for regression.
    rows : int
        The declared number of rows.
    **facts
        Further fields of the schema.

    Returns
    -------
    Schema
        The schema.

    Examples
    --------
    >>> [column.name for column in example().columns], example("image", classes=3).shape
    (['age', 'heat', 'town'], (1, 8, 8))
    """
    columns: tuple[Column, ...] = (
        Column(name="age", low=0.0, high=10.0),
        Column(name="heat", low=-1.0, high=3.0, missing="category"),
        Column(name="town", kind="category", categories=("n", "e", "s"), unseen="other"),
    )
    target: dict[str, Any] = {"low": -1.0, "high": 4.0}
    if classes:
        target = {"classes": tuple(f"class {at}" for at in range(classes))}
    if form == "text":
        columns = (Column(name="words", kind="text"),)
    if form == "image":
        columns = ()
        facts = {"shape": (1, 8, 8), **facts}
    return Schema(**{"columns": columns, "form": form, "rows": rows, **target, **facts})


def rows_for(schema: Schema, rows: int, seed: int = 0) -> Data:
    """Return synthetic rows that cover the declared ranges of a schema.

    The target depends on the first column of a table, the words of a text or the brightness of an image. Numbers
    without declared bounds lie between -100 and 100. About one value in twenty is NaN in a number column with
    `missing="category"`.

    Parameters
    ----------
    schema : Schema
        The schema.
    rows : int
        Number of rows.
    seed : int
        The seed of the rows.

    Returns
    -------
    Data
        The rows.

    Examples
    --------
    >>> data = rows_for(example(), rows=100)
    >>> len(data), sorted(set(data.y.tolist())), bool(data.x[:, 0].max() <= 10)
    (100, [0, 1], True)
    """
    rng = np.random.default_rng(seed)
    signal = rng.random(rows)
    noisy_signal = np.clip(signal + 0.1 * rng.standard_normal(rows), 0, 1)
    if schema.form == "image":
        x = _brightened(noisy_signal, rng, schema)
    elif schema.form == "text":
        x = np.array([_sentence(rng, at) for at in noisy_signal] or [""], dtype=object)[:rows]
    else:
        x = np.zeros((rows, len(schema.used)), object if schema.has_whole_columns else float)
        for at, column in enumerate(schema.used):
            share = noisy_signal if at == 0 else rng.random(rows)
            x[:, at] = _pictures(share, rng, schema) if column.kind == "image" else _values(column, share, rng)
    return Data(schema=schema, x=x, y=_targets(schema, signal))


def _brightened(share: np.ndarray, rng: np.random.Generator, schema: Schema) -> np.ndarray:
    """Return a random float32 image in [0, 1] for each entry of `share`; its brightness grows with the entry.

    Entries are in [0, 1]. The shape is (len(share), *schema.shape).
    """
    x = rng.random((len(share), *schema.shape))
    return np.asarray(0.5 * x + 0.5 * share.reshape(-1, 1, 1, 1), np.float32)


def _pictures(share: np.ndarray, rng: np.random.Generator, schema: Schema) -> np.ndarray:
    return as_bytes(_brightened(share, rng, schema))


def _values(column: Column, share: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if column.is_whole_text:
        return np.array([_sentence(rng, at) for at in share] or [""], dtype=object)[: len(share)]
    if column.kind == "category":
        return np.minimum((share * len(column.categories)).astype(int), len(column.categories) - 1)
    low, high = _span(column)
    gap = (column.missing == "category") & (rng.random(len(share)) < 0.05)
    return np.where(gap, np.nan, low + (high - low) * share)


def _span(column: Column) -> tuple[float, float]:
    return (-100.0, 100.0) if column.low is None else (column.low, float(column.high or 0.0))


def _sentence(rng: np.random.Generator, share: float) -> str:
    near = np.minimum(rng.random(6) * 0.5 + 0.5 * share, 0.999)
    return " ".join(WORDS[int(at * len(WORDS))] for at in near)


def _targets(schema: Schema, signal: np.ndarray) -> np.ndarray:
    if schema.classes:
        return np.minimum((signal * len(schema.classes)).astype(np.int64), len(schema.classes) - 1)
    low, high = (-100.0, 100.0) if schema.low is None else (schema.low, schema.high or 0.0)
    return np.asarray(low + (high - low) * signal)


@dataclass(frozen=True, kw_only=True, eq=False)
class Edit:
    """The difference between a data set and its neighbour.

    `kind` says whether the neighbour has a row "added", "removed" or "changed". `at` is the position of that row, in
    the neighbour if it is added and otherwise in the data set. `rows` is the number of rows of the data set.
    """

    kind: str
    at: int
    rows: int

    @classmethod
    def between(cls, data: Data, neighbour: Data) -> Edit:
        """Return the edit that turns `data` into `neighbour`; raise `WrongInput` if more than one row differs.

        If no row differs, return an edit that changes the last row.
        """
        grown = len(neighbour) - len(data)
        small, large = (data, neighbour) if grown >= 0 else (neighbour, data)
        same = _same(small, large, 0)
        first = int(np.argmin(same)) if not same.all() else len(small)
        if abs(grown) == 1 and _same(small, large, 1)[first:].all():
            return cls(kind="added" if grown > 0 else "removed", at=first, rows=len(data))
        if grown == 0 and (~same).sum() <= 1:
            return cls(kind="changed", at=min(first, max(len(data) - 1, 0)), rows=len(data))
        raise WrongInput(
            "expected a neighbour that differs in one row (added, removed or changed in place), "
            f"got {len(data)} rows and {len(neighbour)} rows, which differ in more than one"
        )


def _same(small: Data, large: Data, shift: int) -> np.ndarray:
    """Return a mask that is True where row i of `small` equals row `i + shift` of `large`.

    NaN equals NaN. The mask is False everywhere if the shapes differ.
    """
    rows = slice(shift, shift + len(small))
    one, two = np.asarray(small.x), np.asarray(large.x[rows])
    if one.shape != two.shape:
        return np.zeros(len(small), dtype=bool)
    equal = np.asarray(one == two, dtype=bool)
    equal |= np.asarray((one != one) & (two != two), dtype=bool)  # NaN
    return np.asarray(equal.all(axis=tuple(range(1, equal.ndim))) & (small.y == large.y[rows]))


def neighbours(data: Data, unit: str) -> Iterator[tuple[str, Data]]:
    """Yield neighbours of a data set.

    If the schema's relation is `add_remove`, they have one extreme row more, at the end and at the front in turn. If
    there are at least two rows, two more neighbours lack the first or the last row. If the relation is `replace_one`,
    each extreme row replaces the last or the first row in turn. For the unit "label" the label of the first or the last
    row is changed, to each of at most eight classes or to either bound of the target.

    Parameters
    ----------
    data : Data
        The data set.
    unit : str
        "row", or "label" for neighbours that differ in one label.

    Returns
    -------
    iterator of (str, Data)
        A description of the difference, and the neighbour.
    """
    schema, rows = data.schema, len(data)
    if unit == "label":
        yield from _relabelled(data)
        return
    for count, (words, x, y) in enumerate(extremes(schema)):
        front = count % 2 == 1
        if schema.relation == "replace_one":
            if rows:
                others = data.take(np.arange(1, rows) if front else np.arange(rows - 1))
                yield f"with one row replaced by {words}", joined(others, x, y, front=front)
        else:
            yield f"with one more row, {words}", joined(data, x, y, front=front)
    if rows > 1 and schema.relation == "add_remove":
        yield "without its first row", data.take(np.arange(1, rows))
        yield "without its last row", data.take(np.arange(rows - 1))


def _relabelled(data: Data) -> Iterator[tuple[str, Data]]:
    low, high = _targets(replace(data.schema, classes=()), np.array([0.0, 1.0]))
    labels = range(min(len(data.schema.classes), 8)) if data.schema.classes else (low, high)
    for at in {0, len(data) - 1} if len(data) else ():
        for label in labels:
            if data.y[at] != label:
                y = data.y.copy()
                y[at] = label
                yield f"with the label of row {at + 1} changed", replace(data, y=y)


def joined(data: Data, x: Any, y: Any, *, front: bool = False) -> Data:
    """Return `data` with one more row, input `x` and target `y`, at the front or, by default, at the end."""
    row = np.empty((1, *data.x.shape[1:]), dtype=data.x.dtype)
    row[0] = x
    label = np.array([y], dtype=data.y.dtype)
    ends = (row, data.x) if front else (data.x, row)
    labels = (label, data.y) if front else (data.y, label)
    return replace(data, x=np.concatenate(ends), y=np.concatenate(labels))


def extremes(schema: Schema) -> Iterator[tuple[str, Any, Any]]:
    """Yield extreme rows of a schema.

    Rows of a table lie at the bounds (-100 and 100 for a number without bounds), or have missing, unseen, NaN or
    infinite values. Images are white, black, chequered or NaN. Texts are empty, repeat one word, or have unknown words.

    Parameters
    ----------
    schema : Schema
        The schema.

    Returns
    -------
    iterator of (str, object, object)
        A description, the inputs and the target. Up to ten classes occur as targets.
    """
    rows = list(_extreme_inputs(schema))
    targets = list(range(len(schema.classes))) or list(_targets(schema, np.array([0.0, 1.0])))
    for at in range(max(len(rows), min(len(targets), 10))):
        words, x = rows[at % len(rows)]
        yield words, x, targets[at % len(targets)]


def _extreme_inputs(schema: Schema) -> Iterator[tuple[str, Any]]:
    if schema.form == "text":
        yield from EXTREME_TEXTS.items()
        return
    if schema.form == "image":
        yield from _extreme_images(schema).items()
        return
    if schema.has_whole_columns:
        yield from _extremes_with_whole_columns(schema)
        return
    used = schema.used
    ends = np.array([_ends(column) for column in used]).reshape(-1, 2).T
    second = np.arange(len(used)) % 2 == 1
    yield "all columns at their high end", ends[1]
    yield "all columns at their low end", ends[0]
    yield "columns at high and low ends in turn", np.where(second, *ends)
    yield "columns at low and high ends in turn", np.where(second, *ends[::-1])
    slots = [_missing(column, end) for column, end in zip(used, ends[1], strict=True)]
    yield "missing and unseen values", np.array(slots)
    numbers = np.array([column.kind == "number" for column in used], dtype=bool)
    for words, value in (("NaN", np.nan), ("infinite", np.inf), ("minus infinite", -np.inf)):
        yield f"{words} in every number column", np.where(numbers, value, ends[0])


def _extreme_images(schema: Schema) -> dict[str, np.ndarray]:
    """Return extreme images (white, black, chequered, NaN) of the schema's shape, by their descriptions."""
    return {
        "a white image": np.ones(schema.shape, dtype=np.float32),
        "a black image": np.zeros(schema.shape, dtype=np.float32),
        "a chequered image": (np.indices(schema.shape).sum(axis=0) % 2).astype(np.float32),
        "an image of NaN": np.full(schema.shape, np.nan, dtype=np.float32),
    }


def _extremes_with_whole_columns(schema: Schema) -> Iterator[tuple[str, Any]]:
    """Yield (description, row) for a table with a column that holds a text or an image in each row.

    The rows are the extreme rows of the other columns, each with an extreme text or image.
    """
    extreme: list[tuple[str, Any]] = list(EXTREME_TEXTS.items())
    if schema.has_images:
        extreme = [(words, image.tobytes()) for words, image in _extreme_images(schema).items()]
    whole = [column.is_whole for column in schema.used]
    numbers = replace(schema, columns=tuple(column for column in schema.columns if not column.is_whole))
    for at, (words, others) in enumerate(_extreme_inputs(numbers)):
        described, value = extreme[at % len(extreme)]
        left = iter(others.tolist())
        row = np.empty(len(whole), dtype=object)
        row[:] = [value if each else next(left) for each in whole]
        yield f"{words}, and {described}", row


def _ends(column: Column) -> tuple[float, float]:
    return (0.0, len(column.categories) - 1.0) if column.kind == "category" else _span(column)


def _missing(column: Column, end: float) -> float:
    if column.kind == "category":
        slot = column.unseen == "other" or column.missing == "category"
        return float(len(column.categories)) if slot else end
    return np.nan if column.missing == "category" else end
