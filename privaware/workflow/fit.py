"""Train the most accurate model that a budget allows: plan from public facts, charge, train, publish."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from privaware._summary import Summarised
from privaware._validate import typed_arguments
from privaware.errors import WrongInput, for_caller
from privaware.events import NOTHING, Event
from privaware.guarantee import assumptions, attack_rates, attacker_sentence
from privaware.model import Model
from privaware.schema import Schema
from privaware.strategies._search import SearchResult
from privaware.workflow._candidates import observed
from privaware.workflow._metric import expect_metric, task_reasons
from privaware.workflow._public_choice import choose_on_public_rows
from privaware.workflow._recipe import Recipe
from privaware.workflow._score import SCORE_SETTINGS, SCORE_SHARE, Score, ScoredModel, score_words, with_score
from privaware.workflow.auto import Policy
from privaware.workflow.run.charge import ChargedRun, charged_run
from privaware.workflow.run.on_ranks import led_by_rank_0
from privaware.workflow.run.options import RunArguments, RunOptions, shows_run_options
from privaware.workflow.run.paid_features import described_features
from privaware.workflow.run.plan import Plan
from privaware.workflow.run.progress import step_progress
from privaware.workflow.run.publish import Release
from privaware.workflow.run.source import needs_public_rows
from privaware.workflow.run.training_plan import recipe_plan
from privaware.workflow.run.trainings import BIN_NUMBERS, TARGET_RANGE

if TYPE_CHECKING:
    from privaware.workflow.select import Selection

__all__ = ["Fit", "fit"]

PLAN_SETTINGS = ("search", "workflow", "policy", *SCORE_SETTINGS)
"""Entries of the settings of a plan that are not settings of its learner."""
NO_SCORE = (
    "No score was computed, because no rows were held out. For a score that only you see, give test rows "
    "(--test FILE). For a score that you may release, spend a tenth of the budget (--score) or another part "
    "(--score-epsilon E) on held-out rows."
)
"""What to do about a missing score."""


@dataclass(frozen=True, kw_only=True)
class ScoreRequest:
    """The score that `fit` releases with noise: its cost `epsilon` (None means no score), and the tables `also`.

    `also` has names of `SCORE_ALSO`: "confusion", "threshold" and "calibration". They are released within `epsilon`.
    """

    epsilon: float | None = None
    also: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, repr=False)
class Fit(Summarised):
    """The result of `fit`.

    `epsilon` and `delta` are the guarantee of the run. `learner` is the name of the learner of the model, and `plan`
    are the sentences of the plan. `sentence` states the guarantee, and `assumptions` what the guarantee takes for
    granted. `event` is the cost of all releases, and `schema` has the public facts about the rows. `model` is None
    after a dry run. `release` is the model with its charge, from which `save` writes a folder; it is None after a dry
    run. `certified` is false if the run has a seed, the plan has a flaw, or the schema was not reviewed. `workflow` is
    "aware" or "standard". `metric` is the name of the metric. `score` is the charged score as in `Score.json`, or None.
    `ledger` is the file of the charged ledger (in a dry run, of the existing one that would be charged), or None. `out`
    is the folder of the result, or None.

    `internal` and `notices` are for the data owner: they are printed and never written or released. `internal` has the
    test score; `notices` say which rows and columns were left out, and which columns may identify persons. `search`
    describes a search, with its best candidate as `point`, or a choice of columns without noise. It is None if there
    was neither, and after a dry run. `considered` has a row for each learner that the plan considered: `learner`,
    `rule`, `taken` and `reason`. `refusal` says why the charge of a dry run would be refused; it is empty if the charge
    would not be refused. `seconds` is the running time. If the number of trials is secret, the running time would
    reveal it, so `seconds` is None, and the time is in `internal`.
    """

    epsilon: float
    delta: float
    learner: str
    plan: list[str]
    certified: bool
    internal: dict[str, float | None]
    seconds: float | None
    out: str | None
    score: Mapping[str, Any] | None = None
    search: Mapping[str, Any] | None = None
    workflow: str = "aware"
    metric: str = ""
    model: Model | None = None
    sentence: str = ""
    assumptions: list[str] = field(default_factory=list)
    event: Event = NOTHING
    schema: Schema | None = None
    considered: list[dict[str, Any]] = field(default_factory=list)
    release: Release | None = None
    ledger: str | None = None
    notices: list[str] = field(default_factory=list)
    refusal: str = ""

    @classmethod
    def of(cls, run: ChargedRun, workflow: str) -> Fit:
        """Build the result of a published run, or of a dry run; `workflow` is "aware" or "standard"."""
        plan = run.plan
        secret = plan.has_secret_trials
        return cls(
            epsilon=plan.epsilon,
            delta=plan.delta,
            learner=run.search.get("point", {}).get("learner", plan.learner),
            plan=[*map(for_caller, plan.sentences)],
            certified=run.certified,
            internal={**run.internal, "seconds": run.seconds} if secret else run.internal,
            seconds=None if secret else run.seconds,
            out=run.out,
            score=run.score or None,
            search=run.search or None,
            workflow=workflow,
            metric=run.metric,
            model=run.model,
            sentence=run.sentence,
            assumptions=list(assumptions(plan)),
            event=plan.event,
            schema=plan.schema,
            considered=[dict(row) for row in plan.considered],
            release=run.release,
            ledger=run.ledger_file,
            notices=run.notices,
            refusal=run.refusal,
        )

    def save(self, folder: str | Path) -> Path:
        """Write the model to a new folder, for example after a fit without `out`; raise `WrongInput` after a dry run.

        Parameters
        ----------
        folder
            A new or empty folder; any other raises `WrongInput`.

        Returns
        -------
        Path
            The folder.
        """
        if self.release is None:
            raise WrongInput("expected a model to save, got a dry run; fit without dry_run")
        return self.release.save(folder)

    @property
    def attacker_sentence(self) -> str:
        """The largest success of any membership attacker in one sentence; empty without a schema."""
        rates = attack_rates(self.event, self.epsilon, self.delta)
        return "" if self.schema is None else attacker_sentence(rates, self.schema, certified=self.certified)

    @property
    def internal_score(self) -> str | None:
        """The score on test rows in words, for the data owner only; None without test rows."""
        return score_words(self.metric, self.internal)

    @property
    def score_sentence(self) -> str:
        """The released score in words; empty if no score was requested."""
        return "" if self.score is None else Score.of(self.score).sentence

    @property
    def score_lines(self) -> list[str]:
        """Sentences about the test score and the released score.

        If there is neither, one sentence says how to get a score; after a dry run there is no sentence.
        """
        lines = [] if self.internal_score is None else [f"Internal, not for release: {self.internal_score}."]
        if self.score is not None and self.model is not None:
            lines += [self.score_sentence, *Score.of(self.score).table_sentences(self.model.schema.classes)]
        return lines if lines or self.release is None else [for_caller(NO_SCORE)]

    def _facts(self) -> dict[str, Any]:
        score = None if self.score is None else self.score.get("value")
        guarantee = {"epsilon": self.epsilon, "delta": self.delta, "certified": self.certified}
        return {"learner": self.learner, **guarantee, "score": score, "out": self.out}

    def _words(self) -> str:
        return " ".join(filter(None, (self.score_sentence, self.sentence)))

    def json(self) -> dict[str, Any]:
        """Return the fields of `privaware fit --json`, as a dictionary.

        Not among them are `model`, `release`, `event`, `schema`, `ledger`, `notices`, `sentence` and `assumptions`.
        """
        names = ("epsilon", "delta", "learner", "plan", "certified", "internal", "seconds", "out", "score", "metric")
        return {name: getattr(self, name) for name in (*names, "search", "workflow", "considered", "refusal")}


@shows_run_options
@typed_arguments
@led_by_rank_0
def fit(
    data: Any,
    *,
    epsilon: float,
    learner: str = "auto",
    settings: Mapping[str, Any] | None = None,
    public: Any = None,
    test: Any = None,
    describe: Mapping[str, Any] | str | Path | None = None,
    time_limit: float | None = None,
    score: bool = False,
    score_epsilon: float | None = None,
    score_also: Sequence[str] = (),
    metric: str | None = None,
    plan: Mapping[str, Any] | str | Path | None = None,
    policy: Mapping[str, Any] | str | Path | None = None,
    use: Selection | str | Path | Sequence[str] | None = None,
    select: str | None = None,
    select_settings: Mapping[str, Any] | None = None,
    search: str | None = None,
    search_settings: Mapping[str, Any] | None = None,
    features: str | Mapping[str, Any] | Sequence[Any] | None = None,
    workflow: str | None = None,
    device: str = "cpu",
    ray: str | None = None,
    **run_options: Unpack[RunArguments],
) -> Fit:
    """Train a model within a privacy budget, and charge its cost to the ledger.

    Parameters
    ----------
    data
        A path, a DataFrame or the name of a built-in data set.
    epsilon
        The privacy budget of this run. The result never costs more. A ledger without room raises `BudgetExceeded`.
    learner
        The name of a learner (`privaware list learners`). "auto" chooses one from public facts.
    settings
        Hyper-parameters of the learner.
    public
        Public rows, for learners that need them. A search uses them instead of the private rows, at no privacy cost.
    test
        Rows for a test score. The score is in `internal` and is never released.
    describe
        A TOML file, or a mapping, with the owner's statement: owner, contact, intended use and so on.
    time_limit
        The approximate limit of the training time, in seconds.
    score
        Release a score on held-out rows with noise, as `score` of the result, for a tenth of the budget.
    score_epsilon
        The epsilon of the released score, instead of a tenth of the budget.
    score_also
        Tables to release within the epsilon of the score: "confusion", "threshold" (two classes), "calibration". They
        imply `score`.
    metric
        The metric to optimise and to show: "accuracy" or "auc" for classification, "r2" or "mae" for regression.
    plan
        A plan to follow, as a mapping or a TOML or JSON file. With `dry_run`, a new file that the plan is written to.
    policy
        The rules by which "auto" chooses, as a TOML file or a mapping. Default: the policy of the package.
    use
        The columns to use: a result of `select`, its folder or its file, or a list of names.
    select, select_settings
        A selector (`privaware list selectors`) that selects columns with part of this budget, and its settings.
    search, search_settings
        A strategy (`privaware list strategies`) that searches learners, hyper-parameters or architectures within this
        budget, and its `space`, `trials`, `held_out` and `options`.
    features
        Names or mappings of feature transformations, applied in the order given. `normalise`, `pca` and `weigh` use
        part of the budget.
    workflow
        "aware" (default), or "standard" to select columns and settings without noise, on built-in data only.
    device
        "cpu" or "cuda".
    ray
        The address of a Ray cluster. Its workers train a network, or read Parquet files for other learners.
    **run_options
        The options that all charged functions share: `target`, `task`, `delta`, `schema`, `accept_schema`,
        `private_schema`, `kinds`, `unit`, `cap`, `not_persons`, `check_persons`, `header`, `sep`, `decimal`,
        `encoding`, `ledger`, `new_ledger`, `limit`, `dry_run`, `out`, `seed`, `sign`, `say` and `verbose`.
        `RunArguments` in `privaware.workflow.run.options` describes them.

    Returns
    -------
    Fit
        The model, its guarantee (`epsilon`, `delta`, `sentence`), the plan, and the test score in `internal`.

    Examples
    --------
    >>> result = fit("wisconsin", epsilon=1.0, learner="majority", score_epsilon=0.5)
    >>> result.learner, result.epsilon <= 1.0, 0 <= result.score["low"] <= result.score["high"] <= 1
    ('majority', True, True)
    """
    options = RunOptions.of(run_options, public=public, test=test, describe=describe, device=device, ray=ray)
    file = Path(plan) if isinstance(plan, (str, Path)) else None
    saved = (
        file if options.dry_run and file is not None and not file.exists() else None
    )  # the new file to which a dry run writes its plan
    rules = Policy.read(policy)
    recipe = Recipe.of(
        None if saved else plan,
        learner=learner,
        settings=with_features(settings, features),
        use=use,
        select=select,
        select_settings=select_settings,
        search=search,
        search_settings=search_settings,
        workflow=workflow,
        metric=metric,
        policy=rules.label,
    )
    if policy is not None and recipe.learner != "auto":
        raise WrongInput(f"expected --policy with --learner=auto, got {recipe.learner}; leave one of them out")
    with charged_run("fit", data, options, learner=recipe.learner) as run:
        if public is not None and recipe.search is None and not needs_public_rows(recipe.learner):
            run.say("The public rows are not used: there is no search, and the learner does not read them.")
        asked = (score or score_also) and score_epsilon is None
        tenth = float(f"{SCORE_SHARE * run.within(epsilon):.12g}")
        bought = ScoreRequest(epsilon=tenth if asked else score_epsilon, also=tuple(score_also))
        plan_of = partial(_plan_of, run, epsilon=run.within(epsilon), time_limit=time_limit, score=bought, policy=rules)
        chosen = choose_on_public_rows(run, recipe, partial(plan_of, score=ScoreRequest()))
        priced = chosen.applied(plan_of(chosen.recipe))
        if recipe.workflow == "standard":
            priced = replace(priced, settings={**priced.settings, "workflow": "standard"})
        if recipe.learner == "auto":
            priced = replace(priced, settings={**priced.settings, "policy": rules.label})
        if run.charge(priced):
            _publish(run, run.execute(observed(run, priced.mechanism)), chosen.search or _searched(priced))
        elif saved is not None:
            same = chosen.recipe is recipe  # what is chosen on public rows is chosen again
            (_fixed(recipe, priced) if same else recipe).write(saved, run.plan.sentences)
    return Fit.of(run, recipe.workflow)


def _plan_of(
    run: ChargedRun, recipe: Recipe, *, epsilon: float, time_limit: float | None, score: ScoreRequest, policy: Policy
) -> Plan:
    """Return the plan of `recipe`, with a charged score if `score.epsilon` is not None; store the metric in `run`.

    `epsilon` is the total budget. `time_limit`, in seconds, replaces the limit of `policy`, by which `auto` chooses.
    """
    options, schema = run.options, run.schema
    run.metric = expect_metric(recipe.metric, schema.task, len(schema.classes))
    plan = recipe_plan(
        schema,
        recipe,
        {"epsilon": epsilon, "delta": options.delta_for(schema)},
        public=run.source.public,
        time_limit=time_limit,
        runtime={"device": options.device, "progress": step_progress(options.say)},
        policy=policy,
    )
    declared = options.task is not None or options.schema is not None or run.source.builtin
    data = {**plan.data, "selected": dict(recipe.selected)} if recipe.selected else plan.data
    plan = replace(plan, data=data, reasons=(*task_reasons(schema, declared=declared), *plan.reasons))
    if score.epsilon is None:
        return plan
    return with_score(plan, epsilon=score.epsilon, metric=run.metric, also=score.also)


def _publish(run: ChargedRun, released: Any, search: Mapping[str, Any]) -> None:
    """Publish the model in `released`, which is a model, a scored model, or the result of a search.

    The model card gets the charged score, if there is one. It also gets the entries of `search`, which describe a
    search or a choice on public rows, and the chosen candidate of `released`, if there is one, as the entry `point`.
    """
    score = released.score.json() if isinstance(released, ScoredModel) else None
    point = released.point if isinstance(released, (ScoredModel, SearchResult)) else None
    model = released.model if isinstance(released, (ScoredModel, SearchResult)) else released
    found = {**search, "point": point} if point is not None else search
    run.publish_model(model, score=score, search=found or None)


def _searched(plan: Plan) -> Mapping[str, Any]:
    """Return what the model card says about a private search inside the training, before the search has run.

    It is `{"strategy": NAME, "workflow": "aware"}`, or an empty dictionary if `plan` has no search.
    """
    described = plan.settings.get("search")
    return {} if described is None else {"strategy": described["strategy"], "workflow": "aware"}


def _fixed(recipe: Recipe, plan: Plan) -> Recipe:
    """Return `recipe` with what `plan` chose, to be saved: the learner, its settings, and the releases before it.

    Those releases are recorded as two flags: `target_range` (the range of a numeric target) and `bins` (the bins of
    numbers). A recipe with a search keeps its own learner.
    """
    chosen = {name: value for name, value in plan.settings.items() if name not in PLAN_SETTINGS}
    learner = recipe.learner if recipe.search is not None else plan.learner
    before = [what for what, _ in plan.parts]
    return replace(
        recipe, learner=learner, settings=chosen, target_range=TARGET_RANGE in before, bins=BIN_NUMBERS in before
    )


def with_features(settings: Mapping[str, Any] | None, features: Any) -> dict[str, Any]:
    """Return a copy of `settings`, with `features` as a list of tables in the entry `features`, if they are given.

    `features` are names or mappings, as for `fit`. None for `settings` means no settings. Raise `WrongInput` if both
    `settings` and `features` name features.
    """
    chosen = dict(settings or {})
    if features and "features" in chosen:
        raise WrongInput("expected features once, got them with --features and among the settings")
    return chosen | ({"features": described_features(features)} if features else {})
