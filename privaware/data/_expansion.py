"""A limit to what compressed files, archives and images expand to: a small hostile file must not fill the memory.

A compressed input may always expand to `FREE` bytes. Beyond that it may expand to `RATIO` times its size, and beyond
`LARGE` bytes to `LARGE_RATIO` times its size. The environment variable `PRIVAWARE_EXPAND_GIB` replaces all three by a
size.
"""

from __future__ import annotations

import math
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from privaware.data._values import quoted
from privaware.errors import WrongInput

__all__ = ["Expansion", "LimitedStream", "expect_small_archive"]

VARIABLE = "PRIVAWARE_EXPAND_GIB"
"""The environment variable that allows so many GiB, whatever the size of the compressed input is."""
FREE = 2**28
"""Bytes that every input may expand to."""
RATIO = 200
"""How many times its size an input may expand to. Tables in gzip expand to 5 to 30 times their size."""
LARGE = 2**34
"""Bytes beyond which an input may expand to `LARGE_RATIO` times its size only."""
LARGE_RATIO = 20
"""How many times its size an input of more than `LARGE` expanded bytes may expand to."""
CHUNK = 2**24
"""Bytes that are expanded between two looks at the limit."""


@dataclass
class Expansion:
    """How far one input has expanded; `name` is shown, and `size` is its compressed size (None for a pipe)."""

    name: str
    size: int | None
    expanded: int = 0

    @classmethod
    def of(cls, path: Path) -> Expansion:
        """The expansion of a file, of which nothing is expanded yet."""
        return cls(path.name, path.stat().st_size if path.is_file() else None)

    def add(self, count: int) -> None:
        """Counts expanded bytes; more than the limit are refused with a sentence."""
        self.expanded += count
        if self.expanded > _most(self.size):
            raise WrongInput(
                f"{quoted(self.name)} expands to more than {_in_words()}, as a decompression bomb does; if you trust "
                f"it, set the environment variable {VARIABLE} to the GiB that it may expand to"
            )


class LimitedStream:
    """The expanded bytes of a stream, up to the limit."""

    def __init__(self, stream: BinaryIO, expansion: Expansion) -> None:
        self._stream, self._expansion = stream, expansion

    def read(self, size: int = -1) -> bytes:
        """So many bytes, or all; past the limit WrongInput."""
        if size >= 0:
            return self._counted(size)
        return b"".join(iter(lambda: self._counted(CHUNK), b""))

    def _counted(self, size: int) -> bytes:
        content = self._stream.read(size)
        self._expansion.add(len(content))
        return content


def expect_small_archive(path: Path) -> None:
    """Refuses a zip archive whose members together expand past the limit; other files are left to their readers.

    The sizes that the archive declares are enough: `zipfile` reads no more of a member than its declared size.
    """
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            Expansion.of(path).add(sum(member.file_size for member in archive.infolist()))


def _most(size: int | None) -> float:
    """How many bytes an input of this compressed size may expand to."""
    if (allowed := _allowed()) is not None:
        return allowed
    if size is None:
        return LARGE
    return max(FREE, min(RATIO * size, max(LARGE, LARGE_RATIO * size)))


def _allowed() -> float | None:
    """The bytes that the environment variable allows, if it is set."""
    given = os.environ.get(VARIABLE, "")
    if not given:
        return None
    try:
        allowed = float(given) * 2**30
    except ValueError:
        allowed = math.nan
    if not allowed > 0:
        raise WrongInput(f"expected {VARIABLE} as a number of GiB > 0, got {given!r:.40}")
    return allowed


def _in_words() -> str:
    if (allowed := _allowed()) is not None:
        return f"the {allowed / 2**30:g} GiB that {VARIABLE} allows"
    return f"{RATIO} times its size, or past {LARGE // 2**30} GiB to more than {LARGE_RATIO} times its size"
