"""Files on disk as streams of bytes, decompressed by their suffix, with a limit against decompression bombs.

A compressed file, an archive or an image may always expand to `FREE` bytes. Beyond that it may expand to `RATIO` times
its size, and beyond `LARGE` bytes to `LARGE_RATIO` times its size. The environment variable `PRIVAWARE_EXPAND_GIB`
replaces all three limits by a size.
"""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import IO, BinaryIO, cast

from privaware.data._values import quoted
from privaware.errors import WrongInput

COMPRESSED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".zip": "zip"}
"""Suffixes of compressed files and their methods."""
VARIABLE = "PRIVAWARE_EXPAND_GIB"
"""Environment variable with the size in GiB to which any input may expand."""
FREE = 2**28
"""Number of bytes to which every input may expand."""
RATIO = 200
"""Largest ratio of expanded to compressed size; tables in gzip expand to 5 to 30 times their size."""
LARGE = 2**34
"""Number of expanded bytes beyond which `LARGE_RATIO` applies."""
LARGE_RATIO = 20
"""Largest ratio of expanded to compressed size for more than `LARGE` expanded bytes."""
CHUNK = 2**24
"""Number of bytes that are expanded between two checks of the limit."""


@dataclass
class Expansion:
    """The number of bytes to which one input has `expanded` so far.

    `name` is shown in errors. `size` is the compressed size in bytes; a pipe has None, and may expand to `LARGE` bytes.
    """

    name: str
    size: int | None
    expanded: int = 0

    @classmethod
    def of(cls, path: Path) -> Expansion:
        """Return the expansion of a file before its first byte is read."""
        return cls(path.name, path.stat().st_size if path.is_file() else None)

    def add(self, count: int) -> None:
        """Count `count` expanded bytes; raise `WrongInput` if the total exceeds the limit."""
        self.expanded += count
        if self.expanded > _most(self.size):
            raise WrongInput(
                f"{quoted(self.name)} expands to more than {_in_words()}, as a decompression bomb does; if you trust "
                f"it, set the environment variable {VARIABLE} to the GiB that it may expand to"
            )


class LimitedStream:
    """A wrapper of the decompressed `stream`; reading more bytes than the limit of `expansion` raises `WrongInput`."""

    def __init__(self, stream: IO[bytes], expansion: Expansion) -> None:
        self._stream, self._expansion = stream, expansion

    def read(self, size: int = -1) -> bytes:
        """Return at most `size` of the next bytes, or all if `size` is negative; raise `WrongInput` past the limit."""
        if size < 0:
            return b"".join(iter(lambda: self.read(CHUNK), b""))
        content = self._stream.read(size)
        self._expansion.add(len(content))
        return content


def expect_small_archive(path: Path) -> None:
    """Raise `WrongInput` if the members of a zip archive together expand past the limit; do nothing for other files.

    The declared sizes suffice, because `zipfile` reads no more of a member than its declared size.
    """
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            Expansion.of(path).add(sum(member.file_size for member in archive.infolist()))


def _most(size: int | None) -> float:
    """Return how many bytes an input of compressed size `size` may expand to.

    It is `max(FREE, min(RATIO * size, max(LARGE, LARGE_RATIO * size)))`, or `LARGE` if `size` is None, as for a pipe.
    The environment variable `VARIABLE`, if set, replaces it.
    """
    if (allowed := _allowed()) is not None:
        return allowed
    if size is None:
        return LARGE
    return max(FREE, min(RATIO * size, max(LARGE, LARGE_RATIO * size)))


def _allowed() -> float | None:
    """Return the number of bytes that the environment variable `VARIABLE` (in GiB) allows, or None if it is not set.

    Raise `WrongInput` if its value is no number above 0.
    """
    setting = os.environ.get(VARIABLE, "")
    if not setting:
        return None
    try:
        allowed = float(setting) * 2**30
    except ValueError:
        allowed = math.nan
    if not allowed > 0:
        raise WrongInput(f"expected {VARIABLE} as a number of GiB > 0, got {setting!r:.40}")
    return allowed


def _in_words() -> str:
    """Return the limit in words, for an error message."""
    if (allowed := _allowed()) is not None:
        return f"the {allowed / 2**30:g} GiB that {VARIABLE} allows"
    return f"{RATIO} times its size, or past {LARGE // 2**30} GiB to more than {LARGE_RATIO} times its size"


def inner_name(path: Path) -> PurePath:
    """Return the name of the file inside a compressed file; `path.name` itself if the file is not compressed.

    It is the name of the only file in a zip archive, and otherwise the name without the suffix of the compression.
    Raise `WrongInput` for a zip archive that does not hold exactly one file.
    """
    suffix = path.suffix.lower()
    if suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            return PurePath(_only_member(archive, path))
    return PurePath(path.stem if suffix in COMPRESSED else path.name)


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """Open a file in a `with` block as bytes that can be read once; a compressed file is decompressed.

    Raise `WrongInput` for a zip archive that does not hold exactly one file. Reading past the limit on
    expansion raises `WrongInput` too.
    """
    import pyarrow as pa

    method = COMPRESSED.get(path.suffix.lower())
    if method == "zip":
        expect_small_archive(path)
        with zipfile.ZipFile(path) as archive, archive.open(_only_member(archive, path)) as member:
            yield cast(BinaryIO, LimitedStream(member, Expansion.of(path)))
    elif method is not None:
        with pa.input_stream(str(path), compression=method) as stream:
            yield cast(BinaryIO, LimitedStream(stream, Expansion.of(path)))
    else:
        with path.open("rb") as file:
            yield file


def _only_member(archive: zipfile.ZipFile, path: Path) -> str:
    """Return the name of the only file in a zip archive; raise `WrongInput` if there is none or more than one.

    Folders and the `__MACOSX` files of macOS do not count. `path` is named in the message.
    """
    names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX/")]
    if len(names) != 1:
        raise WrongInput(f"expected one file in {quoted(path.name)}, got {len(names)}; unpack it and name one")
    return names[0]
