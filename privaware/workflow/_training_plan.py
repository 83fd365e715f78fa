"""The plan of one training: the learner asked for, or the one that `auto` chooses, calibrated to a budget.

>>> from privaware.datasets import schema
>>> plan = training_plan(schema("wisconsin"), epsilon=1.0, delta=1e-5)
>>> plan.learner, plan.epsilon <= 1.0
('linear', True)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from privaware.data import Data
from privaware.errors import WrongInput
from privaware.learners import Learner, find_learner
from privaware.mechanism import Mechanism
from privaware.schema import Schema
from privaware.workflow._auto import choose, constant_choice, with_target_range
from privaware.workflow._choice import Choice
from privaware.workflow._floor import enough, strength
from privaware.workflow._paid_columns import selection_stage
from privaware.workflow._plan import Plan, expect_budget, expect_unit, priced
from privaware.workflow._recipe import Recipe
from privaware.workflow._settings import configured, setting_names

__all__ = ["recipe_plan", "training_plan"]

OPERATIONS = 2e9
"""Multiplications a second that a time limit assumes of one processor."""


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
    """The best learner we know from public facts, calibrated to (epsilon, delta).

    `runtime` values (a device, a listener to progress) go to a learner that has fields of these names; they change
    neither what is released nor its cost, so they are no part of the plan's settings.
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
) -> Plan:
    """The plan of what is fixed in a recipe, and of what `auto` chooses beside it, for an epsilon and a delta."""
    expect_budget(schema, **budget)
    expect_time_limit(time_limit)
    schema, extra = recipe.restricted(schema), dict(runtime or {})
    if recipe.learner != "auto":
        limits = _within_time(find_learner(recipe.learner), schema, time_limit)
        settings = {**limits, **recipe.settings}
        choice = Choice(learner=recipe.learner, settings=settings, reasons=(f"{recipe.learner}, as asked",))
        if recipe.target_range and not schema.classes:
            choice = with_target_range(choice, schema)
        return planned(schema, _with_selection(choice, schema, recipe, budget), budget, public, extra)
    choice = choose(schema, budget["epsilon"], device=str(extra.get("device", "cpu")), time_limit=time_limit)
    limits = {} if "features" in choice.settings else _within_time(find_learner(choice.learner), schema, time_limit)
    choice = replace(choice, settings={**limits, **choice.settings, **recipe.settings})
    plan = planned(schema, _with_selection(choice, schema, recipe, budget), budget, public, extra)
    signal = schema.rows * strength(plan.parts[-1][1], budget["delta"])
    if find_learner(choice.learner).uses_columns and signal < enough(schema):
        why = f"{schema.rows} rows at epsilon {budget['epsilon']:g} are too few to be sure of more than a constant"
        return planned(schema, constant_choice(schema, why), budget, public, extra)
    return plan


def _with_selection(choice: Choice, schema: Schema, recipe: Recipe, budget: Mapping[str, float]) -> Choice:
    """The choice with the selection of columns before its other releases."""
    make = find_learner(choice.learner)
    if recipe.select is None or not make.uses_columns:
        return choice
    if make.needs_public:
        raise WrongInput(f"expected a learner without public rows beside --select, got {choice.learner}")
    learner = configured(choice.learner, make, choice.settings)
    stage = selection_stage(schema, recipe.select, recipe.select_settings, learner, budget)
    reason = f"columns are chosen by {recipe.select}, as asked, and paid for first"
    return replace(choice, before=(stage, *choice.before), reasons=(*choice.reasons, reason))


def planned(
    schema: Schema, choice: Choice, budget: Mapping[str, float], public: Data | None, runtime: Mapping[str, Any]
) -> Plan:
    """The chosen learner after the releases before it, calibrated to the `epsilon` and `delta` of the budget."""
    name = choice.learner
    make = find_learner(name)
    _expect_task(name, make, schema)
    expect_unit(name, make, schema)
    if not make.uses_columns:
        schema = schema.keep(())
    chosen = dict(choice.settings)
    extra = {key: value for key, value in runtime.items() if key in setting_names(make)}
    if make.needs_public:
        if public is None:
            raise WrongInput(f"{name} needs public rows to work with, got none; give them with --public FILE")
        extra["public"] = public
    mechanism: Mechanism[Any] = configured(name, make, chosen | extra)
    for stage in reversed(choice.before):
        mechanism = stage.then(mechanism)
    plan = priced(name, mechanism, schema, f"train {name}", **budget)
    shown = {key: value for key, value in chosen.items() if key != "public"}
    return replace(plan, settings=shown, reasons=(*choice.reasons, *plan.reasons))


def _expect_task(name: str, make: type[Learner], schema: Schema) -> None:
    if schema.task not in make.tasks:
        raise WrongInput(
            f"{name} does {' and '.join(make.tasks)}, the target {schema.target!r} asks for {schema.task}; "
            "choose another learner"
        )


def expect_time_limit(time_limit: float | None) -> None:
    """Refuses a limit that nothing can keep."""
    if time_limit is not None and not time_limit > 0:
        raise WrongInput(f"expected a time limit above 0 seconds, got {time_limit!r}")


def _within_time(make: Any, schema: Schema, time_limit: float | None) -> dict[str, Any]:
    """A sampling rate below 1 where every row in every step would outlast the time limit."""
    if time_limit is None or "rate" not in setting_names(make):
        return {}
    width = (
        math.prod(schema.shape) if schema.form == "image" else 4096 if schema.form == "text" else 20 * len(schema.used)
    )
    work = 6 * schema.rows * width * max(len(schema.classes), 1) * make().steps
    rate = time_limit * OPERATIONS / max(work, 1)
    return {} if rate >= 1 else {"rate": max(rate, min(1.0, 64 / schema.rows))}
