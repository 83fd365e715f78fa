"""The one way to private rows: `with charged_run(verb, data, options) as run:`.

Inside the block a verb plans on `run.schema`, which is public. `run.charge(plan)` locks the output folder, opens the
ledger and asks it, parses the rows, and puts the charge on disk; only then does `run.execute()` give the rows to the
mechanism. `run.publish_model` and `run.publish_result` stage the result in a private folder, close the run in the
ledger, and only then give the result its name. Parsing before the charge answers yes or no to the owner and releases
nothing, so that unusable input costs nothing; so does reading the rows to know their ledger by their digest, which no
mechanism sees. The same command resumes a run that was interrupted, without a second charge, and publishes the result
that was staged, if it is complete.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from privaware import accounting, metrics, registry, report
from privaware._validate import expect_positive
from privaware._version import __version__
from privaware.card import ModelCard, PricedEvent, plain_settings
from privaware.data import Data, Rows
from privaware.errors import BudgetExceeded
from privaware.guarantee import guarantee_sentence
from privaware.ledger import Entry, Ledger
from privaware.mechanism import Mechanism, run
from privaware.model import TENSORS, Model, read_tensors
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.workflow.predict import load
from privaware.workflow.run import output as _output
from privaware.workflow.run.options import RunOptions
from privaware.workflow.run.plan import Plan, expect_finite_price
from privaware.workflow.run.publish import Release
from privaware.workflow.run.resume import finished_entry, published_result
from privaware.workflow.run.row_ledger import (
    expect_unspent,
    is_new,
    ledger_place,
    open_ledger,
    register_rows,
    what_fits,
)
from privaware.workflow.run.signature import SIGNATURE, Signer
from privaware.workflow.run.source import Source, resolve, scoring
from privaware.workflow.run.staging import Staged, empty_stage, end_publication

__all__ = ["ChargedRun", "charged_run"]

TRAINS = ("fit", "search", "crossover")
"""Verbs that always cost something."""
RESUMES = "the charge stays in the ledger, and the same command resumes the run once there is room"


@contextmanager
def charged_run(verb: str, data: Any, options: RunOptions, *, learner: str = "auto") -> Iterator[ChargedRun]:
    """A run of `verb` on `data`; its folder is locked and its ledger open from the charge to the end of the block."""
    rng = Rng(options.seed)
    if learner != "auto":
        registry.expect_name("learners", learner)
    if verb in TRAINS:
        expect_unspent(data, options)
    with ExitStack() as resources:
        yield ChargedRun(verb, resolve(data, options, learner), options, rng, resources)


class ChargedRun:
    """One run: its public facts, then its charge, then its result. Rows are here from the charge to `execute` only.

    `plan`, `ledger`, `entry` and `name` are there once `charge` was called. `internal` scores, `notices` and
    `test_rows` are for the owner's eyes. `search` is what the model card says of a search, `score` what was bought of a
    score. `result` is what a run that has ended before released, where that is no model.
    """

    plan: Plan
    ledger: Ledger
    entry: Entry
    name: str

    def __init__(self, verb: str, source: Source, options: RunOptions, rng: Rng, resources: ExitStack) -> None:
        self.verb, self.source, self.options, self.rng = verb, source, options, rng
        self.model: Model | None = None
        self.search: Mapping[str, Any] = {}
        self.score: Mapping[str, Any] = {}
        self.result: Mapping[str, Any] | None = None
        self.metric = ""
        self.description = report.owner_statement(options.describe)
        self.internal: dict[str, float | None] = {"test_score": None}
        self.notices: list[str] = []
        self.seconds = 0.0
        self.test_rows: Data | None = None
        self._rows: Rows | None = None
        self._resources = resources
        self._signer: Signer | None = None

    @property
    def schema(self) -> Schema:
        """What is public about the rows."""
        return self.source.schema

    @property
    def out(self) -> str | None:
        """The folder of the result, once there is one."""
        return None if self.options.dry_run or self.options.folder is None else str(self.options.folder)

    @property
    def certified(self) -> bool:
        """Whether the result may be released: unseeded, a proven guarantee, and no schema left as it was drafted."""
        return self.options.seed is None and not self.plan.flaw and self.plan.schema.reviewed

    @property
    def ledger_file(self) -> str | None:
        """The ledger that was charged, if it lasts."""
        lasting = self.model is not None and self.ledger.path.is_file() and self.ledger.lasting
        return str(self.ledger.path) if lasting and (self.options.folder or not self.source.builtin) else None

    @property
    def release(self) -> Release | None:
        """The model with its plan and its charge, to be written later."""
        if self.model is None:
            return None
        return Release.of(self.plan, self.model, self.entry, seed=self.options.seed, score=self.score)

    @property
    def sentence(self) -> str:
        """What the guarantee means, in one sentence."""
        return guarantee_sentence(self.plan, self.options.seed)

    def say(self, sentence: str) -> None:
        """Reports to the caller, if there is a listener."""
        if self.options.say is not None:
            self.options.say(sentence)

    def charge(self, plan: Plan, *, what: str = "") -> bool:
        """Puts the cost of `plan` on disk and says whether there is something to execute.

        There is nothing to execute in a dry run, which only says the plan, where this very run has ended before, and
        where an interrupted run left a complete result in the folder, which is closed and published now. Nothing is
        said or charged before the input is known to be good and the price to be finite.
        """
        self.plan = plan
        expect_finite_price(plan)
        self._signer = None if self.options.sign is None else Signer.of(self.options.sign, self.options.say)
        if self.options.dry_run:
            self._say_plan()
            self._say_notices(self.source.dry_notices)
            return False
        folder = self.options.folder
        if folder is not None and self._finished_before(folder):
            return False
        if folder is not None:
            self._resources.enter_context(_output.locked_folder(folder, self.options.ledger_path))
        self._open_ledger()
        key = self._key()
        count = _next_run(self.ledger, key, self.source.digest)
        self.name = f"{key}-{count}"
        if folder is not None and self._publish_staged(folder, (f"{key}-{count - 1}", self.name)):
            return False
        self._charge(what or f"{self.verb} {self.source.name} with {plan.learner}")
        return True

    def execute(self, mechanism: Mechanism[Any] | None = None) -> Any:
        """What the plan's mechanism releases, once for each charge; `mechanism` is an equal one with a listener."""
        if self._rows is None:
            raise RuntimeError("expected one execute after each charge, got another")
        if mechanism is not None and mechanism != self.plan.mechanism:
            raise RuntimeError("expected the mechanism that was charged, got another")
        rows, self._rows = self._rows, None
        began = time.perf_counter()
        released = run(self._journaled(mechanism or self.plan.mechanism), rows, self.plan.noise, self.rng)
        self.seconds = time.perf_counter() - began
        return released

    def _journaled(self, mechanism: Any) -> Any:
        """With the folder that a killed run goes on from, for a mechanism that keeps what it released so far there."""
        keeps = is_dataclass(mechanism) and any(item.name == "journal" for item in fields(mechanism))
        return replace(mechanism, journal=self.journal) if keeps and self.verb == "fit" else mechanism

    def publish_model(
        self, model: Model, *, search: Mapping[str, Any] | None = None, score: Mapping[str, Any] | None = None
    ) -> None:
        """Makes the folder a model: all files are staged, the run is closed, and the files get their names."""
        self.model, self.search, self.score = model, search or {}, score or {}
        self.internal = self._internal_scores(model)
        folder = self.options.folder
        if folder is None:
            self._close("model")
            return
        tensors = model.tensor_file()
        card = ModelCard.of(
            self.plan,
            model,
            tensors=hashlib.sha256(tensors).hexdigest(),
            entry=self.entry,
            seed=self.rng.seed,
            search=search,
            score=score,
            description=self.description,
        )
        self._publish(folder, {"model.json": card.content(), TENSORS: tensors}, "model")

    def publish_result(self, name: str, result: Mapping[str, Any]) -> None:
        """A result that is no model, in one JSON file with what it cost."""
        folder = self.options.folder
        kind = Path(name).stem
        if folder is None:
            self._close(kind)
            return
        record = {
            "format": 1,
            "version": __version__,
            **{key: value for key, value in result.items() if key not in ("seconds", "internal", "out")},
            "unit": self.schema.unit,
            "relation": self.schema.relation,
            "seed": self.rng.seed,
            "events": [
                PricedEvent(what=what, event=event, epsilon=accounting.epsilon(event, self.plan.delta)).json()
                for what, event in self.plan.parts
            ],
            "ledger": self.entry.hash,
            **({"description": self.description} if self.description else {}),
        }
        self._publish(folder, {name: json.dumps(record, indent=1, allow_nan=False).encode()}, kind)

    def public_rows(self) -> Data:
        """The training rows of a built-in data set, which are public: no charge."""
        if not self.source.builtin:
            raise RuntimeError("expected a built-in data set: other rows are private")
        return self.source.read_private_rows()[0].gathered()

    @property
    def journal(self) -> Path | None:
        """A folder, named after the charge, for what an interrupted run resumes from.

        It is removed before the result is published.
        """
        return None if self.options.folder is None else self.options.folder / _output.SEARCH / self.entry.hash

    def _say_plan(self) -> None:
        if not self.schema.reviewed:
            self.say(
                f"{self.schema.toml()}\nNot reviewed: this schema was read from the rows and is treated as public."
            )
        if self.options.delta is None and self.plan.delta != accounting.DEFAULT_DELTA:
            self.say(
                f"Delta: {self.plan.delta:.4g} (0.1 / {self.schema.rows} rows), because no --delta was given "
                f"and {accounting.DEFAULT_DELTA:g} is too large for this many rows."
            )
        for sentence in self.plan.sentences:
            self.say(sentence)

    def _say_notices(self, notices: Callable[[], list[str]]) -> None:
        """What is left out, not used and assumed, for the owner, before a charge."""
        self.notices = notices()
        for sentence in (*self.notices, *(f"Assumed to be public: {fact}." for fact in self.plan.schema.assumed)):
            self.say(sentence)

    def _finished_before(self, folder: Path) -> bool:
        """Whether the folder holds what this very command released; then it is read, and nothing is charged."""
        place = self._ledger_place() if folder.is_dir() else folder
        if not folder.is_dir() or is_new(place):
            return False
        ledger = place if isinstance(place, Ledger) else Ledger.open(place)
        entry = finished_entry(folder, ledger, self._key(), self.source.digest)
        if entry is None:
            return False
        assert entry.run is not None
        self.ledger, self.entry, self.name = ledger, entry, entry.run
        with _output.disk_errors(folder, RESUMES):
            end_publication(folder, entry.time)
        self._load(folder)
        self.say(f"This run has already finished, so nothing is charged. Its result is in {str(folder)!r}.")
        return True

    def _ledger_place(self) -> Path | Ledger:
        return ledger_place(self.source, self.options, self.plan.event, self._resources)

    def _open_ledger(self) -> None:
        """Opens the ledger; a new one is only created once the rows are known to be good.

        Otherwise a run that fails for its input would fix the limit and the delta of the runs after it.
        """
        place = self._ledger_place()
        limit = self.plan.limit if self.options.limit is None else self.options.limit
        if is_new(place):
            expect_positive("", limit=limit)
            if self.plan.epsilon > limit * (1 + 1e-9):
                raise BudgetExceeded(
                    f"epsilon {self.plan.epsilon:.6g} is past the limit of {limit:g} asked for; take a larger --limit, "
                    "or none"
                )
            Ledger.rehearse_creation(place)
            self._read_rows()
        self.ledger = open_ledger(place, self.source, self.options, new_limit=self.plan.limit)

    def _read_rows(self) -> None:
        rows, self.test_rows = self.source.read_private_rows()
        self._rows = rows.keep(tuple(column.name for column in self.plan.schema.used))

    def _charge(self, what: str) -> None:
        cost: dict[str, Any] = {"what": what, "run": self.name, "seed": self.rng.seed}
        try:
            self.ledger.ready(self.plan.event, **cost)
        except BudgetExceeded as refusal:
            refusal.fits = what_fits(self.plan, self.ledger)
            raise
        if self._rows is None:
            self._read_rows()
        self._say_plan()
        self._say_notices(self.source.notices)
        for sentence in self.source.left_out() if self.options.say is None else ():
            warnings.warn(sentence, stacklevel=2)
        digest = None
        if self.ledger.lasting or self.rng.seed is None:
            source, event = self.source, self.plan.event
            digest = register_rows(self.ledger, source.digest, source.sketch, event, self.options.say)
        resumed = self.ledger.find(self.name) is not None
        self.entry = self.ledger.spend(self.plan.event, rows=digest, **cost)
        self.say(self._resumes() if resumed else f"Charged to the ledger as entry {self.entry.number}.")

    def _resumes(self) -> str:
        journal = self.journal
        kept = journal is not None and journal.is_dir() and any(journal.iterdir())
        return "Resuming: this run is already charged, and it " + (
            "continues where it stopped." if kept else "starts again from the beginning."
        )

    def _close(self, release: str, files: Mapping[str, str] | None = None) -> Entry:
        """Closes the run in the ledger with the hashes of the `files` it releases."""
        return self.ledger.finish(self.name, files=files, release=release)

    def _publish(self, folder: Path, contents: dict[str, bytes], release: str) -> None:
        """Stages a set of files, closes the run with their hashes, and publishes them."""
        with _output.disk_errors(folder, RESUMES):
            staged = Staged.write(folder, contents, run=self.name, charge=self.entry.hash, release=release)
            self._end(staged, self._close_staged(staged))

    def _close_staged(self, staged: Staged) -> Entry:
        """Closes the run with its staged files; the report of a model is rendered from them first."""
        if staged.release == "model":
            card = ModelCard.read(staged.place)
            staged.add(_output.REPORT, report.page(card, tensors=read_tensors(staged.place)).encode())
        return self._close(staged.release, staged.hashes())

    def _end(self, staged: Staged, closing: Entry) -> None:
        """Publishes staged files of a closed run, with a signature if that was asked."""
        if self._signer is not None:
            self._signer.write(staged.place, closing)
            (staged.place / SIGNATURE).chmod(0o600)
        staged.publish(self.entry.time)

    def _publish_staged(self, folder: Path, names: tuple[str, ...]) -> bool:
        """Publishes the complete result of one of these runs, if the folder holds one; otherwise empties the stage."""
        with _output.disk_errors(folder, RESUMES):
            staged = Staged.find(folder)
            entry = None if staged is None or staged.run not in names else self.ledger.find(staged.run)
            closing = None if staged is None else self.ledger.closing(staged.run)
            changed = staged is not None and closing is not None and closing.files != staged.hashes()
            own = entry is not None and _same_rows(entry, self.source.digest)
            if staged is None or entry is None or entry.hash != staged.charge or changed or not own:
                empty_stage(folder, names if own or entry is None else ())
                return False
            self.name, self.entry = staged.run, entry
            self._end(staged, closing or self._close_staged(staged))
        self.say("This run had finished without publishing its result. The result is published now.")
        self._load(folder)
        return True

    def _load(self, folder: Path) -> None:
        """Reads what was published: a model, or a result that is none."""
        self.result = published_result(folder)
        if (folder / "model.json").is_file():
            released = load(folder)
            self.model, self.search, self.score = released, released.card.search, released.card.score

    def _key(self) -> str:
        """One name for one command: the same data, settings and folder resume, anything else is a new run."""
        source, plan, folder = self.source, self.plan, self.options.folder
        rows = None if source.path is None else str(source.path.resolve())
        if rows is None:  # without a folder there is nothing to resume, and the rows need not be known again
            rows = source.name if source.builtin or folder is None else source.digest()
        facts: dict[str, Any] = {
            "data": rows,
            "schema": plan.schema.json(),
            "verb": self.verb,
            "learner": plan.learner,
            "settings": plain_settings(plan.settings),
            "epsilon": plan.limit,
            "delta": plan.delta,
            "seed": self.rng.seed,
            "out": time.time_ns() if folder is None else str(folder.resolve()),
        }
        if before := [what for what, _ in plan.parts[:-1] if what != "release bounds"]:
            facts["before"] = before
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]

    def _internal_scores(self, model: Model) -> dict[str, float | None]:
        """Scores for the owner's eyes: they are printed, never written or released."""
        rows = self.test_rows
        if rows is None or not len(rows):
            return {"test_score": None}
        if not self.schema.bounded:
            rows = rows.coded_by(scoring(model.schema))
        rows = rows.keep(tuple(column.name for column in model.schema.used))  # those that a selection kept
        device = self.options.device
        scores = metrics.internal(model.schema.task, rows.y, model.predictions(rows, device))
        if self.metric == "auc" and 0 < rows.y.sum() < len(rows):
            chances = model.probabilities(rows, device)[:, 1]
            scores["auc"] = metrics.auc(chances[rows.y == 1], chances[rows.y == 0])
        return scores


def _next_run(ledger: Ledger, key: str, digest: Callable[[], str | None]) -> int:
    """The number of the next run of this command: one that was charged for these rows and not closed, or a new one.

    A run that was charged for other rows, because a file has changed since, is not resumed.
    """
    entries = ledger.entries()
    charged = {entry.run: entry for entry in entries if entry.kind == "spend"}
    closed = {entry.run for entry in entries if entry.kind == "finished"}
    for count in itertools.count():
        entry = charged.get(f"{key}-{count}")
        if entry is None or (entry.run not in closed and _same_rows(entry, digest)):
            break
    return count


def _same_rows(entry: Entry, digest: Callable[[], str | None]) -> bool:
    """Whether the charge was for the rows of this digest, as far as it says."""
    return entry.rows is None or entry.rows == digest()
