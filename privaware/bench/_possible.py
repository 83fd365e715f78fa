"""Which combinations of a grid can be run: learner, network, data and attacks are checked before anything is trained.

A combination is a table [learners.NAME] of the grid with one network and one data set. It is possible if the learner
fits the data and has the public rows that it needs, if its privacy cost can be stated, and if every attack of the grid
can be played against its model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from privaware.attacks import attack_needs
from privaware.bench import Settings
from privaware.bench._cells import NO_NETWORK, learner_of
from privaware.bench._leakage import attack_of, expect_shadow
from privaware.bench._rows import bench_schema
from privaware.errors import PrivawareError, WrongInput
from privaware.learners import Learner, find_learner
from privaware.schema import Schema

Combination = tuple[str, str, str]
"""The names of a learner, a network ("-" without a choice) and a data set, as the grid calls them."""


def combination(cell: Settings) -> Combination:
    """Return the combination (learner, network, data set) that the settings of a cell belong to."""
    return cell["learner"], cell["network"], cell["data"]


def combination_name(place: Combination) -> str:
    """Return a combination in words, "LEARNER with NETWORK on DATA"; a network that cannot be chosen is left out."""
    learner, network, data = place
    return f"{learner} on {data}" if network == NO_NETWORK else f"{learner} with {network} on {data}"


def refusal(refused: Mapping[Combination, str], of: int) -> str:
    """Return the sentence that refuses a grid because of its impossible combinations `refused`, at least one.

    `refused` has the reason of each impossible combination, and `of` is the number of all combinations. The sentence
    says how many are impossible (if more than one), the first of them with its reason and, if `of` is above 1, what to
    do.
    """
    place, reason = next(iter(refused.items()))
    first = f"{combination_name(place)}: {reason}"
    if of == 1:
        return first
    advice = "change the grid"
    if len(refused) < of:
        advice += ", or run its other combinations with `privaware bench run --skip-impossible`"
    if len(refused) == 1:
        return f"{first}; {advice}"
    return f"{len(refused)} of {of} combinations of the grid are impossible; the first is {first}; {advice}"


def impossible(cells: Sequence[Settings]) -> dict[Combination, str]:
    """Return every combination in `cells` that cannot be run, with the reason; it is checked at its first cell.

    Raise `WrongInput` for a wrong setting of a learner, which is a mistake in the grid.
    """
    refused: dict[Combination, str] = {}
    checked: set[Combination] = set()
    for cell in cells:
        place = combination(cell)
        if place in checked:
            continue
        checked.add(place)
        try:
            learner_of(cell)  # without public rows only its settings can be wrong
        except PrivawareError as problem:
            raise WrongInput(f"{combination_name(place)}: {problem}") from None
        try:
            _expect_runnable(cell)
        except PrivawareError as problem:
            refused[place] = str(problem)
    return refused


def _expect_runnable(cell: Settings) -> None:
    """Raise a `PrivawareError` if the learner of a cell does not fit its data, has no cost or cannot be attacked.

    Raise it also if the delta of the cell is at least 1 / rows.
    """
    make = find_learner(cell["algorithm"])
    schema, public = bench_schema(cell["rows"], make)
    if schema.task not in make.tasks:
        raise WrongInput(f"expected data for {' or '.join(make.tasks)}, got {schema.task}")
    if cell["delta"] * schema.rows >= 1:
        raise WrongInput(f"expected delta below 1 / {schema.rows} rows, got {cell['delta']:g}")
    learner = learner_of(cell, public=public)
    learner.cost(schema if make.uses_columns else schema.keep(()), 1.0)
    _expect_attackable(cell, schema, learner)


def _expect_attackable(cell: Mapping[str, Any], schema: Schema, learner: Learner) -> None:
    for name in (attack_of(wanted).name for wanted in cell["attacks"]):
        if attack_needs(name).classes and not schema.classes:
            raise WrongInput(f"expected classes for the attack {name}, got {schema.task}")
    if cell.get("shadows"):
        expect_shadow(learner, schema, cell)
