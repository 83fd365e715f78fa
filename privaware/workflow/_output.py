"""The folder of a result while it is written: locked by one process, and one rename publishes it.

Tensors and report are written first, then `model.json` under another name; the run is closed in the ledger with the
hashes of all three; the rename comes last. Whatever a killed run left behind, the same command can resume from it, and
only a model that the ledger knows as finished is ever published. Published files and their folder carry the time of the
charge: when a run ended would tell how long it took, and so the secret number of trials of a private selection.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path

from privaware._files import atomic_write, locked
from privaware.card import ModelCard
from privaware.errors import WrongInput
from privaware.model import TENSORS
from privaware.workflow._signature import SIGNATURE

__all__ = [
    "SEARCH",
    "discard_prepared",
    "disk_errors",
    "locked_folder",
    "prepare_model",
    "prepared_card",
    "prepared_files",
    "publish_file",
    "publish_model",
    "sha256",
]

REPORT = "report.html"
PREPARED = "model.json.unpublished"
SEARCH = ".search"
"""The folder in which a search keeps its journal."""
OURS = {
    "run.ledger",
    "run.ledger-journal",
    "model.safetensors",
    "model.safetensors.partial",
    REPORT,
    REPORT + ".partial",
    SIGNATURE,
    SIGNATURE + ".partial",
    PREPARED,
    PREPARED + ".partial",
    "selection.json.unpublished",
    "selection.json.unpublished.partial",
    "crossover.json.unpublished",
    "crossover.json.unpublished.partial",
    "audit.json.unpublished",
    "audit.json.unpublished.partial",
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
    """Removes the card that another run prepared and did not publish, and its signature."""
    for name in (PREPARED, SIGNATURE):
        (folder / name).unlink(missing_ok=True)


def prepare_model(folder: Path, card: ModelCard, report: str) -> None:
    """Everything but the last rename is on disk; the tensors are there already."""
    atomic_write(folder / REPORT, report.encode())
    atomic_write(folder / PREPARED, card.content())


def publish_model(folder: Path, charged: str) -> None:
    """Makes a prepared folder a model with the time of its charge.

    Before others may see it, the journal of a search is removed.
    """
    if (folder / SEARCH).exists():
        shutil.rmtree(folder / SEARCH)
    for item in folder.iterdir():
        if item.name.startswith(DRAFT):
            item.unlink()
    for name in (TENSORS, REPORT, PREPARED, SIGNATURE):
        _set_time(folder / name, charged)
    os.replace(folder / PREPARED, folder / "model.json")
    _set_time(folder, charged)


def publish_file(path: Path, content: bytes, *, close: Callable[[Mapping[str, str]], object], charged: str) -> None:
    """A result in one file: on disk, then `close` ends the run, and only then does the file get its name.

    A result visible before its run is closed could be released again, with other noise, without a charge. `close` gets
    the hash of the file, and the file gets the time of its charge.
    """
    unpublished = path.with_name(f"{path.name}.unpublished")
    discard_prepared(path.parent)
    atomic_write(unpublished, content)
    close({path.name: sha256(unpublished)})
    for written in (unpublished, path.with_name(SIGNATURE)):
        _set_time(written, charged)
    os.replace(unpublished, path)
    _set_time(path.parent, charged)


def prepared_card(folder: Path) -> ModelCard | None:
    """The card of the model that lies prepared in the folder, if one does and all its files are there."""
    try:
        card = ModelCard.read(folder, PREPARED)
        complete = sha256(folder / TENSORS) == card.tensors and (folder / REPORT).is_file()
        return card if complete else None
    except (OSError, WrongInput):
        return None


def prepared_files(folder: Path) -> dict[str, str]:
    """The hashes of a prepared model's files, under the names they will have."""
    names = {TENSORS: TENSORS, "model.json": PREPARED, REPORT: REPORT}
    return {name: sha256(folder / written) for name, written in names.items()}


def sha256(path: Path) -> str:
    """The hash of a file, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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


def _set_time(path: Path, charged: str) -> None:
    """Gives a file or folder, if it is there, the time of an entry of the ledger."""
    seconds = datetime.fromisoformat(charged).timestamp()
    with suppress(FileNotFoundError):
        os.utime(path, (seconds, seconds))


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
