"""What a comparison of two contenders costs, from public facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from privaware import accounting
from privaware.data import Data
from privaware.events import Event, Gaussian
from privaware.mechanism import Mechanism, Then
from privaware.schema import Schema
from privaware.selectors.bounds import Bounds
from privaware.workflow._comparison import Comparison, Side
from privaware.workflow._contenders import Contender
from privaware.workflow._plan import SHARE, Plan, grouped, plan, rows_moved
from privaware.workflow._source import Source

__all__ = ["EVALUATION", "Priced", "planned", "score_noise"]

EVALUATION = (
    "evaluation on public benchmark rows: many models were trained and scored on them, and none of "
    "it is a private release"
)
HELD_OUT = 0.25
"""The share of private rows that only scores are taken on."""


@dataclass(frozen=True, kw_only=True)
class Priced(Plan):
    """A plan whose knob stands at 1: the noise of each training is its own."""

    @property
    def sentences(self) -> list[str]:
        total = f"all of it together: epsilon {self.epsilon:.4g} at delta {self.delta:g}"
        return [*super().sentences[:-1], total]


def planned(
    source: Source, sides: Mapping[str, Contender], epsilons: Sequence[float], repeats: int, delta: float, device: str
) -> Plan:
    """The price from public facts: each training calibrated to its own epsilon, then all of them together."""
    bounds = Bounds()
    schema = source.schema if source.schema.bounded else bounds.outline(source.schema)
    blank = Comparison(sides=(), repeats=repeats, held_out=0.0 if source.builtin else HELD_OUT)
    facts = blank.trained_on(schema)
    made = [_side(one, facts, epsilons, delta, device) for one in sides.values()]
    comparison = replace(blank, sides=tuple(made))
    size = rows_moved(comparison, schema)
    if comparison.held_out:
        hidden = score_noise(grouped(comparison.trainings(schema), size), delta)
        comparison = replace(comparison, scored=hidden * size)
    parts: list[tuple[str, Event]] = []
    mechanism: Mechanism[Any] = comparison
    if not source.schema.bounded:
        share = SHARE * min(noise for side in made for noise in side.noises)
        parts.append(("release bounds", grouped(bounds.cost(source.schema, share), size)))
        mechanism = Then(first=bounds, second=comparison, join=Data.against, outline=bounds.outline, share=share)
    count = 2 * repeats * len(epsilons)
    parts.append((f"train {count} models", grouped(comparison.cost(schema, 1.0), size)))
    return Priced(
        learner="crossover",
        mechanism=mechanism,
        schema=source.schema,
        noise=1.0,
        delta=delta,
        parts=tuple(parts),
        settings={name: one.json() for name, one in sides.items()} | {"epsilons": list(epsilons), "repeats": repeats},
        reasons=_reasons(sides, epsilons, repeats, source),
    )


def _side(one: Contender, schema: Schema, epsilons: Sequence[float], delta: float, device: str) -> Side:
    own = one.facts(schema)
    plans = [
        plan(own, epsilon=epsilon, delta=delta, learner=one.learner, settings=one.settings, aids={"device": device})
        for epsilon in epsilons
    ]
    columns = tuple(column.name for column in plans[0].schema.used)
    return Side(mechanism=plans[0].mechanism, columns=columns, noises=tuple(p.noise for p in plans))


def _reasons(
    sides: Mapping[str, Contender], epsilons: Sequence[float], repeats: int, source: Source
) -> tuple[str, ...]:
    shown = ", ".join(f"{epsilon:g}" for epsilon in epsilons)
    count = 2 * repeats * len(epsilons)
    return (
        *(f"{name}: {one.name}" for name, one in sides.items()),
        f"this releases many models: {count} trainings, each {repeats} times at epsilon {shown}, all charged together",
        f"scores: {EVALUATION}"
        if source.builtin
        else f"scores: noised, on {HELD_OUT:.0%} of the rows kept aside; no exact score is told",
    )


def score_noise(trainings: Event, delta: float) -> float:
    """The noise of scores on rows of their own that costs no more than the trainings do."""
    epsilon = accounting.epsilon(trainings, delta)
    return accounting.calibrate(lambda noise: Gaussian(noise=noise), epsilon, delta)
