"""CSV by fixed rules: how a row is read follows from that row and the header line alone.

The first line holds the names of the columns. Where one of them is a number it may be a row instead: it is refused, and
never shown, until `header` says what it is. Without a header line columns are called column_1, column_2 and so on.

A field may stand in quotation marks, with spaces around them; within them a doubled mark is one mark, and separators
and line ends belong to the value. Elsewhere a mark is a character like any other. All values are text, to be coded by
the kind that a schema declares. What breaks these rules is refused by its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from privaware.data._values import number_of, quoted
from privaware.errors import WrongInput

if TYPE_CHECKING:
    import pandas as pd

BOM = b"\xef\xbb\xbf"
LINE_END = rb"(?:\r\n?|\n)"


@dataclass(frozen=True, kw_only=True)
class CsvFile:
    """A CSV file on disk. It is read anew to tell the line of a row, which only a refusal asks for."""

    path: Path
    header: bool | None = None

    @property
    def separator(self) -> str:
        return "," if self.path.suffix.lower() == ".csv" else "\t"

    def frame(self) -> pd.DataFrame:
        """The table, all values as text, with the names of the header line if there is one."""
        import pyarrow as pa
        from pyarrow import csv

        text = self._text()
        if not text.strip(b"\r\n"):
            raise WrongInput(f"expected {quoted(self.path.name)} as CSV with a header line, got an empty file")
        if b"\0" in text:
            self._refuse(text, text.index(b"\0"), "expected text, got NUL bytes; save the file as UTF-8 text")
        text = self._without_outer_spaces(text)
        width = self._width(text)
        try:
            table = csv.read_csv(
                pa.py_buffer(text),
                csv.ReadOptions(autogenerate_column_names=True, use_threads=False, block_size=max(len(text), 1 << 20)),
                csv.ParseOptions(delimiter=self.separator, newlines_in_values=True),
                csv.ConvertOptions(column_types={f"f{at}": pa.string() for at in range(width)}),
            )
        except pa.ArrowInvalid:
            self._refuse_line(text, width)
        names = [f"column_{at + 1}" for at in range(width)]
        if self.header is not False:
            names = [str(column[0]).strip() for column in table.columns]
            self._expect_names(names)
            table = table.slice(1)
        frame: pd.DataFrame = table.to_pandas().set_axis(names, axis=1)
        return frame

    def line(self, row: int) -> int:
        """The line on which a row begins: rows count from 0 after the header line, lines from 1."""
        text = self._text()
        record = row if self.header is False else row + 1
        starts = (start for start, _ in self._records(text))
        return next((_line(text, start) for at, start in enumerate(starts) if at == record), record + 1)

    def _expect_names(self, names: list[str]) -> None:
        """Refuses a first line that may be a row, unless it was declared to hold names; no value is shown."""
        numbers = [at for at, name in enumerate(names) if not np.isnan(number_of(name))]
        if numbers and not self.header:
            raise WrongInput(
                f"{quoted(self.path.name)}, line 1: expected names of columns, got a number in column {numbers[0] + 1} "
                f"of {len(names)}; say --no-header if the first line is a row, or --header if it holds names"
            )

    def _text(self) -> bytes:
        return self.path.read_bytes().removeprefix(BOM)

    @cached_property
    def _field(self) -> bytes:
        """A pattern of one field with its outer spaces."""
        separator = self.separator.encode()
        return rb' *+(?:"(?:[^"]++|"")*+" *+|[^"%b\r\n ][^%b\r\n]*+)?+' % (separator, separator)

    @cached_property
    def _quoted(self) -> re.Pattern[bytes]:
        """One quoted field with its outer spaces; found from the left, it never begins inside another."""
        separator = self.separator.encode()
        return re.compile(rb'(?:\A|(?<=[%b\r\n])) *+("(?:[^"]++|"")*+") *+(?=%b|\r|\n|\Z)' % (separator, separator))

    def _without_outer_spaces(self, text: bytes) -> bytes:
        """The text without the spaces around quoted fields; a mark that is out of place is refused."""
        if b'"' not in text:
            return text
        separator = self.separator.encode()
        fields = re.match(rb"(?:%b(?:%b|%b|\Z))*+" % (self._field, separator, LINE_END), text)
        end = 0 if fields is None else fields.end()
        if end < len(text):
            closed = re.compile(rb' *"(?:[^"]++|"")*+"').match(text, end)
            problem = (
                "text follows a closing quotation mark; double a mark that belongs to the value"
                if closed
                else "a quotation mark is opened and never closed"
            )
            self._refuse(text, end, problem)
        spaced = re.search(rb'(?:\A|[%b\r\n]) +"|" +(?:%b|\r|\n|\Z)' % (separator, separator), text)
        return text if spaced is None else self._quoted.sub(rb"\1", text)

    def _records(self, text: bytes) -> Iterator[tuple[int, int]]:
        """Where each record that is not an empty line begins, and how many fields it has."""
        separator = self.separator.encode()
        record = re.compile(rb"(?:%b%b)*+%b(?:%b|\Z)" % (self._field, separator, self._field, LINE_END))
        at = 0
        while at < len(text) and (match := record.match(text, at)):
            if content := match.group().strip(b"\r\n"):
                yield at, self._quoted.sub(b"", content).count(separator) + 1
            at = match.end()

    def _width(self, text: bytes) -> int:
        return next((fields for _, fields in self._records(text)), 0)

    def _refuse_line(self, text: bytes, width: int) -> NoReturn:
        """What the parser refuses, by our own look at it: its sentences quote rows."""
        try:
            text.decode()
        except UnicodeDecodeError as problem:
            self._refuse(text, problem.start, "expected UTF-8, got other bytes; save the file as UTF-8 text")
        for start, fields in self._records(text):
            if fields != width:
                self._refuse(text, start, f"expected {width} fields, got {fields}")
        raise WrongInput(f"expected {quoted(self.path.name)} as CSV in UTF-8 with a header line")

    def _refuse(self, text: bytes, offset: int, sentence: str) -> NoReturn:
        raise WrongInput(f"{quoted(self.path.name)}, line {_line(text, offset)}: {sentence}")


def _line(text: bytes, offset: int) -> int:
    return 1 + len(re.findall(LINE_END, text[:offset]))
