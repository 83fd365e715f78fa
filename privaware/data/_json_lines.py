"""JSON lines: one object a line, whose members are the values of a row; each value has a type of its own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privaware.data._open import open_bytes
from privaware.data._values import quoted
from privaware.errors import WrongInput

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["JsonLines", "read_json_lines"]


@dataclass(frozen=True, kw_only=True)
class JsonLines:
    """The rows of a file, and the line of each.

    `uneven` is the first line whose members are not those of the first row in their order, if there is one: then names
    of columns are values of rows.
    """

    frame: pd.DataFrame
    lines: list[int]
    uneven: int | None


def read_json_lines(path: Path, encoding: str | None = None) -> JsonLines:
    """The rows of a file, a column for every name in the order of its first use.

    A member that a line lacks is missing. Members that are objects or lists are no single values, and not used.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    with open_bytes(path) as file:
        for number, line in enumerate(file.read().splitlines(), start=1):
            if (row := _row(line, number, path.name, encoding or "utf-8-sig")) is not None:
                rows.append(row)
                lines.append(number)
    if not rows:
        raise WrongInput(f"expected an object in some line of {quoted(path.name)}, got none")
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: pd.Series([row.get(name) for row in rows], dtype=object) for name in names}
    first = list(rows[0])
    uneven = next((line for line, row in zip(lines, rows, strict=True) if list(row) != first), None)
    return JsonLines(frame=pd.DataFrame(columns, index=range(len(rows))), lines=lines, uneven=uneven)


def _row(line: bytes, number: int, file: str, encoding: str) -> dict[str, Any] | None:
    """The members of one line; None for an empty one."""
    try:
        text = line.decode(encoding).strip()
        row = json.loads(text) if text else None
    except LookupError:
        raise WrongInput(f"expected --encoding such as utf-8 or latin-1, got {quoted(encoding)}") from None
    except (ValueError, RecursionError):
        raise WrongInput(f"{quoted(file)}, line {number}: expected one JSON object, got something else") from None
    if row is not None and not isinstance(row, dict):
        raise WrongInput(f"{quoted(file)}, line {number}: expected one JSON object, got {type(row).__name__}")
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise WrongInput(f"{quoted(file)}, line {number}: expected text, got half of a character") from None
    return row
