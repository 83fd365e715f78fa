"""A process that counts its changes of the disk, looks around before each of them, and ends at one that was named.

A moment is a call that changes a folder or opens a ledger, the middle of a file's content, or its way to the disk.
Before each one the process notes which complete results lie in its folder, and which files of an unpublished result
others could read.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

CHANGES = ("os.chmod", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.utime")
KNOWN_BY = ("model.json", "selection.json")
"""The file by which a published result is known."""
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
FULL, READ_ONLY = errno.ENOSPC, errno.EROFS


class Moments:
    """Counts moments in the working folder of the process; at number `at`, and after it, it fails as `how` says.

    `how` is "kill", "full disk" (nothing new can be written) or "read-only" (nothing can be changed). What was seen
    goes to the file `notes`, a line of JSON for each new thing.
    """

    def __init__(self, notes: str, at: int | None = None, how: str = "kill", out: str = "m") -> None:
        self.at, self.how, self.count, self.busy = at, how, 0, False
        self.here, self.out = os.getcwd(), Path(out).absolute()
        self.notes = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.noted: set[str] = set()

    def install(self) -> None:
        """Watches this process until it ends."""
        fsync, fdopen = os.fsync, os.fdopen

        def counted_fsync(handle: Any) -> None:
            self.pass_by("fsync")
            fsync(handle)

        def torn(handle: int, mode: str = "r", *rest: Any, **named: Any) -> Any:
            file = fdopen(handle, mode, *rest, **named)
            return _Torn(file, self) if mode == "wb" else file

        os.fsync, os.fdopen = counted_fsync, torn  # type: ignore[assignment]
        sys.addaudithook(self._hook)

    def _hook(self, event: str, values: tuple[Any, ...]) -> None:
        if event == "sqlite3.connect" or self._changes(event, values):
            self.pass_by(event)

    def _changes(self, event: str, values: tuple[Any, ...]) -> bool:
        if event not in (*CHANGES, "open") or not isinstance(values[0], (str, bytes, os.PathLike)):
            return False
        if event == "open" and not (values[2] or 0) & WRITES:
            return False
        return os.path.abspath(os.fsdecode(values[0])).startswith(self.here)

    def pass_by(self, event: str) -> None:
        """One moment: looks around, and fails if its time has come."""
        if self.busy:
            return
        self.busy = True
        try:
            self.count += 1
            self.look()
            if self.at is None or self.count < self.at:
                return
            if self.how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.how == "full disk" and event in ("open", "os.mkdir", "os.link", "write", "fsync"):
                raise OSError(FULL, os.strerror(FULL))
            if self.how == "read-only" and event != "sqlite3.connect":
                raise OSError(READ_ONLY, os.strerror(READ_ONLY))
        finally:
            self.busy = False

    def look(self) -> None:
        """Notes complete results, and files that others can read before the result is published."""
        published = any((self.out / name).exists() for name in KNOWN_BY)
        for path in (path for path in self.out.rglob("*") if path.is_file()):
            if digest := _complete(path):
                self.note({"complete": digest, "name": path.name})
            private = [each for each in (path, *path.parents) if each.is_relative_to(self.out) and each != self.out]
            hidden = any(each.stat().st_mode & 0o077 == 0 for each in private)
            if not published and not hidden and ".ledger" not in path.name:
                self.note({"readable": str(path.relative_to(self.out))})

    def note(self, fact: dict[str, Any]) -> None:
        """Writes down a fact, once."""
        line = json.dumps(fact)
        if line not in self.noted:
            self.noted.add(line)
            os.write(self.notes, f"{line}\n".encode())


class _Torn:
    """A file whose content reaches the disk in two halves, with a moment between them and one behind."""

    def __init__(self, file: Any, moments: Moments) -> None:
        self.file, self.moments = file, moments

    def __enter__(self) -> _Torn:
        return self

    def __exit__(self, *problem: object) -> None:
        self.file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def write(self, content: bytes) -> None:
        """Half of the content, then the rest."""
        middle = len(content) // 2
        for part in (content[:middle], content[middle:]):
            self.file.write(part)
            self.file.flush()
            self.moments.pass_by("write")


def _complete(path: Path) -> str | None:
    """The hash of a result that could be used as it is."""
    from safetensors.numpy import load

    try:
        content = path.read_bytes()
        if path.name.startswith("model.safetensors"):
            load(content)
        elif path.name.startswith("selection.json"):
            json.loads(content)
        else:
            return None
    except Exception:  # a part of a file fails in many ways
        return None
    return hashlib.sha256(content).hexdigest()
