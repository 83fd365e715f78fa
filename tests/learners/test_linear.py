"""Linear models against least squares, and on a real table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from privaware import datasets
from privaware.data import Data
from privaware.learners.linear import Linear
from privaware.metrics import accuracy
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import rows_for

QUIET = 1e-6


TABLE = Schema(
    columns=(Column(name="a", low=-1, high=1), Column(name="b", low=-1, high=1)), classes=("n", "y"), rows=400
)


def separable(rows: int = 400) -> Data:
    data = rows_for(TABLE, rows, seed=1)
    return replace(data, y=(data.x[:, 0] > data.x[:, 1]).astype(np.int64))


def test_linear_without_noise_learns_a_linear_target() -> None:
    data = separable()
    model = Linear(lr=4.0).run(data, QUIET, Rng(seed=0))
    assert accuracy(data.y, model.predictions(data)) > 0.97


def test_full_batch_and_sampled_descent_agree_at_small_noise() -> None:
    data = separable()
    full, sampled = (Linear(lr=2.0, steps=200, rate=rate).run(data, QUIET, Rng(seed=0)) for rate in (1.0, 0.5))
    assert np.mean(full.predictions(data) == sampled.predictions(data)) > 0.95


def test_linear_regression_equals_least_squares_at_small_noise() -> None:
    schema = replace(TABLE, classes=(), low=-3.0, high=3.0)
    data = rows_for(schema, 400, seed=1)
    truth = data.x @ np.array([1.0, -0.5]) + 0.3
    model = Linear(lr=1.0, norm=2.0, steps=400).run(replace(data, y=truth), QUIET, Rng(seed=0))
    assert np.abs(model.predictions(data) - truth).max() < 0.05


def test_linear_regression_is_stable_for_any_number_of_rows() -> None:
    schema = replace(TABLE, classes=(), low=-3.0, high=3.0, rows=4000)
    data = rows_for(schema, 4000, seed=1)
    truth = data.x @ np.array([2.0, -0.5])
    model = Linear().run(replace(data, y=truth), 4.0, Rng(seed=0))
    assert np.abs(model.predictions(data) - truth).mean() < 0.2


def test_wisconsin_is_learned_at_epsilon_one() -> None:
    loaded = datasets.load("wisconsin")
    model = Linear().run(loaded.train, 37.3, Rng(seed=0))
    constant = np.bincount(loaded.test.y).max() / len(loaded.test)
    assert accuracy(loaded.test.y, model.predictions(loaded.test)) > constant + 0.1
