"""The plan and the cost of a comparison of two models, computed from public facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from privaware import accounting
from privaware._rounded import rounded_up
from privaware.data import Data
from privaware.events import Event, Gaussian
from privaware.mechanism import Mechanism
from privaware.schema import Schema
from privaware.workflow._comparison import Comparison, Side
from privaware.workflow._contenders import Contender
from privaware.workflow.auto import Stage
from privaware.workflow.run.options import RunOptions
from privaware.workflow.run.plan import BOUNDS_SHARE, Plan, bounds_within, grouped, rows_moved
from privaware.workflow.run.source import Source
from privaware.workflow.run.training_plan import training_plan

__all__ = ["EVALUATION", "ComparisonPlan", "calibrate_score_noise", "comparison_plan"]

EVALUATION = "evaluation on public benchmark rows; these scores are not a private release"
HELD_OUT = 0.25
"""Fraction of the private rows that is held out of training and scores the models."""


@dataclass(frozen=True, kw_only=True)
class ComparisonPlan(Plan):
    """A plan whose `noise` is 1, because each training has its own noise multiplier."""

    @property
    def total_sentence(self) -> str:
        return f"total epsilon {rounded_up(self.epsilon)} at delta {rounded_up(self.delta)}"


def comparison_plan(
    source: Source, sides: Mapping[str, Contender], epsilons: Sequence[float], repeats: int, options: RunOptions
) -> ComparisonPlan:
    """Return the plan of a comparison, computed from public facts.

    Each training is calibrated to its own epsilon of `epsilons`. The cost is the composition of all trainings.
    """
    delta = options.delta_for(source.schema)
    bounds = bounds_within(delta)
    schema = source.schema if source.schema.bounded else bounds.outline(source.schema)
    comparison = Comparison(sides=(), repeats=repeats, held_out=0.0 if source.builtin else HELD_OUT)
    train_schema = comparison.train_schema(schema)
    comparison = replace(
        comparison, sides=tuple(_side(contender, train_schema, epsilons, options) for contender in sides.values())
    )
    size = rows_moved(comparison, schema)
    if comparison.held_out:
        noise = calibrate_score_noise(grouped(comparison.trainings(schema), size), delta)
        comparison = replace(comparison, score_noise=noise * size)
    parts: list[tuple[str, Event]] = []
    mechanism: Mechanism[Any] = comparison
    if not source.schema.bounded:
        share = BOUNDS_SHARE * min(noise for side in comparison.sides for noise in side.noises)
        parts.append(("release bounds", grouped(bounds.cost(source.schema, share), size)))
        mechanism = Stage(
            what="release bounds", mechanism=bounds, join=Data.coded_by, outline=bounds.outline, share=share
        ).then(comparison)
    parts.append((f"train {2 * repeats * len(epsilons)} models", grouped(comparison.cost(schema, 1.0), size)))
    return ComparisonPlan(
        learner="crossover",
        mechanism=mechanism,
        schema=source.schema,
        noise=1.0,
        delta=delta,
        parts=tuple(parts),
        settings={name: contender.json() for name, contender in sides.items()}
        | {"epsilons": list(epsilons), "repeats": repeats},
        reasons=_reasons(sides, epsilons, repeats, source),
    )


def _side(contender: Contender, schema: Schema, epsilons: Sequence[float], options: RunOptions) -> Side:
    plans = [
        training_plan(
            contender.restricted(schema),
            epsilon=epsilon,
            delta=options.delta_for(schema),
            learner=contender.learner,
            settings=contender.settings,
            runtime={"device": options.device},
        )
        for epsilon in epsilons
    ]
    columns = tuple(column.name for column in plans[0].schema.used)
    return Side(mechanism=plans[0].mechanism, columns=columns, noises=tuple(plan.noise for plan in plans))


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
    """Return the noise multiplier at which the scores on held-out rows cost no more than the trainings."""
    epsilon = accounting.epsilon(trainings, delta)
    return accounting.calibrate(lambda noise: Gaussian(noise=noise), epsilon, delta)
