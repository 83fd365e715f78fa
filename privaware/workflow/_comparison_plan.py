"""The plan, the cost and the design of a comparison of two models, computed from public facts.

A design says which epsilons are tried and how often. The cost of a comparison grows with the number of trainings, and
most with the largest epsilon, because every training at that epsilon is charged. So the choice first takes as many
epsilons as fit into the total with one repeat, smallest first, and then as many repeats as fit.

>>> def price(design):  # a stand-in for the accountant: the sum of all trainings
...     return 2 * design.repeats * sum(design.epsilons)
>>> choose_design(price, epsilons=None, repeats=None, total=6.0)
Design(epsilons=(0.1, 0.3, 1.0), repeats=2)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from privaware import accounting
from privaware._rounded import rounded_up
from privaware.data import Data
from privaware.errors import BudgetExceeded
from privaware.events import Event, Gaussian
from privaware.mechanism import Mechanism
from privaware.preprocessing._ranges.open_columns import outline
from privaware.schema import Schema
from privaware.workflow._comparison import Comparison, Side
from privaware.workflow._contenders import Contender
from privaware.workflow._score_cells import train_schema
from privaware.workflow.auto import Stage
from privaware.workflow.run.options import RunOptions
from privaware.workflow.run.plan import RELEASE_BOUNDS, Plan, grouped, rows_moved
from privaware.workflow.run.pricing import BOUNDS_FRACTION, ranges_within
from privaware.workflow.run.source import Source
from privaware.workflow.run.training_plan import training_plan

EVALUATION = "evaluation on public benchmark rows; these scores are not a private release"
HELD_OUT = 0.25
"""Fraction of the private rows that is held out of training and scores the models."""
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Epsilons that a comparison tries if none are given."""
MAX_REPEATS = 5
"""Largest number of repeats of a comparison if none is given."""
TOTAL = 5.0
"""Largest total epsilon of a comparison on private rows if none is given."""
MIN_EPSILONS = 2
"""Smallest number of epsilons that a chosen design tries; a crossing lies between two epsilons."""
PUBLIC = "a built-in data set like yours costs nothing (`privaware list datasets`)"


@dataclass(frozen=True)
class Design:
    """The size of a comparison of two models: each model is trained `repeats` times at each of `epsilons`.

    `epsilons` are in ascending order.
    """

    epsilons: tuple[float, ...]
    repeats: int

    @property
    def words(self) -> str:
        """The size of the design in words.

        >>> Design((0.1, 1.0), 1).words
        '2 epsilons x 1 repeat'
        """
        return f"{_counted(len(self.epsilons), 'epsilon')} x {_counted(self.repeats, 'repeat')}"

    @property
    def options(self) -> str:
        """The settings of `crossover` that name the design, as a message names them (`for_caller`).

        >>> Design((0.1, 1.0), 3).options
        '--epsilons=0.1,1 --repeats=3'
        """
        return f"--epsilons={','.join(f'{epsilon:g}' for epsilon in self.epsilons)} --repeats={self.repeats}"


Price = Callable[[Design], float]


def choose_design(price: Price, *, epsilons: Sequence[float] | None, repeats: int | None, total: float) -> Design:
    """Return the largest design whose price is at most `total`: first the most epsilons, then the most repeats.

    Raise `BudgetExceeded`, with advice, if no design fits. Given `epsilons` are all used; without them a design has at
    least `MIN_EPSILONS` epsilons.

    Parameters
    ----------
    price
        Returns the total epsilon of a design.
    epsilons
        The epsilons of the design, all of which are used. Default: as many of `EPSILONS` as fit, smallest first.
    repeats
        The repeats of the design. Default: as many as fit, up to `MAX_REPEATS`.
    total
        The largest total epsilon. If it is infinite, the largest design is taken, and `price` is not called.

    Returns
    -------
    Design
        The chosen design.
    """
    grid = EPSILONS if epsilons is None else tuple(epsilons)
    if math.isinf(total):
        return Design(grid, repeats or MAX_REPEATS)
    smallest = len(grid) if epsilons is not None else MIN_EPSILONS
    for count in range(len(grid), smallest - 1, -1):
        if price(Design(grid[:count], repeats or 1)) <= total:
            designs = (Design(grid[:count], times) for times in range(repeats or MAX_REPEATS, 0, -1))
            return next(design for design in designs if price(design) <= total)
    asked = Design(grid[:smallest], repeats or 1)
    raise BudgetExceeded(
        f"a comparison of {asked.words} costs epsilon {rounded_up(price(asked))}, above the total of {total:g}; "
        f"{advice(price, asked, lambda design: price(design) <= total)}, or allow more with --total"
    )


def advice(price: Price, asked: Design, fits: Callable[[Design], bool]) -> str:
    """Return cheaper ways in one phrase: the first design of `_smaller(asked)` that `fits`, and public data.

    The phrase names the options and the price of that design, or says that no smaller design fits.
    """
    smaller = next(filter(fits, _smaller(asked)), None)
    if smaller is None:
        return f"no smaller design fits; {PUBLIC}"
    return f"`{smaller.options}` costs {rounded_up(price(smaller))}, and {PUBLIC}"


def designs_sentence(price: Price, chosen: Design, total: float) -> str:
    """Return a sentence with the price of the design `chosen`, the limit `total`, and the prices of other designs.

    A `Design` says at which epsilons two models are trained and compared, and how often (its repeats). `price(design)`
    is the epsilon that all trainings of the design cost together, and `total` is the largest such epsilon that is
    allowed. The other designs have the epsilons `EPSILONS` or those of `chosen`, with `MAX_REPEATS` repeats or with one
    repeat.
    """
    others = [
        Design(EPSILONS, MAX_REPEATS),
        Design(EPSILONS, 1),
        Design(chosen.epsilons, MAX_REPEATS),
        Design(chosen.epsilons, 1),
    ]
    prices = {design.words: price(design) for design in others if design != chosen}
    listed = "; ".join(
        f"{words}: {rounded_up(cost)}" for words, cost in sorted(prices.items(), key=lambda item: -item[1])
    )
    return (
        f"Design: {chosen.words}, epsilon {rounded_up(price(chosen))}, within the total of {total:g} (--total). "
        f"Others: {listed}; a built-in data set: 0."
    )


def _smaller(design: Design) -> Iterator[Design]:
    """Yield designs that may cost less than `design`.

    First come designs with the same epsilons and fewer and fewer repeats. Then come designs with one repeat that leave
    out more and more of its largest epsilons, until `MIN_EPSILONS` remain. Last come all of `EPSILONS` with one repeat,
    and then fewer and fewer of them, at least `MIN_EPSILONS`.
    """
    for repeats in range(design.repeats - 1, 0, -1):
        yield Design(design.epsilons, repeats)
    for count in range(len(design.epsilons) - 1, MIN_EPSILONS - 1, -1):
        yield Design(design.epsilons[:count], 1)
    for count in range(len(EPSILONS), MIN_EPSILONS - 1, -1):
        yield Design(EPSILONS[:count], 1)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


@dataclass(frozen=True, kw_only=True)
class ComparisonPlan(Plan):
    """The plan of a comparison. Its `noise` is 1, because each training has its own noise multiplier.

    `total` is the largest total epsilon that the caller gave for the comparison, or None. The limit of a new ledger is
    `total`, or without it the epsilon of the plan.
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
    schema = source.schema if source.schema.bounded else outline(source.schema)
    held_out = 0.0 if source.builtin else HELD_OUT
    train_facts = train_schema(schema, held_out)

    @cache
    def training(name: str, epsilon: float) -> Plan:
        return training_plan(
            sides[name].restricted(train_facts),
            epsilon=epsilon,
            delta=options.delta_for(train_facts),
            learner=sides[name].learner,
            settings=sides[name].settings,
            runtime={"device": options.device},
        )

    @cache
    def plan(design: Design) -> ComparisonPlan:
        compared = tuple(_side([training(name, epsilon) for epsilon in design.epsilons]) for name in sides)
        comparison = Comparison(sides=compared, repeats=design.repeats, held_out=held_out)
        settings: dict[str, Any] = {name: contender.json() for name, contender in sides.items()}
        settings |= {"epsilons": list(design.epsilons), "repeats": design.repeats}
        facts = {"settings": settings, "reasons": _reasons(sides, design, source)}
        return _comparison_plan(source, comparison, schema, delta, facts)

    return plan


def _comparison_plan(
    source: Source, comparison: Comparison, schema: Schema, delta: float, facts: Mapping[str, Any]
) -> ComparisonPlan:
    """Return the plan of a comparison, with noisy scores if rows are held out.

    If `source.schema` does not declare all bounds, the plan first releases them, and `schema` is the schema after that
    release. `facts` are the fields `settings` and `reasons` of the plan.
    """
    size = rows_moved(comparison, schema)
    if comparison.held_out:
        noise = calibrate_score_noise(grouped(comparison.trainings(schema), size), delta)
        comparison = replace(comparison, score_noise=noise * size)
    parts: list[tuple[str, Event]] = []
    mechanism: Mechanism[Any] = comparison
    if not source.schema.bounded:
        bounds, what = ranges_within(delta), RELEASE_BOUNDS
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


def _side(plans: Sequence[Plan]) -> Side:
    """Return one side (`Side`) of the comparison from `plans`, the plans of its trainings, one for each epsilon.

    The mechanism and the columns are taken from the first plan; the plans differ only in their noise multiplier.
    """
    columns = tuple(column.name for column in plans[0].schema.used)
    return Side(mechanism=plans[0].mechanism, columns=columns, noises=tuple(plan.noise for plan in plans))


def _reasons(sides: Mapping[str, Contender], design: Design, source: Source) -> tuple[str, ...]:
    """Return the sentences of the plan about the models, their number, and where they are scored.

    `sides` are the two models by their names, `design` has the epsilons and repeats, and `source` has the rows: on a
    built-in data set the models are scored on its public test rows, else on held-out rows with noise.
    """
    shown = ", ".join(f"{epsilon:g}" for epsilon in design.epsilons)
    models, each = 2 * design.repeats * len(design.epsilons), design.repeats
    return (
        *(f"{name}: {contender.name}" for name, contender in sides.items()),
        f"Training runs: {models} models, {each} of each kind at each epsilon of {shown}. All of them are charged.",
        f"Scores: {EVALUATION}."
        if source.builtin
        else f"Scores: released with noise, on {HELD_OUT:.0%} of the rows, which are held out of training.",
    )


def calibrate_score_noise(trainings: Event, delta: float) -> float:
    """Return the smallest noise multiplier at which one Gaussian release costs no more epsilon than `trainings`.

    Both epsilons are at `delta`.
    """
    epsilon = accounting.epsilon(trainings, delta)
    return accounting.calibrate(lambda noise: Gaussian(noise=noise), epsilon, delta)
