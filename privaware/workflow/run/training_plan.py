"""The plan of one training: the requested learner, or the learner that `auto` chooses, calibrated to a budget.

>>> from privaware.datasets import schema
>>> plan = training_plan(schema("wisconsin"), epsilon=1.0, delta=1e-5)
>>> plan.learner, plan.epsilon <= 1.0
('fourier', True)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from privaware.data import Data
from privaware.errors import WrongInput
from privaware.learners import Learner, find_learner
from privaware.models.spaces import Space
from privaware.schema import Schema
from privaware.workflow._candidates import (
    NO_SEARCH,
    SearchSettings,
    named_space,
    search_reasons,
    search_settings,
    shown_search,
)
from privaware.workflow._metric import always_beats_a_constant, trained_for
from privaware.workflow._recipe import Recipe
from privaware.workflow.auto import (
    CHECKED,
    SEARCHED,
    Choice,
    Policy,
    beside_columns,
    choose,
    choose_with_texts,
    considered,
    constant_choice,
    default_policy,
    reads_texts,
    strength,
)
from privaware.workflow.run.learner_settings import setting_names
from privaware.workflow.run.paid_columns import selection_stage
from privaware.workflow.run.paid_features import PaidFeatures
from privaware.workflow.run.plan import Plan
from privaware.workflow.run.pricing import expect_budget, expect_unit, priced
from privaware.workflow.run.trainings import (
    model_cost_in,
    outlined,
    search_mechanism,
    training_mechanism,
    with_bins,
    with_releases,
    with_target_range,
)

__all__ = ["recipe_plan", "training_plan"]

NOISELESS = 1e6
"""Epsilon for which the standard workflow chooses a learner, as if there were no noise."""
OPERATIONS = 2e9
"""Multiplications per second of one processor that a time limit assumes."""


def training_plan(
    schema: Schema,
    *,
    epsilon: float,
    delta: float,
    learner: str = "auto",
    settings: Mapping[str, Any] | None = None,
    public: Data | None = None,
    time_limit: float | None = None,
    runtime: Mapping[str, Any] | None = None,
) -> Plan:
    """Return the plan of a training, calibrated to (epsilon, delta); "auto" chooses the learner from public facts.

    `settings` are hyper-parameters of the learner. `time_limit`, in seconds, replaces the limit of the policy. `public`
    are public rows for a learner that needs them. `runtime` values (a device, a listener to progress) go to a learner
    that has fields of these names, and are not in the settings of the plan. The choice of "auto" depends on the device;
    a named learner has the same cost on every device. Raise `WrongInput` if budget, learner or settings do not fit
    `schema`.
    """
    recipe = Recipe(learner=learner, settings=dict(settings or {}))
    budget = {"epsilon": epsilon, "delta": delta}
    return recipe_plan(schema, recipe, budget, public=public, time_limit=time_limit, runtime=runtime)


def recipe_plan(
    schema: Schema,
    recipe: Recipe,
    budget: Mapping[str, float],
    *,
    public: Data | None = None,
    time_limit: float | None = None,
    runtime: Mapping[str, Any] | None = None,
    policy: Policy | None = None,
) -> Plan:
    """Return the plan of a recipe; `auto` chooses what the recipe does not fix.

    `budget` has the entries `epsilon` and `delta`. `policy` chooses for `auto`. Default: the default policy. `public`,
    `time_limit` and `runtime` are as for `training_plan`. If the rows are too few to beat a constant prediction, `auto`
    plans a constant prediction, except for the metric auc, a named search space and the standard workflow.
    """
    policy = policy or default_policy()
    expect_budget(schema, **budget)
    expect_time_limit(time_limit)
    left_out = recipe.left_out(schema)
    schema, extra = recipe.restricted(schema), dict(runtime or {})
    if schema.form == "table" and any(column.kind in ("text", "image") for column in schema.declared):
        recipe = replace(recipe, settings=beside_columns(recipe.settings, images=schema.has_images))
    space = named_space(recipe)
    device = str(extra.get("device", "cpu"))
    choice = _chosen(schema, recipe, budget, time_limit, device=device, space=space, policy=policy)
    schema = schema.with_whole_texts() if reads_texts(choice.settings) else schema
    choice = trained_for(choice, recipe.metric, searched=recipe.search is not None)
    choice = replace(choice, reasons=(*choice.reasons, *left_out))
    search = search_settings(recipe, choice, space, schema)
    choice = _with_selection(choice, schema, recipe, budget, search)
    plan = planned(schema, choice, budget, public, extra, search=search)
    if search is not None:
        plan = replace(plan, settings={**plan.settings, "search": shown_search(search, recipe)})
    if recipe.learner != "auto" or space is not None or recipe.workflow == "standard":
        return plan
    if not find_learner(choice.learner).uses_columns:
        return plan
    if always_beats_a_constant(recipe.metric):
        return _beside_constant(plan, schema, recipe, "by this metric no constant is better than a model")
    trained = plan.parts[-1][1] if search is None else model_cost_in(plan)
    signal = schema.rows * strength(trained, budget["delta"])
    least = policy.floor.least(schema, "" if recipe.metric == "mae" else choice.learner)
    measured = f"the number of rows divided by the noise multiplier of one release of this epsilon is {signal:,.4g}"
    if signal < least:
        why = f"{schema.rows} rows at epsilon {budget['epsilon']:g} are too few to beat a constant prediction reliably"
        constant = constant_choice(schema, why, recipe.metric)
        lost = f"{measured}; a model needs {least:g}"
        rows = [
            considered(row["learner"], lost, taken=False, rule=row["rule"]) if row["taken"] is not False else row
            for row in plan.considered
        ]
        taken = considered(constant.learner, f"{measured}, below {least:g}", taken=True)
        return planned(schema, replace(constant, considered=(*rows, taken)), budget, public, extra)
    checked = not schema.classes and recipe.metric != "mae" and choice.learner in policy.floor.checked
    enough = f"{measured}; a constant is trained if it is below {least:g}"
    return _beside_constant(plan, schema, recipe, CHECKED if checked and search is None else enough)


def _beside_constant(plan: Plan, schema: Schema, recipe: Recipe, reason: str) -> Plan:
    """Return `plan` with a row about the constant prediction that was considered beside its learner.

    `schema` and `recipe.metric` decide which constant it is. The row says `reason`. Its `taken` is None, undecided, if
    `reason` is `CHECKED`, and otherwise False.
    """
    taken = None if reason == CHECKED else False
    row = considered(constant_choice(schema, "", recipe.metric).learner, reason, taken=taken)
    return replace(plan, considered=(*plan.considered, row))


def _chosen(
    schema: Schema,
    recipe: Recipe,
    budget: Mapping[str, float],
    time_limit: float | None,
    *,
    device: str,
    space: Space | None,
    policy: Policy,
) -> Choice:
    """Return the learner that `recipe` requests, the learner of `space`, or the choice of `auto` by `policy`.

    `auto` chooses only if `recipe` names no learner and `space` is None. `budget` has `epsilon` and `delta`.
    `time_limit`, in seconds, replaces the limit of `policy`; it may also set the sampling rate (`_within_time`).
    """
    if recipe.learner == "auto" and space is None:
        epsilon = budget["epsilon"] if recipe.workflow == "aware" else NOISELESS
        choose_for = choose if recipe.select else choose_with_texts
        choice = choose_for(schema, epsilon, device=device, time_limit=time_limit, metric=recipe.metric, policy=policy)
        schema = schema.with_whole_texts() if reads_texts(choice.settings) else schema
        choice = with_releases(choice, schema, recipe.metric)
        choice = _with_named_features(choice, schema, recipe)
        if recipe.search is not None and schema.form == "table" and "features" not in choice.settings:
            # candidates have settings of their own
            choice = replace(choice, settings={}, reasons=choice.reasons[1:], details=())
        limits = {} if "features" in choice.settings else _within_time(find_learner(choice.learner), schema, time_limit)
        if recipe.workflow == "standard":
            choice = replace(
                choice,
                reasons=(f"Learner: {choice.learner}, chosen by the standard workflow, which ignores the noise.",),
                details=(),
            )
        elif recipe.search is None and find_learner(choice.learner).uses_columns:
            choice = replace(choice, details=(*choice.details, NO_SEARCH))
        return replace(choice, settings={**limits, **choice.settings, **recipe.settings})
    name = recipe.learner if space is None else space.learner
    limits = {} if space is not None else _within_time(find_learner(name), schema, time_limit)
    origin = "as requested" if space is None else "from the search space"
    reason = f"Learner: {name if space is None else ' or '.join(space.learners)}, {origin}."
    binned = with_bins(Choice(learner="linear"), schema).before if recipe.bins else ()
    row = considered(name, "requested by the caller; the policy was not asked", taken=True)
    settings = {**limits, **recipe.settings}
    choice = Choice(learner=name, settings=settings, reasons=(reason,), before=binned, considered=(row,))
    centred = recipe.target_range or recipe.learner == "auto"
    return with_target_range(choice, schema, recipe.metric) if centred and not schema.classes else choice


def _with_named_features(choice: Choice, schema: Schema, recipe: Recipe) -> Choice:
    """Return a choice whose learner accepts the features in `recipe.settings`, if there are any.

    If the learner of `choice` has no setting `features`, the returned choice is `linear`. If `choice` has features of
    its own, its reasons are replaced. Without requested features `choice` is returned unchanged. The caller adds
    `recipe.settings` to the settings of the returned choice.
    """
    if "features" not in recipe.settings:
        return choice
    if "features" in choice.settings:  # its reasons are for the features that it would have taken
        reasons = (f"Learner: {choice.learner}, on the requested features.",)
        return replace(choice, reasons=reasons, details=(), considered=_requested_features(choice.learner))
    if "features" in setting_names(find_learner(choice.learner)):
        return choice
    reasons = ("Learner: linear, because it accepts the requested features.",)
    linear = Choice(learner="linear", reasons=reasons, considered=_requested_features("linear"))
    return linear if schema.classes else with_target_range(linear, schema, recipe.metric)


def _requested_features(learner: str) -> tuple[Mapping[str, Any], ...]:
    return (considered(learner, "it accepts the requested features", taken=True),)


def _with_selection(
    choice: Choice, schema: Schema, recipe: Recipe, budget: Mapping[str, float], search: SearchSettings | None
) -> Choice:
    """Return `choice` with the selection of columns that `recipe` requests before its other releases.

    `budget` has `epsilon` and `delta`. `search` are the settings of the search, or None for one training. If `recipe`
    requests none, or if the learner reads the target only, return `choice` unchanged. Raise `WrongInput` if the learner
    needs public rows.
    """
    make = find_learner(choice.learner)
    if recipe.select is None or not make.uses_columns:
        return choice
    if make.needs_public:
        raise WrongInput(f"expected a learner that needs no public rows if --select is given, got {choice.learner}")
    after = outlined(schema, choice)
    if search is None:
        training = training_mechanism(choice.learner, choice.settings, {}, after)
    else:
        training = search_mechanism(search, choice.settings, after, budget["epsilon"], device="cpu")
    stage = selection_stage(schema, recipe.select, recipe.select_settings, training, budget)
    reason = f"Columns are selected with {recipe.select}, as requested, with part of the budget."
    ignored = ("Of the setting monotone, the directions of columns that are not selected are ignored.",)
    details = (*choice.details, *ignored * bool(choice.settings.get("monotone")))
    return replace(choice, before=(stage, *choice.before), reasons=(*choice.reasons, reason), details=details)


def planned(
    schema: Schema,
    choice: Choice,
    budget: Mapping[str, float],
    public: Data | None,
    runtime: Mapping[str, Any],
    *,
    search: SearchSettings | None = None,
) -> Plan:
    """Return the plan: the releases in `choice.before`, then the training of the chosen learner.

    With `search` a search over learners and settings takes the place of the training. `budget` has `epsilon` and
    `delta`; the noise is calibrated so that all releases together cost at most this. `runtime` is as for
    `training_plan`. Raise `WrongInput` if a learner does not fit the task or the unit of `schema`, if no feature reads
    its columns of whole texts or images, or if the learner needs public rows and `public` is None.
    """
    name = choice.learner
    make = find_learner(name)
    for each in (name,) if search is None else search.space.learners:
        _expect_task(each, find_learner(each), schema)
        expect_unit(each, find_learner(each), schema)
    if not make.uses_columns:
        schema = schema.keep(())
    _expect_text_features(name, choice, schema)
    _expect_kinds_of_monotone(name, choice.settings, schema)
    chosen = dict(choice.settings)
    extra = {key: value for key, value in runtime.items() if key in setting_names(make)}
    if make.needs_public:
        if public is None:
            raise WrongInput(f"{name} needs public rows to work with, got none; give them with --public FILE")
        extra["public"] = public
    reasons, what = choice.reasons, f"train {name}"
    after = outlined(schema, choice)
    if search is None:
        mechanism = training_mechanism(name, chosen, extra, after)
    else:
        device = str(runtime.get("device", "cpu"))
        mechanism = search_mechanism(search, chosen, after, budget["epsilon"], device=device)
        alone: Any = mechanism.learner(after) if isinstance(mechanism, PaidFeatures) else mechanism
        name = " or ".join(search.space.learners)
        reasons = (*reasons, *search_reasons(search, alone.trial_words(after), after))
        choice = replace(
            choice, considered=tuple(considered(each, SEARCHED, taken=None) for each in search.space.learners)
        )
        what = f"search with {search.strategy} and train {name}"
    for stage in reversed(choice.before):
        mechanism = stage.then(mechanism)
    plan = priced(name, mechanism, schema, what, **budget)
    shown = {key: value for key, value in chosen.items() if key != "public"}
    said: dict[str, Any] = {
        "reasons": (*reasons, *plan.reasons),
        "details": choice.details,
        "considered": choice.considered,
    }
    return replace(plan, settings=shown, **said)


def _expect_text_features(name: str, choice: Choice, schema: Schema) -> None:
    """Raise `WrongInput` if a table holds whole texts or images that no feature in `choice.settings` reads.

    `name` is the name of the learner for the message.
    """
    if not schema.has_whole_columns or reads_texts(choice.settings):
        return
    if schema.has_images:
        raise WrongInput(
            f"{name} reads no images of a table without features for images; leave the learner out, give --features="
            f'prior to a learner such as linear, or declare {schema.image!r} as kind = "ignore"'
        )
    if schema.has_whole_texts:
        raise WrongInput(
            f"{name} reads texts of a table as hash buckets, but the schema says slots = 0; leave slots out, or give "
            "--features=hashed"
        )


def _expect_kinds_of_monotone(name: str, settings: Mapping[str, Any], schema: Schema) -> None:
    """Raise `WrongInput` if `settings` give a direction to a column whose kind is released, and so may be no number.

    `name` is the name of the learner for the message.
    """
    undecided = {column.name for column in schema.columns if column.kind == "undecided"}
    directions = settings.get("monotone")
    open_names = [each for each in directions if each in undecided] if isinstance(directions, Mapping) else []
    if open_names:
        raise WrongInput(
            f"{name}: expected monotone to name columns that are declared as numbers, got {open_names[0]!r:.80}, whose "
            "kind is released; declare it with --kinds or --schema"
        )


def _expect_task(name: str, make: type[Learner], schema: Schema) -> None:
    if schema.task not in make.tasks:
        raise WrongInput(
            f"{name} supports {' and '.join(make.tasks)} only, but the target {schema.target!r} needs {schema.task}; "
            "choose another learner"
        )


def expect_time_limit(time_limit: float | None) -> None:
    """Raise `WrongInput` for a `time_limit`, in seconds, that is not positive; None is allowed."""
    if time_limit is not None and not time_limit > 0:
        raise WrongInput(f"expected a time limit above 0 seconds, got {time_limit!r}")


def _within_time(make: Any, schema: Schema, time_limit: float | None) -> dict[str, Any]:
    """Return {"rate": RATE}, with a rate below 1, if `make` has this setting and full batches take too long; else {}.

    `make` is the class of the learner. `time_limit` is in seconds, or None for no limit. The rate samples at least 64
    rows on average, or all rows if there are fewer.
    """
    if time_limit is None or "rate" not in setting_names(make):
        return {}
    width = (
        math.prod(schema.shape) if schema.form == "image" else 4096 if schema.form == "text" else 20 * len(schema.used)
    )
    work = 6 * schema.rows * width * max(len(schema.classes), 1) * make().steps
    rate = time_limit * OPERATIONS / max(work, 1)
    return {} if rate >= 1 else {"rate": max(rate, min(1.0, 64 / schema.rows))}
