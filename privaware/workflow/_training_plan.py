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
from privaware.workflow._auto import choose, constant_choice
from privaware.workflow._choice import Choice
from privaware.workflow._floor import enough, strength
from privaware.workflow._plan import Plan, expect_budget, expect_unit, priced
from privaware.workflow._settings import configured, setting_names

__all__ = ["training_plan"]

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
    expect_budget(schema, epsilon, delta)
    expect_time_limit(time_limit)
    budget = {"epsilon": epsilon, "delta": delta}
    asked, extra = dict(settings or {}), dict(runtime or {})
    if learner != "auto":
        asked = {**_within_time(find_learner(learner), schema, time_limit), **asked}
        choice = Choice(learner=learner, settings=asked, reasons=(f"{learner}, as asked",))
        return planned(schema, choice, budget, public, extra)
    choice = choose(schema, epsilon, device=str(extra.get("device", "cpu")), time_limit=time_limit)
    limits = {} if "features" in choice.settings else _within_time(find_learner(choice.learner), schema, time_limit)
    plan = planned(schema, replace(choice, settings={**limits, **choice.settings, **asked}), budget, public, extra)
    signal = schema.rows * strength(plan.parts[-1][1], delta)
    if find_learner(choice.learner).uses_columns and signal < enough(schema):
        why = f"{schema.rows} rows at epsilon {epsilon:g} are too few to be sure of more than a constant"
        return planned(schema, constant_choice(schema, why), budget, public, extra)
    return plan


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
