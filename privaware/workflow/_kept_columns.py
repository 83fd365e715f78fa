"""Copy columns of the rows to the file with predictions, and refuse cells that a spreadsheet would run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from privaware._validate import nearest
from privaware.data import Raw, words_of
from privaware.errors import WrongInput

FORMULA = re.compile(r" *[=+\-@\t\r\n＝＋－＠].", re.DOTALL)
"""Start of a cell that a spreadsheet may run as a formula; a sign alone is text."""
NUMBER = re.compile(r" *[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)? *")
"""A cell that a spreadsheet reads as a number."""
WAY_OUT = "take a .parquet file for --out, or write the cells as they are with --keep-formulas"
"""What to do about a cell that a spreadsheet would run."""


def expect_no_formulas(words: Iterable[str], what: str = "class labels") -> None:
    """Raise `WrongInput` if a spreadsheet would run one of the texts `words` as a formula (`is_formula`).

    `what` says in the message what `words` are.
    """
    if formula := next((word for word in words if is_formula(word)), None):
        raise WrongInput(
            f"expected {what} that a spreadsheet reads as text, got {formula!r:.60}, which it would run as a formula; "
            f"{WAY_OUT}"
        )


def is_formula(label: str) -> bool:
    """Whether a spreadsheet that opens the CSV file may run `label`, or a part of `label`, as a formula.

    Each part between semicolons, tabs and line breaks is checked, too, because a spreadsheet may split a label there.

    >>> [is_formula(label) for label in ("=1+1", "@sum", "a;=1+1", "-1", "+2.5e3", "-", "a=b")]
    [True, True, True, False, False, False, False]
    """
    cells = [label, *re.split("[;\t\r\n]", label)]
    return any(FORMULA.match(cell) is not None and NUMBER.fullmatch(cell) is None for cell in cells)


def expect_keepable(keep: Sequence[str], raw: Raw, written: Sequence[str]) -> None:
    """Raise `WrongInput` if `raw` has no columns, or if a name in `keep` is no column, is in `written` or is repeated.

    Parameters
    ----------
    keep
        The names of the columns to copy.
    raw
        The rows, or the first of them.
    written
        The names of the columns with predictions.
    """
    columns = raw.columns
    if columns is None:
        raise WrongInput("expected a table with --keep, which copies columns, got images")
    for name in keep:
        if name not in columns:
            near = nearest(name, columns) if raw.declared and not raw.uneven else None
            advice = f"; did you mean {near}?" if near else ""
            raise WrongInput(f"expected --keep with one of the columns {raw.columns_shown()}, got {name!r:.80}{advice}")
        if name in written:
            raise WrongInput(
                f"expected another name with --keep, got {name!r:.80}, which is called like a column of the "
                "predictions; rename it in the data"
            )
    if len(set(keep)) < len(keep):
        raise WrongInput("expected each column once with --keep, got one of them several times")


def kept_columns(raw: Raw, keep: Sequence[str], *, formulas: bool) -> dict[str, Any]:
    """Return the columns `keep` unchanged: with the spelling of a text file, or the types of another file or frame.

    Unless `formulas`, a cell that a spreadsheet would run raises `WrongInput`.

    Parameters
    ----------
    raw
        The rows.
    keep
        The names of the columns.
    formulas
        Whether cells that a spreadsheet would run are allowed.

    Returns
    -------
    dict
        The values of each column by its name.
    """
    columns: dict[str, Any] = {}
    for name in keep:
        values = raw.values(name)
        words = words_of(values)
        if not formulas and (wrong := words.map(is_formula, bool)).any():
            raise WrongInput(
                f"column {name!r:.80}, {raw.place(int(np.argmax(wrong)))}: expected cells that a spreadsheet reads as "
                f"text, got one that it would run as a formula; {WAY_OUT}"
            )
        columns[name] = values if raw.typed else words.map(str, object)
    return columns
