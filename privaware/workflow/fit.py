"""The best model that can be released within a budget: plan on public facts, charge, train, publish."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Unpack

from privaware.errors import WrongInput
from privaware.events import NOTHING, Event
from privaware.guarantee import assumptions
from privaware.model import Model
from privaware.workflow._auto import TARGET_RANGE
from privaware.workflow._charged_run import ChargedRun, charged_run
from privaware.workflow._options import RunArguments, RunOptions, shows_run_options
from privaware.workflow._progress import step_progress
from privaware.workflow._recipe import Recipe
from privaware.workflow._release import Release
from privaware.workflow._score import Score, ScoredModel, expect_metric, score_words, with_score
from privaware.workflow._training_plan import recipe_plan

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
    score: Mapping[str, Any] | None = None
    metric: str = ""
    model: Model | None = field(default=None, repr=False)
    sentence: str = ""
    assumptions: list[str] = field(default_factory=list, repr=False)
    event: Event = field(default=NOTHING, repr=False)
    release: Release | None = field(default=None, repr=False)
    ledger: str | None = None

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
            score=run.score or None,
            metric=run.metric,
            model=run.model,
            sentence=run.sentence,
            assumptions=list(assumptions(plan)),
            event=plan.event,
            release=run.release,
            ledger=run.ledger_file,
        )

    def save(self, folder: str | Path) -> Path:
        """Writes the model to a new folder, where `out` was not given."""
        if self.release is None:
            raise WrongInput("expected a model to save, got a dry run; fit without dry_run")
        return self.release.save(folder)

    @property
    def internal_score(self) -> str | None:
        """The score on test rows in words, for the owner's eyes."""
        return score_words(self.metric, self.internal)

    @property
    def score_sentence(self) -> str:
        """The score that was bought, in words."""
        return "" if self.score is None else Score(**self.score).sentence

    def json(self) -> dict[str, Any]:
        """The fields of `privaware fit --json`."""
        names = ("epsilon", "delta", "learner", "plan", "certified", "internal", "seconds", "out", "score", "metric")
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
    describe: Any = None,
    time_limit: float | None = None,
    score_epsilon: float | None = None,
    metric: str | None = None,
    plan: Any = None,
    use: Any = None,
    select: str | None = None,
    select_settings: Mapping[str, Any] | None = None,
    device: str = "cpu",
    **run_options: Unpack[RunArguments],
) -> Fit:
    """The best model we can release within (epsilon, delta), everything charged to one ledger.

    `score_epsilon` buys a score that may be released: some rows are put aside, and `metric` (accuracy or auc, r2 or
    mae) of the model on them is released with noise and an interval, as `score`.

    `plan` is a plan to follow, as a table or a TOML or JSON file; a dry run writes a new file. `use` are columns that
    `select` chose before, as its result, its folder or its file; `select` names a selector that chooses them now, paid
    for inside this budget.

    `data` is a path, a DataFrame or the name of a built-in data set. Give a `schema`, or accept the drafted one;
    otherwise bounds and categories are paid for. With `out` the model folder is written there; `describe` is a
    TOML file in which its owner says who answers for it and what it is for.

    >>> result = fit("wisconsin", epsilon=1.0, learner="majority", score_epsilon=0.5)
    >>> result.learner, result.epsilon <= 1.0, 0 <= result.score["low"] <= result.score["high"] <= 1
    ('majority', True, True)
    """
    options = RunOptions.of(run_options, public=public, test=test, describe=describe, device=device)
    saved = plan_to_write(plan, options.dry_run)
    recipe = Recipe.of(
        None if saved else plan,
        learner=learner,
        settings=settings,
        use=use,
        select=select,
        select_settings=select_settings,
    )
    if recipe.select is not None and score_epsilon is not None:
        raise WrongInput("expected --score-epsilon without --select; choose the columns first, then --use them")
    with charged_run("fit", data, options, learner=recipe.learner) as run:
        priced = recipe_plan(
            run.schema,
            recipe,
            {"epsilon": epsilon, "delta": options.delta_for(run.schema)},
            public=run.source.public,
            time_limit=time_limit,
            runtime={"device": device, "progress": step_progress(options.say)},
        )
        run.metric = expect_metric(metric, run.schema.task, len(run.schema.classes))
        if score_epsilon is not None:
            priced = with_score(priced, epsilon=score_epsilon, metric=run.metric)
        if run.charge(priced):
            released = run.execute()
            if isinstance(released, ScoredModel):
                run.publish_model(released.model, score=released.score.json())
            else:
                run.publish_model(released)
        elif saved is not None:
            ranged = any(what == TARGET_RANGE for what, _ in priced.parts)
            fixed = replace(recipe, learner=priced.learner, settings=priced.settings, target_range=ranged)
            fixed.write(saved, priced.sentences)
    return Fit.of(run)


def plan_to_write(plan: Any, dry_run: bool) -> Path | None:
    """The new file of a plan that a dry run writes; a file that is there is read instead."""
    is_path = isinstance(plan, (str, Path)) and not Path(plan).exists()
    return Path(plan) if dry_run and is_path else None
