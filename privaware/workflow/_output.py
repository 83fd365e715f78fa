"""The folder of a result while it is written: locked by one process, and one rename publishes it.

Tensors and report are written first, then `model.json` under another name; the run is closed in the ledger; the rename
comes last. Whatever a killed run left behind, the same command can resume from it, and only a model that the ledger
knows as finished is ever published.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from privaware._files import atomic_write, locked
from privaware.card import ModelCard
from privaware.errors import WrongInput
from privaware.model import TENSORS

__all__ = [
    "SEARCH",
    "discard_prepared",
    "disk_errors",
    "locked_folder",
    "prepare_model",
    "prepared_run",
    "publish_file",
    "publish_model",
]

PREPARED = "model.json.unpublished"
SEARCH = ".search"
"""The folder in which a search keeps its journal."""
OURS = {
    "run.ledger",
    "run.ledger-journal",
    "model.safetensors",
    "model.safetensors.partial",
    "report.html",
    "report.html.partial",
    PREPARED,
    PREPARED + ".partial",
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
def locked_folder(folder: Path, ledger: Path | None = None) -> Iterator[None]:
    """The folder for this process alone, until the block or the process ends; refused if it is in use.

    Two processes with the same command would otherwise mix their tensors and release two models for one charge. A
    folder that was created here and is still empty is removed again; the `ledger` may lie in it.
    """
    with ExitStack() as lock:
        with disk_errors(folder, "choose another --out"):
            if folder.exists() and not folder.is_dir():
                raise WrongInput(f"expected --out as a folder, got the file {str(folder)!r}; choose another")
            created = not folder.exists()
            try:
                lock.enter_context(locked(folder))
            except BlockingIOError:
                raise WrongInput(
                    f"another process is making a model in {str(folder)!r}; let it end, or choose another --out"
                ) from None
        try:
            with disk_errors(folder, "choose another --out"):
                _expect_new(folder, ledger)
            yield
        finally:
            if created:
                with suppress(OSError):
                    folder.rmdir()  # refused by the system unless it is empty


def discard_prepared(folder: Path) -> None:
    """Removes the card that another run prepared and did not publish."""
    (folder / PREPARED).unlink(missing_ok=True)


def prepare_model(folder: Path, card: ModelCard, report: str) -> None:
    """Everything but the last rename is on disk; the tensors are there already."""
    atomic_write(folder / "report.html", report.encode())
    atomic_write(folder / PREPARED, card.content())


def publish_model(folder: Path) -> None:
    """Makes a prepared folder a model; before others may see it, the journal of a search is removed."""
    if (folder / SEARCH).exists():
        shutil.rmtree(folder / SEARCH)
    os.replace(folder / PREPARED, folder / "model.json")
    for item in folder.iterdir():
        if item.name.startswith(DRAFT):
            item.unlink()


def publish_file(path: Path, content: bytes, *, close: Callable[[], object]) -> None:
    """A result in one file: on disk, then `close` ends the run, and only then does the file get its name.

    A result visible before its run is closed could be released again, with other noise, without a charge.
    """
    unpublished = path.with_name(f"{path.name}.unpublished")
    atomic_write(unpublished, content)
    close()
    os.replace(unpublished, path)


def prepared_run(folder: Path) -> str | None:
    """The run whose model lies prepared in the folder, if one does and the tensors are that run's."""
    try:
        card = ModelCard.read(folder, PREPARED)
        matches = hashlib.sha256((folder / TENSORS).read_bytes()).hexdigest() == card.tensors
        return card.ledger.run if matches else None
    except (OSError, WrongInput):
        return None


@contextmanager
def disk_errors(folder: Path, advice: str) -> Iterator[None]:
    """Turns errors of the disk into one sentence with `advice`."""
    if "\0" in str(folder):
        raise WrongInput(f"expected --out without a zero character, got {str(folder)!r:.80}")
    try:
        yield
    except OSError as problem:
        raise WrongInput(
            f"cannot write the model folder {str(folder)!r:.120}: {problem.strerror or problem}; {advice}"
        ) from None


def _expect_new(folder: Path, ledger: Path | None) -> None:
    if (folder / "model.json").exists():
        raise WrongInput(f"{str(folder)!r} holds a finished model, which is never overwritten; choose another --out")
    ours = set(OURS)
    if ledger is not None and ledger.parent.resolve() == folder.resolve():
        ours |= {ledger.name, f"{ledger.name}-journal"}
    names = [item.name for item in folder.iterdir()]
    journal = folder / SEARCH
    foreign = any(name not in ours and not name.startswith(DRAFT) for name in names)
    if foreign or (journal.exists() and not journal.is_dir()):
        raise WrongInput(f"expected --out as a new or empty folder, got {str(folder)!r} with other files in it")
