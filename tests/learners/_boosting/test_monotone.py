"""Models that rise or fall along columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from privaware.errors import WrongInput
from privaware.learners.boosted import Boosted
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


def test_monotone_is_refused_where_there_is_no_order() -> None:
    for schema, wanted in ((TWO, {"job": 1}), (TWO, {"age": 2}), (TWO, {"size": 1}), (THREE, {"age": 1})):
        with pytest.raises(WrongInput, match="monotone"):
            Boosted(monotone=wanted).cost(schema, 1.0)
