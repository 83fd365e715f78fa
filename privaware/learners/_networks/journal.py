"""Intermediate releases of a learner on disk, so that an interrupted run resumes instead of starting over.

Only values whose privacy cost the run has already charged to the ledger are saved: noisy labels and results of noisy
gradients. A noisy value that was not saved is drawn again; nobody has seen the first draw. The folder belongs to one
run and is named after its charge. Every file contains a fingerprint of that name, so a file of another run is refused.
The folder is removed before the result is published.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from privaware._files import atomic_write
from privaware.errors import WrongInput

Parts = dict[str, np.ndarray]
"""Arrays of one release, by name."""
MARK = "fingerprint"
"""Name of the entry of a journal file that holds the fingerprint of the run."""


@dataclass(frozen=True)
class ReleaseJournal:
    """Arrays of releases, saved by name as files in `folder`; nothing is saved if `folder` is None.

    `settings` are the public facts that the releases depend on. Reading a file that was saved with other settings, or
    in a folder of another name, raises `WrongInput`.
    """

    folder: Path | None
    settings: tuple[Any, ...]

    def kept(self, name: str, release: Callable[[], Parts]) -> Parts:
        """Return the arrays saved under `name`; if there are none, call `release`, save its result and return it.

        The arrays are a dictionary from name to array, as is the result of `release`.
        """
        known = self.load(name)
        if known is not None:
            return known
        parts = release()
        self.save(name, parts)
        return parts

    def load(self, name: str) -> Parts | None:
        """Return the arrays saved under `name`; None if there are none, or without a folder.

        Raise `WrongInput` if they were saved by another run or with other settings.
        """
        if self.folder is None or not (path := self.folder / f"{name}.npz").exists():
            return None
        with np.load(path, allow_pickle=False) as stored:
            parts = {key: stored[key] for key in stored.files}
        if str(parts.pop(MARK)) != self._fingerprint():
            raise WrongInput(
                f"expected the settings that the run in {self.folder.name} was begun with, got others or a file of "
                "another run; give the same settings or another folder"
            )
        return parts

    def save(self, name: str, parts: Parts) -> None:
        """Save `parts` under `name`, atomically; do nothing without a folder."""
        if self.folder is None:
            return
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        content = io.BytesIO()
        np.savez(content, **{**parts, MARK: np.array(self._fingerprint())})  # type: ignore[arg-type]
        atomic_write(self.folder / f"{name}.npz", content.getvalue(), mode=0o600)

    def _fingerprint(self) -> str:
        run = None if self.folder is None else self.folder.name
        return hashlib.sha256(repr((run, self.settings)).encode()).hexdigest()


def row_digest(rows: Any) -> str:
    """Return the SHA-256 digest, in hexadecimal, of the shape and the entries of `rows`, an array of public rows."""
    plain = isinstance(rows, np.ndarray) and rows.dtype.kind != "O"
    content = np.ascontiguousarray(rows).tobytes() if plain else repr(rows.tolist()).encode()
    return hashlib.sha256(repr(rows.shape).encode() + content).hexdigest()


def checkpoint_in(folder: Path | None) -> Any:
    """Return the `Checkpoint` of a network's training in `folder`, or None if `folder` is None.

    The folder is created if it is missing.
    """
    from privaware.descent import Checkpoint

    if folder is None:
        return None
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Checkpoint(folder / "training.safetensors", run=folder.name)
