"""A model folder while it is being made: one process holds it, and one rename makes it a model.

Tensors and report are written first, then `model.json` under another name; the run is closed in the
ledger; the rename comes last. Whatever a killed run left behind, the same command can go on from it,
and only a model that the ledger knows as finished is ever published.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from privaware.errors import WrongInput
from privaware.model import write_file

__all__ = ["SEARCH", "claimed", "prepare", "publish", "show", "told", "waiting"]

PARTIAL = "model.json.unpublished"
SEARCH = ".search"
"""The folder in which a search notes what it has done."""
OURS = {
    "run.ledger",
    "run.ledger-journal",
    "model.safetensors",
    "model.safetensors.partial",
    "report.html",
    "report.html.partial",
    PARTIAL,
    PARTIAL + ".partial",
    "selection.json.unpublished",
    "selection.json.unpublished.partial",
    "crossover.json.unpublished",
    "crossover.json.unpublished.partial",
    SEARCH,
}
"""What an interrupted run may have left in its folder."""
DRAFT = ".ledger-"
"""How the name of a ledger begins that was never completed."""


@contextmanager
def claimed(folder: Path | None, ledger: Path | None = None) -> Iterator[None]:
    """The folder for this process alone, until the block or the process ends; refused if it is in use.

    Two processes with the same command would otherwise mix their tensors and release two models for
    one charge. A folder that was made here and got nothing is taken away again; the `ledger` may lie in it.
    """
    if folder is None:
        yield
        return
    with told(folder, "choose another --out"):
        made = not folder.exists()
        handle = _held(folder)
    try:
        with told(folder, "choose another --out"):
            _expect_new(folder, ledger)
        yield
    finally:
        if made:
            with suppress(OSError):
                folder.rmdir()  # refused by the system unless it is empty
        if handle is not None:
            os.close(handle)


def prepare(folder: Path, whole: dict[str, Any], report: str) -> None:
    """Everything but the last rename is on disk; the tensors are there already."""
    write_file(folder / "report.html", report.encode())
    write_file(folder / PARTIAL, json.dumps(whole, indent=1, allow_nan=False).encode())


def publish(folder: Path) -> None:
    """Makes a prepared folder a model; before others may see it, what a search noted there is taken away."""
    if (folder / SEARCH).exists():
        shutil.rmtree(folder / SEARCH)
    os.replace(folder / PARTIAL, folder / "model.json")
    for item in folder.iterdir():
        if item.name.startswith(DRAFT):
            item.unlink()


def show(path: Path, content: bytes, close: Callable[[], object]) -> None:
    """A result in one file: on disk, then the run is closed, and only then does the file get its name.

    Seen before the run is closed it could be had a second time, with other noise, for nothing.
    """
    beside = path.with_name(f"{path.name}.unpublished")
    write_file(beside, content)
    close()
    os.replace(beside, path)


def waiting(folder: Path | None) -> str | None:
    """The run whose model lies prepared in the folder, if one does and its tensors are its own."""
    if folder is None:
        return None
    try:
        facts = json.loads((folder / PARTIAL).read_bytes())
        content = (folder / "model.safetensors").read_bytes()
        own = hashlib.sha256(content).hexdigest() == facts["tensors"]
        return str(facts["ledger"]["run"]) if own else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


@contextmanager
def told(folder: Path, advice: str) -> Iterator[None]:
    """Troubles of the disk, in words."""
    if "\0" in str(folder):
        raise WrongInput(f"expected --out without a zero character, got {str(folder)!r:.80}")
    try:
        yield
    except OSError as problem:
        raise WrongInput(
            f"cannot write the model folder {str(folder)!r:.120}: {problem.strerror or problem}; {advice}"
        ) from None


def _held(folder: Path) -> int | None:
    """A lock on the folder itself, which leaves no file behind and ends with the process."""
    while True:
        if folder.exists() and not folder.is_dir():
            raise WrongInput(f"expected --out as a folder, got the file {str(folder)!r}; choose another")
        folder.mkdir(parents=True, exist_ok=True)
        if os.name != "posix":
            return None
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(handle), os.stat(folder)):
                return handle
        except BlockingIOError:
            os.close(handle)
            raise WrongInput(
                f"another process is making a model in {str(folder)!r}; let it end, or choose another --out"
            ) from None
        except FileNotFoundError:
            pass
        os.close(handle)  # its last holder took the folder away in between: make it anew


def _expect_new(folder: Path, ledger: Path | None) -> None:
    if (folder / "model.json").exists():
        raise WrongInput(f"{str(folder)!r} holds a finished model, which is never overwritten; choose another --out")
    ours = set(OURS)
    if ledger is not None and ledger.parent.resolve() == folder.resolve():
        ours |= {ledger.name, f"{ledger.name}-journal"}
    names = [item.name for item in folder.iterdir()]
    notes = folder / SEARCH
    if any(name not in ours and not name.startswith(DRAFT) for name in names) or (
        notes.exists() and not notes.is_dir()
    ):
        raise WrongInput(f"expected --out as a new or empty folder, got {str(folder)!r} with other files in it")
