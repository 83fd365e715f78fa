"""Trees with random splits after an additive start."""

from __future__ import annotations

import numpy as np

from privaware import accounting
from privaware.data import Data
from privaware.learners.additive import Additive
from privaware.learners.boosted import Boosted
from privaware.noise import Rng
from privaware.schema import Column, Schema
from tests.learners.mixed_columns import COLUMNS


def test_interactions_are_learnt_where_an_additive_model_cannot() -> None:
    """The target is a column plus the product of two others."""
    columns = tuple(Column(name=name, low=-1, high=1) for name in "abc")
    schema = Schema(columns=columns, low=-2, high=2, rows=2000)
    x = np.random.default_rng(0).uniform(-1, 1, (3000, 3))
    y = x[:, 0] + np.sign(x[:, 1]) * np.sign(x[:, 2])
    data, test = Data(schema=schema, x=x[:2000], y=y[:2000]), Data(schema=schema, x=x[2000:], y=y[2000:])
    scores = {}
    for learner in (Boosted(), Additive()):
        noise = accounting.calibrate(lambda noise, learner=learner: learner.cost(schema, noise), 8.0, 1e-5)
        errors = learner.run(data, noise, Rng(seed=1)).predictions(test) - test.y
        scores[type(learner)] = 1 - np.mean(errors**2) / np.var(test.y)
    assert scores[Additive] > 0.15
    assert scores[Boosted] > scores[Additive] + 0.3


def test_trees_see_little_noise_where_the_start_explains_most() -> None:
    """Residuals are measured again after the start: without, trees add the noise of the target's own spread."""
    rng = np.random.default_rng(4)
    schema = Schema(columns=(*COLUMNS[1:2], Column(name="b", low=-1, high=1)), low=-2, high=2, rows=3000)
    x = rng.uniform(-1, 1, (3000, 2))
    data = Data(schema=schema, x=x, y=x[:, 0] + 0.8 * x[:, 1])
    model = Boosted(trees=100, steps=50).run(data, 3.0, Rng(seed=1))
    assert np.mean((model.predictions(data) - data.y) ** 2) < 0.013 * data.y.var()
