"""Search an architecture and settings under a budget: plan from public facts, charge, search, publish.

Search and training are one mechanism with one cost. A search on public rows has no privacy cost, and then only the
training of the chosen candidate is charged. The standard workflow searches without noise. It runs on public benchmark
data only, and its result says that it is not private.

If the number of trials is secret, progress and running time would reveal it. Both are for the data owner only, and
neither is written into the model folder or the ledger. The journal of a search counts its trials, so it is for the
owner only, too. It is removed before the model is published.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

from privaware import accounting
from privaware._summary import Summarised
from privaware._validate import typed_arguments
from privaware.errors import for_caller
from privaware.guarantee import CHOSEN_WITHOUT_NOISE
from privaware.model import Model
from privaware.models.spaces import Point, Space
from privaware.strategies._search import Search, expect_valid_space
from privaware.workflow._candidates import (
    SearchSettings,
    expect_workers,
    expect_workflow,
    observed,
    public_rows,
    workers_of,
)
from privaware.workflow.run.charge import ChargedRun, charged_run
from privaware.workflow.run.options import RunArguments, RunOptions, shows_run_options
from privaware.workflow.run.plan import Plan
from privaware.workflow.run.pricing import expect_one_epsilon, model_event, search_plan
from privaware.workflow.run.progress import search_progress
from privaware.workflow.run.training_plan import training_plan

__all__ = ["Searched", "search"]


@dataclass(frozen=True, kw_only=True, repr=False)
class Searched(Summarised):
    """The result of `search`.

    `best` is the chosen candidate, a value for each active choice of the space; None in a dry run. `epsilon_model` is
    the cost of training one candidate, and `epsilon_total` is the cost of the search with its model, both at `delta`.
    After a search on public rows, both are the cost of the one charged training. `trials` is the number of trials, or
    its expectation if the number is secret. In that case `seconds` is None, and the running time is only in `internal`.
    `internal` is for the data owner: the scores on test rows, and the running time. `strategy` is the name of the
    strategy. `workflow` is "aware" or "standard". `plan` are the sentences of the plan. `certified` is false if the run
    has a seed, the plan has a flaw, or the schema was not reviewed. `out` is the folder of the result, or None. `model`
    is None in a dry run. `sentence` states the guarantee; it is empty without a model.
    """

    best: Point | None
    trials: float
    epsilon_model: float
    epsilon_total: float
    delta: float
    strategy: str
    workflow: str
    plan: list[str]
    certified: bool
    internal: dict[str, float | None]
    seconds: float | None
    out: str | None
    model: Model | None = None
    sentence: str = ""

    @classmethod
    def of(cls, run: ChargedRun, search: Search, strategy: str, workflow: str) -> Searched:
        """Build the result of a published run, or of a dry run, which has no chosen candidate.

        `search` is the mechanism of the search. `strategy` and `workflow` are as in `Searched`.
        """
        plan = run.plan
        one_model = accounting.epsilon(model_event(search, run.schema, plan.noise), plan.delta)
        return cls(
            best=run.search.get("point"),
            trials=search.trials(run.schema),
            epsilon_model=one_model,
            epsilon_total=plan.epsilon,
            delta=plan.delta,
            strategy=strategy,
            workflow=workflow,
            plan=[*map(for_caller, plan.sentences)],
            certified=run.certified,
            internal={**run.internal, "seconds": run.seconds},
            seconds=None if plan.has_secret_trials else run.seconds,
            out=run.out,
            model=run.model,
            sentence="" if run.model is None else run.sentence,
        )

    def _facts(self) -> dict[str, Any]:
        best = None if self.best is None else [f"{name}={value}" for name, value in self.best.items()]
        guarantee = {"epsilon total": self.epsilon_total, "delta": self.delta, "certified": self.certified}
        return {"best": best, "strategy": self.strategy, "trials": self.trials, **guarantee, "out": self.out}

    def _words(self) -> str:
        return self.sentence

    def json(self) -> dict[str, Any]:
        """Return the fields of `privaware search --json`: all attributes except `model` and `sentence`."""
        return {key: value for key, value in vars(self).items() if key not in ("model", "sentence")}


@shows_run_options
@typed_arguments
def search(
    data: Any,
    *,
    space: Any = "fcn",
    strategy: str = "rs",
    epsilon: float | None = None,
    model_epsilon: float | None = None,
    trials: int | None = None,
    settings: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    held_out: float = 0.1,
    public: Any = None,
    workflow: str = "aware",
    workers: int = 1,
    ray: str | None = None,
    test: Any = None,
    describe: Mapping[str, Any] | str | Path | None = None,
    device: str = "cpu",
    **run_options: Unpack[RunArguments],
) -> Searched:
    """Search an architecture and hyper-parameters under differential privacy, and release the best model.

    Parameters
    ----------
    data
        A path, a DataFrame or the name of a built-in data set.
    space
        The search space: one of `privaware list spaces`, a TOML file or a mapping.
    strategy
        The search strategy (`privaware list strategies`).
    epsilon, model_epsilon
        The budget: exactly one of the total `epsilon` of search and model, and the epsilon of one model.
    trials
        The number of candidates. It is the expected number if the strategy draws the number at random. Default: the
        default of the strategy.
    settings
        Hyper-parameters of the learner of every candidate.
    options
        Options of the strategy.
    held_out
        The fraction of rows that is held out of training and scores the candidates.
    public
        Public rows, as a file or a built-in data set. A search on public rows has no privacy cost.
    workflow
        "aware", or "standard" to search without noise, on built-in data only.
    workers, ray
        The number of processes that train candidates, or the address of a Ray cluster that does.
    test
        Rows for a test score, which is for the data owner only.
    describe
        A TOML file, or a mapping, with the owner's statement: owner, contact, intended use and so on.
    device
        "cpu" or "cuda".
    **run_options
        The options that all charged functions share: `target`, `task`, `delta`, `schema`, `accept_schema`,
        `private_schema`, `kinds`, `unit`, `cap`, `not_persons`, `check_persons`, `header`, `sep`, `decimal`,
        `encoding`, `ledger`, `new_ledger`, `limit`, `dry_run`, `out`, `seed`, `sign`, `say` and `verbose`.
        `RunArguments` in `privaware.workflow.run.options` describes them.

    Returns
    -------
    Searched
        The best candidate, its model, `epsilon_total` and `epsilon_model`.

    Examples
    --------
    >>> plan = search("wisconsin", space="fcn", strategy="rs", model_epsilon=1.0, trials=5, dry_run=True)
    >>> plan.epsilon_model <= 1.0 < plan.epsilon_total
    True
    """
    described = Space.load(space)
    chosen = dict(settings or {})
    run_settings = RunOptions.of(run_options, public=public, test=test, describe=describe, device=device)
    with charged_run("search", data, run_settings, learner=described.learner) as run:
        epsilon = None if epsilon is None else run.within(epsilon)
        expect_workflow(workflow, public, run.source)
        searched = SearchSettings(
            space=described, strategy=strategy, trials=trials, options=dict(options or {}), held_out=held_out
        )
        mechanism = searched.search(
            chosen, device=device, reference_epsilon=model_epsilon or 1.0, workers=workers_of(workers, ray)
        )
        if workflow == "standard" or public is not None:
            budget = expect_one_epsilon(epsilon, model_epsilon)
            return _search_public_rows(run, mechanism, chosen, budget, public, strategy=strategy, workflow=workflow)
        shown = {"space": space if isinstance(space, str) else repr(space), "trials": trials, "held_out": held_out}
        plan = search_plan(
            run.schema,
            search=mechanism,
            epsilon=epsilon,
            model_epsilon=model_epsilon,
            delta=run.options.delta_for(run.schema),
            strategy=strategy,
            # Options are kept apart, because a strategy and a learner may have settings of the same name, such as lr.
            settings=shown | chosen | ({"options": dict(options)} if options else {}),
        )
        expect_workers(run, mechanism)
        if run.charge(plan):
            result = run.execute(observed(run, plan.mechanism))
            run.publish_model(result.model, search={"point": result.point, "workflow": "aware"})
    return Searched.of(run, mechanism, strategy, workflow)


def _search_public_rows(
    run: ChargedRun,
    search: Search,
    settings: Mapping[str, Any],
    epsilon: float,
    public: Any,
    *,
    strategy: str,
    workflow: str,
) -> Searched:
    """Search on public rows without a charge, then train the chosen candidate with one charged run.

    In the standard workflow the public rows are the training rows of a built-in data set, and candidates train without
    noise. Otherwise candidates train with the noise multiplier of the planned training. A dry run does not search: it
    plans the first of `search.space.priced_points()`. `settings` go to every candidate, `epsilon` is the cost of the
    one training, and `public` are the public rows, None in the standard workflow. `strategy` and `workflow` are as in
    `Searched`.
    """
    began = time.perf_counter()
    aware = workflow == "aware"
    point = search.space.priced_points()[0]
    plan = _candidate_plan(run, search, point, settings, epsilon, flaw="" if aware else CHOSEN_WITHOUT_NOISE)
    expect_valid_space(search, plan.schema, priced=aware)
    expect_workers(run, search)
    if not run.options.dry_run:
        rows = run.public_rows() if public is None else public_rows(run, search.held_out)
        observed = replace(search, progress=search_progress(run.options.say, secret=False))
        point = observed.run_public(rows, plan.noise if aware else 0.0, run.rng.spawn()).point
        plan = _candidate_plan(run, search, point, settings, epsilon, flaw=plan.flaw)
    if run.charge(plan):
        run.publish_model(run.execute(), search={"point": point, "workflow": workflow})
    run.seconds = 0.0 if run.options.dry_run else time.perf_counter() - began
    return replace(Searched.of(run, search, strategy, workflow), epsilon_model=plan.epsilon)  # one training was charged


def _candidate_plan(
    run: ChargedRun, search: Search, point: Point, settings: Mapping[str, Any], epsilon: float, *, flaw: str
) -> Plan:
    plan = training_plan(
        run.schema,
        epsilon=epsilon,
        delta=run.options.delta_for(run.schema),
        learner=search.space.learner,
        settings={**settings, **search.space.settings(point)},
        runtime={"device": search.device},
    )
    return replace(plan, flaw=flaw)
