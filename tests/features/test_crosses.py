"""One-hot categories and pairs of categories."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from privaware import accounting
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.features.crosses import Crosses, combinations_of
from privaware.learners.linear import Linear
from privaware.noise import Rng
from privaware.schema import Column, Schema

SCHEMA = Schema(
    columns=(
        Column(name="word", kind="category", categories=("a", "b", "c"), unseen="other"),
        Column(name="strict", kind="category", categories=("a", "b")),
        Column(name="gaps", kind="category", categories=("a", "b"), missing="category"),
    ),
    classes=("n", "y"),
)
WILD = st.floats(allow_nan=True, allow_infinity=True, width=64)


@given(rows=arrays(float, (3, 3), elements=WILD))
def test_norm_of_every_row_is_one(rows: np.ndarray) -> None:
    encoded = Crosses()(rows, SCHEMA)
    assert encoded.shape[1] == Crosses().width(SCHEMA)
    assert np.linalg.norm(encoded, axis=1) == pytest.approx(1.0, abs=1e-6)


def test_each_pair_of_levels_has_its_own_entry() -> None:
    rows = np.array([[a, b, c] for a in range(4) for b in range(2) for c in range(3)], dtype=float)
    encoded = Crosses()(rows, SCHEMA)[:, 4 + 2 + 3 :] > 0
    assert combinations_of(SCHEMA) == encoded.shape[1] == 4 * 2 + 4 * 3 + 2 * 3
    assert (encoded.sum(axis=1) == 3).all()
    assert encoded[:, :8].argmax(axis=1).tolist() == [int(2 * a + b) for a, b, _ in rows]


def test_columns_have_their_fraction_of_the_squared_norm() -> None:
    encoded = Crosses()(np.zeros((1, 3)), SCHEMA)
    assert (encoded[:, : 4 + 2 + 3] ** 2).sum() == pytest.approx(0.6, abs=1e-6)
    assert (encoded**2).sum() == pytest.approx(1.0, abs=1e-6)


def test_numbers_have_no_crosses() -> None:
    schema = Schema(columns=(Column(name="n", low=0, high=1), *SCHEMA.columns), classes=("n", "y"))
    with pytest.raises(WrongInput, match="crosses: expected a table whose columns are categories"):
        Crosses().width(schema)


def test_linear_model_learns_whether_two_columns_are_equal() -> None:
    columns = tuple(Column(name=name, kind="category", categories=tuple("xyz")) for name in "abc")
    schema = Schema(columns=columns, classes=("no", "yes"), rows=1_000)
    x = np.random.default_rng(0).integers(0, 3, (1_500, 3)).astype(float)
    y = (x[:, 0] == x[:, 1]).astype(int)
    learner = Linear(features=[{"name": "crosses"}])
    noise = accounting.calibrate(lambda noise: learner.cost(schema, noise), 1.0, 1e-5)
    model = learner.run(Data(schema=schema, x=x[:1_000], y=y[:1_000]), noise, Rng(seed=1))
    assert np.mean(model.predictions(Data(schema=schema, x=x[1_000:], y=y[1_000:])) == y[1_000:]) > 0.95
