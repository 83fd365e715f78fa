"""PATE: its cost, its student and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import leaves
from privaware.learners.pate import Pate
from privaware.metrics import accuracy
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import Recorder, rows_for

TABLE = Schema(
    columns=(Column(name="a", low=-1, high=1), Column(name="b", low=-1, high=1)), classes=("n", "y"), rows=400
)


def separable(rows: int = 400) -> Data:
    data = rows_for(TABLE, rows, seed=1)
    return replace(data, y=(data.x[:, 0] > data.x[:, 1]).astype(np.int64))


def test_p17_pate_charges_each_query_it_answers() -> None:
    data, pool = separable(), rows_for(TABLE, 60, seed=5)
    learner = Pate(teachers=5, queries=40, public=pool)
    rng = Recorder(seed=1)
    learner.run(data, 2.0, rng)
    answered = sum(call.kind == "gaussian" for call in rng.calls)
    [(_, charged)] = list(leaves(learner.cost(TABLE, 2.0)))
    assert answered == charged == 40


def test_pate_student_learns_at_small_noise() -> None:
    data, pool = separable(4000), rows_for(TABLE, 300, seed=5)
    model = Pate(teachers=20, queries=200, public=pool).run(data, 0.5, Rng(seed=0))
    assert accuracy(data.y, model.predictions(data)) > 0.9


def test_pate_refuses_too_few_public_rows_before_anything_runs() -> None:
    with pytest.raises(WrongInput, match="at least 200 public rows"):
        Pate(queries=200, public=rows_for(TABLE, 10))


def test_teachers_without_a_solution_raise_no_error() -> None:
    """Equal rows and hardly any ridge: whether equations are singular depends on rows, so no error may tell it."""
    pool = rows_for(TABLE, 20, seed=5)
    same = Data(schema=TABLE, x=np.full((40, 2), 0.5), y=np.zeros(40, dtype=np.int64))
    model = Pate(teachers=2, queries=20, ridge=1e-300, public=pool).run(same, 1.0, Rng(seed=0))
    assert np.isfinite(model.tensors["output.weight"]).all()
