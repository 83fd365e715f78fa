"""Files of this package: atomic writes, locks between processes, the folders of the user, and claims of folders."""

from __future__ import annotations

import errno
import json
import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from privaware.errors import WrongInput

LOCKS_FOLDERS = os.name == "posix"
"""Whether the system can lock a folder itself."""
SEARCH = ".search"
"""Folder in which a run keeps the journal from which it resumes."""
CLAIM = "run.json"
"""Name of the file in the folder `SEARCH` that names the run and the ledger of an output folder."""


def cache_folder() -> Path:
    """Return the folder for downloaded files and cached noise multipliers; it may not exist yet.

    It is `$PRIVAWARE_CACHE`, or the folder `privaware` in the user's cache folder if that variable is unset or empty.
    """
    if named := os.environ.get("PRIVAWARE_CACHE"):
        return Path(named)
    from platformdirs import user_cache_path

    return user_cache_path("privaware", appauthor=False)


def ledger_folder() -> Path:
    """Return the folder for the registry of charged data sets, and for ledgers of rows in memory; it may not exist.

    It is `$PRIVAWARE_LEDGERS`, or the folder `privaware` in the user's data folder if that variable is unset or empty.
    The registry holds digests of rows and copies of ledger entries.
    """
    if named := os.environ.get("PRIVAWARE_LEDGERS"):
        return Path(named)
    from platformdirs import user_data_path

    return user_data_path("privaware", appauthor=False)


def atomic_write(path: str | os.PathLike[str], content: bytes, *, mode: int = 0o666) -> None:
    """Write `content` to `path`, as `atomic_file` does; a crash leaves the old or the new file.

    The parent folder must exist. A link at `path` is replaced, not followed. `mode` has the permission bits of the
    file, as for `atomic_file`.
    """
    with atomic_file(path, mode=mode) as file:
        file.write(content)


@contextmanager
def atomic_file(path: str | os.PathLike[str], *, mode: int = 0o666, overwrite: bool = True) -> Iterator[BinaryIO]:
    """Yield a file that gets the name `path` when the block ends without an error, after it is flushed to disk.

    Until then its name is `path` with `.partial` appended. On POSIX, another process that writes to the same path waits
    for this one. If the block raises, the partial file is removed and `path` does not change. `mode` has the permission
    bits of the file, from which the umask is removed: 0o600 hides it from other users. Without `overwrite`, an existing
    `path` raises `FileExistsError` at the end of the block, and the partial file is removed.
    """
    target = Path(path)
    partial = target.with_name(f"{target.name}.partial")
    handle = _own_file(partial, mode)
    lock = os.dup(handle) if LOCKS_FOLDERS else None  # held until the file has its final name
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if overwrite:
            os.replace(partial, target)
        else:
            _rename_new(partial, target)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise
    finally:
        if lock is not None:
            os.close(lock)


def private_folder(path: Path) -> None:
    """Create the folder `path` for this user alone, if it is missing; the parent folder must exist.

    Raise `WrongInput` if `path` is a link, or a folder of another user, who could read or replace what is written.
    """
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        facts = os.lstat(path)
        if stat.S_ISLNK(facts.st_mode) or (os.name == "posix" and facts.st_uid != os.geteuid()):
            raise WrongInput(
                f"expected {str(path)!r:.120} as a folder of this user, got a link or a folder of another user, who "
                "could read what is not released yet; remove it"
            ) from None
        path.chmod(0o700)


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Flush the list of files in `folder`, but not their content, to disk.

    This is done on POSIX systems only.
    """
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _own_file(path: Path, mode: int) -> int:
    """Create and lock the new file `path`, with the permission bits `mode`, and return its descriptor for writing.

    If `path` exists, wait until no other process has it locked, and remove it: it is what a crash left behind.
    """
    while True:
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
        except FileExistsError:
            _remove_when_free(path)
            continue
        if _lock(handle, path):
            return handle
        os.close(handle)  # another process took it for the remains of a crash before it was locked


def _remove_when_free(path: Path) -> None:
    """Wait until no process has `path` locked, and remove it if it exists; remove a link or unreadable file at once."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:  # a link, or a file of another user: no process of this package writes to it
        path.unlink(missing_ok=True)
        return
    try:
        if _lock(handle, path):
            path.unlink(missing_ok=True)
    finally:
        os.close(handle)


def _lock(handle: int, path: Path) -> bool:
    """Wait for the lock of the open file `handle`, and return whether `path` still names this file.

    On systems other than POSIX nothing is locked or checked, and the result is True. On a file system without locks
    only the name is checked.
    """
    if not LOCKS_FOLDERS:
        return True
    from filelock import lock_descriptor

    with suppress(OSError):  # a file system without locks
        lock_descriptor(handle, blocking=True)
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except FileNotFoundError:
        return False


def _rename_new(partial: Path, target: Path) -> None:
    """Rename `partial` to `target`; raise `FileExistsError` if `target` exists."""
    try:
        os.link(partial, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        os.replace(partial, target)
        return
    partial.unlink()


@contextmanager
def locked(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Create the folder if it is missing, and lock it for this process until the block or the process ends.

    If another process holds the lock, raise `BlockingIOError`. On POSIX the folder itself is locked and no file is left
    behind. Other systems cannot lock a folder, so the file `.NAME.lock` beside the folder NAME is locked.
    """
    locked_folder = Path(folder)
    if LOCKS_FOLDERS:
        handle = _lock_folder(locked_folder)
        try:
            yield
        finally:
            os.close(handle)
        return
    from filelock import FileLock, Timeout

    locked_folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(locked_folder.absolute().with_name(f".{locked_folder.name}.lock"), blocking=False)
    try:
        lock.acquire()
    except Timeout:
        raise BlockingIOError(f"{locked_folder} is locked by another process") from None
    try:
        yield
    finally:
        lock.release()


@contextmanager
def locked_beside(path: Path, busy: str) -> Iterator[None]:
    """Lock the folder `.NAME.lock` beside the file `path` until the block or the process ends, then remove it.

    If another process holds the lock, raise `WrongInput` with the message `busy`.
    """
    folder = path.with_name(f".{path.name}.lock")
    with ExitStack() as held:
        try:
            held.enter_context(locked(folder))
        except BlockingIOError:
            raise WrongInput(busy) from None
        try:
            yield
        finally:
            with suppress(OSError):
                folder.rmdir()


def _lock_folder(folder: Path) -> int:
    """Create `folder` if it is missing, lock it, and return its descriptor; raise `BlockingIOError` if it is locked."""
    from filelock import lock_descriptor

    while True:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
        try:
            if not lock_descriptor(handle, blocking=False):
                raise BlockingIOError(f"{folder} is locked by another process")
            if os.path.samestat(os.fstat(handle), os.stat(folder)):
                return handle
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # the last holder removed the folder in the meantime: create it again


def unfinished_run(folder: Path) -> str | None:
    """Return a sentence that says that `folder` belongs to an unfinished run, and how to finish it; None if not."""
    try:
        ledger = str(json.loads((folder / SEARCH / CLAIM).read_bytes())["ledger"])
    except (KeyError, OSError, TypeError, ValueError):
        return None
    shown = shlex.join(["privaware", "ledger", ledger])
    return (
        f"{str(folder)!r:.120} is the folder of a run that is charged but not finished, so it holds no result yet; "
        f"repeat its command with the same data to finish it without another charge (`{shown}` names its entry)"
    )
