"""What the first learners promise beyond the contract."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from privaware import datasets
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import leaves
from privaware.learners._fixed_features import softmax
from privaware.learners.alibi import Alibi, posterior
from privaware.learners.linear import Linear
from privaware.learners.majority import Majority
from privaware.learners.mean import Mean
from privaware.learners.pate import Pate
from privaware.metrics import accuracy
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import Recorder, rows_for

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
    whole, sampled = (Linear(lr=2.0, steps=200, rate=rate).run(data, QUIET, Rng(seed=0)) for rate in (1.0, 0.5))
    assert np.mean(whole.predictions(data) == sampled.predictions(data)) > 0.95


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


def test_constant_learners_release_class_shares_and_mean() -> None:
    data = separable()
    shares = Majority().run(data, QUIET, Rng(seed=0)).probabilities(data)[0]
    assert shares == pytest.approx(np.bincount(data.y) / len(data), abs=1e-4)
    schema = replace(TABLE, classes=(), low=0.0, high=10.0)
    numbers = Data(schema=schema, x=data.x, y=np.linspace(2, 4, 400))
    assert Mean().run(numbers, QUIET, Rng(seed=0)).predictions(numbers)[0] == pytest.approx(3.0, abs=1e-3)


def test_posterior_of_alibi_has_the_right_limits() -> None:
    noisy, prior = np.array([[1.3, -0.4, 0.1]]), np.array([[0.2, 0.5, 0.3]])
    assert posterior(prior, noisy, 1e-3) == pytest.approx(np.array([[1.0, 0, 0]]), abs=1e-9)
    assert posterior(prior, noisy, 1e9) == pytest.approx(prior, abs=1e-6)
    twice = np.array([[5.0, -5.0]])
    odds = np.log(posterior(np.array([[0.5, 0.5]]), twice, 2.0)[0])
    assert odds[0] - odds[1] == pytest.approx(2 / 2.0)


def test_alibi_beats_a_constant() -> None:
    data = replace(separable(2000), schema=replace(TABLE, unit="label", rows=2000))
    model = Alibi().run(data, 0.5, Rng(seed=0))
    assert accuracy(data.y, model.predictions(data)) > 0.85


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


def test_wisconsin_is_learned_at_epsilon_one() -> None:
    loaded = datasets.load("wisconsin")
    model = Linear().run(loaded.train, 37.3, Rng(seed=0))
    constant = np.bincount(loaded.test.y).max() / len(loaded.test)
    assert accuracy(loaded.test.y, model.predictions(loaded.test)) > constant + 0.1


def test_softmax_survives_huge_logits() -> None:
    assert softmax(np.array([[1e4, 0.0]])).tolist() == [[1.0, 0.0]]
