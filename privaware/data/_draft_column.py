"""One column drafted from its values: its kind, and its range or categories, which a person confirms."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from privaware.data._code import days_among, has_date_type
from privaware.data._kinds import COUNTED, KINDS, MIXED, decided, kind_counts, kind_of_word
from privaware.data._names import words_of_name
from privaware.data._values import TRUE, Spelt, Words, numbers_of, spelt_of, words_of
from privaware.errors import WrongInput
from privaware.schema import DATE_PARTS, LARGEST, Column, folded

if TYPE_CHECKING:
    import pandas as pd

FEW_VALUES = 20
"""Number of distinct integers up to which a target has classes, and of words up to which a column has categories."""

MIN_KIND_FRACTION = 1 / (1 + MIXED)
"""Fraction of the values that must have one kind for the column to have it; the other values count as missing.

If the other values are words, this is the rule by which noisy counts decide kinds (`likeliest`).
"""

NEAR_ZERO = 1e-100
"""Numbers of smaller absolute value count as 0 when a bound is drafted."""


def draft_column(name: str, values: pd.Series, *, identifies: bool) -> Column:
    """Return a draft of the column: the kind that nearly all of its values have, and its range or categories.

    If `identifies` (the column is named like an identifier) and the type of `values` is not boolean, the kind is
    "identifier". Columns whose values are all different and look like row numbers get this kind, too. Constant columns
    and columns of lists or records get the kind "ignore".
    """
    if identifies and values.dtype.kind != "b":
        return Column(name=name, kind="identifier")
    if has_date_type(values):
        return _draft_dates(Column(name=name, kind="date"), days_among(values, Column(name=name, kind="date")))
    if values.dtype.kind in "iufm":
        return _draft_numbers(Column(name=name), numbers_of(values)[0])
    try:
        words = spelt_of(values) or words_of(values)
    except WrongInput:  # lists, records and bytes
        return Column(name=name, kind="ignore")
    return _draft_text(name, words)


def _draft_text(name: str, words: Words | Spelt) -> Column:
    """Return the draft of the column `words`, of a kind that at least `MIN_KIND_FRACTION` of its known values have.

    If no kind has so many values, or this kind is "category", the column is drafted by `_draft_words` as categories,
    text, identifier or ignored. A column of truth values that are all true or all false is ignored.
    """
    counts = kind_counts(words)
    missing = words.missing()
    column = decided(Column(name=name, kind="undecided"), counts)
    of_kind, known = _count_of(column, counts), int(counts.sum())
    if column.kind == "category" or of_kind < MIN_KIND_FRACTION * known or not known:
        return _draft_words(name, words_of(words), missing)
    column = replace(
        column,
        missing="category" if missing.any() or of_kind < known else "refuse",
        unseen="other" if of_kind < known else "refuse",
    )
    if column.kind == "number":
        return _draft_numbers(column, numbers_of(words)[0])
    if column.kind == "date":
        return _draft_dates(column, days_among(words, column))
    if column.kind == "boolean" and len({word.lower() in TRUE for word in words_of(words).distinct() if word}) < 2:
        return Column(name=name, kind="ignore")
    return column


def likely_kind(values: pd.Series) -> tuple[str, float]:
    """Return the most frequent kind of the values of a column of words, and the fraction of them that has it.

    Missing values are not counted. The fraction is 0 if all values are missing.
    """
    counts = kind_counts(spelt_of(values) or words_of(values))
    column = decided(Column(name=str(values.name), kind="undecided"), counts)
    return column.kind, _count_of(column, counts) / max(float(counts.sum()), 1.0)


def _count_of(column: Column, counts: np.ndarray) -> float:
    """Return how many values can be read as the kind of `column`; `counts` has one number for each kind in `COUNTED`.

    A date whose spelling fits only one order of day and month counts only if `column.day_first` says this order.
    """
    wrong_order = "month_first" if column.day_first else "day_first"
    return float(sum(counts[[KINDS[name] == column.kind and name != wrong_order for name in COUNTED]]))


def _draft_numbers(column: Column, numbers: np.ndarray) -> Column:
    finite = numbers[np.isfinite(numbers)]
    if len(np.unique(finite)) < 2:
        return Column(name=column.name, kind="ignore")
    if _is_identifier(column.name, finite):
        return Column(name=column.name, kind="identifier")
    low, high = outward(finite.min(), finite.max())
    missing = "category" if len(finite) < len(numbers) else column.missing
    return replace(column, low=low, high=high, missing=missing)


def _draft_dates(column: Column, days: np.ndarray) -> Column:
    """Return the draft of a date column, from `days` since 1970 (NaN where a date is missing).

    Its bounds are the first days of years, beyond the first and the last date. The hour is one of its parts only if
    some date has a time. A column with fewer than two different dates is ignored.
    """
    finite = days[np.isfinite(days)]
    if len(np.unique(finite)) < 2:
        return Column(name=column.name, kind="ignore")
    years = np.array((finite.min() - 1, finite.max() + 366), "datetime64[D]").astype("datetime64[Y]")
    low, high = years.astype("datetime64[D]").astype(float).tolist()
    parts = () if (finite != np.floor(finite)).any() else DATE_PARTS[:-1]
    missing = "category" if len(finite) < len(days) else column.missing
    return replace(column, low=low, high=high, missing=missing, parts=parts)


def _draft_words(name: str, words: Words, missing: np.ndarray) -> Column:
    """Return the draft of a column of words: categories, or text or an identifier if there are many different words.

    Many are more than `FEW_VALUES` and more than a tenth of all rows; words that differ only in case and blanks count
    as one, in their most frequent spelling. Many words are text if over half of them have a blank and a letter and are
    not numbers, dates or times; otherwise they are an identifier. `missing` is a mask of the rows whose word does not
    count. A column with fewer than two different words is ignored.
    """
    times = np.bincount(words.codes[~missing] % len(words.spellings), minlength=len(words.spellings))
    common: dict[str, tuple[int, str]] = {}
    spellings = set()
    for word, count in zip(words.spellings, times.tolist(), strict=True):
        if count:
            spellings.add(word)
            common[folded(word)] = max(common.get(folded(word), (0, "")), (count, word))
    if len(common) < 2:
        return Column(name=name, kind="ignore")
    if len(common) > max(FEW_VALUES, len(missing) // 10):
        several = (word for word in common if " " in word and any(letter.isalpha() for letter in word))
        sentences = sum(kind_of_word(word) in ("text", "word") for word in several)
        return Column(name=name, kind="text" if 2 * sentences > len(common) else "identifier")
    return Column(
        name=name,
        kind="category",
        categories=tuple(sorted(word for _, word in common.values())),
        missing="category" if missing.any() else "refuse",
        unseen="other",
        fold=len(common) < len(spellings),
    )


def is_free_text(values: pd.Series) -> bool:
    """Return whether `draft_column` would draft the column as text: many different values, most of several words.

    Raise `WrongInput` for lists, records and bytes that are not UTF-8.
    """
    if values.dtype.kind in "biufmM" or spelt_of(values) is not None:  # a column of numbers
        return False
    distinct = words_of(values).distinct()
    several = sum(" " in word for word in distinct)
    if len(distinct) <= FEW_VALUES or 2 * several < len(distinct):  # quick: most columns are decided here
        return False
    return draft_column(str(values.name), values, identifies=False).kind == "text"


def _is_identifier(name: str, numbers: np.ndarray) -> bool:
    """Return whether `numbers`, the values of the column `name`, look like identifiers of rows, not measurements.

    They do if they are more than `FEW_VALUES` integers, all different, and either consecutive in some order or in a
    column whose name contains the word index or key.
    """
    if len(numbers) <= FEW_VALUES or len(np.unique(numbers)) != len(numbers) or (numbers != np.round(numbers)).any():
        return False
    return bool({"index", "key"} & set(words_of_name(name))) or numbers.max() - (len(numbers) - 1) == numbers.min()


def outward(low: float, high: float) -> tuple[float, float]:
    """Return bounds beyond `low` and `high`: the next 1, 2 or 5 times a power of ten strictly beyond each end.

    An end of 0 moves by a hundredth of the other new end, rounded down to a power of ten (by 1 if both ends are 0).
    Ends of absolute value below `NEAR_ZERO` count as 0, and bounds are clipped to `LARGEST` in absolute value.

    >>> outward(17, 90), outward(-2, 5.5), outward(0, 99999)
    ((10.0, 100.0), (-5.0, 10.0), (-1000.0, 100000.0))
    """
    ends = [0.0 if abs(end) < NEAR_ZERO else float(np.clip(end, -LARGEST, LARGEST)) for end in (-low, high)]
    widened = [_beyond(end) if end else 0.0 for end in ends]
    scale = max(map(abs, widened)) or 100.0
    first, second = (end or 10.0 ** (math.floor(math.log10(scale)) - 2) for end in widened)
    return max(-first, -LARGEST), min(second, LARGEST)


def _beyond(number: float) -> float:
    """Return the smallest number above `number` (not 0) that is 1, 2 or 5 times a power of ten, of the same sign."""
    exponent = math.floor(math.log10(abs(number)))
    steps = (float(f"{digit}e{power}") for power in range(exponent - 1, exponent + 2) for digit in (1, 2, 5))
    signed = sorted(math.copysign(step, number) for step in steps)
    return next(step for step in signed if step > number)
