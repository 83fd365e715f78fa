"""JSON lines: one object on each line, whose members are the values of a row; each value has its own type."""

from __future__ import annotations

import codecs
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privaware.data._open import open_bytes
from privaware.data._values import quoted
from privaware.errors import WrongInput

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["JsonLines", "read_json", "read_json_lines"]


@dataclass(frozen=True, kw_only=True)
class JsonLines:
    """The rows of a file, and the line of each row, if rows have lines.

    `uneven` is the place of the first row whose names of members, or their order, differ from the first row; it is
    empty if there is no such row. If it is not empty, the names of columns depend on rows.
    """

    frame: pd.DataFrame
    lines: list[int] | None
    uneven: str


def read_json_lines(path: Path, encoding: str | None = None) -> JsonLines:
    """Return the rows of a file, with one column for every name, in the order of first use.

    `encoding` is UTF-8 by default. A member that a line lacks is None. Members that are objects or lists are returned
    as they are. Raise `WrongInput` for a line that holds something else than an object.
    """
    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    with open_bytes(path) as file:
        for number, line in enumerate(file.read().splitlines(), start=1):
            if (row := _row(line, f"line {number}", path.name, encoding or "utf-8-sig")) is not None:
                rows.append(row)
                lines.append(number)
    if not rows:
        raise WrongInput(f"expected an object in some line of {quoted(path.name)}, got none")
    return _table(rows, lines)


def read_json(path: Path, encoding: str | None = None) -> JsonLines:
    """Return the rows of a file that holds JSON lines, or one list of objects if it begins with a bracket.

    Rows of a list have no `lines`. Raise `WrongInput` for anything else.
    """
    with open_bytes(path) as file:
        content = file.read()
    if content.removeprefix(codecs.BOM_UTF8).lstrip()[:1] != b"[":
        return read_json_lines(path, encoding)
    rows = _parsed(content, "its text", path.name, encoding or "utf-8-sig")
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise WrongInput(f"expected a list of JSON objects, one for each row, in {quoted(path.name)}")
    return _table(rows, None)


def _table(rows: list[dict[str, Any]], lines: list[int] | None) -> JsonLines:
    import pandas as pd

    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: pd.Series([row.get(name) for row in rows], dtype=object) for name in names}
    first = list(rows[0])
    other = next((at for at, row in enumerate(rows) if list(row) != first), None)
    uneven = "" if other is None else f"row {other + 1}" if lines is None else f"line {lines[other]}"
    return JsonLines(frame=pd.DataFrame(columns, index=range(len(rows))), lines=lines, uneven=uneven)


def _row(line: bytes, where: str, file: str, encoding: str) -> dict[str, Any] | None:
    """Return the members of one line, or None if it is empty; `where` and `file` name the place of an error."""
    row = _parsed(line, where, file, encoding)
    if row is not None and not isinstance(row, dict):
        raise WrongInput(f"{quoted(file)}, {where}: expected one JSON object, got {type(row).__name__}")
    return row


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
