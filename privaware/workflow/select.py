"""Select columns under a budget: plan from public facts, charge, select, publish."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Unpack

from privaware._summary import Summarised
from privaware._validate import expect_one_of, typed_arguments
from privaware.card import plain_settings
from privaware.errors import for_caller
from privaware.events import NOTHING, Event
from privaware.guarantee import CHOSEN_WITHOUT_NOISE, assumptions, guarantee_sentence
from privaware.workflow._candidates import expect_workflow
from privaware.workflow._public_choice import columns_without_noise
from privaware.workflow.run.charge import ChargedRun, charged_run
from privaware.workflow.run.options import RunArguments, RunOptions, shows_run_options
from privaware.workflow.run.paid_columns import selector_for
from privaware.workflow.run.pricing import selection_plan

__all__ = ["Selection", "select"]

FILE = "selection.json"
NOT_PRIVATE = "NOT PRIVATE: these columns were chosen without noise, for comparison only, and no guarantee covers them."


@dataclass(frozen=True, kw_only=True, repr=False)
class Selection(Summarised):
    """The selected columns and their cost, `epsilon` at `delta`.

    `columns` are the names of the selected columns, in the order of the schema, or None in a dry run. They are columns
    as a learner sees them (`schema.used`): a declared column, a part of a date or text, or a single category such as
    "job (nurse)". `sentence` states the guarantee, or after the standard workflow that the columns are not private.
    `assumptions` are what the guarantee takes for granted. `event` is the cost. `method` is the name of the selector.
    `plan` are the sentences of the plan. `certified` is false if the run has a seed, the plan has a flaw, or the schema
    was not reviewed. `out` is the folder of the result, or None. `internal` has the running time (`seconds`), for the
    data owner only. The field `seconds` has it too, unless a number of trials is secret; then it is None.
    """

    columns: tuple[str, ...] | None
    epsilon: float
    delta: float
    method: str
    plan: list[str]
    certified: bool
    internal: dict[str, float | None]
    seconds: float | None
    out: str | None
    sentence: str = ""
    assumptions: list[str] = field(default_factory=list)
    event: Event = NOTHING

    @classmethod
    def of(cls, run: ChargedRun, columns: tuple[str, ...] | None) -> Selection:
        """Build the result of a run; the `columns` of a dry run are None."""
        return cls(
            columns=columns,
            epsilon=run.plan.epsilon,
            delta=run.plan.delta,
            method=run.plan.learner,
            plan=[*map(for_caller, run.plan.sentences)],
            certified=run.certified,
            internal={"seconds": run.seconds},
            seconds=None if run.plan.has_secret_trials else run.seconds,
            out=run.out,
            sentence=NOT_PRIVATE
            if run.plan.flaw
            else guarantee_sentence(run.plan, run.options.seed, what="these columns"),
            assumptions=list(assumptions(run.plan)),
            event=run.plan.event,
        )

    def _facts(self) -> dict[str, Any]:
        guarantee = {"epsilon": self.epsilon, "delta": self.delta, "certified": self.certified}
        return {"columns": self.columns, "method": self.method, **guarantee, "out": self.out}

    def _words(self) -> str:
        return self.sentence

    def json(self) -> dict[str, Any]:
        """Return the fields of `privaware select --json`: all attributes except `sentence`, `assumptions`, `event`."""
        fields = {name: value for name, value in vars(self).items() if name not in ("sentence", "assumptions", "event")}
        return {**fields, "columns": None if self.columns is None else list(self.columns)}


@shows_run_options
@typed_arguments
def select(
    data: Any,
    *,
    method: str = "cfs_greedy",
    epsilon: float,
    settings: Mapping[str, Any] | None = None,
    describe: Mapping[str, Any] | str | Path | None = None,
    workflow: str = "aware",
    level: str = "column",
    ray: str | None = None,
    **run_options: Unpack[RunArguments],
) -> Selection:
    """Select columns under differential privacy, and charge the cost to the ledger.

    Parameters
    ----------
    data
        A path, a DataFrame or the name of a built-in data set.
    method
        The name of a selector (`privaware list selectors`).
    epsilon
        The privacy budget of the selection. A ledger without room for it raises `BudgetExceeded`.
    settings
        Settings of the selector, such as `columns`, the largest number of columns.
    describe
        A TOML file, or a mapping, with the owner's statement: owner, contact, intended use and so on.
    workflow
        "aware", or "standard" to select without noise, on built-in data only. A standard result says NOT PRIVATE, and
        its `epsilon` is the cost of the aware workflow.
    level
        "column", or "category" to select single categories of columns with more than two, such as "job (nurse)". The
        categories must be declared. `fit(use=...)` then treats all categories of the column that were not selected as
        one category.
    ray
        The address of a Ray cluster whose workers read Parquet files.
    **run_options
        The options that all charged functions share: `target`, `task`, `delta`, `schema`, `accept_schema`,
        `private_schema`, `kinds`, `unit`, `cap`, `not_persons`, `check_persons`, `header`, `sep`, `decimal`,
        `encoding`, `ledger`, `new_ledger`, `limit`, `dry_run`, `out`, `seed`, `sign`, `say` and `verbose`.
        `RunArguments` in `privaware.workflow.run.options` describes them.

    Returns
    -------
    Selection
        The selected `columns` and their cost. With `out`, they are also written to selection.json in that folder.

    Examples
    --------
    >>> select("wisconsin", method="top", epsilon=5.0, settings={"columns": 2}, seed=1).columns
    ('mean concave points', 'worst perimeter')
    """
    options = RunOptions.of(run_options, describe=describe, ray=ray)
    with charged_run("select", data, options) as run:
        delta = options.delta_for(run.schema)
        expect_workflow(workflow, None, run.source)
        expect_one_of("select", ("column", "category"), level=level)
        standard = workflow == "standard"
        schema = run.schema.by_category() if level == "category" else run.schema
        plan = selection_plan(schema, epsilon=run.within(epsilon), delta=delta, method=method, settings=settings)
        if level == "category":
            plan = replace(plan, settings={**plan.settings, "level": level})
        if standard:
            reasons = (*plan.reasons, "Columns are selected without noise (standard workflow, for comparison).")
            marked = {**plan.settings, "workflow": workflow}
            plan = replace(plan, flaw=CHOSEN_WITHOUT_NOISE, settings=marked, reasons=reasons)
        if not run.charge(plan):
            return Selection.of(run, tuple(run.result["columns"]) if run.result else None)
        if standard:
            columns = columns_without_noise(run, selector_for(schema, method, settings or {}), schema)
        else:
            columns = run.execute()
        selection = Selection.of(run, columns)
        run.publish_result(FILE, {**selection.json(), "settings": plain_settings(plan.settings)})
    return selection
