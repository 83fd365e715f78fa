"""A result between its charge and its publication: staged in a folder that only its owner can read, then published.

1. The hashes of the files are written to disk before the files, so a complete set of files can be told from a part.
2. A complete set is published when the command is repeated, and no other set is drawn for its charge. An incomplete
   set is deleted.
3. The run is closed in the ledger with the hashes of all files before a file leaves the private folder.
4. The main file of the result, such as `model.json`, leaves the private folder last. Until then only the owner can read
   the files.

No state of a random generator is stored.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privaware._files import locked, sync_folder
from privaware.errors import WrongInput
from privaware.workflow.run.output import DRAFT, REPORT, SEARCH, STAGED, STAGED_FIRST, set_time, sha256
from privaware.workflow.run.signature import SIGNATURE

__all__ = ["Staged", "empty_stage", "end_publication", "expect_own_stage"]

MANIFEST = "manifest.json"
PROBE = "probe"
"""Name of an empty file whose mode shows the mode that the user gives to new files."""


@dataclass(frozen=True, kw_only=True)
class Staged:
    """A complete set of files, the result of one charged run.

    Parameters
    ----------
    folder
        The folder in which the result will be published.
    run
        The name of the run in the ledger.
    charge
        The hash of the ledger entry that charged the run.
    release
        The kind of release, as the closing entry names it.
    files
        The names of the files that depend on random draws, with their SHA-256 hashes. The first is the main file.
    """

    folder: Path
    run: str
    charge: str
    release: str
    files: dict[str, str]

    @classmethod
    def write(cls, folder: Path, contents: dict[str, bytes], *, run: str, charge: str, release: str) -> Staged:
        """Write the hashes of a set of files to the private folder in `folder`, then the files in their order.

        `contents` has the content of each file by name, the main file first. `run`, `charge` and `release` are as for
        `Staged`. The private folder must exist.
        """
        files = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
        facts: dict[str, Any] = {"run": run, "charge": charge, "release": release, "files": files}
        staged = cls(folder=folder, **facts)
        staged.add(MANIFEST, json.dumps(facts).encode())
        for name, content in contents.items():
            staged.add(name, content)
        return staged

    @classmethod
    def find(cls, folder: Path) -> Staged | None:
        """Return the files staged in `folder`, or None if a file is missing or does not match its hash."""
        try:
            staged = cls(folder=folder, **json.loads((folder / STAGED / MANIFEST).read_bytes()))
            complete = all(sha256(staged.path(name)) == digest for name, digest in staged.files.items())
        except (AttributeError, OSError, TypeError, ValueError):
            return None
        return staged if complete else None

    @property
    def place(self) -> Path:
        """The private folder."""
        return self.folder / STAGED

    def path(self, name: str) -> Path:
        """Return the path of a file: in the private folder, or in the result folder if its publication had begun."""
        return self.place / name if (self.place / name).exists() else self.folder / name

    def add(self, name: str, content: bytes) -> None:
        """Write `content` durably to the file `name` in the private folder, readable by its owner only."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
        with os.fdopen(os.open(self.place / name, flags, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(self.place)

    def hashes(self) -> dict[str, str]:
        """Return the SHA-256 hash of each of `files`, and of the report if it exists, for the closing entry."""
        return {name: sha256(self.path(name)) for name in (*self.files, REPORT) if self.path(name).is_file()}

    def publish(self, charged: str) -> None:
        """Move the files of a closed run to the result folder, the main file last, and then let others read them.

        Files and folder get `charged`, the time of the charge. An interrupted publication continues where it stopped.
        The journal of the run is removed first.
        """
        if (self.folder / SEARCH).exists():
            shutil.rmtree(self.folder / SEARCH)
        for item in self.folder.iterdir():
            if item.name.startswith(DRAFT):
                item.unlink()
        names = (SIGNATURE, REPORT, *reversed(self.files))
        for name in names:
            if (self.place / name).exists():
                set_time(self.place / name, charged)
                os.replace(self.place / name, self.folder / name)
        sync_folder(self.folder)
        mode = self._mode_of_new_files()
        for name in names:
            with suppress(FileNotFoundError):
                os.chmod(self.folder / name, mode)
        shutil.rmtree(self.place)
        set_time(self.folder, charged)

    def _mode_of_new_files(self) -> int:
        """Return the mode that the user's umask gives to new files.

        The umask itself cannot be read without changing it.
        """
        probe = self.place / PROBE
        probe.unlink(missing_ok=True)
        probe.touch()
        return stat.S_IMODE(probe.stat().st_mode)


def empty_stage(folder: Path, ours: Collection[str]) -> None:
    """Delete the files that an interrupted run left in the private folder.

    `ours` are names of runs. If there are any such files, also delete the files `STAGED_FIRST` in `folder`, which may
    have left the private folder already. Raise `WrongInput` as `expect_own_stage` does.
    """
    expect_own_stage(folder, ours)
    place = folder / STAGED
    left = [*place.iterdir()]
    for path in left:
        path.unlink()
    if left:
        for name in STAGED_FIRST:
            (folder / name).unlink(missing_ok=True)


def expect_own_stage(folder: Path, ours: Collection[str]) -> None:
    """Raise `WrongInput` if `folder` holds a complete, unpublished set of files of a run that is not in `ours`.

    Without these files, repeating the command of that run would draw another set.
    """
    staged = Staged.find(folder)
    if staged is not None and staged.run not in ours:
        raise WrongInput(
            f"{str(folder)!r} holds a complete result of another run that is not published yet; repeat its command to "
            "publish it, or choose another --out"
        )


def end_publication(folder: Path, charged: str) -> None:
    """Finish an interrupted publication whose main file is already published, unless another process holds the lock.

    Nothing is done if there is no private folder any more. `charged` is the time of the charge, which the published
    files and `folder` get.
    """
    if not (folder / STAGED).is_dir():
        return
    with suppress(BlockingIOError), locked(folder):
        if staged := Staged.find(folder):
            staged.publish(charged)
        else:  # the publication was interrupted while its private folder was being removed
            shutil.rmtree(folder / STAGED)
            set_time(folder, charged)
