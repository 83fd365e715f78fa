"""The best model that can be released within a budget: plan on public facts, charge, train, publish."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Unpack

from privaware.events import NOTHING, Event
from privaware.guarantee import assumptions
from privaware.model import Model
from privaware.workflow._charged_run import ChargedRun, charged_run
from privaware.workflow._options import RunArguments, RunOptions, shows_run_options
from privaware.workflow._progress import step_progress
from privaware.workflow._training_plan import training_plan

__all__ = ["Fit", "fit"]


@dataclass(frozen=True, kw_only=True)
class Fit:
    """What came of it. `internal` is for the owner's eyes: printed, never written or released."""

    epsilon: float
    delta: float
    learner: str
    plan: list[str]
    certified: bool
    internal: dict[str, float | None]
    seconds: float
    out: str | None
    model: Model | None = field(default=None, repr=False)
    sentence: str = ""
    assumptions: list[str] = field(default_factory=list, repr=False)
    event: Event = field(default=NOTHING, repr=False)

    @classmethod
    def of(cls, run: ChargedRun) -> Fit:
        """The result of a run that was published, or of a dry one."""
        plan = run.plan
        return cls(
            epsilon=plan.epsilon,
            delta=plan.delta,
            learner=plan.learner,
            plan=plan.sentences,
            certified=run.certified,
            internal=run.internal,
            seconds=run.seconds,
            out=run.out,
            model=run.model,
            sentence=run.sentence,
            assumptions=list(assumptions(plan)),
            event=plan.event,
        )

    def json(self) -> dict[str, Any]:
        """The fields of `privaware fit --json`."""
        names = ("epsilon", "delta", "learner", "plan", "certified", "internal", "seconds", "out")
        return {name: getattr(self, name) for name in names}


@shows_run_options
def fit(
    data: Any,
    *,
    epsilon: float,
    learner: str = "auto",
    settings: Mapping[str, Any] | None = None,
    public: Any = None,
    test: Any = None,
    time_limit: float | None = None,
    device: str = "cpu",
    **run_options: Unpack[RunArguments],
) -> Fit:
    """The best model we can release within (epsilon, delta), everything charged to one ledger.

    `data` is a path, a DataFrame or the name of a built-in data set. Give a `schema`, or accept the drafted one;
    otherwise bounds and categories are paid for. With `out` the model folder is written there.
    """
    options = RunOptions.of(run_options, public=public, test=test, device=device)
    with charged_run("fit", data, options, learner=learner) as run:
        plan = training_plan(
            run.schema,
            epsilon=epsilon,
            delta=options.delta_for(run.schema),
            learner=learner,
            settings=settings,
            public=run.source.public,
            time_limit=time_limit,
            runtime={"device": device, "progress": step_progress(options.say)},
        )
        if run.charge(plan):
            run.publish_model(run.execute())
    return Fit.of(run)
