"""CSV files that are read a block at a time, because their rows may not fit into memory.

A block is some megabytes of whole records. Threads parse blocks anew in each pass, by the rules of `_csv.py`. Arrow's
block reader does the parsing below these rules. An engine that guesses types from rows would let one row change the
reading of another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from privaware.data._csv import BYTES_AT_ONCE, Block, CsvFile
from privaware.data._large import LargeRows
from privaware.data._parts import LocalParts, Parts
from privaware.data._persons import CountedRows
from privaware.data._raw import Raw, parsing
from privaware.data._read import TEXT, raw_of_csv

if TYPE_CHECKING:
    import pandas as pd

LARGE = 2**30
"""Number of bytes from which a file is read in blocks; in memory its rows would take about three times as many."""


@dataclass(frozen=True)
class LargeCsv(LargeRows):
    """A CSV file that is read a block at a time; its number of rows is not known before one pass over it.

    `reading` holds the options header, sep, decimal and encoding of `read`. `columns` and `counted` choose the columns
    and rows that are read (see `only`).
    """

    block: ClassVar[int] = BYTES_AT_ONCE

    path: Path
    reading: Mapping[str, Any] = field(default_factory=dict)
    columns: tuple[str, ...] | None = None
    counted: CountedRows | None = field(default=None, repr=False, compare=False)

    def only(self, *, columns: tuple[str, ...] | None = None, counted: CountedRows | None = None) -> LargeCsv:
        return replace(self, columns=columns, counted=counted)

    @cached_property
    def file(self) -> CsvFile:
        return CsvFile(path=self.path, block=self.block, **self.reading)

    @cached_property
    def rows(self) -> int:  # type: ignore[override]
        """The approximate number of rows, estimated from the size of the file and the first block."""
        with parsing(self.path, self.file.format):
            block = next(self.file.blocks())
        return len(self.head) * self.path.stat().st_size // max(len(block.text), 1) + 1

    @cached_property
    def head(self) -> Raw:  # type: ignore[override]
        """The rows of the first block; types of columns are not declared."""
        with parsing(self.path, self.file.format):
            self.file.names  # noqa: B018  # raises for an empty file
            return self._raw(next(self.file.blocks()))

    def column(self, name: str) -> pd.Series:
        """Return the column `name` of all rows, in memory."""
        with parsing(self.path, self.file.format):
            return self.file.column(name)

    @cached_property
    def parts(self) -> Parts[Raw]:  # type: ignore[override]
        """The rows as they are, in parts."""
        blocks: LocalParts[Block] = LocalParts(self.file.blocks)
        return blocks.map(self._raw)

    def _raw(self, block: Block) -> Raw:
        file = self.file
        with parsing(self.path, file.format):
            frame = file.block_frame(block, self.columns)
        raw = raw_of_csv(
            file,
            frame,
            line=lambda row: file.block_line(block, row),
            declared=file.header is not None,
            begin=block.line,
        )
        if self.counted is None:
            return raw
        return raw.take(np.flatnonzero(np.unpackbits(self.counted.bits(block.line, block.line + 1), count=len(raw))))


def large_csv(source: Any, reading: Mapping[str, Any], least: int | None = None) -> LargeCsv | None:
    """Return a CSV file as a table to be read in blocks, or None if it is small, compressed, a pipe or something else.

    Parameters
    ----------
    source : object
        A path, or anything else.
    reading : mapping
        Options of `read`: header, sep, decimal and encoding.
    least : int, optional
        Smallest size of the file in bytes from which it is not small; by default `LARGE`.

    Returns
    -------
    LargeCsv or None
        The table.
    """
    if not isinstance(source, (str, Path)) or not Path(source).is_file() or Path(source).suffix.lower() not in TEXT:
        return None
    enough = Path(source).stat().st_size >= (LARGE if least is None else least)
    return LargeCsv(Path(source), reading) if enough else None
