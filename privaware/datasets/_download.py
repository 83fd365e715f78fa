"""Public files: found on this machine, or downloaded with their checksum.

The files of a data set are looked for in `$PRIVAWARE_DATA/NAME`, then in the user's cache (`cache_folder`). Missing
files are downloaded from their public origin into the cache. A download is kept only if its SHA-256 is the one recorded
in this package; a file without a known checksum is never downloaded. Files that a person put in place are used as they
are.

>>> File(name="a.csv", urls=("https://example.org/a.csv",)).sha256 == ""  # unknown: never downloaded
True
"""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import shutil
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from privaware._files import cache_folder
from privaware.errors import WrongInput

CHUNK = 1 << 20
"""Number of bytes read at a time."""
TIMEOUT = 30.0
"""Seconds without a byte after which an origin counts as unreachable."""


@dataclass(frozen=True, kw_only=True)
class File:
    """One public file: its path `name` in the folder of its data set, its mirrors, and its checksum.

    `urls` are mirrors, tried in order. If `member` is not empty, they lead to an archive (tar or zip) that contains the
    file under the name `member`. `sha256` is always the checksum of the file itself; a download is kept only if it has
    this checksum, and a file without one is never downloaded. Raise `WrongInput` if `name` leads out of the folder, or
    if `sha256` is neither empty nor 64 hexadecimal digits in lower case.
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


def present(name: str, files: tuple[File, ...]) -> Path | None:
    """Return the folder on this machine with all `files` of the data set `name`, or None if no folder has all.

    `$PRIVAWARE_DATA/NAME` comes before the user's cache. Checksums are not compared.
    """
    data = os.environ.get("PRIVAWARE_DATA")
    for parent in (*([Path(data)] if data else []), cache_folder()):
        if all((parent / name / file.name).is_file() for file in files):
            return parent / name
    return None


def locate(name: str, files: tuple[File, ...]) -> Path:
    """Return the folder that holds the `files` of the data set `name`; missing files are downloaded into the cache.

    Raise `WrongInput` if a file has no known checksum or cannot be downloaded, or if the cache cannot be written.
    """
    if folder := present(name, files):
        return folder
    if unknown := [file for file in files if not file.sha256]:
        origin = f" (public origin: {unknown[0].urls[0]})" if unknown[0].urls else ""
        raise WrongInput(
            f"{name}: no checksum is known for {unknown[0].name!r}, so it is not downloaded; "
            f"put the file into $PRIVAWARE_DATA/{name} yourself{origin}"
        )
    folder = cache_folder() / name
    try:
        _download(name, [file for file in files if not (folder / file.name).is_file()], folder)
    except OSError as problem:
        raise WrongInput(
            f"{name}: cannot write to the cache {str(folder)!r} ({problem.strerror or problem}); "
            "free it or set PRIVAWARE_CACHE to another folder"
        ) from None
    finally:
        _remove_empty(folder, files)
    return folder


def _remove_empty(folder: Path, files: tuple[File, ...]) -> None:
    """Remove `folder`, and the folders of `files` inside it, where they are empty, as a failed download leaves them."""
    nested = {(folder / file.name).parent for file in files} - {folder}
    for path in (*nested, folder):
        with contextlib.suppress(OSError):
            path.rmdir()


def _download(name: str, files: list[File], folder: Path) -> None:
    """Download every file, compare its checksum and move it into `folder`; an archive is downloaded once.

    `name` is the name of the data set in messages. Raise `WrongInput` if a file cannot be downloaded, or if its
    checksum differs.
    """
    import tempfile

    folder.mkdir(parents=True, exist_ok=True)
    with _quiet_pooch(), tempfile.TemporaryDirectory(dir=folder, prefix=".archives-") as archives:
        for file in files:
            _download_file(name, file, folder, Path(archives))


def _download_file(name: str, file: File, folder: Path, archives: Path) -> None:
    """Download one file into `folder`, from the first mirror that answers in full.

    Raise `WrongInput` if no mirror does, or at once if a file has another checksum. `archives` is the folder for
    downloaded archives, and `name` is the name of the data set in messages.
    """
    import pooch
    from requests import RequestException

    reason = "no address is known"
    for url in file.urls:
        try:
            pooch.retrieve(url, file.sha256, file.name, folder, downloader=_downloader(name, file, archives))
            (folder / file.name).chmod(0o644)  # a public file: a cache may be shared by several users
            return
        except RequestException as problem:
            reason = _reason(problem)
        except WrongInput:
            raise
        except ValueError as problem:
            raise WrongInput(
                f"{name}: {str(problem).partition('. ')[0]}, so it was removed; "
                f"put the right file into $PRIVAWARE_DATA/{name} yourself"
            ) from None
    raise WrongInput(
        f"{name}: the files are not on this machine, and {file.urls[0] if file.urls else 'their origin'} cannot be "
        f"reached ({reason:.120}); set PRIVAWARE_DATA to a folder that holds {name!r}, or run where there is a network"
    )


def _reason(problem: BaseException) -> str:
    """Return in words why a request failed with the exception `problem`.

    It is the message of the operating system if some exception in the chain of contexts has one. Otherwise it is the
    text of the exception that `problem` wraps as its first argument, or of `problem` itself.
    """
    cause: BaseException | None = problem
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__context__
    inner = problem.args[0] if problem.args else problem
    return str(inner.args[0] if isinstance(inner, Exception) and inner.args else inner)


def _downloader(name: str, file: File, archives: Path) -> Callable[[str, str, Any], None]:
    """Return the function that pooch calls with an address, an output path and itself to download `file`.

    The function prints the address to stderr, and writes the file, or the member `file.member` of the archive at the
    address, to the output path. It raises `WrongInput` if the archive is damaged or has no such member. `archives` is
    the folder for downloaded archives, and `name` is the name of the data set in messages.
    """
    import pooch

    def http(url: str, output: str, _: Any) -> None:
        print(f"fetching {name}: {url}", file=sys.stderr)
        headers = {"Accept-Encoding": "identity"}  # a .gz file must not be unpacked
        options = {"progressbar": sys.stderr.isatty(), "chunk_size": CHUNK, "timeout": TIMEOUT, "headers": headers}
        pooch.HTTPDownloader(**options)(url, output, None)

    def member(url: str, output: str, _: Any) -> None:
        archive = Path(pooch.retrieve(url, None, path=archives, downloader=http))
        try:
            _extract(archive, file.member, output)
        except (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, KeyError, EOFError, zlib.error):
            raise WrongInput(
                f"{name}: expected an archive that holds {file.member!r} at {url}, got something else; "
                f"nothing was kept; put {file.name!r} into $PRIVAWARE_DATA/{name} yourself"
            ) from None

    return member if file.member else http


def _extract(archive: Path, member: str, output: str) -> None:
    """Write the member `member` of the zip or tar file `archive` to the path `output`.

    Raise `KeyError` if there is no such member.
    """
    with contextlib.ExitStack() as stack, open(output, "wb") as target:
        if zipfile.is_zipfile(archive):
            source: IO[bytes] | None = stack.enter_context(zipfile.ZipFile(archive)).open(member)
        else:
            source = stack.enter_context(tarfile.open(archive)).extractfile(member)
        if source is None:
            raise KeyError(member)
        shutil.copyfileobj(stack.enter_context(source), target, CHUNK)


@contextlib.contextmanager
def _quiet_pooch() -> Iterator[None]:
    """Silence pooch's log lines, which name temporary files."""
    import pooch

    logger = pooch.get_logger()
    before = logger.level
    logger.setLevel("WARNING")
    try:
        yield
    finally:
        logger.setLevel(before)
