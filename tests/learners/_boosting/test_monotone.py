"""Models that rise or fall along columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from privaware.errors import WrongInput
from privaware.learners.boosted import Boosted
from privaware.learners.fourier import Fourier
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.testing import rows_for
from tests.learners.mixed_columns import NUMBER, THREE, TWO


@pytest.mark.parametrize("schema", [TWO, NUMBER], ids=["two classes", "regression"])
@pytest.mark.parametrize("direction", [1, -1])
def test_monotone_model_never_turns_back(schema: Schema, direction: int) -> None:
    data = rows_for(schema, 200, seed=5)
    learner = Boosted(trees=80, steps=10, depth=4, bias_clip=1.0, monotone={"age": direction, "score": -direction})
    model = learner.run(data, noise=0.5, rng=Rng(seed=3))  # with a larger bias_clip, random targets would give the mean
    free = replace(learner, monotone={}).run(data, noise=0.5, rng=Rng(seed=3))
    turned = []
    for at, sign in ((0, direction), (1, -direction)):
        column = schema.used[at]
        rows = np.repeat(data.x[:20], 50, axis=0)
        rows[:, at] = np.tile(np.linspace(column.low, column.high, 50), 20)
        steps = [np.diff(each.outputs(rows)[:, -1].reshape(20, 50)) * sign for each in (model, free)]
        assert steps[0].min() >= -1e-5
        assert steps[0].max() > 0
        turned.append(steps[1].min())
    assert min(turned) < -1e-3  # noise alone turns the free one back


@pytest.mark.parametrize("make", [Boosted, Fourier])
def test_direction_of_a_column_that_is_not_selected_is_ignored(make: Any) -> None:
    data = rows_for(TWO, 40, seed=5).keep(("score", "job"))
    learner = make(steps=4, monotone={"age": 1, "score": -1})
    models = [each.run(data, 0.5, Rng(seed=3)) for each in (learner, replace(learner, monotone={"score": -1}))]
    np.testing.assert_array_equal(*(model.outputs(data.x) for model in models))


def test_fourier_is_an_additive_model_if_no_column_is_free() -> None:
    data = rows_for(TWO, 40, seed=5).keep(("age",))
    model = Fourier(steps=4, count=8, monotone={"age": 1}).run(data, 0.5, Rng(seed=3))
    rows = np.linspace(0, 90, 50)[:, None]
    assert np.diff(model.outputs(rows)[:, 1]).min() >= -1e-5


def test_monotone_is_refused_where_there_is_no_order() -> None:
    for schema, wanted in ((TWO, {"job": 1}), (TWO, {"age": 2}), (TWO, {"size": 1}), (THREE, {"age": 1})):
        with pytest.raises(WrongInput, match="monotone"):
            Boosted(monotone=wanted).cost(schema, 1.0)
