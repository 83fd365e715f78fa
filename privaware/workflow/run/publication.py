"""Publish the result of a charged run: stage its files, close the run in the ledger, and move the files into place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from privaware import report
from privaware.card import ModelCard
from privaware.ledger import Entry, Ledger
from privaware.model import read_tensors
from privaware.workflow.run import output as _output
from privaware.workflow.run.resume import was_charged_for
from privaware.workflow.run.signature import SIGNATURE, Signer
from privaware.workflow.run.staging import Staged, empty_stage

__all__ = ["RESUMES", "Publication"]

RESUMES = "the charge stays in the ledger, and the same command resumes the run once there is room"
"""What the error about a full disk says about a charged run."""


@dataclass(frozen=True, kw_only=True)
class Publication:
    """The way of results into `folder`, for runs that were charged to `ledger`.

    `signer` signs each release; without it (None), nothing is signed.
    """

    folder: Path
    ledger: Ledger
    signer: Signer | None

    def publish(self, charge: Entry, contents: dict[str, bytes], release: str) -> None:
        """Stage the files `contents` (by name), close the run of `charge` with their hashes, and publish them.

        `release` is the kind of release, such as "model"; the closing entry names it.
        """
        assert charge.run is not None
        with _output.disk_errors(self.folder, RESUMES):
            staged = Staged.write(self.folder, contents, run=charge.run, charge=charge.hash, release=release)
            self._move(staged, self._close(staged), charge)

    def publish_staged(self, runs: tuple[str, ...], digest: Callable[[], str | None]) -> Entry | None:
        """Publish a complete result that an interrupted run has staged, and return its charge.

        The run must be one of `runs`, by name, and be charged for the rows with this digest. If the folder holds no
        such result, delete the staged files and return None. Raise `WrongInput` if it holds a complete result of
        another run.
        """
        with _output.disk_errors(self.folder, RESUMES):
            staged = Staged.find(self.folder)
            charge = None if staged is None or staged.run not in runs else self.ledger.find(staged.run)
            closing = None if staged is None else self.ledger.closing(staged.run)
            changed = staged is not None and closing is not None and closing.files != staged.hashes()
            own = charge is not None and was_charged_for(charge, digest)
            if staged is None or charge is None or charge.hash != staged.charge or changed or not own:
                empty_stage(self.folder, runs if own or charge is None else ())
                return None
            self._move(staged, closing or self._close(staged), charge)
        return charge

    def _close(self, staged: Staged) -> Entry:
        """Close the run with the hashes of its staged files.

        The report of a model is rendered from these files first.
        """
        if staged.release == "model":
            card = ModelCard.read(staged.place)
            staged.add(_output.REPORT, report.page(card, tensors=read_tensors(staged.place)).encode())
        return self.ledger.finish(staged.run, files=staged.hashes(), release=staged.release)

    def _move(self, staged: Staged, closing: Entry, charge: Entry) -> None:
        """Move the staged files of a closed run into the folder, with a signature if one was requested.

        `closing` is the ledger entry that closed the run; the signature signs its hash.
        """
        if self.signer is not None:
            self.signer.write(staged.place, closing)
            (staged.place / SIGNATURE).chmod(0o600)
        staged.publish(charge.time)
