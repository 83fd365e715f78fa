"""Learners that sum over parts release the same bits however rows are cut and ordered."""

from __future__ import annotations

import pytest

from privaware import registry
from privaware.learners import find_learner
from privaware.mechanism import RunsInParts
from privaware.mechanism import run as run_rows
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import rows_for
from tests.parts import cut, same_tensors

COLUMNS = (
    Column(name="a", low=-3, high=10, missing="category"),
    Column(name="b", low=0, high=1, bins=(0.2, 0.5)),
    Column(name="c", kind="category", categories=("p", "q", "r"), missing="category", unseen="other"),
)
TASKS = {
    "two classes": Schema(columns=COLUMNS, classes=("n", "y"), rows=700),
    "three classes": Schema(columns=COLUMNS, classes=("n", "u", "y"), rows=700),
    "regression": Schema(columns=COLUMNS, low=-5.0, high=20.0, rows=700),
}
SETTINGS = {
    "boosted": {"trees": 6, "steps": 6},
    "fourier": {"count": 8, "steps": 6},
    "additive": {"steps": 6, "trees": 3},
    "linear": {"steps": 5},
}
IN_PARTS = [
    name
    for name in registry.names("learners")
    if isinstance(find_learner(name), RunsInParts) and find_learner(name).in_parts
]


def test_the_learners_that_must_take_any_number_of_rows_do() -> None:
    assert {"majority", "mean"} <= set(IN_PARTS)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", IN_PARTS)
def test_releases_do_not_depend_on_how_rows_are_cut(name: str, task: str) -> None:
    schema, make = TASKS[task], find_learner(name)
    if schema.task not in make.tasks:
        pytest.skip(f"{name} does not do {schema.task}")
    learner, data = make(**SETTINGS.get(name, {})), rows_for(schema, 700)
    expected = run_rows(learner, data, 0.7, Rng(seed=3)).tensors
    for seed in range(3):
        assert same_tensors(run_rows(learner, cut(data, seed), 0.7, Rng(seed=3)).tensors, expected)
