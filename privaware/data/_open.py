"""Files on disk as streams of bytes, decompressed by their suffix up to a limit (`_expansion.py`)."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import BinaryIO, cast

from privaware.data._expansion import Expansion, LimitedStream, expect_small_archive
from privaware.data._values import quoted
from privaware.errors import WrongInput

__all__ = ["COMPRESSED", "inner_name", "open_bytes"]

COMPRESSED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".zip": "zip"}
"""Suffixes of compressed files and their methods."""


def inner_name(path: Path) -> PurePath:
    """Return the name of the file inside a compressed file: its name without the suffix, or the member of a zip
    archive.
    """
    suffix = path.suffix.lower()
    if suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            return PurePath(_only_member(archive, path))
    return PurePath(path.stem if suffix in COMPRESSED else path.name)


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """Open a file as a stream of bytes that can be read once; a compressed file is decompressed.

    Raise `WrongInput` for a zip archive that does not hold exactly one file. Reading past the limit of `_expansion.py`
    raises `WrongInput` too.
    """
    import pyarrow as pa

    method = COMPRESSED.get(path.suffix.lower())
    if method == "zip":
        expect_small_archive(path)
        with zipfile.ZipFile(path) as archive, archive.open(_only_member(archive, path)) as member:
            yield cast(BinaryIO, LimitedStream(cast(BinaryIO, member), Expansion.of(path)))
    elif method is not None:
        with pa.input_stream(str(path), compression=method) as stream:
            yield cast(BinaryIO, LimitedStream(stream, Expansion.of(path)))
    else:
        with path.open("rb") as file:
            yield file


def _only_member(archive: zipfile.ZipFile, path: Path) -> str:
    """Return the name of the only file in a zip archive; raise `WrongInput` if there is none or more than one."""
    names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX/")]
    if len(names) != 1:
        raise WrongInput(f"expected one file in {quoted(path.name)}, got {len(names)}; unpack it and name one")
    return names[0]
