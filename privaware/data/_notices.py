"""Notices for the owner of the rows before a charge.

`notices` are about columns outside the schema, values that count as missing, and rare classes. `repeated_identifiers`
are columns that may identify persons with several rows. Both follow from rows without noise, so they are for the owner
only: they are printed and never stored. `unused_columns` and `person_columns` follow from names and kinds of columns,
which are public.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from decimal import Decimal
from typing import Any

import numpy as np

from privaware.data._code import finite_or_nan, has_date_type
from privaware.data._data import target_of
from privaware.data._draft_column import FEW_VALUES, MIN_KIND_FRACTION, draft_column, likely_kind
from privaware.data._edges import FARTHEST
from privaware.data._names import UNNAMED, is_identifier_name, is_person_name, may_name_persons
from privaware.data._numbers import measure_of
from privaware.data._outside import Outside
from privaware.data._raw import Raw
from privaware.data._values import listed, numbers_of, quoted, spelt_of, words_of
from privaware.errors import WrongInput
from privaware.schema import NOT_USED, Column, Schema, folded

DIGITS = re.compile(r"[+-]?\d+(\.\d*)?")
"""Pattern of a number without an exponent; 1e5 may be a code."""
MOST_SHOWN = 20
"""Largest number of unused columns that a sentence names."""
RARE = 5
"""Number of rows below which a class may be a typo."""
NEARLY_ALL = 0.9
"""Fraction of the values of a column that must be numbers for it to count as a column of numbers."""
NEARLY_UNIQUE = 0.9
"""Fraction of the rows that different values of the target must be for the target to seem to identify rows."""
PARTLY_UNIQUE = 0.5
"""The same fraction for a target with the name of an identifier."""
MIN_VALUES = 10
"""Smallest number of different values of a target that may seem to identify rows."""
MIN_WORD_COLUMNS = 2
"""Smallest number of numeric columns whose first value is a word that suggests a second header row."""


def person_columns(raw: Raw, schema: Schema, not_persons: Collection[str] = ()) -> list[str]:
    """Return the columns that may identify persons or cases, by their names; columns of boolean type are left out.

    Parameters
    ----------
    raw : Raw
        The rows; only the names and types of their columns are used.
    schema : Schema
        The schema. If its unit is not "row", the list is empty.
    not_persons : collection of str
        Columns that identify nobody, as the owner says.

    Returns
    -------
    list of str
        The names of the columns.
    """
    apart = {schema.target, *not_persons}
    names = (raw.columns or ()) if schema.unit == "row" else ()
    named = [name for name in names if name not in apart and is_person_name(name)]
    return [name for name in named if raw.frame is None or raw.frame[name].dtype.kind != "b"]


def unused_columns(schema: Schema, *, written: bool) -> list[str]:
    """Return a sentence about the declared columns that no learner sees, with the reasons; no sentence if all are used.

    Parameters
    ----------
    schema : Schema
        The schema.
    written : bool
        Whether the owner wrote the schema.

    Returns
    -------
    list of str
        At most one sentence. It follows from public facts.
    """
    unused = [column for column in schema.columns if column.kind in NOT_USED]
    if not unused:
        return []
    shown = [f"{quoted(column.name)} ({_why_unused(column, written)})" for column in unused[:MOST_SHOWN]]
    shown += [f"and {len(unused) - MOST_SHOWN} more"] if len(unused) > MOST_SHOWN else []
    named = not written and any(column.kind == "identifier" and is_identifier_name(column.name) for column in unused)
    way = " To use such a column as a feature, pass --not-persons COLUMN." if named else ""
    return [f"Not used: {', '.join(shown)}.{way}"]


def unused_index(frame: Any) -> list[str]:
    """Return a sentence about the named index of a data frame of pandas, which no learner sees; none if it has none."""
    levels = getattr(getattr(frame, "index", None), "names", None) or ()
    if not (named := [name for name in levels if name is not None]):
        return []
    return [
        f"Not used: the index {listed(named)} of the data frame. If it identifies persons, or to use it as a feature, "
        "pass frame.reset_index()."
    ]


def _why_unused(column: Column, written: bool) -> str:
    """Return the reason why a column is not used, in a few words.

    If the owner wrote the schema (`written`), it is that the schema leaves the column out. Otherwise it follows from
    the column's kind and name.
    """
    if written:
        return "left out by the schema"
    if column.kind == "ignore":
        return "it has no single values, or the same value in every row"
    if is_person_name(column.name):
        return "by its name it identifies persons or cases"
    if is_identifier_name(column.name):
        return "by its name an identifier"
    if UNNAMED.fullmatch(column.name):
        return "it has no name"
    return "by its values an identifier: e-mail addresses, row numbers or many different words"


def notices(raw: Raw, schema: Schema) -> list[str]:
    """Return sentences for the owner about what the rows show to be unused, misread or rare.

    They are about columns outside the schema, columns that hardly help, a second row of names, values that count as
    missing, joined spellings, mixed units of measure, rare classes, numbers too large for estimated bounds, and a
    target that seems to identify rows.

    Parameters
    ----------
    raw : Raw
        The rows.
    schema : Schema
        The schema.

    Returns
    -------
    list of str
        The sentences; for images only about skipped files and rare classes. They reveal facts about rows and must not
        be released.
    """
    if raw.frame is None:
        return _skipped(raw) + _doubtful_classes(raw, schema)
    others = [name for name in raw.columns or () if name not in (schema.target, schema.unit)]
    declared = {column.name for column in schema.columns}
    used = {column.name: column for column in schema.declared}
    outside = [f"{quoted(name)} (left out by the schema)" for name in others if name not in declared]
    sentences = _skipped(raw)
    if outside:
        sentences += [f"Not used: {', '.join(outside)}. A schema file can include them (`privaware schema`)."]
    for name, column in used.items():
        if column.kind == "undecided" and name in raw.frame.columns:
            sentences += _hardly_used(raw, name)
    sentences += _second_names(raw, [*used, schema.target])
    sentences += _joined(raw, schema) + _several_measures(raw, list(used)) + _doubtful_classes(raw, schema)
    sentences += _two_numbers(raw, schema) + _identifying_target(raw, schema) + _too_large(raw, schema)
    return sentences + _alike_persons(raw, schema)


def repeated_identifiers(raw: Raw, schema: Schema, not_persons: Collection[str] = ()) -> list[str]:
    """Return the columns that are named like identifiers and have many different values, some of them repeated.

    A column with a name such as "member" or "account" counts, too, but not if it holds dates or numbers with decimals.

    Parameters
    ----------
    raw : Raw
        The rows.
    schema : Schema
        The schema. If its unit is not "row", the list is empty.
    not_persons : collection of str
        Columns that identify nobody, as the owner says.

    Returns
    -------
    list of str
        The names of the columns. They reveal facts about rows and must not be released.
    """
    if raw.frame is None or schema.unit != "row":
        return []
    apart = {schema.target, *not_persons}
    others = [name for name in raw.columns or () if name not in apart]
    perhaps = {name for name in others if may_name_persons(name) and not _has_decimals(raw, name)}
    return [name for name in others if (is_identifier_name(name) or name in perhaps) and _repeats(raw, name)]


def _skipped(raw: Raw) -> list[str]:
    """Return a notice that counts the skipped files of a folder of images or texts, if there are any."""
    if not raw.skipped:
        return []
    kind = "images" if raw.frame is None else "texts"
    return [
        f"Files and folders in {quoted(raw.name)} that are skipped, because they are no {kind} in the sub-folder of a "
        f"class: {raw.skipped}."
    ]


def _second_names(raw: Raw, names: list[str]) -> list[str]:
    """Return a notice if the first row of a file without types seems to hold names or units of numeric columns.

    It seems so if at least `MIN_WORD_COLUMNS` of the columns `names` begin with a word, while nearly all of their other
    values are numbers. Otherwise return an empty list.
    """
    known = set(raw.columns or ())
    words = [] if raw.typed else [name for name in names if name in known and _begins_with_a_word(raw, name)]
    if len(words) < MIN_WORD_COLUMNS:
        return []
    return [
        f"{raw.place(0)} contains text in {len(words)} columns whose other values are numbers. If it is a second row "
        "of names or units, remove it from the file."
    ]


def _begins_with_a_word(raw: Raw, name: str) -> bool:
    numbers, missing = numbers_of(raw.values(name))
    if not len(numbers) or missing[0] or np.isfinite(numbers[0]):
        return False
    return bool(np.isfinite(numbers[1:]).sum() >= NEARLY_ALL * max((~missing[1:]).sum(), 1))


def _hardly_used(raw: Raw, name: str) -> list[str]:
    """Return a notice about the undecided column `name` if it has very many different values, or only one.

    The list is empty otherwise.
    """
    assert raw.frame is not None
    values = raw.frame[name]
    drafted = "" if values.dtype.kind in "biufmM" else draft_column(name, values, identifies=False).kind
    if drafted == "identifier":
        words = words_of(values)
        kind, fraction = likely_kind(values)
        if kind in ("number", "date", "time"):  # counts with noise may decide for this kind
            return _of_two_kinds(name, kind, fraction)
        distinct = len(set(words.folded().distinct()) - {""})
        return [
            f"Hardly used: {quoted(name)}, because it has {distinct:,} different values in {len(words):,} rows. Only "
            "values that many rows share are released. If the values are numbers with an unknown unit or symbol, "
            "remove the unit or symbol; instead of <0.5, a limit of detection, write a number below the limit; split "
            "two numbers such as 120/80 into two columns."
        ]
    if drafted == "ignore" and len(np.unique(words_of(values).codes)) < 2:
        return [
            f"{quoted(name)} has the same value, or no value, in every row, so it is not informative. To leave it out, "
            'declare kind = "ignore" (--schema), or "ignore" in a file for --kinds.'
        ]
    return []


def _of_two_kinds(name: str, kind: str, fraction: float) -> list[str]:
    """Return a notice that only the `fraction` of the values of the column `name` can be read as `kind`.

    `kind` is "number", "date" or "time". The list is empty if the fraction is so large that the column has this kind.
    """
    if fraction >= MIN_KIND_FRACTION:
        return []
    return [
        f"{quoted(name)}: {1 - fraction:.0%} of its values are not {kind}s. So it may be read as a category, of which "
        "only values that many rows share are released. To keep the others, declare its kind (--kinds FILE): values "
        f"that are not {kind}s then count as missing."
    ]


def _several_measures(raw: Raw, names: list[str]) -> list[str]:
    """Return a notice for each of the columns `names` whose numbers have several units of measure, such as kg and lb.

    The values are read without conversion. Names that `raw` does not have, and columns of a number or date type, are
    skipped.
    """
    sentences = []
    for name in names:
        if raw.frame is None or name not in raw.frame.columns or raw.frame[name].dtype.kind in "biufmM":
            continue
        spelt = spelt_of(raw.frame[name])
        words = words_of(raw.frame[name]).distinct() if spelt is None else spelt.spellings
        measures = sorted({measure_of(word) for word in words} - {""})
        if len(measures) > 1:
            sentences.append(
                f"{quoted(name)}: numbers with the units {', '.join(measures)} are read without conversion. "
                "Write them all in one unit."
            )
    return sentences


def _doubtful_classes(raw: Raw, schema: Schema) -> list[str]:
    """Return notices if some, but not all, classes have fewer than `RARE` rows, and if some are alike.

    The names of such classes may be typing errors, and the names of all classes are treated as public. Classes are
    alike if their names differ only in case or blanks, or are the same number. The list is empty if the owner declared
    the classes.
    """
    if not {"the classes", f"the classes of {schema.target}"}.intersection(schema.assumed):
        return []
    sentences = []
    if _alike(schema.classes):
        sentences.append(
            f"{quoted(schema.target)}: some of the {len(schema.classes)} classes differ only in case, blanks or "
            "digits that do not matter, as 1 and 1.0 do. They are learned as different classes, so write each class in "
            "one way."
        )
    words = words_of(target_of(raw, schema.target))
    counts = np.bincount(words.codes % len(words.spellings), minlength=len(words.spellings))
    rows = {word: int(count) for word, count in zip(words.spellings, counts, strict=True)}
    rare = [name for name in schema.classes if rows.get(name, 0) < RARE]
    if not rare or len(rare) == len(schema.classes):
        return sentences
    have = "has" if len(rare) == 1 else "have"
    return [
        *sentences,
        f"{quoted(schema.target)}: {len(rare)} of {len(schema.classes)} classes {have} fewer than {RARE} rows. Classes "
        "are treated as public, so correct typos, or declare the classes in a schema file (`privaware schema` lists "
        "them).",
    ]


def _alike_persons(raw: Raw, schema: Schema) -> list[str]:
    """Return a notice if some values of the unit column are alike (`_alike`), so that one person may count as two."""
    if schema.unit in ("row", "label") or schema.unit not in (raw.columns or ()):
        return []
    if not (count := _alike(words_of(raw.values(schema.unit)).distinct())):
        return []
    return [
        f"{quoted(schema.unit)}: {count:,} of its values differ from another one only in case, blanks or digits that "
        "do not matter, as 1 and 1.0 do. They count as different persons, who are not protected together. If they are "
        "the same person, write each person in one way."
    ]


def _alike(words: Collection[str]) -> int:
    """Return how many of the distinct `words` repeat another one but for case and blanks, or are the same number."""
    return len(words) - len({Decimal(word) if DIGITS.fullmatch(word) else folded(word) for word in words})


def _two_numbers(raw: Raw, schema: Schema) -> list[str]:
    """Return a notice if the target of a regression has exactly two different values; otherwise an empty list."""
    if schema.task != "regression":
        return []
    numbers, _ = numbers_of(target_of(raw, schema.target))
    if len(np.unique(numbers[np.isfinite(numbers)])) != 2:
        return []
    return [
        f"{quoted(schema.target)} has only two different values. If they are classes, declare them in the schema "
        "(classes), or leave out --task=regression."
    ]


def _identifying_target(raw: Raw, schema: Schema) -> list[str]:
    """Return a notice if the target of a table seems to identify rows, or to be free text; otherwise an empty list.

    It seems so if it has at least `MIN_VALUES` different values, and these are at least `NEARLY_UNIQUE` of the rows, or
    `PARTLY_UNIQUE` of the rows if its name suggests an identifier. Numbers count only with such a name.
    """
    named = is_identifier_name(schema.target)
    if schema.task == "regression" and not named:
        return []
    words = words_of(target_of(raw, schema.target))
    present = words.codes[~words.missing()]
    distinct = len(np.unique(present))
    if distinct < max(MIN_VALUES, (PARTLY_UNIQUE if named else NEARLY_UNIQUE) * len(present)):
        return []
    what = "by its name it is an identifier" if named else "it is probably an identifier or free text"
    return [
        f"{quoted(schema.target)}, the target, has {distinct:,} different values in {len(present):,} rows, and {what}. "
        "If it is, no model can predict it for new rows: name another target (--target)."
    ]


def _too_large(raw: Raw, schema: Schema) -> list[str]:
    """Return a notice for each column of open bounds, and target, with numbers beyond the bounds that are estimated."""
    assert raw.frame is not None
    names = [c.name for c in schema.declared if c.kind in ("number", "undecided") and c.low is None and not c.bins]
    if schema.task == "regression" and schema.low is None:
        names.append(schema.target)
    sentences = []
    for name in names:
        if name not in raw.frame.columns:
            continue
        sizes = np.abs(numbers_of(raw.values(name))[0])
        if count := int(((sizes > FARTHEST) & np.isfinite(sizes)).sum()):
            sentences.append(
                f"{quoted(name)}: {count:,} of its numbers are beyond {FARTHEST:g} or {-FARTHEST:g}, the farthest "
                "bounds that are estimated, and count as this bound. Divide the column by a constant, or declare "
                "its bounds (--schema)."
            )
    return sentences


def _joined(raw: Raw, schema: Schema) -> list[str]:
    """Return notices about values that the schema changes.

    A sentence for each column says how many values are not of its kind and count as missing. One more sentence names
    all columns of categories that are compared without case and blanks.
    """
    sentences = []
    outside = Outside()
    for column in schema.declared if schema.form == "table" else ():
        if column.kind in ("number", "date", "time") and column.unseen == "other" and column.missing != "refuse":
            finite_or_nan(raw, column, outside)
    for name, counts in outside.counts.items():
        what, count = next(((what, count) for what, count in counts.items() if what != "missing"), ("", 0))
        if not count:
            continue
        kind = what.removeprefix("no_")
        verb = f"value is not a {kind} and is" if count == 1 else f"values are not {kind}s and are"
        sentences.append(f"{quoted(name)}: {count} {verb} treated as missing.")
    folded = [column.name for column in schema.declared if column.fold and column.kind == "category"]
    if folded:
        sentences.append(f"Case and blanks are ignored in {', '.join(quoted(name) for name in folded)}.")
    return sentences


def _has_decimals(raw: Raw, name: str) -> bool:
    """Return whether a value of a column is a number that is no integer, such as the balance of an account."""
    assert raw.frame is not None
    if has_date_type(raw.frame[name]):
        return False
    try:
        numbers, _ = numbers_of(raw.frame[name])
    except WrongInput:
        return False
    return bool((np.isfinite(numbers) & (numbers != np.floor(numbers))).any())


def _repeats(raw: Raw, name: str) -> bool:
    """Return whether a column has many different values, of which some repeat; False for dates, lists and records.

    Many are at least 2, and at least the smaller of `FEW_VALUES` and a tenth of the rows. Missing values do not count.
    """
    assert raw.frame is not None
    values = raw.frame[name]
    if has_date_type(values):
        return False
    try:
        words = words_of(values)
    except WrongInput:
        return False
    present = words.codes[~words.missing()]
    return max(2, min(FEW_VALUES, len(values) // 10)) <= len(np.unique(present)) < len(present)
