"""The kind of a value, by public rules for one value at a time, and the kind of a column by counts of its values.

A row has one value in a column, of one kind, so one row changes one count by 1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from privaware.data._dates import clock_hours, shape_of_date
from privaware.data._numbers import number_of
from privaware.data._values import FALSE, TRUE, Spelt, Words, is_missing
from privaware.schema import DATE_PARTS, Column

DATES = ("date", "moment", "day_first", "month_first")
COUNTED = ("number", "boolean", *DATES, "time", "email", "text", "word")
"""Kinds that are counted; dates are counted by how they are written, and a text has several words."""
KINDS = {
    "number": "number",
    "boolean": "boolean",
    **dict.fromkeys(DATES, "date"),
    "time": "time",
    "email": "identifier",
    "text": "category",
    "word": "category",
}
"""The kind of a column, by the counted kind of its values."""
PRIOR = np.array([0.55, 0.08, 0.02, 0.02, 0.01, 0.01, 0.01, 0.01, 0.04, 0.25])
"""Probability of each kind in `COUNTED` for a column before its values are counted."""
PRIOR_COLUMNS = 4.0
"""Number of columns of the table that weigh as much as `PRIOR` in the frequencies of kinds."""
ROUNDS = 8
"""Number of rounds in which the frequencies of kinds in a table are estimated."""
LEAST_SCALE = 1e-3
"""Smallest standard deviation of noise that is assumed, so that exact counts have finite evidence."""
MIXED = 0.2
"""A column is a category if its words and texts exceed, beyond noise, this fraction of its most frequent kind."""
LEAST_CERTAINTY = 0.5
"""A column is a category if every kind has a smaller probability than this one."""
CLEAR_EXCESS = 2.0
"""Smallest excess of words and texts over `MIXED`, in standard deviations of noise, that makes a column a category."""
WORDS_OF_TEXT = 3
"""Smallest number of words with letters in a value of the kind "text"; a value with fewer is of the kind "word"."""
EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
DIGIT = re.compile(r"\d")


def kind_of_word(word: str) -> str:
    """Return the kind of one value, one of `COUNTED`, or an empty string if it is missing.

    The kind of a date tells how it is written: "date", "moment" (with a time), "day_first" or "month_first".

    A single letter is a word: `f` may be false or female, `n` may be no or north. Only in a column that is declared as
    boolean it is read as a truth value.

    >>> [kind_of_word(word) for word in ("7", "yes", "31.12.2020", "8:15", "a@b.org", "Ulm", "pain in the arm", "NA")]
    ['number', 'boolean', 'date', 'time', 'email', 'word', 'text', '']
    """
    lowered = word.lower()
    if is_missing(word):
        return ""
    if len(word) > 1 and (lowered in TRUE or lowered in FALSE):
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
        One count for each kind, as float64 in the order of `COUNTED`.
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
    """Return `column` with its most frequent kind of values.

    Words and texts count together as categories, and all spellings of dates as dates; the caller decides between
    categories and text. Missing values get a category of their own, and unseen values count as other.

    Parameters
    ----------
    column : Column
        The column, of undecided kind.
    counts : numpy.ndarray
        Exact counts of each kind in `COUNTED`.

    Returns
    -------
    Column
        The column with its kind.
    """
    totals = dict.fromkeys(KINDS.values(), 0.0)
    for name, count in zip(COUNTED, counts.tolist(), strict=True):
        totals[KINDS[name]] += count
    return _with_kind(column, max(totals, key=lambda name: totals[name]), counts)


def likeliest(columns: Sequence[Column], counts: np.ndarray, scale: float, *, rows: int) -> list[Column]:
    """Return columns with their likeliest kinds, given noisy counts, and with the probabilities of these kinds.

    Counts far below the noise say little about one column. All columns together say how frequent each kind is in the
    table, so an uncertain column gets the kind that is frequent in the table, beginning with `PRIOR`. A column is
    a category if it mixes words with another kind, or if no kind has a probability of at least `LEAST_CERTAINTY`.

    Parameters
    ----------
    columns : sequence of Column
        Columns of undecided kind.
    counts : numpy.ndarray
        Noisy counts (columns, kinds) of each kind in `COUNTED`.
    scale : float
        The standard deviation of the noise of a count.
    rows : int
        The declared number of rows, which no exact count exceeds: the rest of a larger noisy count is noise.

    Returns
    -------
    list of Column
        The columns with `kind` and `certainty`.

    >>> column, sure, unsure = Column(name="a", kind="undecided"), np.eye(10)[9] * 1000, np.eye(10)[0] * 20
    >>> likeliest([column], np.stack([unsure]), 50.0, rows=1000)[0].kind
    'number'
    >>> likeliest([column] * 41, np.stack([sure] * 40 + [unsure]), 50.0, rows=1000)[-1].kind
    'category'
    """
    most = np.clip(counts, 0.0, rows)
    evidence = most * (2 * counts - most) / (2 * max(scale, LEAST_SCALE) ** 2)
    frequencies = PRIOR
    for _ in range(ROUNDS):
        logs = evidence + np.log(frequencies)
        chances = np.exp(logs - logs.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        frequencies = (PRIOR_COLUMNS * PRIOR + chances.sum(axis=0)) / (PRIOR_COLUMNS + len(columns))
    of_kinds = dict(zip(COUNTED, frequencies.tolist(), strict=True))
    return [_likeliest(*each, scale, of_kinds) for each in zip(columns, counts, chances, strict=True)]


def _likeliest(
    column: Column, counts: np.ndarray, chances: np.ndarray, scale: float, frequencies: dict[str, float]
) -> Column:
    """Return `column` with its likeliest kind and, as `certainty`, the probability of this kind.

    `counts` are its noisy counts of each kind in `COUNTED`, and `scale` is the standard deviation of their noise.
    `chances` are the probabilities of these kinds for this column, given all counts. `frequencies` says how frequent
    each kind is in the table. If the likeliest kind is another one, but words and texts exceed the fraction `MIXED` of
    its count clearly, and noise is a less likely explanation of the excess, the column is a category.
    """
    each = dict(zip(COUNTED, counts.tolist(), strict=True))
    best = COUNTED[int(np.argmax(chances))]
    excess = (each["word"] + each["text"] - MIXED * each[best]) / (np.sqrt(2) * max(scale, LEAST_SCALE))
    if KINDS[best] != "category" and excess > CLEAR_EXCESS:
        odds = excess**2 / 2 + np.log((frequencies["word"] + frequencies["text"]) / frequencies[best])  # as a logarithm
        if odds > 0:
            return replace(_with_kind(column, "category", counts), certainty=float(1 / (1 + np.exp(-odds))))
    totals = dict.fromkeys(KINDS.values(), 0.0)
    for name, chance in zip(COUNTED, chances.tolist(), strict=True):
        totals[KINDS[name]] += chance
    kind = max(totals, key=lambda name: totals[name])
    kind = kind if totals[kind] >= LEAST_CERTAINTY else "category"  # its own probability may be 0 by rounding
    return replace(_with_kind(column, kind, counts), certainty=float(np.clip(totals[kind], 1e-6, 1.0)))


def _with_kind(column: Column, kind: str, counts: np.ndarray) -> Column:
    """Return `column` with this `kind`; missing values get a category of their own, and unseen values count as other.

    Spellings are folded only for a category. `counts`, the noisy counts of each kind in `COUNTED`, tell for a date
    whether hours are used and whether the day comes first.
    """
    each = dict(zip(COUNTED, counts.tolist(), strict=True))
    facts: dict[str, object] = {"kind": kind, "missing": "category", "unseen": "other"}
    if kind != "category":
        facts["fold"] = False
    if kind == "date":
        with_hours = each["moment"] > each["date"]
        facts |= {"parts": () if with_hours else DATE_PARTS[:-1], "day_first": each["day_first"] > each["month_first"]}
    return replace(column, **facts)  # type: ignore[arg-type]
