"""The form of a training as a plan: what would be trained, what it would cost, and which ledger would be charged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privaware import accounting
from privaware.data import read_names
from privaware.errors import WrongInput
from privaware.events import NOTHING, Event, Pure
from privaware.ledger import Ledger, unit_words
from privaware.ledger._spent import SLACK
from privaware.report import _words
from privaware.ui._folder import Folder
from privaware.ui._tasks import data_path, default_name, fit_options, fit_task, number_of, reading
from privaware.workflow.fit import Fit, fit
from privaware.workflow.run.command import SAME_FILE
from privaware.workflow.run.dry_run import REFUSED, TOTAL_AFTER
from privaware.workflow.run.persons_check import CHECK_SHARE


def column_names(folder: Folder, form: Mapping[str, str]) -> list[str]:
    """Return the column names in the header of the CSV file that `form` names in its field `data`.

    The list is empty if the first line may be a row instead of a header, and if `data` is no CSV file of the folder.
    """
    if form.get("data") not in folder.data_files():
        return []
    names = read_names(data_path(folder, form), reading(folder, form))
    return list(names.columns or ()) if names is not None and names.declared and not names.uneven else []


def planned_view(folder: Folder, form: Mapping[str, str]) -> dict[str, Any]:
    """Return the plan that the form of a training asks for, and its cost, by a dry run: nothing is trained or charged.

    The result has the values that the page shows: the name of the new model folder (`out`), the learner, epsilon and
    delta of the run, the `sentences` of the plan, which the command line prints, too, the `sentence` of the guarantee,
    and the entries of `_budget`. Raise `WrongInput` for a wrong form, and if the model folder holds a finished model.
    """
    data, said = data_path(folder, form), list[str]()
    out = form.get("out") or default_name(folder, form["data"])
    task = fit_task(folder, {**form, "out": out})
    if (folder.path / task.out / "model.json").exists():
        raise WrongInput(f"{out!r} holds a finished model, which is never overwritten; choose another name")
    options = fit_options(folder, form)
    planned = fit(data, **options, dry_run=True, out=folder.path / out, say=said.append)
    check = Pure(epsilon=CHECK_SHARE * options["epsilon"]) if options.get("check_persons") else NOTHING
    price = _words.rounded_up(planned.epsilon if check == NOTHING else options["epsilon"])
    return {
        "out": out,
        "learner": planned.learner,
        "epsilon": price,
        "delta": _words.rounded_up(planned.delta),
        "sentences": [_words.tidy(folder.shown(line), planned.epsilon) for line in said if not _in_budget(line)],
        "sentence": _words.tidy(planned.sentence, planned.epsilon),
        **_budget(folder, data, form, planned, check, unchanged=_unchanged(said)),
    }


def _in_budget(line: str) -> bool:
    """Return whether `_budget` says what a sentence of a dry run says: the total of the ledger, or a refusal."""
    return TOTAL_AFTER in line or line.startswith(REFUSED)


def _unchanged(said: list[str]) -> str:
    """Return words that say that the total of the ledger stays as it is; empty if the run would be charged.

    `said` has the sentences of a dry run.
    """
    if any(TOTAL_AFTER in line for line in said):
        return ""
    return f"it stays so {SAME_FILE}" if any(SAME_FILE in line for line in said) else "it stays so"


def _budget(
    folder: Folder, data: str, form: Mapping[str, str], planned: Fit, check: Event, *, unchanged: str
) -> dict[str, Any]:
    """Return what a page says about the ledger that a run would charge, as `budget`, `refused` and `ledger`.

    `budget` is a sentence with the epsilon that is spent, the limit, and the total after this run, which does not exist
    if the ledger has another unit; if there is no ledger yet, it says which ledger would be made. `refused` says why
    the run would be refused, and is empty if it would not. `ledger` is the name of the ledger if it has no room for the
    run and is in the folder, else empty.

    `data` is the built-in name or the path of the data, and `planned` is the dry run of `form`. `check` is the cost of
    counting repeated persons (the field `check_persons`), or `NOTHING`. `unchanged` has the words for a run that would
    charge nothing if it is not refused, or is empty. Raise `WrongInput` if the form gives another limit than the ledger
    has.
    """
    refused = folder.shown(planned.refusal)
    if planned.ledger is None:
        wanted = form.get("limit") or _words.number(float(form.get("epsilon") or 1))
        built_in = "The rows are a public benchmark: this run gets a ledger of its own, in its folder."
        new = (
            f"A new ledger, {form.get('data', '')}.ledger, is made. "
            f"All runs on these rows may spend epsilon {wanted} in total."
        )
        budget = "" if refused else built_in if data == form.get("data") else new
        return {"ledger": "", "budget": budget, "refused": refused}
    ledger = Ledger.open(planned.ledger)
    spent, limit, name = ledger.spent(), ledger.limit, folder.shown(str(ledger.path))
    if form.get("limit") and number_of("limit", form["limit"]) != limit:
        raise WrongInput(
            f"{name} already has the limit {_words.number(limit)}; leave the limit empty, or change it on the page "
            "of the ledger"
        )
    schema = planned.schema
    if schema is not None and ledger.facts.promise != (schema.unit, schema.cap, schema.relation):
        unit = unit_words({"unit": ledger.unit, "cap": ledger.facts.cap})
        spent_words = f"epsilon {_words.rounded_up(spent)} of {_words.rounded_up(limit)} is spent"
        budget = f"{name}: {spent_words} for the unit {unit}, so that no total includes this run."
        return {"ledger": "", "budget": budget, "refused": refused}
    after = accounting.epsilon(ledger.total(planned.event + check), ledger.delta)
    total = unchanged if unchanged and not refused else f"{TOTAL_AFTER} {_words.rounded_up(after)}"
    budget = f"{name}: epsilon {_words.rounded_up(spent)} of {_words.rounded_up(limit)} is spent; {total}."
    full = after > limit * (1 + SLACK) and bool(refused)
    shown = {"ledger": name if full and name in folder.ledgers() else "", "budget": budget}
    return shown | {"refused": "The ledger has no room for this run." if full else refused}
