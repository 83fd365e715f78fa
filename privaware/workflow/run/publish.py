"""Publish the result of a run: from a charged run into its folder, or later, from a release that is kept in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from privaware import report
from privaware.card import ModelCard
from privaware.ledger import Entry, Ledger
from privaware.mechanism import unit
from privaware.model import TENSORS, Model, read_tensors
from privaware.workflow.run import output as _output
from privaware.workflow.run.folder_claim import expect_unclaimed
from privaware.workflow.run.plan import Plan
from privaware.workflow.run.resume import was_charged_for
from privaware.workflow.run.signature import SIGNATURE, Signer
from privaware.workflow.run.staging import Staged, empty_stage

__all__ = ["RESUMES", "Publication", "Release"]

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


@dataclass(frozen=True, kw_only=True)
class Charged:
    """The facts of a ledger entry that a model card states: its `time`, its `hash`, and its `run`, if it names one."""

    time: str
    hash: str
    run: str | None


@dataclass(frozen=True, kw_only=True)
class Protects:
    """A placeholder for a mechanism that has run; its `cost` and `run` raise `RuntimeError`.

    `unit` is what it protects, "row" or "label". `bounds_deviation` is the standard deviation of the noise in the
    counts that estimated column ranges, and `rows_of_category` about the number of rows that a category needs to be
    released (0 if there were none), for the sentences of the plan.
    """

    unit: str
    bounds_deviation: float = 0.0
    rows_of_category: float = 0.0

    def cost(self, schema: Any, noise: float) -> Any:
        raise RuntimeError("expected no cost of a mechanism that has run: its events are in the plan")

    def run(self, data: Any, noise: float, rng: Any) -> Any:
        raise RuntimeError("expected no second run for one charge")


@dataclass(frozen=True, kw_only=True, eq=False)
class Release:
    """A model, the plan by which it was trained, and its charge.

    `score`, `search` and `description` are what the model card says about a charged score and about a search, and the
    owner's statement; each may be empty.
    """

    plan: Plan
    model: Model
    charged: Charged
    seed: int | None
    score: Mapping[str, Any]
    search: Mapping[str, Any]
    description: Mapping[str, Any]

    @classmethod
    def of(cls, plan: Plan, model: Model, entry: Entry, *, seed: int | None, **said: Mapping[str, Any]) -> Release:
        """Build the release of a run, without its rows, its listeners and the digest of its rows.

        `plan` is the plan of the run, and `entry` is its charge. The mechanism of the plan is replaced by a
        placeholder, because it may hold rows. `said` are the `score`, the `search` and the `description` on the model
        card.
        """
        protects = Protects(
            unit=unit(plan.mechanism), bounds_deviation=plan.bounds_deviation, rows_of_category=plan.rows_of_category
        )
        bare = replace(plan, mechanism=protects)
        charged = Charged(time=entry.time, hash=entry.hash, run=entry.run)
        return cls(plan=bare, model=model, charged=charged, seed=seed, **said)

    def overlapping(self, overlap: str) -> Release:
        """Return a copy with `overlap`, which says which releases of the same rows are not in the ledger of this one.

        A copy with an overlap that is not empty is not certified.
        """
        return replace(self, plan=replace(self.plan, overlap=overlap))

    def card(self, tensors: str = "") -> ModelCard:
        """Return the model card; `tensors` is the hash of the tensor file."""
        entry = cast("Entry", self.charged)
        said = {"score": self.score, "search": self.search, "description": self.description}
        return ModelCard.of(self.plan, self.model, tensors=tensors, entry=entry, seed=self.seed, **said)

    def save(self, folder: str | Path) -> Path:
        """Write the model to a new or empty folder, as `fit` does with `out`; any other folder raises `WrongInput`.

        Return the path of the folder.

        The run was closed before the files existed. The ledger therefore knows the charge but not the files, and
        `verify` says so.
        """
        path = Path(folder)
        run, content = self.charged.run or "", self.model.tensor_file()
        card = self.card(hashlib.sha256(content).hexdigest())
        page = report.page(card, tensors=self.model.tensors)
        with _output.locked_folder(path), _output.disk_errors(path, "choose another folder"):
            expect_unclaimed(path, lambda _, charge: charge.hash == self.charged.hash)
            empty_stage(path, (run,))
            files = {"model.json": card.content(), TENSORS: content}
            staged = Staged.write(path, files, run=run, charge=self.charged.hash, release="model")
            staged.add(_output.REPORT, page.encode())
            staged.publish(self.charged.time)
        return path
