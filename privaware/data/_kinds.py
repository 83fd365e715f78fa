"""The kind of a value, by public rules for one value at a time, and the kind of a column by counts of its values.

A row has one value in a column, of one kind, so one row changes one count by 1.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from privaware.data._dates import clock_hours, shape_of_date
from privaware.data._numbers import number_of
from privaware.data._values import FALSE, TRUE, Spelt, Words, is_missing
from privaware.schema import DATE_PARTS, Column

__all__ = ["COUNTED", "decided", "kind_counts", "kind_of_word"]

DATES = ("date", "moment", "day_first", "month_first")
COUNTED = ("number", "boolean", *DATES, "time", "email", "text", "word")
"""Kinds that are counted; dates are counted by how they are written, and a text has several words."""
WORDS_OF_TEXT = 3
"""Smallest number of words of free text; a value of fewer words is a name."""
EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
DIGIT = re.compile(r"\d")


def kind_of_word(word: str) -> str:
    """Return the kind of one value, or an empty string if it is missing.

    >>> [kind_of_word(word) for word in ("7", "yes", "31.12.2020", "8:15", "a@b.org", "Ulm", "pain in the arm", "NA")]
    ['number', 'boolean', 'date', 'time', 'email', 'word', 'text', '']
    """
    lowered = word.lower()
    if is_missing(word):
        return ""
    if lowered in TRUE or lowered in FALSE:
        return "boolean"
    if not np.isnan(number_of(word)):
        return "number"
    if DIGIT.search(word):
        if not np.isnan(clock_hours(word)):
            return "time"
        if shape := shape_of_date(word):
            return shape
    if EMAIL.fullmatch(word):
        return "email"
    lettered = [part for part in word.split() if any(letter.isalpha() for letter in part)]
    return "text" if len(lettered) >= WORDS_OF_TEXT else "word"


def kind_counts(values: np.ndarray | Words | Spelt) -> np.ndarray:
    """Return how many values there are of each kind in `COUNTED`; missing values are not counted.

    Parameters
    ----------
    values : numpy.ndarray, Words or Spelt
        The values of a column.

    Returns
    -------
    numpy.ndarray
        One count for each kind.
    """
    counts = np.zeros(len(COUNTED))
    if not isinstance(values, Words):
        numbers = values if isinstance(values, np.ndarray) else values.numbers[values.codes < 0]
        counts[COUNTED.index("number")] = np.count_nonzero(~np.isnan(numbers))
    if isinstance(values, np.ndarray) or not values.spellings:
        return counts
    codes = values.codes % len(values.spellings) if isinstance(values, Words) else values.codes[values.codes >= 0]
    times = np.bincount(codes, minlength=len(values.spellings))
    for word, count in zip(values.spellings, times.tolist(), strict=True):
        if count and (kind := kind_of_word(word)):
            counts[COUNTED.index(kind)] += count
    return counts


def decided(column: Column, counts: np.ndarray) -> Column:
    """Return a column with the kind of the largest count, which codes missing and other values as a category.

    Words and texts count together as categories; the caller decides between categories and text.

    Parameters
    ----------
    column : Column
        The column, of undecided kind.
    counts : numpy.ndarray
        Counts, perhaps noisy, of each kind in `COUNTED`.

    Returns
    -------
    Column
        The column with its kind.
    """
    each = dict(zip(COUNTED, counts.tolist(), strict=True))
    dates = sum(each[name] for name in DATES)
    groups = {
        "number": each["number"],
        "boolean": each["boolean"],
        "date": dates,
        "time": each["time"],
        "identifier": each["email"],
        "category": each["word"] + each["text"],
    }
    kind = max(groups, key=lambda name: groups[name])
    facts: dict[str, object] = {"kind": kind, "missing": "category", "unseen": "other"}
    if kind != "category":
        facts["fold"] = False
    if kind == "date":
        with_hours = each["moment"] > each["date"]
        facts |= {"parts": () if with_hours else DATE_PARTS[:-1], "day_first": each["day_first"] > each["month_first"]}
    return replace(column, **facts)  # type: ignore[arg-type]
