"""Parquet files that are read a piece at a time, because their rows may not fit into memory.

A table is one file, or a folder of files with the same names of columns. A piece is one or more consecutive row groups
of one file. The caller decides where pieces are read: in this process or on other machines.
"""

from __future__ import annotations

import itertools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privaware.data._data import PART, Data, Rows
from privaware.data._outside import Outside
from privaware.data._parts import LocalParts, Parts, Sum
from privaware.data._persons import CountedRows, capped, counted_rows, expect_unit_column, of_persons
from privaware.data._raw import Raw, check_names, labelled_part, parsing
from privaware.data._read import frame_of_arrow, parquet_files
from privaware.data._sketch import Sketch, hashes_and_sketch, running_columns
from privaware.data._streamed import Streamed
from privaware.data._values import quoted
from privaware.errors import WrongInput
from privaware.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

LARGE = 10_000_000
"""Number of cells from which a table is read in pieces; the size of a file is public."""

PIECE = 2**17
"""Smallest number of rows of a piece, to which whole row groups are added until it has them."""

MAX_BYTES_PER_VALUE = 4
"""Mean bytes of a text value in the file up to which most values repeat, so that text is read as categories."""


@dataclass(frozen=True, kw_only=True)
class RowGroups:
    """Some or all row groups of a Parquet file; a call yields their rows in parts of at most `PART` rows.

    `groups` are the numbers of the row groups, or None for all. `first` is the number of rows of the file before these
    row groups, and `before` the number of rows of earlier files of the table. Repeating text is read as categories with
    the same spellings. `columns` are the names of the columns to read, or None for all. If `counted` is not None, it
    has packed bits (uint8, as `numpy.packbits` packs them), one for each row of these row groups, and only rows with
    bit 1 are yielded.
    """

    path: Path
    groups: tuple[int, ...] | None = None
    first: int = 0
    before: int = 0
    columns: tuple[str, ...] | None = None
    counted: np.ndarray | None = field(default=None, repr=False, compare=False)

    def __call__(self) -> Iterator[Raw]:
        import pyarrow as pa

        batches = _with_categories(self.path).iter_batches(
            batch_size=PART, row_groups=self.groups, columns=self.columns
        )
        mask = None if self.counted is None else np.unpackbits(self.counted)
        at = 0
        while True:
            with parsing(self.path, "Parquet"):
                batch = next(batches, None)
                if batch is None:
                    return
                frame = check_names(frame_of_arrow(pa.Table.from_batches([batch]), split=True), self.path.name)
            begin = self.before + self.first + at
            raw = Raw(frame=frame, name=self.path.name, first=self.first + at, begin=begin)
            yield raw if mask is None else raw.take(np.flatnonzero(mask[at : at + len(frame)]))
            at += len(frame)


def parquet(path: Path, **options: Any) -> Any:
    """Return the opened `pyarrow.parquet.ParquetFile`; only its footer is read. `options` go to its constructor."""
    import pyarrow.parquet

    with parsing(path, "Parquet"):
        return pyarrow.parquet.ParquetFile(path, **options)


def _with_categories(path: Path) -> Any:
    """Return the opened Parquet file at `path`, in which repeating text is read as categories.

    So each spelling is in memory once. The file is not buffered ahead, because the buffer would stay in memory while
    the file is open.
    """
    import pyarrow as pa

    file, is_text = parquet(path), (pa.types.is_string, pa.types.is_large_string)
    repeats = _repeating(file.metadata.row_group(0)) if file.metadata.num_row_groups else set()
    texts = [each.name for each in file.schema_arrow if any(check(each.type) for check in is_text)]
    return parquet(path, read_dictionary=[name for name in texts if name in repeats], pre_buffer=False)


def _repeating(group: Any) -> set[str]:
    """Return the names of the columns whose values take at most `MAX_BYTES_PER_VALUE` bytes on average.

    `group` is the metadata of a row group. Text that takes more, such as names, is slow as categories.
    """
    chunks = [group.column(at) for at in range(group.num_columns)]
    few = (chunk for chunk in chunks if chunk.total_uncompressed_size <= MAX_BYTES_PER_VALUE * chunk.num_values)
    return {chunk.path_in_schema for chunk in few}


class LargeRows(ABC):
    """The interface of a table on disk that may not fit into memory: its rows are read some at a time."""

    head: Raw
    """The first rows, which give the names and, if the file declares them, the types of the columns."""

    parts: Parts[Raw]
    """The rows as they are, in parts."""

    rows: int
    """The number of rows, exact or approximate; it determines in how many passes persons are searched."""

    @abstractmethod
    def column(self, name: str) -> pd.Series:
        """Return the column `name` of all rows, in memory."""

    @abstractmethod
    def only(self, *, columns: tuple[str, ...] | None = None, counted: CountedRows | None = None) -> LargeRows:
        """Return the same table with only the columns in `columns` and the rows in `counted`.

        `counted` has one bit for each row of the table. None means all columns, or all rows. Both replace an earlier
        choice of columns and rows.
        """

    def streamed(self, schema: Schema) -> Streamed:
        """Return the rows that have a target, coded by `schema` anew in each pass.

        If persons are protected, only the first `schema.cap` rows with a target of each person are returned.
        """
        target, classes = schema.target, schema.classes
        counted, used = None, tuple(dict.fromkeys((*(column.name for column in schema.declared), target)))
        if of_persons(schema):
            with self.head.named():
                expect_unit_column(self.head, schema)
            counted = counted_rows(self.only(columns=(schema.unit, target)).parts, schema, self.rows)
        table = self.only(columns=used, counted=counted)
        return _streamed(table.parts.map(lambda raw: labelled_part(raw, target, classes)), schema)

    def unlabelled(self, schema: Schema, keep: Sequence[str] = ()) -> Iterator[tuple[Data, Outside, Raw]]:
        """Yield the rows to predict, coded part by part in their order; a target is not read.

        Each item has the coded rows, the counts of their values that do not fit the schema, and the rows as they are,
        with the used columns and the columns `keep`. Raise `WrongInput` if a column is missing, or for a value that
        does not fit the schema and that it does not allow.
        """
        Data.of(
            self.head, schema, labelled=False, outside=Outside()
        )  # raises if a column is missing, and names all columns
        read = dict.fromkeys((*(column.name for column in schema.declared), *keep))
        parts = self.only(columns=tuple(read) or None).parts
        assert isinstance(parts, LocalParts)

        def coded(raw: Raw) -> tuple[Data, Outside, Raw]:
            outside = Outside()
            return Data.of(raw, schema, labelled=False, outside=outside), outside, raw

        return parts.each(coded)

    def checked(self, schema: Schema, key: bytes) -> tuple[np.ndarray, Sketch, int]:
        """Return the keyed hash of each row, a sketch of all rows, and the number of rows without a target.

        Hashes are uint64 and need not be in the order of the rows; `key` is the owner's secret. A sketch recognises
        most of the same rows in another table. This is one pass, which also raises `WrongInput` if a value does not fit
        the schema. The cap on the rows of a person is not applied.
        """
        running = running_columns(self.head, self.rows)
        checked = self.parts.total(_Checks(schema=_by_row(schema), key=key, running=running))
        return np.concatenate(checked.hashes), checked.sketch, checked.unlabelled


@dataclass(frozen=True)
class LargeTable(LargeRows):
    """A table in Parquet files. Types and numbers of rows come from the footers of the files, without reading a row.

    `path` is a file or a folder of files. `place` turns a list of pieces (`RowGroups`) into `Parts`, such as parts on
    other machines; without it this process reads them. `columns` and `counted` choose the columns and rows that are
    read (see `only`).
    """

    path: Path
    place: Callable[[Sequence[RowGroups]], Parts[Raw]] | None = field(default=None, compare=False)
    columns: tuple[str, ...] | None = None
    counted: CountedRows | None = field(default=None, repr=False, compare=False)

    def only(self, *, columns: tuple[str, ...] | None = None, counted: CountedRows | None = None) -> LargeTable:
        return replace(self, columns=columns, counted=counted)

    @cached_property
    def files(self) -> list[Path]:
        """The file, or the files of the folder; raise `WrongInput` unless all have the same columns."""
        files = parquet_files(self.path)
        names = parquet(files[0]).schema_arrow.names
        for file in files[1:]:
            if set(parquet(file).schema_arrow.names) != set(names):
                raise WrongInput(
                    f"expected the same columns in all files of {quoted(self.path.name)}, but {quoted(file.name)} "
                    f"differs from {quoted(files[0].name)}"
                )
        return files

    @cached_property
    def rows(self) -> int:  # type: ignore[override]
        return sum(int(parquet(file).metadata.num_rows) for file in self.files)

    @cached_property
    def width(self) -> int:
        return len(parquet(self.files[0]).schema_arrow.names)

    @cached_property
    def head(self) -> Raw:  # type: ignore[override]
        """At most `PART` first rows, which give the names and types of the columns."""
        import pyarrow as pa

        file = parquet(self.files[0])
        with parsing(self.path, "Parquet"):
            batch = next(file.iter_batches(batch_size=PART), None)
            table = file.schema_arrow.empty_table() if batch is None else pa.Table.from_batches([batch])
            return Raw(frame=check_names(frame_of_arrow(table), self.path.name), name=self.path.name)

    def column(self, name: str) -> pd.Series:
        """Return the column `name` of all rows, in memory."""
        import pyarrow as pa

        with parsing(self.path, "Parquet"):
            table = pa.concat_tables([_with_categories(file).read(columns=[name]) for file in self.files])
            return frame_of_arrow(table)[name]

    def pieces(self) -> list[RowGroups]:
        """Return pieces of row groups of one file each; at least one piece.

        Each piece has at least `PIECE` rows, except for the last piece of a file.
        """
        pieces, before = [], 0
        for path in self.files:
            metadata, groups, rows, first = parquet(path).metadata, [], 0, 0
            for group in range(metadata.num_row_groups):
                groups.append(group)
                rows += metadata.row_group(group).num_rows
                if rows and (rows >= PIECE or group == metadata.num_row_groups - 1):
                    piece = RowGroups(path=path.absolute(), groups=tuple(groups), first=first, before=before)
                    pieces.append(self._piece(piece, rows))
                    groups, rows, first = [], 0, first + rows
            before += first
        return pieces or [RowGroups(path=self.files[0].absolute(), columns=self.columns)]

    def _piece(self, piece: RowGroups, rows: int) -> RowGroups:
        """Return `piece`, which has `rows` rows, with the columns and rows of this table that are to be read."""
        begin = piece.before + piece.first
        counted = None if self.counted is None else self.counted.bits(begin, begin + rows)
        return replace(piece, columns=self.columns, counted=counted)

    @cached_property
    def parts(self) -> Parts[Raw]:  # type: ignore[override]
        """The rows as they are, in parts."""
        if self.place is not None:
            return self.place(self.pieces())
        files, before = [], 0
        for path in self.files:
            rows = int(parquet(path).metadata.num_rows)
            files.append(self._piece(RowGroups(path=path, before=before), rows))
            before += rows
        here: LocalParts[Raw] = LocalParts(lambda: itertools.chain.from_iterable(read() for read in files))
        return here


def coded_rows(raw: Raw, schema: Schema) -> Rows:
    """Return rows in memory, coded by a schema; a table of at least `LARGE` cells is coded anew in each pass.

    Parameters
    ----------
    raw : Raw
        The rows. A value that does not fit the schema raises `WrongInput` at once.
    schema : Schema
        The public facts.

    Returns
    -------
    Rows
        The coded rows; uncoded rows (`Data.uncoded`) if the schema does not declare all bounds. If persons are
        protected, only the first `schema.cap` rows of each person are returned.
    """
    frame = raw.frame
    if frame is None or frame.size < LARGE or schema.form != "table" or schema.has_images:
        return (Data.of if schema.bounded else Data.uncoded)(raw, schema)
    starts = range(0, len(frame), PART)
    parts: Parts[Raw] = LocalParts(
        lambda: (replace(raw, frame=frame.iloc[at : at + PART], first=at, begin=at, test=None) for at in starts)
    )
    _streamed(parts, schema).parts.map(len).listed()  # raises if a value does not fit
    if of_persons(schema):
        with raw.named():
            counted = capped(raw, schema)
        parts = parts.map(lambda part: part.take(np.flatnonzero(counted[part.begin :][: len(part)])))
    return _streamed(parts, schema)


def _streamed(parts: Parts[Raw], schema: Schema) -> Streamed:
    """Return the rows in `parts` as `Streamed`, coded by `schema` anew in each pass.

    The cap on the rows of a person is not applied here, because a person's rows may be in several parts.
    """
    coded, by_row = Data.of if schema.bounded else Data.uncoded, _by_row(schema)
    return Streamed(
        schema=schema, parts=parts.map(lambda raw: replace(coded(raw, by_row), schema=schema, begin=raw.begin))
    )


def _by_row(schema: Schema) -> Schema:
    """Return the schema with one row as the unit if persons are protected, else the same schema."""
    return replace(schema, unit="row", cap=1) if of_persons(schema) else schema


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class _Checked:
    """The hashes and the sketch of some rows; `unlabelled` is the number of these rows without a target."""

    hashes: list[np.ndarray]
    sketch: Sketch
    unlabelled: int


@dataclass(frozen=True, kw_only=True)
class _Checks(Sum[Raw, _Checked, None]):
    """The hashes and the sketch of all rows, as a sum over parts without a release.

    `partial` raises `WrongInput` if a value does not fit the schema. `key` is the secret key of the hashes. The columns
    `running`, which number the rows one after another, are left out of the sketch.
    """

    schema: Schema
    key: bytes
    running: frozenset[str]

    def partial(self, part: Raw) -> _Checked:
        kept = labelled_part(part, self.schema.target, self.schema.classes)
        (Data.of if self.schema.bounded else Data.uncoded)(kept, self.schema)
        hashes, sketch = hashes_and_sketch(part, self.key, running=self.running)
        return _Checked(hashes=[hashes], sketch=sketch, unlabelled=len(part) - len(kept))

    def merge(self, left: _Checked, right: _Checked) -> _Checked:
        return _Checked(
            hashes=left.hashes + right.hashes,
            sketch=left.sketch.merge(right.sketch),
            unlabelled=left.unlabelled + right.unlabelled,
        )


def large_table(source: Any, place: Callable[[Sequence[RowGroups]], Parts[Raw]] | None = None) -> LargeTable | None:
    """Return a Parquet file or folder as a table to be read in pieces, or None if it is small or something else.

    A table is small if it has fewer than `LARGE` cells (rows times columns).

    Parameters
    ----------
    source : object
        A path, or anything else.
    place : callable, optional
        Turns pieces into parts, such as parts on other machines; with it every Parquet table is read in pieces.

    Returns
    -------
    LargeTable or None
        The table.
    """
    if not isinstance(source, (str, Path)) or not os.path.exists(source) or not parquet_files(Path(source)):
        return None
    table = LargeTable(Path(source), place)
    return table if place is not None or table.rows * table.width >= LARGE else None
