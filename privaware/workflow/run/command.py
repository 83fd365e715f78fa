"""A command with its plan, before its charge: what decides which ledger it uses, and what its run is called there."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from privaware._rounded import number
from privaware.errors import WrongInput, for_caller, warn_caller
from privaware.events import NOTHING, Event
from privaware.ledger import Entry, Ledger
from privaware.workflow.run import output as _output
from privaware.workflow.run.finished import finished_entry, may_be_paid
from privaware.workflow.run.options import RunOptions
from privaware.workflow.run.persons_check import PersonsCheck
from privaware.workflow.run.plan import Plan
from privaware.workflow.run.resume import expect_same_rows, expect_unpaid_pilot, run_key
from privaware.workflow.run.row_ledger import expect_new_limit, is_new, open_ledger
from privaware.workflow.run.source import Source
from privaware.workflow.run.staging import expect_own_stage

__all__ = ["ONLY_RESUME", "SAME_FILE", "Command", "expect_charged"]

SAME_FILE = "if the file is the same"
"""Condition under which a dry run with a schema, which opens no file, says that a run would charge nothing."""
NEW_RUN = "This is a new run with its own charge."
"""Sentence that says that an earlier run of the same command is not resumed."""
ONLY_RESUME = "PRIVAWARE_ONLY_RESUME"
"""Environment variable by which `privaware ui` starts a run that must not be charged again (`expect_charged`)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Command:
    """One call of a verb, with its plan.

    Parameters
    ----------
    verb
        The name of the verb, such as "fit".
    source
        The data.
    options
        The options of the call.
    plan
        The plan that will be charged.
    check
        The requested check of persons, or None.
    seed
        The seed of the noise, or None.
    what
        The words that describe the charge in the ledger.
    """

    verb: str
    source: Source
    options: RunOptions
    plan: Plan
    check: PersonsCheck | None
    seed: int | None
    what: str

    def key(self) -> str:
        """Return the key by which an interrupted run of this command is found in its ledger (`run_key`)."""
        return run_key(self.verb, self.source, self.plan, self.options, self.seed)

    @property
    def price_of_check(self) -> Event:
        """The cost of the check of persons; `NOTHING` without a check."""
        return NOTHING if self.check is None else self.check.event

    @property
    def reads_no_row(self) -> bool:
        """Whether this is a dry run that reads no row to find the ledger and the earlier runs of its command."""
        return self.options.dry_run and self.options.schema is not None and self.source.path is not None

    def say(self, sentence: str) -> None:
        """Pass `sentence` to the listener, if there is one."""
        if self.options.say is not None:
            self.options.say(for_caller(sentence))

    def warn(self, sentence: str) -> None:
        """Say `sentence`; without a listener, warn with it."""
        self.say(sentence)
        if self.options.say is None:
            warn_caller(sentence)

    @property
    def new_limit(self) -> float:
        """The limit of a new ledger without `--limit`: the budget and the room of the plan, and a check of persons."""
        return self.plan.limit + self.plan.room + (0.0 if self.check is None else self.check.epsilon)

    @property
    def new_limit_sentences(self) -> list[str]:
        """A sentence about the limit of a new ledger, if it is not given and leaves room for later runs; else none."""
        if self.options.limit is not None or not self.plan.room:
            return []
        return [
            f"No ledger was found for these rows: the new ledger has a limit of {number(self.new_limit)}, which "
            f"leaves epsilon {number(self.plan.room)} for a model (--limit gives another limit)."
        ]

    def expect_new_limit(self) -> None:
        """Raise `BudgetExceeded` unless a new ledger would have room for the plan."""
        limit = self.options.limit
        expect_new_limit(self.plan.epsilon, self.new_limit if limit is None else limit)

    def open_ledger(self, place: Path | Ledger) -> Ledger:
        """Open or create the ledger at `place`; a run that is already charged there accepts a changed limit.

        `--limit` then gives the first limit of the ledger, and the present limit stands.
        """
        options, limit = self.options, self.options.limit
        if options.new_ledger and not is_new(place):
            path = str(place.path if isinstance(place, Ledger) else place)
            self.warn(f"--new-ledger has no effect, because the ledger {path!r} exists: this run is charged there.")
        if limit is not None and not isinstance(place, Ledger) and not is_new(place):
            ledger = Ledger.open(place)
            digest = None if self.reads_no_row else self.source.digest
            if limit != ledger.limit and may_be_paid(options.folder, ledger, self.key(), digest):
                options = replace(options, limit=None)
                condition = f"{SAME_FILE}, this" if self.reads_no_row else "this"
                self.say(
                    f"{condition[0].upper()}{condition[1:]} run is already charged, so the present limit of the "
                    f"ledger, {number(ledger.limit)}, stands, and --limit={number(limit)} has no effect."
                )
        return open_ledger(place, self.source, options, new_limit=self.new_limit)

    def expect_free_place(self, *names: str) -> None:
        """Raise `WrongInput` if the output folder is a file, or holds files that the runs `names` did not write."""
        if self.options.folder is not None:
            _output.expect_free(self.options.folder, self.options.ledger_path)
            expect_own_stage(self.options.folder, names)

    def finished_entry(self, folder: Path, ledger: Ledger) -> Entry | None:
        """Return the charge of the run of this command whose unchanged result is in `folder`, or None."""
        return finished_entry(folder, ledger, self.key(), self.source.digest, self._is_moved_pilot)

    def _is_moved_pilot(self, entry: Entry) -> bool:
        """Return whether `entry` charged this very pilot, whose folder may have been moved since."""
        what = entry.what.rpartition(" into ")[0] == self.what.rpartition(" into ")[0]
        return self.verb == "advise" and what and (entry.event, entry.seed) == (self.plan.event, self.seed)

    def expect_new_run(self, ledger: Ledger, key: str) -> None:
        """Raise `WrongInput` if this command must not be charged again.

        The reason is an earlier run of the same command (with the same `key`). Either this run is open and was charged
        for other rows, or it is a pilot whose folder is missing.
        """
        expect_same_rows(ledger, key, self.options, self.source.digest)
        expect_unpaid_pilot(ledger, key, self.options, self.source.digest)

    def say_what_was_closed(self, ledger: Ledger, previous: str) -> None:
        """If the run called `previous` was closed without a result, say that this run has its own charge."""
        closing = ledger.closing(previous)
        if closing is not None and not closing.files and (closed := ledger.find(closing.run or "")):
            self.say(f"Entry {closed.number}, of the same command, was closed without a result. {NEW_RUN}")


def expect_charged(entry: Entry | None) -> None:
    """Raise `WrongInput` if this process may only resume a charged run, and `entry` is not the charge of that run.

    `entry` is None if the run is not charged. The environment variable `ONLY_RESUME` has the number of the entry, or is
    empty if any entry (but not None) will do. Without the variable every run may be charged.
    """
    only = os.environ.get(ONLY_RESUME)
    if only is not None and (entry is None or only not in ("", str(entry.number))):
        raise WrongInput(
            "this run cannot continue on its charge, because its data, its schema or its ledger have changed since; "
            "nothing is charged: put them back, or train again as a new run, which has a charge of its own"
        )
