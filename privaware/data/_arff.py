"""ARFF files of Weka: a header that names and types the columns, and rows that are dense or sparse.

A column is `numeric` (also `real`, `integer`), a list of values in braces, `string`, or a `date` with its pattern. A
list of values in the header declares a column of categories. But the list does not count as public: categories still
have to be declared in the schema or released under privacy, as for the categories of a data frame. A value is missing
if it is `?` without quotation marks, or empty in a dense row. A sparse row such as `{2 x, 5 y}` has pairs of a column
number, from 0, and a value. A column that a sparse row does not name is 0, the first of the listed values, an empty
string, or the first moment of 1970.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from privaware.data._numbers import number_of
from privaware.data._open import open_bytes
from privaware.data._raw import Raw, check_names
from privaware.data._values import got, quoted
from privaware.errors import WrongInput

if TYPE_CHECKING:
    import pandas as pd

QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
VALUE = re.compile(rf"\s*({QUOTED}|[^,\s'\"][^,]*|)\s*(,|$)")
PAIR = re.compile(rf"\s*([0-9]+)\s+({QUOTED}|[^,\s'\"][^,]*)\s*(,|$)")
ATTRIBUTE = re.compile(rf"@attribute\s+({QUOTED}|[^\s{{]+)\s*(.+)", re.IGNORECASE)
ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
NUMBERS = ("numeric", "real", "integer")
ISO = "yyyy-MM-dd'T'HH:mm:ss"
"""Pattern of a date column whose header states none."""
DATE_LETTERS = {
    "yyyy": "%Y",
    "yy": "%y",
    "MMM": "%b",
    "MM": "%m",
    "M": "%m",
    "dd": "%d",
    "d": "%d",
    "HH": "%H",
    "H": "%H",
    "mm": "%M",
    "ss": "%S",
    "SSS": "%f",
}
"""Letters of Java's date patterns, which ARFF uses, as Python's format codes."""


@dataclass(frozen=True, kw_only=True)
class Attribute:
    """A column that the header declares; `kind` is "number", "category", "string" or "date".

    `values` are the categories of a category column, and `pattern` is the Python format of a date column.
    """

    name: str
    kind: str
    values: tuple[str, ...] = ()
    pattern: str = ""

    @property
    def left_out(self) -> str:
        """The value in a sparse row that does not name this column, as text.

        It is "0" for a number, the first category (empty if none is declared), an empty text for a string column, and
        1970-01-01 for a date, in the column's `pattern`.
        """
        if self.kind == "date":
            return datetime(1970, 1, 1).strftime(self.pattern)
        return "0" if self.kind == "number" else self.values[0] if self.values else ""


def read_arff(path: Path, encoding: str | None = None) -> Raw:
    """Return the table in an ARFF file; raise `WrongInput` if the file breaks the format.

    Columns are float64, categories (pandas' Categorical), dates (datetime64) or objects of str. Missing values are NaN,
    NaT or None. `encoding` is UTF-8 by default.
    """
    import pandas as pd

    attributes: list[Attribute] = []
    rows: list[list[str | None]] = []
    lines: list[int] = []
    in_data = False
    for number, line in _lines(path, encoding):
        where = f"{quoted(path.name)}, line {number}"
        if in_data:
            rows.append(_row(line, attributes, where))
            lines.append(number)
        elif re.fullmatch(r"@data", line, re.IGNORECASE):
            in_data = True
        elif re.match(r"@attribute\b", line, re.IGNORECASE):
            attributes.append(_attribute(line, where))
        elif not re.match(r"@relation\b", line, re.IGNORECASE):
            raise WrongInput(f"{where}: expected @relation, @attribute or @data, got something else")
    if not attributes or not in_data:
        raise WrongInput(
            f"expected @attribute lines and a line @data in {quoted(path.name)}, but at least one of the two is missing"
        )
    columns = {at: _column(each, [row[at] for row in rows], lines, path.name) for at, each in enumerate(attributes)}
    frame = pd.DataFrame(columns, index=range(len(rows)), copy=False)
    frame = check_names(frame.set_axis([each.name for each in attributes], axis=1), path.name)
    return Raw(frame=frame, name=path.name, line=lines.__getitem__)


def _lines(path: Path, encoding: str | None) -> Iterator[tuple[int, str]]:
    """Yield the number, from 1, and the stripped text of each line that is neither empty nor a comment.

    `encoding` is UTF-8 by default. Raise `WrongInput` if it is unknown, or if the file has other bytes.
    """
    encoding = encoding or "utf-8-sig"
    with open_bytes(path) as file:
        content = file.read()
    try:
        text = content.decode(encoding)
    except LookupError:
        raise WrongInput(f"expected --encoding such as utf-8 or latin-1, got {quoted(encoding)}") from None
    except UnicodeError:
        raise WrongInput(
            f"{quoted(path.name)}: expected {encoding.removesuffix('-sig')}, got other bytes; name another with "
            "--encoding"
        ) from None
    for number, line in enumerate(re.split(r"\r\n?|\n", text), start=1):
        if line.strip() and not line.lstrip().startswith("%"):
            yield number, line.strip()


def _attribute(line: str, where: str) -> Attribute:
    """Return the column that an @attribute line declares.

    Raise `WrongInput`, which begins with `where` (file and line), if the line or its type is not known.
    """
    match = ATTRIBUTE.fullmatch(line)
    if match is None:
        raise WrongInput(f"{where}: expected @attribute NAME TYPE, got something else")
    name, kind = _plain(match[1]), match[2].strip()
    word = kind.split()[0].lower()
    if kind.startswith("{") and kind.endswith("}"):
        values = [_plain(value) for value in _fields(kind[1:-1], where) if value]
        return Attribute(name=name, kind="category", values=tuple(dict.fromkeys(values)))
    if word in NUMBERS:
        return Attribute(name=name, kind="number")
    if word == "string":
        return Attribute(name=name, kind="string")
    if word == "date":
        return Attribute(name=name, kind="date", pattern=_pattern(_plain(kind[len("date") :].strip()) or ISO, where))
    raise WrongInput(
        f"{where}: expected the type numeric, string, date or a list in braces, got {quoted(word)}; "
        "save the column as one of these"
    )


def _pattern(java: str, where: str) -> str:
    """Return Java's date pattern `java` as a Python format.

    Raise `WrongInput`, which begins with `where` (file and line), for letters that are not in `DATE_LETTERS`.
    """
    parts = []
    for literal, run, _, other in re.findall(r"'([^']*)'|(([a-zA-Z])\3*)|([^a-zA-Z'])", java):
        if run and run not in DATE_LETTERS:
            raise WrongInput(
                f"{where}: expected a date of {', '.join(DATE_LETTERS)}, got {quoted(run)}; save it as text instead"
            )
        parts.append(DATE_LETTERS[run] if run else (literal + other).replace("%", "%%"))
    return "".join(parts)


def _row(line: str, attributes: list[Attribute], where: str) -> list[str | None]:
    """Return one value for each of `attributes`, the declared columns, with None for missing values.

    A column that a sparse row does not name has its value `left_out`. Raise `WrongInput`, which begins with `where`
    (file and line), if a dense row has another number of values, or a sparse row has anything but pairs.
    """
    if line.startswith("{") and line.endswith("}"):
        return _sparse(line[1:-1], attributes, where)
    values = _fields(line, where)
    if len(values) != len(attributes):
        raise WrongInput(f"{where}: expected {len(attributes)} values, one for each @attribute, got {len(values)}")
    return [None if value in ("?", "") else _plain(value) for value in values]


def _sparse(inner: str, attributes: list[Attribute], where: str) -> list[str | None]:
    row: list[str | None] = [each.left_out for each in attributes]
    at = 0
    while inner[at:].strip():
        pair = PAIR.match(inner, at)
        if pair is None or int(pair[1]) >= len(attributes):
            raise WrongInput(
                f"{where}: expected pairs of a number from 0 to {len(attributes) - 1} and a value in a sparse row, "
                "got something else"
            )
        row[int(pair[1])] = None if pair[2].strip() == "?" else _plain(pair[2])
        at = pair.end()
    return row


def _fields(line: str, where: str) -> list[str]:
    """Return the values between the commas of `line`, stripped, but still in their quotation marks.

    A comma inside quotation marks belongs to the value. Raise `WrongInput`, which begins with `where` (file and line),
    for a quotation mark that is not closed.
    """
    if "'" not in line and '"' not in line:
        return [field.strip() for field in line.split(",")]
    fields, at, more = [], 0, True
    while more:
        match = VALUE.match(line, at)
        if match is None:
            raise WrongInput(f"{where}: expected values between commas, got a quotation mark that is not closed")
        fields.append(match[1].strip())
        at, more = match.end(), match[2] == ","
    return fields


def _plain(value: str) -> str:
    """Return a value, stripped, without its quotation marks.

    Inside quotation marks a backslash escapes the next character: `\\n`, `\\t` and `\\r` are a line end, a tab and a
    carriage return. A value without quotation marks stays as it is.
    """
    value = value.strip()
    if value[:1] not in ("'", '"') or len(value) < 2:
        return value
    return re.sub(r"\\(.)", lambda match: ESCAPES.get(match[1], match[1]), value[1:-1])


def _column(attribute: Attribute, values: list[str | None], lines: list[int], file: str) -> pd.Series:
    import numpy as np
    import pandas as pd

    def refuse(at: int, expected: str) -> WrongInput:
        where = f"{quoted(file)}, line {lines[at]}, column {quoted(attribute.name)}"
        return WrongInput(f"{where}: expected {expected}{got(values[at])}; correct it, or write ? where it is missing")

    if attribute.kind == "number":
        numbers = np.array([np.nan if value is None else number_of(value) for value in values], dtype=float)
        wrong = [at for at, value in enumerate(values) if value is not None and np.isnan(numbers[at])]
        if wrong:
            raise refuse(wrong[0], "a number")
        return pd.Series(numbers)
    if attribute.kind == "category":
        declared = set(attribute.values)
        wrong = [at for at, value in enumerate(values) if value is not None and value not in declared]
        if wrong:
            raise refuse(wrong[0], "a value that the header lists")
        return pd.Series(pd.Categorical(values, categories=list(attribute.values)))
    if attribute.kind == "date":
        return _dates(attribute, values, refuse)
    return pd.Series(values, dtype=object)


def _dates(attribute: Attribute, values: list[str | None], refuse: Callable[[int, str], WrongInput]) -> pd.Series:
    import pandas as pd

    dates: list[datetime | None] = []
    for at, value in enumerate(values):
        try:
            dates.append(None if value is None else datetime.strptime(value, attribute.pattern))
        except ValueError:
            raise refuse(at, "a date of the pattern in the header") from None
    return pd.Series(dates, dtype="datetime64[us]")
