"""What the owner of rows should know before a charge: columns that are not used, and persons with several rows.

For the owner's eyes only: these sentences follow from rows without noise, so they are said and never written.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from privaware.data._draft import FEW, IDENTIFIERS, draft_column, words_of_name
from privaware.data._raw import Raw
from privaware.data._values import quoted, words_of
from privaware.errors import WrongInput
from privaware.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["notices"]

PERSONS = IDENTIFIERS | {"account", "client", "customer", "email", "member", "name", "patient", "person", "ssn", "user"}
"""Words that make the name of a column that of a person."""
DATE = re.compile(r"\d{4}-\d\d?-\d\d?|\d\d?[./]\d\d?[./]\d{2,4}")


def notices(raw: Raw, schema: Schema) -> list[str]:
    """Which columns are not used, or hardly, and why; and which seem to name persons with several rows."""
    if raw.frame is None:
        return []
    others = [name for name in raw.frame.columns if name not in (schema.target, schema.unit)]
    used = {column.name: column for column in schema.used}
    unused = [f"{quoted(name)} ({_why_unused(name, raw.frame[name])})" for name in others if name not in used]
    sentences = [f"not used: {', '.join(unused)}"] if unused else []
    for name in others:
        undecided = name in used and used[name].kind == "undecided"
        if undecided and draft_column(name, raw.frame[name]).kind in ("text", "ignore"):
            reason = _why_unused(name, raw.frame[name])
            sentences.append(f"hardly used: {quoted(name)} ({reason}): only values that many rows share are released")
    if schema.unit == "row":
        sentences += [_several_rows(name) for name in others if _names_persons(name, raw.frame[name])]
    return sentences


def _several_rows(name: str) -> str:
    return (
        f"{quoted(name)} has the same value in several rows: if it names a person, the guarantee is for one row "
        f"and not for all of theirs; protect them with --unit {quoted(name)}"
    )


def _why_unused(name: str, values: pd.Series) -> str:
    """What a column holds that is not used, in a few words."""
    if values.dtype.kind in "mM":
        return "dates and times"
    try:
        words = words_of(values).distinct()
    except WrongInput:
        return "no single values"
    if sum(DATE.match(word) is not None for word in words) > len(words) / 2:
        return "dates and times"
    if IDENTIFIERS & set(words_of_name(name)):
        return "an identifier"
    kind = draft_column(name, values).kind
    if kind == "text":
        return "free text"
    return "identifiers or constant" if kind == "ignore" else "left out by the schema"


def _names_persons(name: str, values: pd.Series) -> bool:
    """Whether a column is named like one of persons and has many values, some of them in several rows."""
    if not PERSONS & set(words_of_name(name)):
        return False
    try:
        persons = [word for word in words_of(values).distinct() if word]
    except WrongInput:
        return False
    return max(2, min(FEW, len(values) // 10)) <= len(persons) < len(values)
