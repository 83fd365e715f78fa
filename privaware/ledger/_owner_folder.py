"""Small files in the user's data folder: lists of JSON lines that several processes append to.

A killed process or a full disk may leave an incomplete line. Such a line is overwritten by spaces, with one warning.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from privaware._files import ledger_folder
from privaware.errors import WrongInput, warn_caller

__all__ = ["append_lines", "owner_folder", "read_lines", "unusable"]


def owner_folder() -> Path:
    """Return the data folder, created for this user alone if missing.

    Raise `WrongInput` if its path is not absolute, and on POSIX if another user owns it or can write to it.
    """
    folder = ledger_folder()
    if not folder.is_absolute():  # otherwise every working directory would have its own registry
        raise WrongInput(f"expected an absolute path in PRIVAWARE_LEDGERS, got '{folder}'; write the whole path")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = os.stat(folder)
    except OSError as problem:
        raise unusable(folder, problem) from None
    if os.name == "posix" and (facts.st_uid != os.geteuid() or stat.S_IMODE(facts.st_mode) & 0o022):
        raise WrongInput(
            f"expected a folder for digests of rows that this user alone can write to, got '{folder}'; name another "
            "folder in PRIVAWARE_LEDGERS"
        )
    return folder


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file, one for each line; none if there is no file.

    Lines that are no JSON object are overwritten by spaces, with one warning. A file that cannot be read raises
    `WrongInput`.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as problem:
        raise unusable(path, problem) from None
    lines = list(_parsed(content))
    if any(line is None for _, _, line in lines):
        _blank_torn_lines(path)
    return [line for _, _, line in lines if line is not None]


def append_lines(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    """Append lines to a file in one durable write; a new file is readable by the user only.

    Raise `WrongInput` if the file cannot be written; after a full disk it is as it was before.
    """
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    try:
        with _locked(path) as handle:
            size = os.fstat(handle).st_size
            if size and os.pread(handle, 1, size - 1) != b"\n":
                content = b"\n" + content
            if os.write(handle, content) != len(content):
                os.ftruncate(handle, size)
                raise OSError(28, "No space left on device")
            os.fsync(handle)
    except OSError as problem:
        raise unusable(path, problem) from None


def _blank_torn_lines(path: Path) -> None:
    """Overwrite unreadable lines by spaces, so that nothing else in the file moves."""
    with suppress(OSError), _locked(path, appending=False) as handle:
        content = os.pread(handle, os.fstat(handle).st_size, 0)
        torn = [(at, length) for at, length, line in _parsed(content) if line is None]
        for at, length in torn:
            os.pwrite(handle, b" " * length, at)
        os.fsync(handle)
    warn_caller(
        f"a line of '{path}' was torn, by a full disk or a process that was killed, and is left out: a ledger that "
        "was charged for these rows may be missing; give it with --ledger FILE if you know it"
    )


def _parsed(content: bytes) -> Iterator[tuple[int, int, dict[str, Any] | None]]:
    """Yield position, length and object of each line that is not blank; the object is None if it is unreadable."""
    at = 0
    for line in content.split(b"\n"):
        if line.strip():
            try:
                parsed = json.loads(line)
            except ValueError:
                parsed = None
            yield at, len(line), parsed if isinstance(parsed, dict) else None
        at += len(line) + 1


@contextmanager
def _locked(path: Path, *, appending: bool = True) -> Iterator[int]:
    """Yield the descriptor of the open file, on POSIX systems locked against other processes of this package.

    With `appending` a missing file is created, and writes go to its end.
    """
    flags = os.O_RDWR | (os.O_CREAT | os.O_APPEND if appending else 0)
    handle = os.open(path, flags, 0o600)
    try:
        if os.name == "posix":
            from filelock import lock_descriptor

            with suppress(NotImplementedError):
                lock_descriptor(handle, blocking=True)
        yield handle
    finally:
        os.close(handle)


def unusable(path: Path, problem: OSError) -> WrongInput:
    """Return the error for a file of the data folder that cannot be read or written."""
    return WrongInput(
        f"cannot keep digests of rows in '{path}': {problem.strerror}; name another folder in PRIVAWARE_LEDGERS"
    )
