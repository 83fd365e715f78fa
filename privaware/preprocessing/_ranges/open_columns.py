"""Columns whose bounds, categories or kinds are not declared, and their form after a release."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from privaware.data import COUNTED, Spelt, Words, days_among, is_missing, numbers_of, words_of
from privaware.schema import DATE_PARTS, GIVEN_BUT_PAID, GIVEN_KINDS, Column, Schema

REFERENCE_DAY = 21_915.0
"""Days from 1970-01-01 to 2030-01-01, the day that is zero on the grids of dates."""

SLOTS = 1024
"""Length to which vectors of counts are padded, so that their length reveals nothing about up to 1,024 categories."""

NONE = ("other",)
"""The categories of a column in which no value is frequent enough to be released."""


def open_columns(schema: Schema, *kinds: str) -> list[Column]:
    """Return the columns of the given `kinds` whose bounds, categories or kinds are not declared."""
    return [column for column in schema.declared if column.kind in kinds and not column.bounded]


def open_target(schema: Schema) -> bool:
    """Return whether the target is a number without bounds."""
    return schema.task == "regression" and schema.low is None


def as_number(column: Column) -> Column:
    """Return the column as a number if its kind is undecided."""
    return replace(column, kind="number") if column.kind == "undecided" else column


def single(column: Column) -> Column:
    """Return the column in a form that gives a learner one input column.

    A date becomes its days, and an identifier becomes a category. Any other column is returned unchanged.
    """
    if column.kind == "identifier":
        return replace(column, kind="category")
    return replace(column, parts=DATE_PARTS[:1]) if column.kind == "date" else column


def filled(column: Column, limits: tuple[float, float], words: tuple[str, ...]) -> Column:
    """Return the column with the categories `words` if it is a category, else with the bounds `limits`.

    A category codes all other values as one more category, also missing ones unless "" is among `words`. A number that
    replaces missing values is clipped to the bounds.
    """
    if column.kind == "category":
        return replace(column, categories=words, missing="category", unseen="other")
    fill = column.missing
    if not isinstance(fill, str):
        fill = min(max(fill, limits[0]), limits[1])
    return replace(column, low=limits[0], high=limits[1], missing=fill)


def released(schema: Schema, columns: tuple[Column, ...], limits: tuple[float | None, float | None]) -> Schema:
    """Return the schema with `columns`, and with the facts in `assumed` that are assumed to be public.

    These facts are names and kinds of columns, the number of rows, and the classes if there are any. `limits` become
    the bounds of a regression target without bounds; declared bounds stay.
    """
    low, high = limits if open_target(schema) else (schema.low, schema.high)
    given = GIVEN_BUT_PAID if open_columns(schema, "undecided") else GIVEN_KINDS
    assumed = [given, "the number of rows", *schema.assumed]
    assumed += [f"the classes of {schema.target}"] if schema.classes else []
    return replace(schema, columns=columns, low=low, high=high, assumed=tuple(dict.fromkeys(assumed)))


def outline(schema: Schema) -> Schema:
    """Return the schema as it will be after a release of bounds, with placeholders for what is not known yet.

    Unknown bounds of columns and of the target are 0 and 1, and unknown categories are `NONE`. An undecided column
    counts as a number. The result is used to compute the cost of later mechanisms before a row is read; that cost does
    not depend on the kinds of columns.
    """
    columns = tuple(
        column if column.bounded else filled(as_number(column), (0.0, 1.0), NONE) for column in schema.columns
    )
    return released(schema, columns, (0.0, 1.0))


def on_line(values: np.ndarray | Words | Spelt, column: Column) -> np.ndarray:
    """Return raw `values` of a column as floats; NaN if unreadable.

    Dates are days since `REFERENCE_DAY`, because grids are finest near zero and most dates lie near the present.
    """
    return days_among(values, column) - REFERENCE_DAY if column.kind == "date" else numbers_of(values)[0]


def worded(values: np.ndarray | Words | Spelt) -> Counter[str]:
    """Return how often each word occurs. Missing values count as the word "", which has a count even if it is 0."""
    words = words_of(values)
    times = np.bincount(words.codes % len(words.spellings), minlength=len(words.spellings))
    counts = Counter({"": 0})
    for word, count in zip(words.spellings, times.tolist(), strict=True):
        if count:
            counts["" if is_missing(word) else word] += count
    return counts


def ranked_counts(counts: Counter[str]) -> tuple[list[str], np.ndarray]:
    """Return the words by decreasing count, and their exact counts, padded with zeros to at least `SLOTS` entries.

    Noise is independent for each word, and words are released as a set, so the position of a word in the vector does
    not matter. One more row changes one entry of the sorted vector by 1, and up to `SLOTS` words do not change its
    length.
    """
    words = sorted(counts, key=lambda word: (-counts[word], word))
    exact_counts = np.zeros(max(SLOTS, len(words)))
    exact_counts[: len(words)] = [counts[word] for word in words]
    return words, exact_counts


def filled_by_words(column: Column, common: tuple[tuple[str, ...], float], kinds: np.ndarray, single: bool) -> Column:
    """Return `column` as a category with the words of `common`, or as text.

    `common` is a result of `common_words`, and `kinds` are the noisy counts of the column's values of each kind in
    `COUNTED`. The column becomes text if more of its values are texts than words, and if the common words cover less
    than half of these texts; with `single` it never does, because a text may become several input columns.
    """
    words, covered = common
    texts, names = (kinds[COUNTED.index(kind)] for kind in ("text", "word"))
    if texts > names and not single and covered < texts / 2:
        return replace(column, kind="text", fold=False)
    return filled(column, (0.0, 1.0), words)
