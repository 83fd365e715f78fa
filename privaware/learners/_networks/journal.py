"""What a learner has released so far, on disk, so that a killed run goes on instead of starting over.

Only what the price covers is kept: noisy labels, noisy gradients' results. Whatever was noised and not kept is noised
again, and nobody has seen it. The folder belongs to one run and is named after its charge, and every file holds that
name, so that a file of another run is refused. The folder is removed before the result is published.
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

__all__ = ["Parts", "ReleaseJournal", "checkpoint_in", "row_digest"]

Parts = dict[str, np.ndarray]
"""Arrays that were released together, by name."""
MARK = "fingerprint"


@dataclass(frozen=True)
class ReleaseJournal:
    """Arrays by name in a folder, or nowhere; `settings` are public facts that the release depends on."""

    folder: Path | None
    settings: tuple[Any, ...]

    def kept(self, name: str, release: Callable[[], Parts]) -> Parts:
        """What was kept under this name, or what `release` returns now."""
        known = self.load(name)
        if known is not None:
            return known
        parts = release()
        self.save(name, parts)
        return parts

    def load(self, name: str) -> Parts | None:
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
    """What tells public rows from others."""
    plain = isinstance(rows, np.ndarray) and rows.dtype.kind != "O"
    content = np.ascontiguousarray(rows).tobytes() if plain else repr(rows.tolist()).encode()
    return hashlib.sha256(repr(rows.shape).encode() + content).hexdigest()


def checkpoint_in(folder: Path | None) -> Any:
    """Where the training of one network keeps its state: nowhere without a folder."""
    from privaware.descent import Checkpoint

    if folder is None:
        return None
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Checkpoint(folder / "training.safetensors", run=folder.name)
