"""A result between its charge and its publication: staged in a folder that only its owner can read, then published.

The hashes of the files are on disk before the files. So a complete set of files is told from a part of one up to its
last byte: a complete set is published, whoever finds it, and no other set is drawn for its charge; a part is deleted.
The run is closed in the ledger with the hashes of all files before one of them leaves the folder. The file by which a
result is known, such as `model.json`, leaves it last, and until then all are readable by their owner only. No state of
a random generator is kept.
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

from privaware._files import locked, sync_folder
from privaware.errors import WrongInput
from privaware.workflow.run.output import DRAFT, REPORT, SEARCH, STAGED, STAGED_FIRST, set_time, sha256
from privaware.workflow.run.signature import SIGNATURE

__all__ = ["Staged", "empty_stage", "end_publication"]

MANIFEST = "manifest.json"
PROBE = "probe"
"""An empty file that shows which mode the user gives to new files."""


@dataclass(frozen=True, kw_only=True)
class Staged:
    """A complete set of files that one charge paid for.

    Parameters
    ----------
    folder
        The folder in which the result will stand.
    run
        The name of the run in the ledger.
    charge
        The hash of the ledger entry that paid for the run.
    release
        The kind of release, as the closing entry names it.
    files
        The SHA-256 of the files that hold random draws, by name. The result is known by the first of them.
    """

    folder: Path
    run: str
    charge: str
    release: str
    files: dict[str, str]

    @classmethod
    def write(cls, folder: Path, contents: dict[str, bytes], *, run: str, charge: str, release: str) -> Staged:
        """Writes a set of files, their hashes first and the last file last."""
        files = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
        staged = cls(folder=folder, run=run, charge=charge, release=release, files=files)
        facts = {"run": run, "charge": charge, "release": release, "files": files}
        staged.add(MANIFEST, json.dumps(facts).encode())
        for name, content in contents.items():
            staged.add(name, content)
        return staged

    @classmethod
    def find(cls, folder: Path) -> Staged | None:
        """The complete set of files in a folder, if there is one."""
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
        """Where a file is: in the private folder, or in the folder of the result if a publication had begun."""
        return self.place / name if (self.place / name).exists() else self.folder / name

    def add(self, name: str, content: bytes) -> None:
        """Writes one file, durably and readable by its owner only."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
        with os.fdopen(os.open(self.place / name, flags, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(self.place)

    def hashes(self) -> dict[str, str]:
        """The SHA-256 of every file that the closing entry of the run binds, by name."""
        return {name: sha256(self.path(name)) for name in (*self.files, REPORT) if self.path(name).is_file()}

    def publish(self, charged: str) -> None:
        """Moves the files of a closed run to their names, the one by which the result is known last.

        Only then may others read them. Files and folder carry `charged`, the time of the charge. A publication that was
        interrupted goes on where it stopped. Before it, the journal of the run is removed.
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
        """What the user's umask leaves of 0o666; the umask itself cannot be read without changing it."""
        probe = self.place / PROBE
        probe.unlink(missing_ok=True)
        probe.touch()
        return stat.S_IMODE(probe.stat().st_mode)


def empty_stage(folder: Path, ours: Collection[str]) -> None:
    """Empties the private folder of a result: what an interrupted run left of a set of files is deleted.

    A complete set of a run that is not among `ours` is refused: without it, its command would draw another set.
    """
    staged = Staged.find(folder)
    if staged is not None and staged.run not in ours:
        raise WrongInput(
            f"{str(folder)!r} holds a complete result of another run that is not published yet; repeat its command to "
            "publish it, or choose another --out"
        )
    place = folder / STAGED
    left = [*place.iterdir()]
    for path in left:
        path.unlink()
    if left:
        for name in STAGED_FIRST:
            (folder / name).unlink(missing_ok=True)


def end_publication(folder: Path, charged: str) -> None:
    """Ends a publication that was interrupted after the result had its name, unless another process is at it."""
    if not (folder / STAGED).is_dir():
        return
    with suppress(BlockingIOError), locked(folder):
        if staged := Staged.find(folder):
            staged.publish(charged)
        else:  # it was interrupted while its private folder was removed
            shutil.rmtree(folder / STAGED)
            set_time(folder, charged)
