"""Linear models on rows in parts: dense rows come back as they were, and a table is never gathered."""

from __future__ import annotations

import numpy as np
import pytest

from privaware.data import Data, Streamed
from privaware.exact_sums import clip_rows
from privaware.features.onehot import OneHot
from privaware.learners import _linear_parts
from privaware.learners._fixed_features import rows_of
from privaware.learners._linear_gradient import ROWS
from privaware.learners._linear_parts import SparseRows
from privaware.learners.linear import Linear
from privaware.mechanism import run
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import rows_for
from tests.parts import cut, same_tensors

COLUMNS = (
    Column(name="a", low=-3, high=10, missing="category"),
    Column(name="b", kind="category", categories=("p", "q", "r"), missing="category", unseen="other"),
)
SCHEMA = Schema(columns=COLUMNS, classes=("n", "y"), rows=500)


def test_dense_rows_are_those_that_were_made_sparse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_linear_parts, "DENSE", 64)
    data, feature = rows_for(SCHEMA, 500), OneHot()
    expected = clip_rows(rows_of(data, feature), 1.0, ROWS, np.float32)
    sparse = SparseRows(feature, data)
    assert np.array_equal(np.concatenate([sparse.dense(at) for at in range(0, 500, 64)]), expected)
    assert len(sparse.steps) < expected.size / 2
    assert SparseRows(feature, data.take(slice(0, 0))).dense(0).shape == (0, expected.shape[1])


def test_a_table_is_not_gathered_and_gives_the_same_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_linear_parts, "DENSE", 64)
    learner, data = Linear(steps=4), rows_for(SCHEMA, 500)
    expected = run(learner, data, 0.7, Rng(seed=3)).tensors
    monkeypatch.setattr(Streamed, "gathered", lambda self: pytest.fail("all rows in memory"))
    assert same_tensors(run(learner, cut(data, 1), 0.7, Rng(seed=3)).tensors, expected)


@pytest.mark.parametrize("settings", [{"rate": 0.5}, {"centre": 0.1}, {"base": 0.1}])
def test_what_is_no_sum_over_all_rows_gathers_them(settings: dict[str, float]) -> None:
    learner, data = Linear(steps=3, **settings), rows_for(SCHEMA, 500)  # type: ignore[arg-type]
    parts = Streamed(schema=SCHEMA, parts=data.parts)
    expected = run(learner, data, 0.7, Rng(seed=3)).tensors
    assert isinstance(parts.gathered(), Data)
    assert same_tensors(run(learner, parts, 0.7, Rng(seed=3)).tensors, expected)
