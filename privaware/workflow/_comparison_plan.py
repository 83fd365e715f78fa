"""The plan and the cost of a comparison of two models, computed from public facts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from privaware import accounting
from privaware._rounded import rounded_up
from privaware.data import Data
from privaware.events import Event, Gaussian
from privaware.mechanism import Mechanism
from privaware.preprocessing.ranges import Ranges
from privaware.schema import Schema
from privaware.workflow._comparison import Comparison, Side
from privaware.workflow._comparison_designs import Design
from privaware.workflow._contenders import Contender
from privaware.workflow.auto import Stage
from privaware.workflow.run.options import RunOptions
from privaware.workflow.run.plan import BOUNDS_FRACTION, Plan, bounds_within, grouped, rows_moved
from privaware.workflow.run.source import Source
from privaware.workflow.run.training_plan import training_plan

__all__ = ["EVALUATION", "ComparisonPlan", "calibrate_score_noise", "comparison_planner"]

EVALUATION = "evaluation on public benchmark rows; these scores are not a private release"
HELD_OUT = 0.25
"""Fraction of the private rows that is held out of training and scores the models."""


@dataclass(frozen=True, kw_only=True)
class ComparisonPlan(Plan):
    """A plan whose `noise` is 1, because each training has its own noise multiplier.

    `total` is the given largest total epsilon of the comparison, which is the limit of a new ledger.
    """

    total: float | None = None

    @property
    def limit(self) -> float:
        return self.epsilon if self.total is None else self.total

    @property
    def total_sentence(self) -> str:
        return f"total epsilon {rounded_up(self.epsilon)} at delta {rounded_up(self.delta)}"


def comparison_planner(
    source: Source, sides: Mapping[str, Contender], options: RunOptions
) -> Callable[[Design], ComparisonPlan]:
    """Return a function from designs to plans; each training is calibrated once, however many designs are planned.

    Parameters
    ----------
    source
        The data with their public facts.
    sides
        The two models by their names.
    options
        The options of the run.

    Returns
    -------
    callable
        Returns the plan of a design: every training is calibrated to its own epsilon, and the cost is the composition
        of all trainings. The plan for rows that are not built-in also has the cost of noisy scores on held-out rows. If
        bounds are not declared, their release is charged too.
    """
    delta = options.delta_for(source.schema)
    schema = source.schema if source.schema.bounded else _ranges(delta).outline(source.schema)
    held_out = 0.0 if source.builtin else HELD_OUT
    train_schema = Comparison(sides=(), repeats=1, held_out=held_out).train_schema(schema)

    @cache
    def training(name: str, epsilon: float) -> Plan:
        return training_plan(
            sides[name].restricted(train_schema),
            epsilon=epsilon,
            delta=options.delta_for(train_schema),
            learner=sides[name].learner,
            settings=sides[name].settings,
            runtime={"device": options.device},
        )

    @cache
    def plan(design: Design) -> ComparisonPlan:
        compared = tuple(_side([training(name, epsilon) for epsilon in design.epsilons]) for name in sides)
        comparison = Comparison(sides=compared, repeats=design.repeats, held_out=held_out)
        return _comparison_plan(source, comparison, schema, delta, _facts(sides, design, source))

    return plan


def _comparison_plan(
    source: Source, comparison: Comparison, schema: Schema, delta: float, facts: Mapping[str, Any]
) -> ComparisonPlan:
    """Return the plan of a comparison, with noisy scores if rows are held out.

    If `source.schema` does not declare all bounds, the plan first releases them, and `schema` is the schema after that
    release. `facts` are the settings and the reasons of the plan.
    """
    size = rows_moved(comparison, schema)
    if comparison.held_out:
        noise = calibrate_score_noise(grouped(comparison.trainings(schema), size), delta)
        comparison = replace(comparison, score_noise=noise * size)
    parts: list[tuple[str, Event]] = []
    mechanism: Mechanism[Any] = comparison
    if not source.schema.bounded:
        bounds, what = _ranges(delta), "release bounds"
        budget = BOUNDS_FRACTION * accounting.epsilon(grouped(comparison.trainings(schema), size), delta)
        share = accounting.calibrate(lambda noise: grouped(bounds.cost(source.schema, noise), size), budget, delta)
        parts.append((what, grouped(bounds.cost(source.schema, share), size)))
        stage = Stage(what=what, mechanism=bounds, join=Data.coded_by, outline=bounds.outline, share=share)
        mechanism = stage.then(comparison)
    parts.append((f"train {math.prod(comparison.shape)} models", grouped(comparison.cost(schema, 1.0), size)))
    return ComparisonPlan(
        learner="crossover",
        mechanism=mechanism,
        schema=source.schema,
        noise=1.0,
        delta=delta,
        parts=tuple(parts),
        **facts,
    )


def _ranges(delta: float) -> Ranges:
    """Return the mechanism that releases the bounds of all columns at once, with a part of `delta`."""
    return Ranges(delta=bounds_within(delta).delta)


def _side(plans: Sequence[Plan]) -> Side:
    """Return a side from `plans`, the plans of its trainings, one for each epsilon.

    The mechanism and the columns are taken from the first plan; the plans differ only in their noise multiplier.
    """
    columns = tuple(column.name for column in plans[0].schema.used)
    return Side(mechanism=plans[0].mechanism, columns=columns, noises=tuple(plan.noise for plan in plans))


def _facts(sides: Mapping[str, Contender], design: Design, source: Source) -> dict[str, Any]:
    """Return the entries `settings` and `reasons` (sentences) of the plan that compares `sides` by `design`."""
    settings: dict[str, Any] = {name: contender.json() for name, contender in sides.items()}
    settings |= {"epsilons": list(design.epsilons), "repeats": design.repeats}
    return {"settings": settings, "reasons": _reasons(sides, design.epsilons, design.repeats, source)}


def _reasons(
    sides: Mapping[str, Contender], epsilons: Sequence[float], repeats: int, source: Source
) -> tuple[str, ...]:
    shown = ", ".join(f"{epsilon:g}" for epsilon in epsilons)
    count = 2 * repeats * len(epsilons)
    return (
        *(f"{name}: {contender.name}" for name, contender in sides.items()),
        f"Training runs: {count} models, {repeats} of each kind at each epsilon of {shown}. All of them are charged.",
        f"Scores: {EVALUATION}."
        if source.builtin
        else f"Scores: released with noise, on {HELD_OUT:.0%} of the rows, which are held out of training.",
    )


def calibrate_score_noise(trainings: Event, delta: float) -> float:
    """Return the noise multiplier at which a Gaussian release costs no more epsilon at `delta` than `trainings`."""
    epsilon = accounting.epsilon(trainings, delta)
    return accounting.calibrate(lambda noise: Gaussian(noise=noise), epsilon, delta)
