"""CSV files, read by fixed rules: the reading of a row depends on that row and the header line alone.

- Header: the first line holds the names of the columns. If one of the names is a number, the line may be a row: the
  file is refused, and the line never shown, until `header` says what the line is. Without a header line columns are
  called column_1, column_2 and so on; so is a column without a name.
- Separator: the one of `, ; tab |` that occurs most often in the header line outside quotation marks (a comma if none
  does). `sep`, or a line `sep=;` before the header, names another.
- Quotation marks: a field may be in quotation marks, with spaces around them. Inside them a doubled mark is one mark,
  and separators and line ends belong to the value. Elsewhere a mark is an ordinary character.
- Values: all values are text, and are coded by the kind that a schema declares. With a decimal comma, numbers get a
  decimal point; -0 becomes 0.

A file that breaks these rules is refused with the line number. A file is read a block of whole records at a time, so
its whole text is never in memory.
"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from privaware.data._columns import series_of, spelt_or_text
from privaware.data._numbers import CURRENCY, LETTERS, MEASURE, number_of
from privaware.data._open import open_bytes
from privaware.data._parts import in_order
from privaware.data._quotation import end_of_marked_records
from privaware.data._values import is_missing, quoted
from privaware.errors import WrongInput

if TYPE_CHECKING:
    import pandas as pd

SEPARATORS = (",", ";", "\t", "|")
"""Separators among which the header line decides."""
BOMS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
"""Byte order marks and their encodings."""
LINE_END = rb"(?:\r\n?|\n)"
"""Pattern of a line end."""
SEPARATOR_LINE = re.compile(rb"\Asep=([,;\t|])(?=\r?\n)")
"""Pattern of the line with the separator that spreadsheets write before the header line."""
BYTES_AT_ONCE = 1 << 24
"""Number of bytes of a CSV file that are parsed at a time."""
ROWS_BELOW_NAMES = 5
"""Largest number of rows that are compared with the first line to tell whether it holds names."""
MAX_RECORD_BLOCKS = 4
"""Number of blocks that one record may fill before its quotation marks are checked."""
BEFORE = rf"^\s*[-+]?\s*(?:{CURRENCY}\s*)?[-+]?"
"""Pattern of signs and currencies before a number."""
AFTER = rf"(?i:\s*(?:%|{CURRENCY}|{MEASURE})?|\s+[{LETTERS.replace(' ', '')}])\s*$"
"""Pattern of a percent sign, a currency or a unit of measure after a number, in upper or lower case."""
DECIMAL_COMMA = rf"{BEFORE}[0-9]+,[0-9]+(?:[eE][-+]?[0-9]+)?{AFTER}"
"""Pattern of a number with a decimal comma."""
GROUPED = rf"{BEFORE}[0-9]{{1,3}}(?:\.[0-9]{{3}})+(?:,[0-9]+)?{AFTER}"
"""Pattern of a number whose groups of digits are separated by points, perhaps with a decimal comma."""
GROUPED_WITH_COMMA = rf"{BEFORE}[0-9]{{1,3}}(?:\.[0-9]{{3}})+,[0-9]+{AFTER}"
"""`GROUPED` with a decimal comma; only the comma makes it certain that points separate groups."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Block:
    """Some whole records of a CSV file as UTF-8, and the number (from 1) of the line on which they begin.

    `checked` says that all quotation marks are known to be in their places.
    """

    text: bytes
    line: int
    checked: bool = False


@dataclass(frozen=True, kw_only=True)
class CsvFile:
    """A CSV file on disk. It is read again to find the line of a row, which only an error message needs.

    `header` says whether the first line holds names; with None it does, and a name that is a number is refused. `sep`,
    `decimal` ("." or ",") and `encoding` are None where the file decides. `block` is the number of bytes read at once.
    Raise `WrongInput` if `sep` is not one ASCII character, or a quotation mark, a space or a line end, for another
    `decimal`, for a comma in both, and for an unknown encoding.
    """

    path: Path
    header: bool | None = None
    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    block: int = field(default=BYTES_AT_ONCE, repr=False)

    def __post_init__(self) -> None:
        if self.sep is not None and (len(self.sep) != 1 or self.sep in '"\r\n ' or not self.sep.isascii()):
            raise WrongInput(f"expected --sep as one character such as ; or | or tab, got {quoted(self.sep)}")
        if self.decimal not in (None, ".", ","):
            raise WrongInput(f"expected --decimal as . or a comma, got {quoted(self.decimal)}")
        if self.decimal == "," and self.sep == ",":
            raise WrongInput("expected --sep and --decimal to differ, got a comma for both")
        try:
            codecs.lookup(self.encoding or "utf-8")
        except LookupError:
            raise WrongInput(
                f"expected --encoding as utf-8, latin-1, cp1252 or another that Python knows, got {self.encoding!r:.60}"
            ) from None

    @property
    def format(self) -> str:
        """The name of the format in error messages, such as "CSV in UTF-8"."""
        return f"CSV in {self.encoding or 'UTF-8'}"

    @cached_property
    def separator(self) -> str:
        """The separator: `sep`, or the one in a line such as `sep=;`, or the most frequent one in the header line."""
        if self.sep is not None:
            return self.sep
        start = next(self._text(), b"")
        if named := SEPARATOR_LINE.match(start):
            return named[1].decode()
        line = start.lstrip(b"\r\n")
        head = re.match(rb'(?:"(?:[^"]++|"")*+"|[^"\r\n]++|")*', line)
        names = re.sub(rb'"(?:[^"]++|"")*+"', b"", b"" if head is None else head.group())
        counts = {separator: names.count(separator.encode()) for separator in SEPARATORS}
        return max(SEPARATORS, key=lambda separator: counts[separator])

    def frame(self, names: Collection[str] | None = None) -> pd.DataFrame:
        """Return the table, whose columns are called `self.names`; columns of plain numbers become numbers.

        With `names` only these columns are parsed and returned, in the order of the file. If `names` is empty, the
        first column is parsed. If one of `names` is absent, all columns are parsed and returned.
        """
        needed = set(self.names if names is None else names) or {self.names[0]}
        only = self._positions(needed if needed <= set(self.names) else None)
        return self._frame(in_order(lambda block: self._values(block, only), self.blocks()), only)

    def empty(self) -> pd.DataFrame:
        """Return a table with the names of the columns and no row."""
        return self._frame([], self._positions(None))

    def block_frame(self, block: Block, names: Collection[str] | None = None) -> pd.DataFrame:
        """Return the rows of one block as a table, in the order of the file; if `names` is given, only these columns.

        A column may be numbers in one block and text in another; both mean the same.
        """
        only = self._positions(names)
        return self._frame([self._values(block, only)], only)

    def column(self, name: str) -> pd.Series:
        """Return the column called `name` of all rows, as `series_of` returns it: numbers, or text as categories.

        Raise `ValueError` if there is no such column.
        """
        at = self.names.index(name)
        values = in_order(lambda block: spelt_or_text(next(self.columns(block, [at]))), self.blocks())
        return series_of(list(values)).rename(name)

    @cached_property
    def names(self) -> list[str]:
        """The names of columns: the first line, or column_1, column_2, ... for empty names, or if `header` is False.

        Raise `WrongInput` for an empty file, and, without showing a value, for a name that is a number if `header` is
        None.
        """
        block = next(self.blocks(), None)
        if block is None:
            raise WrongInput(f"expected {quoted(self.path.name)} as CSV with a header line, got an empty file")
        start, end, _ = next(self._records(block.text), (0, len(block.text), 0))
        table = self._parsed(block.text[start:end], block.line, 0)
        unnamed = [f"column_{at + 1}" for at in range(len(table.columns))]
        if self.header is False:
            return unnamed
        names = [str(column[0]).strip() for column in table.columns]
        numbers = [at for at, name in enumerate(names) if not np.isnan(number_of(name))]
        if numbers and not self.header:
            raise WrongInput(
                f"{quoted(self.path.name)}, line 1: expected names of columns, got a number in column {numbers[0] + 1} "
                f"of {len(names)}; say --header=False if the first line is a row, or "
                "--header=True if it holds names"
            )
        return [name or other for name, other in zip(names, unnamed, strict=True)]

    @cached_property
    def names_are_certain(self) -> bool:
        """Whether the first line is known to hold names rather than the values of a row.

        It is if `header` is True or False. Otherwise up to `ROWS_BELOW_NAMES` rows after the first line are compared
        with it. The names are certain if some column has a number in all of these rows, and if no name of such a column
        is empty or a spelling of a missing value. They are not certain if there are fewer than two such rows, or if one
        breaks the rules.
        """
        if self.header is not None:
            return True
        block = next(self.blocks(), None)
        records = [] if block is None else list(islice(self._records(block.text), 1 + ROWS_BELOW_NAMES))[1:]
        if block is None or len(records) < 2:
            return False
        try:
            rows = self._parsed(block.text[records[0][0] : records[-1][1]], block.line + 1, len(self.names))
        except WrongInput:  # a row that breaks the rules, which reading the rows will refuse with its line
            return False
        heads = [
            "" if name == f"column_{at + 1}" else name  # a column without a name
            for at, (name, column) in enumerate(zip(self.names, rows.columns, strict=True))
            if not any(np.isnan(number_of(str(cell).strip())) for cell in column)
        ]
        return bool(heads) and not any(map(is_missing, heads))

    def columns(self, block: Block, only: Sequence[int]) -> Iterator[Any]:
        """Yield the columns of a block at the positions `only`, in this order, as Arrow arrays of text.

        The header line is left out.
        """
        table = self._parsed(block.text, block.line, len(self.names), block.checked)
        table = table.slice(int(block.line == 1 and self.header is not False))
        for at in only:
            yield self._with_points(table.column(at).combine_chunks())

    def block_line(self, block: Block, row: int) -> int:
        """Return the line of the file on which row number `row` of a block begins.

        Rows count from 0 after the header line, lines from 1.
        """
        return self._line_of([block], row + (block.line == 1 and self.header is not False))

    def _positions(self, names: Collection[str] | None) -> list[int]:
        return [at for at, name in enumerate(self.names) if names is None or name in names]

    def _values(self, block: Block, only: Sequence[int]) -> list[Any]:
        return [spelt_or_text(texts) for texts in self.columns(block, only)]

    def _frame(self, blocks: Iterable[list[Any]], only: Sequence[int]) -> pd.DataFrame:
        """Return the table of the columns at the positions `only` of the file.

        `blocks` has one list for each block of rows, in order: the values of these columns, as `_values` returns them.
        """
        import pandas as pd

        columns: list[list[Any]] = [[] for _ in only]
        for block in blocks:
            for column, values in zip(columns, block, strict=True):
                column.append(values)
        series = []
        for column in columns:
            series.append(series_of(column))
            column.clear()  # frees the blocks, which are joined now
        frame = pd.DataFrame(dict(enumerate(series)), index=range(len(series[0])), copy=False)
        return frame.set_axis([self.names[at] for at in only], axis=1)

    def line(self, row: int) -> int:
        """Return the line on which a row begins; rows count from 0 after the header line, lines from 1."""
        return self._line_of(self.blocks(), row + (self.header is not False))

    def _line_of(self, blocks: Iterable[Block], record: int) -> int:
        """Return the line of the file, from 1, on which record number `record` (from 0) of `blocks` begins.

        Return `record + 1` if there are too few records.
        """
        starts = (block.line + _lines(block.text[:at]) for block in blocks for at, *_ in self._records(block.text))
        return next(islice(starts, record, None), record + 1)

    def blocks(self) -> Iterator[Block]:
        """Yield all records of the file in blocks of about `block` bytes; the first one includes the header line.

        Empty lines may be among the records. The quotation marks of the last block are not `checked` yet. Raise
        `WrongInput` if a record is longer than `MAX_RECORD_BLOCKS` blocks because a quotation mark is out of place.
        """
        rest, line = b"", 1
        for more in self._decoded():
            rest += more
            end = self._end_of_records(rest) if len(rest) >= self.block else 0
            if end:
                yield Block(text=rest[:end], line=line, checked=True)
                line, rest = line + _lines(rest[:end]), rest[end:]
            elif len(rest) > MAX_RECORD_BLOCKS * self.block:
                self._without_outer_spaces(rest, line)  # raises for a mark that is never closed
        if rest.strip(b"\r\n"):
            yield Block(text=rest, line=line)

    def _decoded(self) -> Iterator[bytes]:
        """Yield the file as UTF-8, some bytes at a time; a line that names the separator becomes empty."""
        for at, text in enumerate(self._text()):
            yield text if at else SEPARATOR_LINE.sub(b"", text, count=1)

    def _text(self) -> Iterator[bytes]:
        """Yield the file as UTF-8, some bytes at a time.

        The encoding is `self.encoding`, or the encoding of the byte order mark, or UTF-8. Raise `WrongInput` for bytes
        that do not have that encoding; UTF-8 is checked later.
        """
        with open_bytes(self.path) if self.path.is_file() else io.BytesIO(self._piped) as file:
            start = file.read(self.block)
            mark = next((mark for mark in BOMS if start.startswith(mark)), b"")
            encoding = self.encoding or BOMS.get(mark, "utf-8")
            start = start[len(mark) :]
            decode = None
            if codecs.lookup(encoding).name != "utf-8":
                decode = codecs.getincrementaldecoder(encoding)()
            lines = 1
            while True:
                try:
                    text = start if decode is None else decode.decode(start, final=not start).encode()
                except UnicodeError:
                    raise WrongInput(
                        f"{quoted(self.path.name)}, about line {lines}: expected {encoding}, got other bytes; "
                        "name another with --encoding"
                    ) from None
                if not start:
                    break
                lines += text.count(b"\n")
                yield text
                start = file.read(self.block)

    @cached_property
    def _piped(self) -> bytes:
        """The whole content of a pipe, which can be read only once."""
        with open_bytes(self.path) as pipe:
            return pipe.read()

    def _end_of_records(self, text: bytes) -> int:
        """Return the position at which the last whole record of `text` ends, or 0 if there is no whole record."""
        last = text.rfind(b"\n", 0, -1) + 1  # a final carriage return may be half of a line end
        if b'"' not in text or not last:
            return last
        end = end_of_marked_records(text, last, self.separator)
        if end is not None:
            return end
        separator = re.escape(self.separator.encode())
        record = rb"(?:%b%b)*+%b%b" % (self._field, separator, self._field, LINE_END)
        match = re.match(rb"(?:%b)*+" % record, text[:last])
        return match.end() if match else 0

    @cached_property
    def _field(self) -> bytes:
        """Pattern of one field with its outer spaces."""
        separator = re.escape(self.separator.encode())
        return rb' *+(?:"(?:[^"]++|"")*+" *+|[^"%b\r\n ][^%b\r\n]*+)?+' % (separator, separator)

    @cached_property
    def _quoted(self) -> re.Pattern[bytes]:
        """Pattern of one quoted field with its outer spaces; found from the left, no match begins within a field."""
        separator = re.escape(self.separator.encode())
        return re.compile(rb'(?:\A|(?<=[%b\r\n])) *+("(?:[^"]++|"")*+") *+(?=%b|\r|\n|\Z)' % (separator, separator))

    def _parsed(self, text: bytes, line: int, width: int, checked: bool = False) -> Any:
        """Return the records of `text` as an Arrow table of `width` text columns.

        If `width` is 0, the first record determines the number of columns. Raise `WrongInput`, naming the line, for a
        record with another number of fields, NUL bytes, or bytes that are not UTF-8. `line` is the number of the first
        line of `text`. `checked` says that all quotation marks of `text` are known to be in their places.
        """
        import pyarrow as pa
        from pyarrow import csv

        if b"\0" in text:
            wide = line == 1 and text.count(0) >= len(text) // 3  # UTF-16 of Latin letters: every second byte is zero
            problem = (
                f"expected UTF-8, got UTF-16 without a byte order mark; name it with --encoding, such as "
                f"{'utf-16-be' if text[0] == 0 else 'utf-16-le'}, or save it as UTF-8 text"
                if wide
                else "expected text, got NUL bytes; save the file as UTF-8 text"
            )
            self._refuse(text, line, text.index(b"\0"), problem)
        text = self._without_outer_spaces(text, line, checked)
        width = width or next((fields for *_, fields in self._records(text)), 0)
        try:
            table = csv.read_csv(
                pa.py_buffer(text),
                csv.ReadOptions(autogenerate_column_names=True, use_threads=False, block_size=max(len(text), 1 << 20)),
                csv.ParseOptions(delimiter=self.separator, newlines_in_values=True),
                csv.ConvertOptions(column_types={f"f{at}": pa.string() for at in range(width)}),
            )
        except pa.ArrowInvalid:
            self._refuse_line(text, line, width)
        if table.num_columns != width:  # every record has the same other number of fields
            self._refuse_line(text, line, width)
        return table

    def _with_points(self, values: Any) -> Any:
        """Return the texts of an Arrow array, with decimal points if the file has decimal commas.

        A file has decimal commas if its `decimal` is a comma, or if `decimal` is None and fields are separated by `;`.
        Points between groups of digits are removed: from all such numbers if `decimal` is a comma, otherwise only from
        those with a decimal comma.
        """
        import pyarrow.compute as pc

        if self.decimal == "." or (self.decimal is None and self.separator != ";"):
            return values
        grouped = pc.match_substring_regex(values, GROUPED if self.decimal == "," else GROUPED_WITH_COMMA)
        values = pc.if_else(grouped, pc.replace_substring(values, ".", ""), values)
        with_comma = pc.match_substring_regex(values, DECIMAL_COMMA)
        return pc.if_else(with_comma, pc.replace_substring(values, ",", "."), values)

    def _without_outer_spaces(self, text: bytes, line: int, checked: bool = False) -> bytes:
        """Return the text without the spaces around quoted fields.

        Raise `WrongInput`, naming the line, if a quotation mark is out of place, unless the marks are already
        `checked`. `line` is the number of the first line of `text`.
        """
        if b'"' not in text:
            return text
        separator = re.escape(self.separator.encode())
        fields = re.match(rb"(?:%b(?:%b|%b|\Z))*+" % (self._field, separator, LINE_END), b"" if checked else text)
        end = 0 if fields is None else fields.end()
        if end < len(text) and not checked:
            closed = re.compile(rb' *"(?:[^"]++|"")*+"').match(text, end)
            problem = (
                "text follows a closing quotation mark; double a mark that belongs to the value"
                if closed
                else "a quotation mark is opened and never closed"
            )
            self._refuse(text, line, end, problem)
        if b' "' not in text and b'" ' not in text:
            return text
        spaced = re.search(rb'(?:\A|[%b\r\n]) +"|" +(?:%b|\r|\n|\Z)' % (separator, separator), text)
        return text if spaced is None else self._quoted.sub(rb"\1", text)

    def _records(self, text: bytes) -> Iterator[tuple[int, int, int]]:
        """Yield for each non-empty record of `text` the positions where it begins and ends, and its number of fields.

        The end is behind the line end. Stop at the first record that breaks the rules of quotation marks.
        """
        separator = re.escape(self.separator.encode())
        record = re.compile(rb"(?:%b%b)*+%b(?:%b|\Z)" % (self._field, separator, self._field, LINE_END))
        at = 0
        while at < len(text) and (match := record.match(text, at)):
            if content := match.group().strip(b"\r\n"):
                yield at, match.end(), self._quoted.sub(b"", content).count(self.separator.encode()) + 1
            at = match.end()

    def _refuse_line(self, text: bytes, line: int, width: int) -> NoReturn:
        """Raise `WrongInput` for text that Arrow's parser refused; Arrow's own messages quote rows.

        `line` is the number of the first line of `text`, and `width` is the expected number of fields of a record. The
        message names the line of the first byte that is not UTF-8, or else of the first record of another width.
        """
        try:
            text.decode()
        except UnicodeDecodeError as problem:
            sentence = (
                "expected UTF-8, got other bytes; name it with --encoding, such as latin-1, or save it as UTF-8 text"
            )
            self._refuse(text, line, problem.start, sentence)
        for start, _, fields in self._records(text):
            if fields != width:
                self._refuse(text, line, start, f"expected {width} fields, got {fields}; correct the line")
        raise WrongInput(f"expected {quoted(self.path.name)} as CSV in UTF-8 with a header line")

    def _refuse(self, text: bytes, line: int, offset: int, sentence: str) -> NoReturn:
        raise WrongInput(f"{quoted(self.path.name)}, line {line + _lines(text[:offset])}: {sentence}")


def _lines(text: bytes) -> int:
    return len(re.findall(LINE_END, text)) if b"\r" in text else text.count(b"\n")
