"""The only way of a verb other than `train` to private rows: `with charged_run(verb, data, options) as run:`.

1. Inside the block, a verb plans with `run.schema`, which is public.
2. `run.charge(plan)` locks the output folder, opens the ledger, checks that the budget suffices, parses the rows, and
   writes the charge to disk.
3. Only then does `run.execute()` pass the rows to the mechanism.
4. `run.publish_model` and `run.publish_result` stage the result in a private folder, close the run in the ledger, and
   then move the result to its final name.

Rows are parsed before the charge, so that unusable input costs nothing; an error message goes to the owner only, and
nothing is released. Rows are also read before the charge to find their ledger by their digest, which no mechanism sees.
Repeating the command of an interrupted run resumes it without a second charge. If a complete result is already staged,
the repeated command publishes it.
"""

from __future__ import annotations

import hashlib
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from privaware import registry, report
from privaware._rounded import rounded_up
from privaware._validate import expect_positive
from privaware.card import ModelCard
from privaware.data import Data, Outside, Rows
from privaware.errors import BudgetExceeded, PrivawareError, for_caller, warn_caller, without_torch_warnings
from privaware.events import NOTHING
from privaware.guarantee import guarantee_sentence
from privaware.ledger import Entry, Ledger
from privaware.mechanism import Mechanism, run
from privaware.model import TENSORS, Model
from privaware.noise import Rng
from privaware.ranks import current
from privaware.schema import Schema
from privaware.workflow.auto import settled
from privaware.workflow.load import load
from privaware.workflow.run import output as _output
from privaware.workflow.run.command import Command, expect_charged
from privaware.workflow.run.declared_kinds import guess_sentences
from privaware.workflow.run.dry_run import foresee
from privaware.workflow.run.finished import published_result
from privaware.workflow.run.folder_claim import claimed_folder, expect_free_folder
from privaware.workflow.run.notices import internal_scores, plan_lines, questions
from privaware.workflow.run.on_ranks import expect_divisible, ranks_on_ray, trains_on_ranks
from privaware.workflow.run.options import RunOptions
from privaware.workflow.run.persons_check import CHECK_SHARE, PersonsCheck
from privaware.workflow.run.plan import Plan
from privaware.workflow.run.pricing import expect_finite_price
from privaware.workflow.run.publish import RESUMES, Publication, Release
from privaware.workflow.run.result_file import result_content
from privaware.workflow.run.resume import expect_place_to_resume, next_run
from privaware.workflow.run.row_ledger import expect_unspent, is_new, ledger_place, register_rows, what_fits
from privaware.workflow.run.signature import Signer
from privaware.workflow.run.source import Source, resolve, schema_of_rows
from privaware.workflow.run.staging import Staged, end_publication

__all__ = ["CHARGED", "RESUMING", "ChargedRun", "charged_run"]

TRAINS = ("fit", "search", "crossover", "advise")
"""Verbs for which a ledger without budget is reported before slow imports, because their runs always cost epsilon."""
CHARGED = "Charged to the ledger as entry"
"""Start of the sentence that says that a run was charged."""
INTERRUPTED: list[str] = []
"""Where the latest interrupted run of this process resumes (`ChargedRun.resumes_at`), for the command line."""
OLD_STATEMENT = (
    "The statement of --describe is not used, because the finished result keeps the one with which it was released"
)
"""Words that say that a repeated command does not change the statement of a finished result."""
RESUMING = "Resuming: this run is already charged"
"""Start of the sentence that says that a run continues on its earlier charge."""


@contextmanager
def charged_run(verb: str, data: Any, options: RunOptions, *, learner: str = "auto") -> Iterator[ChargedRun]:
    """Open a run of `verb` on `data`; its folder stays locked from the charge to the end of the block.

    Raise `WrongInput` for an unknown `learner`, and `BudgetExceeded` for a verb in `TRAINS` whose ledger is spent.
    """
    INTERRUPTED.clear()
    rng = Rng(options.seed)
    if learner != "auto":
        registry.expect_name("learners", learner)
    if verb in TRAINS:
        expect_unspent(data, options)
    with ExitStack() as resources:
        trains = options.ray is not None and trains_on_ranks(learner)
        run = ChargedRun(
            verb, resolve(data, replace(options, ray=None) if trains else options, learner), options, rng, resources
        )
        run.ranks_on = options.ray if trains else None
        try:
            yield run
        except KeyboardInterrupt:
            INTERRUPTED[:] = [run.resumes_at]
            raise


class ChargedRun:
    """One run: its public facts, then its charge, then its result.

    It holds training rows only between `charge` and `execute`. `plan` exists after `charge` was called; `ledger`, its
    `entry` for this charge, and `name`, the name of the run in the ledger, exist then except in a dry run. `internal`
    scores, `notices` and `test_rows` are for the data owner only. `search` is what the model card says about a search,
    and `score` what it says about a charged score. `result` is the earlier release of a repeated run, if that release
    is not a model. `metric` names a score that `internal` has beside the usual ones ("auc"). `seconds` is the time that
    `execute` took. `refusal` says why the charge of a dry run would be refused. `ranks_on` is the address of a Ray
    cluster whose processes train a network together with this process, if there is one.
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
        self.refusal = ""
        self._foreseen: Ledger | None = None
        self.ranks_on: str | None = None

    @property
    def schema(self) -> Schema:
        """The public facts about the rows."""
        return self.source.schema

    @property
    def out(self) -> str | None:
        """The folder of the result; None in a dry run or without `--out`."""
        return None if self.options.dry_run or self.options.folder is None else str(self.options.folder)

    @property
    def certified(self) -> bool:
        """Whether the result is certified: the run has no seed, the plan has no flaw, and the schema is reviewed."""
        return self.options.seed is None and not self.plan.flaw and self.plan.schema.reviewed

    @property
    def ledger_file(self) -> str | None:
        """The file of the charged ledger; None if no model was released, or if the file is not kept after the run.

        In a dry run it is instead the file of the existing ledger that a run would charge, or None.
        """
        if self.options.dry_run:
            return None if self._foreseen is None else str(self._foreseen.path)
        lasting = self.model is not None and self.ledger.path.is_file() and self.ledger.lasting
        return str(self.ledger.path) if lasting and (self.options.folder or not self.source.builtin) else None

    @property
    def release(self) -> Release | None:
        """The model with its plan and its charge, which can be written to a folder later; None without a model."""
        if self.model is None:
            return None
        said = {"score": self.score, "search": self.search, "description": self.description}
        return Release.of(self.plan, self.model, self.entry, seed=self.options.seed, **said)

    @property
    def sentence(self) -> str:
        """The guarantee in words (`guarantee_sentence`)."""
        return guarantee_sentence(self.plan, self.options.seed)

    def say(self, sentence: str) -> None:
        """Pass `sentence` to the listener, if there is one."""
        if self.options.say is not None:
            self.options.say(for_caller(sentence))

    def within(self, epsilon: float) -> float:
        """Return `epsilon` as a float, or `epsilon * (1 - CHECK_SHARE)` if a check of persons was requested.

        Raise `WrongInput` unless `epsilon` is a finite number above 0.
        """
        expect_positive("", epsilon=epsilon)
        return float(epsilon) * (1 - CHECK_SHARE) if self.options.check_persons else float(epsilon)

    def charge(self, plan: Plan, *, what: str = "") -> bool:
        """Write the cost of `plan` to the ledger, and return whether its mechanism must now be executed.

        Return False in three cases: a dry run, which only shows the plan; a run that finished before; an interrupted
        run that left a complete result in the folder, which is then closed and published. Any other interrupted run is
        resumed on its earlier charge. Except in a dry run, nothing is shown or charged before the input is known to be
        usable. `what` describes the charge; by default it names verb, data, learner and folder. A flaw of `plan` is
        added to it. Raise `WrongInput` if the epsilon of `plan` is not finite, and `BudgetExceeded` if the ledger has
        no room for it. Raise `Refused` if a requested check of persons finds that values repeat; then only the check is
        charged. A dry run does not run this check. It sets `refusal` instead of raising what the ledger or the output
        folder would refuse.
        """
        expect_divisible(plan, self.options.device)
        command = self._command(plan, what)
        self.plan = command.plan
        expect_finite_price(self.plan)
        self._signer = None if self.options.sign is None else Signer.of(self.options.sign, self.options.say)
        if self.options.dry_run:
            self._show(self.source.dry_notices)
            forecast = foresee(command)
            self._foreseen, self.refusal = forecast.ledger, forecast.refusal
            return False
        folder = self.options.folder
        if folder is not None and self._finished_before(folder, command):
            return False
        if folder is not None:
            self._resources.enter_context(_output.locked_folder(folder, self.options.ledger_path))
        if self.ranks_on is not None and current() is None:
            self._resources.enter_context(ranks_on_ray(self.ranks_on, self.options.device))
        self._open_ledger(command)
        key = command.key()
        count = next_run(self.ledger, key, self.source.digest)
        self.name, previous = f"{key}-{count}", f"{key}-{count - 1}"
        if folder is not None and self._publish_staged(folder, (previous, self.name)):
            return False
        charge = self.ledger.find(self.name)
        expect_charged(charge)
        command.say_what_was_closed(self.ledger, previous)
        if charge is None:
            command.expect_new_run(self.ledger, key)
        self._charge(command)
        return True

    def _command(self, plan: Plan, what: str) -> Command:
        """Return this command with its check of persons; its plan also states facts about the data.

        `what` is as for `charge`.
        """
        check = PersonsCheck.of(self.source, self.options, (plan.limit + plan.room) * CHECK_SHARE / (1 - CHECK_SHARE))
        facts = self.source.facts(self.options.schema is not None)
        checked = () if check is None else (check.sentence,)
        reasons = (*plan.reasons, *self.source.unused, *checked)
        into = "" if self.options.folder is None else f" into {self.options.folder.name}"
        what = what or f"{self.verb} {self.source.name} with {plan.learner}{into}"
        return Command(
            verb=self.verb,
            source=self.source,
            options=self.options,
            plan=replace(plan, data={**facts, **plan.data}, reasons=reasons),
            check=check,
            seed=self.rng.seed,
            what=f"{what} (NOT PRIVATE: {plan.flaw})" if plan.flaw else what,
        )

    def execute(self, mechanism: Mechanism[Any] | None = None) -> Any:
        """Run the mechanism of the plan on the rows, once for each charge, and return its release.

        `mechanism`, if given, is run instead. It must be equal to the mechanism of the plan; it may report its
        progress. Another mechanism, or a second call after one charge, raises `RuntimeError`.
        """
        if self._rows is None:
            raise RuntimeError("expected one execute after each charge, got another")
        if mechanism is not None and mechanism != self.plan.mechanism:
            raise RuntimeError("expected the mechanism that was charged, got another")
        rows, self._rows = self._rows, None
        began = time.perf_counter()
        with without_torch_warnings():
            released = run(self._journaled(mechanism or self.plan.mechanism), rows, self.plan.noise, self.rng)
        self.seconds = time.perf_counter() - began
        return released

    def _journaled(self, mechanism: Any) -> Any:
        """Return `mechanism` with `journal` set to a folder in which a killed run of `fit` finds its releases again.

        A mechanism without a field `journal`, and the mechanism of any other verb, is returned unchanged.
        """
        keeps = is_dataclass(mechanism) and any(item.name == "journal" for item in fields(mechanism))
        return replace(mechanism, journal=self.journal) if keeps and self.verb == "fit" else mechanism

    def publish_model(
        self, model: Model, *, search: Mapping[str, Any] | None = None, score: Mapping[str, Any] | None = None
    ) -> None:
        """Publish a model: stage all files, close the run in the ledger, and move the files to their final names.

        Without `--out`, no file is written, and only the run is closed. `search` and `score` are what the model card
        says about a search and about a charged score.
        """
        self.model, self.search, self.score = model, search or {}, score or {}
        best = (self.search.get("point") or {}).get("learner")
        rows = settled(self.plan.considered, model.tensors, None if best is None else str(best))
        self.plan = replace(self.plan, considered=tuple(rows))
        self._score(model)
        for sentence in guess_sentences(model.schema, self.plan.schema):
            self._notify(sentence)
        folder = self.options.folder
        if folder is None:
            self.ledger.finish(self.name, release="model")
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
        contents = {"model.json": card.content(), TENSORS: tensors}
        self._publication(folder).publish(self.entry, contents, "model")

    def _score(self, model: Model) -> None:
        """Set `internal` to the scores of `model` on the test rows, for the owner only; without test rows, to None.

        Say which columns of the test rows the model mostly does not know, such as dates after those it was trained on.
        """
        outside, settings = Outside(), {"metric": self.metric, "device": self.options.device}
        coded = schema_of_rows(self.schema, self.plan.schema).bounded
        self.internal = internal_scores(model, self.test_rows, coded=coded, outside=outside, **settings)
        rows = 0 if self.test_rows is None else len(self.test_rows)
        mostly = {
            name: counts
            for name, counts in outside.counts.items()
            if 2 * (counts.get("outside_bounds", 0) + counts.get("unseen", 0)) > rows
        }
        for sentence in Outside(mostly, ranges=outside.ranges).sentences(rows):
            self.say(f"Test rows, {sentence}.")

    def publish_result(self, name: str, result: Mapping[str, Any], files: Mapping[str, bytes] | None = None) -> None:
        """Publish a result that is not a model, as one JSON file called `name`, with its cost.

        Without `--out`, no file is written, and only the run is closed. The entries `seconds`, `internal` and `out` of
        `result` are not written. With `--out`, `name` must be one of `result_file.NAMES`. `files` are the contents of
        other files of the release, by name.
        """
        folder = self.options.folder
        kind = Path(name).stem
        if folder is None:
            self.ledger.finish(self.name, release=kind)
            return
        said: dict[str, Any] = {"seed": self.rng.seed, "ledger": self.entry.hash, "description": self.description}
        contents = {name: result_content(result, self.plan, self.schema, **said), **(files or {})}
        self._publication(folder).publish(self.entry, contents, kind)

    def public_rows(self) -> Data:
        """Return the training rows of a built-in data set; they are public, so nothing is charged.

        Any other data raise `RuntimeError`.
        """
        if not self.source.builtin:
            raise RuntimeError("expected a built-in data set: other rows are private")
        return self.source.read_private_rows(self.schema)[0].gathered()

    @property
    def journal(self) -> Path | None:
        """The folder, named after the charge, with the records from which an interrupted run resumes.

        It is None without `--out`. It is removed before the result is published.
        """
        return None if self.options.folder is None else self.options.folder / _output.SEARCH / self.entry.hash

    def _show(self, notices: Callable[[], list[str]]) -> None:
        """Show the owner, before the charge, the plan, what `notices()` returns, and a question about persons.

        The notices say which rows are left out, and what is unusual. Without a listener (`say`), the plan is not shown,
        notices are only kept, and the question whether columns identify persons is a warning.
        """
        for sentence in plan_lines(self.plan, self.schema, self.options):
            self.say(sentence)
        about_rows = notices()
        self.notices = [*map(for_caller, (*about_rows, *self.source.unused))]  # the plan says which columns are unused
        for sentence in about_rows:
            self.say(sentence)
        question, warned = questions(self.source, self.options)
        if question:
            self._notify(question)
        for sentence, category in warned if self.options.say is None else ():
            warn_caller(sentence, category)

    def _notify(self, sentence: str) -> None:
        """Keep `sentence` among the notices for the owner, and say it."""
        self.notices.append(for_caller(sentence))
        self.say(sentence)

    def _finished_before(self, folder: Path, command: Command) -> bool:
        """Return whether `folder` holds the unchanged result of this very command on the same rows.

        If so, load the result, say that nothing is charged, and finish a publication that was interrupted.
        """
        place = self._ledger_place() if folder.is_dir() else folder
        if not folder.is_dir() or is_new(place):
            return False
        ledger = place if isinstance(place, Ledger) else Ledger.open(place)
        entry = command.finished_entry(folder, ledger)
        if entry is None:
            expect_place_to_resume(ledger, command.key(), self.options, self.source.digest)
            return False
        assert entry.run is not None
        self.ledger, self.entry, self.name = ledger, entry, entry.run
        with _output.disk_errors(folder, RESUMES):
            end_publication(folder, entry.time)
        self.say(f"This run has already finished, so nothing is charged. Its result is in {str(folder)!r}.")
        self._load(folder)
        return True

    def _ledger_place(self) -> Path | Ledger:
        return ledger_place(self.source, self.options, self.plan.event, self._resources)

    def _open_ledger(self, command: Command) -> None:
        """Open the ledger; a new ledger is created only after the rows were read successfully.

        Otherwise a run with unusable input would fix the limit and the delta of later runs.
        """
        place = self._ledger_place()
        expect_free_folder(self.options.folder, place, command.key)
        if is_new(place):
            expect_charged(None)
            command.expect_new_limit()
            Ledger.rehearse_creation(place)
            self._read_rows()
            self.plan = replace(self.plan, reasons=(*self.plan.reasons, *command.new_limit_sentences))
        self.ledger = command.open_ledger(place)

    def _read_rows(self) -> None:
        rows, self.test_rows = self.source.read_private_rows(self.plan.schema)
        self._rows = rows.keep(tuple(column.name for column in self.plan.schema.used))

    def _charge(self, command: Command) -> None:
        cost: dict[str, Any] = {"what": command.what, "run": self.name, "seed": self.rng.seed}
        resumed = self.ledger.find(self.name) is not None
        try:
            self.ledger.ready(self.plan.event + (NOTHING if resumed else command.price_of_check), **cost)
        except BudgetExceeded as refusal:
            refusal.fits = what_fits(self.plan, self.ledger)
            raise
        if self._rows is None:
            self._read_rows()
        self._show(self.source.notices)
        for sentence in self.source.left_out() if self.options.say is None else ():
            warn_caller(sentence)
        digest = None
        if self.ledger.lasting or self.rng.seed is None:
            source, event = self.source, self.plan.event
            digest = register_rows(self.ledger, source.digest, source.sketch, event, self.options.say, self.name)
        if command.check is not None and not resumed:
            for sentence in command.check.charge(self.ledger, f"{self.name}-persons", self.source, self.rng, digest):
                self._notify(sentence)
        with claimed_folder(self.options.folder, self.ledger, self.name, resumed=resumed):
            self.entry = self.ledger.spend(self.plan.event, rows=digest, **cost)
        self.say(self._resumes() if resumed else f"{CHARGED} {self.entry.number}.")
        self._state_total(resumed)

    def _state_total(self, resumed: bool) -> None:
        """Record in `plan.data["ledger"]`, for the card, what all charges up to this one cost together.

        Nothing is recorded if this is the only charge. Unless the run is `resumed`, also say the total.
        """
        charges = [entry for entry in self.ledger.entries()[: self.entry.number + 1] if entry.event is not None]
        if len(charges) == 1:
            return
        delta, epsilon = self.ledger.delta, self.ledger.spent(self.entry.number)
        total = {"charges": len(charges), "epsilon": epsilon, "delta": delta}
        self.plan = replace(self.plan, data={**self.plan.data, "ledger": total})
        if not resumed:
            price = f"epsilon {rounded_up(epsilon)} at delta {rounded_up(delta)}"
            self.say(f"The ledger has {len(charges)} charges; all of them together have {price}.")

    @property
    def resumes_at(self) -> str:
        """Where the repeated command of this run begins, in words; empty before the charge and without a folder."""
        if not hasattr(self, "entry") or self.journal is None:
            return ""
        if Staged.find(self.journal.parent.parent) is not None:
            return "publishes its result, which is complete"
        return "resumes the run at its last checkpoint" if self._has_checkpoint else "starts the run from the beginning"

    @property
    def _has_checkpoint(self) -> bool:
        journal = self.journal
        return journal is not None and journal.is_dir() and any(journal.iterdir())

    def _resumes(self) -> str:
        way = "continues where it stopped." if self._has_checkpoint else "starts again from the beginning."
        return f"{RESUMING}, and it {way}"

    def _publication(self, folder: Path) -> Publication:
        return Publication(folder=folder, ledger=self.ledger, signer=self._signer)

    def _publish_staged(self, folder: Path, runs: tuple[str, ...]) -> bool:
        """Publish and load the complete result that one of `runs` has staged in `folder`; return whether there is one.

        See `Publication.publish_staged`.
        """
        charge = self._publication(folder).publish_staged(runs, self.source.digest)
        if charge is None:
            return False
        assert charge.run is not None
        self.name, self.entry = charge.run, charge
        self.say("This run had finished without publishing its result. The result is published now.")
        self._load(folder)
        return True

    def _load(self, folder: Path) -> None:
        """Read the published result in `folder`: set `model`, `search` and `score`, or `result` if it is not a model.

        For a model, the considered learners of the plan are read, too, and the model is scored on the test rows, if
        there are any (`_score_again`). Say so if the owner's statement of this call differs from the released
        statement, which stays.
        """
        self.result = published_result(folder)
        statement, way = (self.result or {}).get("description") or {}, ""
        if (folder / "model.json").is_file():
            released = load(folder)
            self.model, self.search, self.score = released, released.card.search, released.card.score
            self.plan = replace(self.plan, considered=released.card.considered)
            self._score_again(released)
            statement = released.card.description
            way = f"; `privaware report {shlex.quote(str(folder))} --describe FILE --out PAGE` shows another"
        if self.options.describe is not None and self.description != statement:
            self._notify(f"{OLD_STATEMENT}{way}.")
        self.description = statement

    def _score_again(self, released: Model) -> None:
        """Score the model of a finished run on the test rows of this call, if there are any.

        The result is complete without a score, so test rows that cannot be used do not stop the command. A notice says
        why they are not scored; without a listener (`say`), it is a warning.
        """
        try:
            self.test_rows = self.source.read_test_rows(self.plan.schema)
            self._score(released)
        except PrivawareError as problem:
            self.test_rows = None
            self._notify(f"The test rows cannot be scored: {problem}.")
            if self.options.say is None:
                warn_caller(self.notices[-1])
