"""JSON lines: one object a line, whose members are the values of a row; each value has a type of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privaware.data._open import open_bytes
from privaware.data._values import quoted
from privaware.errors import WrongInput

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["read_json_lines"]


def read_json_lines(path: Path, encoding: str | None = None) -> tuple[pd.DataFrame, list[int]]:
    """The rows of a file, a column for every name in the order of its first use, and the line of each row.

    A member that a line lacks is missing. Members that are objects or lists are no single values, and not used.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    with open_bytes(path) as file:
        for number, line in enumerate(file.read().splitlines(), start=1):
            if row := _row(line, number, path.name, encoding or "utf-8-sig"):
                rows.append(row)
                lines.append(number)
    if not rows:
        raise WrongInput(f"expected an object in some line of {quoted(path.name)}, got none")
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: pd.Series([row.get(name) for row in rows], dtype=object) for name in names}
    return pd.DataFrame(columns), lines


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
    return row
