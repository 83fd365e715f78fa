"""What a dry run foresees: whether the charge would be refused, and what the ledger would say. Nothing is written."""

from __future__ import annotations

from dataclasses import dataclass

from privaware import accounting
from privaware._rounded import number, rounded_up
from privaware.errors import PrivawareError
from privaware.ledger import Ledger
from privaware.workflow.run.command import SAME_FILE, Command
from privaware.workflow.run.finished import may_be_paid
from privaware.workflow.run.folder_claim import expect_free_folder
from privaware.workflow.run.resume import expect_place_to_resume, next_run
from privaware.workflow.run.row_ledger import existing_place

__all__ = ["REFUSED", "TOTAL_AFTER", "Forecast", "foresee"]

REFUSED = "This run would be refused:"
"""Start of the sentence of a dry run that says why the run would be refused."""
TOTAL_AFTER = "after this run it is"
"""Words before the total epsilon of a ledger in a dry run."""


@dataclass(kw_only=True)
class Forecast:
    """The existing `ledger` that a run would charge, or None; and why its charge would be refused, or ""."""

    ledger: Ledger | None = None
    refusal: str = ""


def foresee(command: Command) -> Forecast:
    """Return whether the ledger or the output folder would refuse `command`, and say so.

    Otherwise, if the ledger exists, say its total epsilon after this run, or that the run would charge nothing because
    it is charged or finished already.
    """
    forecast = Forecast()
    try:
        place = existing_place(command.source, command.options, command.plan.event)
        expect_free_folder(command.options.folder, place, command.key)
        if place is None:
            _foresee_new_ledger(command)
        else:
            forecast.ledger = place if isinstance(place, Ledger) else Ledger.open(place)
            _foresee_charge(command, command.open_ledger(place))
    except PrivawareError as problem:
        forecast.refusal = str(problem)
        command.warn(f"{REFUSED} {forecast.refusal}.")
    return forecast


def _foresee_new_ledger(command: Command) -> None:
    """Raise what the charge would raise for a new ledger; otherwise say the limit that it would have."""
    command.expect_free_place()
    command.expect_new_limit()
    for sentence in command.new_limit_sentences:
        command.say(sentence)


def _foresee_charge(command: Command, ledger: Ledger) -> None:
    """Raise what the charge would raise for an existing ledger; otherwise say what it would cost."""
    folder, key, digest = command.options.folder, command.key(), command.source.digest
    if command.reads_no_row:
        if may_be_paid(folder, ledger, key):
            command.say(f"This command was charged before: {SAME_FILE}, it would charge nothing again.")
            return
    elif folder is not None and folder.is_dir():
        if command.finished_entry(folder, ledger) is not None:
            command.say("This run has already finished, so it would charge nothing.")
            return
        expect_place_to_resume(ledger, key, command.options, digest)
    count = next_run(ledger, key, digest)
    name, previous = f"{key}-{count}", f"{key}-{count - 1}"
    command.expect_free_place(previous, name)
    resumed = ledger.find(name)
    event = command.plan.event + command.price_of_check if resumed is None else command.plan.event
    ledger.expect_room(event, what=command.what, run=name, seed=command.seed)
    if resumed is not None:
        command.say(f"This run is already charged, as entry {resumed.number}: it would resume and charge nothing.")
        return
    command.expect_new_run(ledger, key)
    command.say_what_was_closed(ledger, previous)
    after = accounting.epsilon(ledger.total(event), ledger.delta)
    now = f"epsilon {rounded_up(ledger.spent())} of {number(ledger.limit)} is spent"
    command.say(f"Ledger {str(ledger.path)!r}: {now}; {TOTAL_AFTER} {rounded_up(after)}.")
