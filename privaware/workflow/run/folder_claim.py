"""The claim of an output folder: until its result is published, it belongs to the run that was charged for it.

A file in the folder names the run and its ledger, so that no other run takes the folder.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from privaware._files import CLAIM, SEARCH, atomic_write, private_folder
from privaware.errors import PrivawareError, WrongInput
from privaware.ledger import Entry, Ledger
from privaware.ledger._entry import unfinished
from privaware.workflow.run.output import disk_errors

__all__ = ["claimed_folder", "expect_free_folder", "expect_unclaimed"]


@contextmanager
def claimed_folder(folder: Path | None, ledger: Ledger, run: str, *, resumed: bool) -> Iterator[None]:
    """Record that `folder` belongs to `run` of `ledger`, until the result is published; charge the run in the block.

    If the block raises a `PrivawareError`, nothing was charged, and the record is removed again unless the run is
    `resumed`. Without a folder nothing is done.
    """
    if folder is not None:
        with disk_errors(folder, "choose another --out"):
            place = folder / SEARCH
            private_folder(place)
            content = json.dumps({"run": run, "ledger": str(ledger.path)}).encode()
            atomic_write(place / CLAIM, content, mode=0o600)
    try:
        yield
    except PrivawareError:
        if folder is not None and not resumed:
            with suppress(OSError):
                (folder / SEARCH / CLAIM).unlink()
                (folder / SEARCH).rmdir()
        raise


def expect_free_folder(folder: Path | None, place: Path | Ledger | None, key: Callable[[], str]) -> None:
    """Raise `WrongInput` if `folder` belongs to a charged, unfinished run of another command or another ledger.

    `place` is the ledger of this command or its path, if it has one, and `key()` returns the key of this command
    (`run_key`). Without a folder nothing is done.
    """
    path = place.path if isinstance(place, Ledger) else place

    def is_own(ledger: Ledger, charge: Entry) -> bool:
        same_ledger = path is not None and path.resolve() == ledger.path.resolve()
        return same_ledger and charge.run is not None and charge.run.rpartition("-")[0] == key()

    if folder is not None:
        expect_unclaimed(folder, is_own)


def expect_unclaimed(folder: Path, is_own: Callable[[Ledger, Entry], bool]) -> None:
    """Raise `WrongInput` if `folder` belongs to a charged, unfinished run for which `is_own(ledger, charge)` is false.

    Otherwise another result would take the folder, and the charged run could not be resumed. Without its ledger a run
    cannot be resumed, so its folder is free.
    """
    try:
        claim = json.loads((folder / SEARCH / CLAIM).read_bytes())
        path, run = Path(claim["ledger"]), claim["run"]
    except (KeyError, OSError, TypeError, ValueError):
        return
    if not path.exists():
        return
    ledger = Ledger.open(path)
    charge = next((entry for entry in unfinished(ledger.entries()) if entry.run == run), None)
    if charge is None or is_own(ledger, charge):
        return
    close = shlex.join(["privaware", "ledger", str(path), "--close", str(charge.number)])
    raise WrongInput(
        f"{str(folder)!r} belongs to entry {charge.number} ({charge.what}) of {str(path)!r}, which is charged but not "
        f"finished; repeat its command to resume it, type `{close}` to give it up, or choose another --out"
    )
