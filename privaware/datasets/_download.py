"""Public files: where they are on this machine, or a download with its checksum.

A folder of files is looked for in `$PRIVAWARE_DATA/NAME`, then in the user's cache; what is in
neither is downloaded from its public origin into the cache. A download is kept only if its SHA-256
is the one written down here beforehand; a file without a known checksum is never downloaded. Files
that a person put in place are taken as they are.

>>> File(name="a.csv", urls=("https://example.org/a.csv",)).known
False
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from privaware.errors import WrongInput

__all__ = ["File", "cache", "locate", "present"]

CHUNK = 1 << 20
PATIENCE = 30.0
"""Seconds without a byte before an origin counts as unreachable."""


@dataclass(frozen=True, kw_only=True)
class File:
    """One public file: its path in the folder, where to get it, and the checksum it must have.

    `urls` are tried in order. With `member`, they lead to an archive (tar or zip) that holds the file
    under that name; the checksum is always that of the file itself.
    """

    name: str
    urls: tuple[str, ...] = ()
    sha256: str = ""
    member: str = ""

    def __post_init__(self) -> None:
        path = PurePosixPath(self.name)
        if not self.name or path.is_absolute() or ".." in path.parts:
            raise WrongInput(f"expected a file name inside its folder, got {self.name!r}")
        if self.sha256 and not re.fullmatch("[0-9a-f]{64}", self.sha256):
            raise WrongInput(f"expected a SHA-256 as 64 hexadecimal digits, got {self.sha256!r}")

    @property
    def known(self) -> bool:
        """Whether a download could be checked."""
        return bool(self.sha256)


def cache() -> Path:
    """The folder for downloads: `$PRIVAWARE_CACHE`, or the platform's usual place."""
    if own := os.environ.get("PRIVAWARE_CACHE"):
        return Path(own)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home()) / "privaware" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "privaware"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "privaware"


def present(name: str, files: tuple[File, ...]) -> Path | None:
    """The folder that already holds all the files of `name`, if there is one."""
    given = os.environ.get("PRIVAWARE_DATA")
    for home in (Path(given) if given else None, cache()):
        if home is not None and all((home / name / file.name).is_file() for file in files):
            return home / name
    return None


def locate(name: str, files: tuple[File, ...]) -> Path:
    """The folder that holds the files of `name`, downloaded first where need be."""
    if found := present(name, files):
        return found
    if unknown := [file for file in files if not file.known]:
        where = f" (public origin: {unknown[0].urls[0]})" if unknown[0].urls else ""
        raise WrongInput(
            f"{name}: no checksum is known for {unknown[0].name!r}, so it is not downloaded; "
            f"put the file into $PRIVAWARE_DATA/{name} yourself{where}"
        )
    folder = cache() / name
    wanted = [file for file in files if not (folder / file.name).is_file()]
    try:
        for urls in dict.fromkeys(file.urls for file in wanted):
            _fetch(name, folder, urls, [file for file in wanted if file.urls == urls])
    finally:
        _tidy(folder, files)
    return folder


def _fetch(name: str, folder: Path, urls: tuple[str, ...], files: list[File]) -> None:
    """The files behind one set of mirrors, each moved into `folder` whole and checked, or not at all."""
    import tempfile

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".part-") as part:
            got = _download(name, urls, Path(part) / "download")
            for at, file in enumerate(files):
                made = _unpacked(name, got, file, Path(part) / f"member{at}")
                _check(name, made, file)
                (folder / file.name).parent.mkdir(parents=True, exist_ok=True)
                os.replace(made, folder / file.name)
    except OSError as problem:
        raise WrongInput(
            f"{name}: cannot write to the cache {str(folder)!r} ({problem.strerror or problem}); "
            "free it or set PRIVAWARE_CACHE to another folder"
        ) from None


def _download(name: str, urls: tuple[str, ...], target: Path) -> Path:
    """The first mirror that answers in full, written to `target`."""
    why = "no address is known"
    for url in urls:
        print(f"fetching {name}: {url}", file=sys.stderr)
        try:
            with open(target, "wb") as out:
                for chunk in _chunks(url):
                    out.write(chunk)
            return target
        except _Unreachable as problem:
            why = str(problem)
    raise WrongInput(
        f"{name}: the files are not here and {urls[0] if urls else 'their origin'} cannot be reached "
        f"({why:.120}); set PRIVAWARE_DATA to a folder that holds {name!r}, or run where there is a network"
    )


class _Unreachable(Exception):
    """The network, not this machine's disk, is why a download failed."""


def _chunks(url: str) -> Iterator[bytes]:
    """The bytes at `url`; on a terminal a line on stderr says how far it is."""
    import http.client
    import urllib.request

    live, done = sys.stderr.isatty(), 0
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            size = int(answer.headers.get("Content-Length") or 0)
            while chunk := answer.read(CHUNK):
                done += len(chunk)
                if live:
                    total = f" of {size / 1e6:.1f}" if size else ""
                    print(f"\r  {done / 1e6:.1f}{total} MB", end="", file=sys.stderr, flush=True)
                yield chunk
    except (OSError, http.client.HTTPException, ValueError) as problem:
        why = str(getattr(problem, "reason", "") or problem) or type(problem).__name__
        raise _Unreachable(why) from None
    finally:
        if live:
            print(file=sys.stderr)
    if size and done < size:
        raise _Unreachable(f"the connection ended after {done} of {size} bytes")


def _unpacked(name: str, got: Path, file: File, target: Path) -> Path:
    """The file itself: the download, or a copy of its member of the downloaded archive."""
    import gzip
    import shutil
    import tarfile
    import zipfile
    import zlib

    if not file.member:
        return got
    try:
        with _member(got, file.member) as source, open(target, "wb") as out:
            shutil.copyfileobj(source, out, CHUNK)
    except (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, KeyError, EOFError, zlib.error):
        raise WrongInput(
            f"{name}: expected an archive that holds {file.member!r} at {file.urls[0]}, got something "
            f"else; nothing was kept; put {file.name!r} into $PRIVAWARE_DATA/{name} yourself"
        ) from None
    return target


@contextlib.contextmanager
def _member(archive: Path, name: str) -> Iterator[IO[bytes]]:
    import tarfile
    import zipfile

    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened, opened.open(name) as source:
            yield source
        return
    with tarfile.open(archive) as tar:
        found = tar.extractfile(name)
        if found is None:
            raise KeyError(name)
        with found:
            yield found


def _check(name: str, made: Path, file: File) -> None:
    with open(made, "rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    if digest != file.sha256:
        made.unlink()
        raise WrongInput(
            f"{name}: expected SHA-256 {file.sha256} for {file.name!r}, but what came from "
            f"{file.urls[0]} has {digest}, so it was removed; put the right file into "
            f"$PRIVAWARE_DATA/{name} yourself"
        )


def _tidy(folder: Path, files: tuple[File, ...]) -> None:
    """A download that failed leaves no empty folder behind."""
    nested = {(folder / file.name).parent for file in files} - {folder}
    for path in (*nested, folder):
        with contextlib.suppress(OSError):
            path.rmdir()
