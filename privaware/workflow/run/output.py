"""The output folder while a run writes to it: locked by one process, with a private folder for unpublished files.

Published files and their folder carry the time of the charge. The time at which a run ended would reveal its running
time, and so the secret number of trials of a private selection.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path

from privaware._files import SEARCH, locked, private_folder
from privaware.errors import WrongInput, at_command_line
from privaware.model import TENSORS
from privaware.workflow.run.signature import SIGNATURE

__all__ = ["PILOT", "SEARCH", "STAGED", "disk_errors", "expect_free", "locked_folder", "set_time", "sha256"]

PILOT = "pilot.json"
"""Name of the file in which a pilot of `advise` publishes its score."""
REPORT = "report.html"
STAGED = ".staged"
"""Folder that holds the files of a result until they are published."""
STAGED_FIRST = (SIGNATURE, REPORT, TENSORS)
"""Files that leave the private folder before the main file of the result."""
DRAFT = ".ledger-"
"""Prefix of the name of a ledger file whose creation was interrupted."""


@contextmanager
def locked_folder(folder: Path, ledger: Path | None = None) -> Iterator[None]:
    """Lock `folder` until the block or the process ends; raise `WrongInput` if another process uses it.

    Without the lock, two processes with the same command could mix their tensors and release two models for one charge.
    Raise `WrongInput` if the folder holds a finished model or any file that no interrupted run left; the file `ledger`
    may lie in it. If `folder` did not exist, it is created, and removed at the end if it is still empty. The private
    folder inside is created at once, so that an unwritable folder raises before anything is charged.
    """
    with ExitStack() as lock:
        with disk_errors(folder, f"choose another {_folder_word()}"):
            _expect_folder(folder)
            created = not folder.exists()
            try:
                lock.enter_context(locked(folder))
            except BlockingIOError:
                raise WrongInput(
                    f"another process is making a model in {str(folder)!r}; wait until it ends, or choose another "
                    f"{_folder_word()}"
                ) from None
        try:
            with disk_errors(folder, f"choose another {_folder_word()}"):
                _expect_new(folder, ledger)
                private_folder(folder / STAGED)
            yield
        finally:
            for place in (folder / STAGED, *([folder] if created else [])):
                with suppress(OSError):
                    place.rmdir()  # fails unless the folder is empty


def expect_free(folder: Path, ledger: Path | None = None) -> None:
    """Raise the `WrongInput` that `locked_folder` would raise for a file or for the content of `folder`.

    Nothing is written, and whether another process uses the folder is not checked.
    """
    with disk_errors(folder, f"choose another {_folder_word()}"):
        _expect_folder(folder)
        if folder.exists():
            _expect_new(folder, ledger)


def _folder_word() -> str:
    """Return what a message calls the folder: `--out` at the command line, else "folder", for `save` has no `out`."""
    return "--out" if at_command_line() else "folder"


def sha256(path: Path) -> str:
    """Return the SHA-256 hash of a file, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def disk_errors(folder: Path, advice: str) -> Iterator[None]:
    """Turn an `OSError` in the block into a `WrongInput` of one sentence that ends with `advice`.

    Also raise `WrongInput` if the name of `folder` has a zero character.
    """
    if "\0" in str(folder):
        raise WrongInput(f"expected {_folder_word()} without a zero character, got {str(folder)!r:.80}")
    try:
        yield
    except OSError as problem:
        raise WrongInput(
            f"cannot write the model folder {str(folder)!r:.120}: {problem.strerror or problem}; {advice}"
        ) from None


def set_time(path: Path, charged: str) -> None:
    """Set the modification time of `path`, if it exists, to `charged`, the ISO 8601 time of a ledger entry."""
    seconds = datetime.fromisoformat(charged).timestamp()
    with suppress(FileNotFoundError):
        os.utime(path, (seconds, seconds))


def _expect_folder(path: Path) -> None:
    if path.is_symlink():
        raise WrongInput(f"expected a folder, got the link {str(path)!r}; name the folder itself")
    if path.exists() and not path.is_dir():
        raise WrongInput(f"expected a folder, got the file {str(path)!r}; choose another {_folder_word()}")


def _expect_new(folder: Path, ledger: Path | None) -> None:
    if (folder / "model.json").exists():
        raise WrongInput(
            f"{str(folder)!r} holds a finished model, which is never overwritten; choose another {_folder_word()}"
        )
    if (folder / PILOT).exists():
        raise WrongInput(
            f"{str(folder)!r} holds a pilot of other data or other settings, which is never overwritten; name a folder "
            "for this run by --out"
        )
    ours = {"run.ledger", "run.ledger-journal", STAGED, SEARCH}
    if ledger is not None and ledger.parent.resolve() == folder.resolve():
        ours |= {ledger.name, f"{ledger.name}-journal"}
    if (folder / STAGED).is_dir():
        ours |= set(STAGED_FIRST)
    names = [item.name for item in folder.iterdir()]
    foreign = any(name not in ours and not name.startswith(DRAFT) for name in names)
    if foreign or any((folder / name).exists() and not (folder / name).is_dir() for name in (STAGED, SEARCH)):
        raise WrongInput(
            f"expected a new or empty folder, got {str(folder)!r} with other files in it; "
            f"choose another {_folder_word()}"
        )
