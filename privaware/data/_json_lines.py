"""JSON lines: one object on each line, whose members are the values of a row; each value has its own type."""

from __future__ import annotations

import codecs
import json
from pathlib import Path
from typing import Any

from privaware.data._open import open_bytes
from privaware.data._raw import Raw, check_names
from privaware.data._values import quoted
from privaware.errors import WrongInput


def read_json(path: Path, encoding: str | None = None, *, only_lines: bool = False) -> Raw:
    """Return the rows of a file of JSON lines, with one column for every name, in the order of first use.

    Unless `only_lines`, a file that begins with a bracket holds one list of objects. `encoding` is UTF-8 by default. A
    name that an object does not have gets the value None in its row. Members that are objects or lists are returned as
    they are. Empty lines count as no row. Raise `WrongInput` for a line or an entry of the list that is no object, for
    a file without objects, and for a single object of whole columns, as pandas writes by default.
    """
    with open_bytes(path) as file:
        content = file.read()
    encoding = encoding or "utf-8-sig"
    if not only_lines and content.removeprefix(codecs.BOM_UTF8).lstrip()[:1] == b"[":
        rows = _parsed(content, "its text", path.name, encoding)
        if not rows or not all(isinstance(row, dict) for row in rows):
            raise WrongInput(f"expected a list of JSON objects, one for each row, in {quoted(path.name)}")
        return _table(rows, None, path.name)
    by_line: dict[int, dict[str, Any]] = {}
    for number, line in enumerate(content.splitlines(), start=1):
        row = _parsed(line, f"line {number}", path.name, encoding)
        if row is not None and not isinstance(row, dict):
            raise WrongInput(f"{quoted(path.name)}, line {number}: expected one JSON object, got {type(row).__name__}")
        if row is not None:
            by_line[number] = row
    if not by_line:
        raise WrongInput(f"expected an object in some line of {quoted(path.name)}, got none")
    rows = list(by_line.values())
    if len(rows) == 1 and rows[0] and all(isinstance(member, (dict, list)) for member in rows[0].values()):
        raise WrongInput(
            f"expected one JSON object for each row in {quoted(path.name)}, got one object of whole columns; in pandas "
            "write it by to_json(orient='records')"
        )
    return _table(rows, list(by_line), path.name)


def _table(rows: list[dict[str, Any]], lines: list[int] | None, file: str) -> Raw:
    """Return the table of the objects `rows`, with one column for each name that occurs in them.

    `lines` has the line of the file on which each object begins, or is None if they are in one list. `file` is the name
    of the file. If the names of some object, or their order, differ from the first object, names of columns depend on
    rows: then the field `uneven` of the result is a sentence that says so.
    """
    import pandas as pd

    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: pd.Series([row.get(name) for row in rows], dtype=object) for name in names}
    uneven, first = "", list(rows[0])
    if (other := next((at for at, row in enumerate(rows) if list(row) != first), None)) is not None:
        uneven = (
            f"{f'row {other + 1}' if lines is None else f'line {lines[other]}'}: expected the names of the first row, "
            "in their order, because names of columns are taken as public; write null where a value is missing"
        )
    return Raw(
        frame=check_names(pd.DataFrame(columns, index=range(len(rows))), file),
        name=file,
        line=None if lines is None else lines.__getitem__,
        uneven=uneven,
        typed=False,
    )


def _parsed(content: bytes, where: str, file: str, encoding: str) -> Any:
    try:
        text = content.decode(encoding).strip()
        value = json.loads(text) if text else None
    except LookupError:
        raise WrongInput(f"expected --encoding such as utf-8 or latin-1, got {quoted(encoding)}") from None
    except (ValueError, RecursionError):
        raise WrongInput(f"{quoted(file)}, {where}: expected one JSON object, got something else") from None
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise WrongInput(f"{quoted(file)}, {where}: expected text, got half of a character") from None
    return value
