"""Linear models on rows in parts: dense rows come back as they were, and a table is never gathered."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from torch import Tensor

from privaware.data import Data, LocalParts, Streamed
from privaware.exact_sums import clip_rows
from privaware.features.onehot import OneHot
from privaware.learners._fixed_features import rows_of
from privaware.learners._linear import parts as _linear_parts
from privaware.learners._linear.gradient import ROWS, LinearGradient
from privaware.learners._linear.parts import Batch, SparseRows
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
    monkeypatch.setattr(_linear_parts, "ROWS_PER_BLOCK", 64)
    data, feature = rows_for(SCHEMA, 500), OneHot()
    expected = clip_rows(rows_of(data, feature), 1.0, ROWS, np.float32)
    sparse = SparseRows(feature, data)
    assert np.array_equal(np.concatenate([sparse.dense(at) for at in range(0, 500, 64)]), expected)
    assert len(sparse.steps) < expected.size / 2
    assert SparseRows(feature, data.take(slice(0, 0))).dense(0).shape == (0, expected.shape[1])


def test_a_table_is_not_gathered_and_gives_the_same_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_linear_parts, "ROWS_PER_BLOCK", 64)
    learner, data = Linear(steps=4), rows_for(SCHEMA, 500)
    expected = run(learner, data, 0.7, Rng(seed=3)).tensors
    monkeypatch.setattr(Streamed, "gathered", lambda self: pytest.fail("all rows in memory"))
    assert same_tensors(run(learner, cut(data, 1), 0.7, Rng(seed=3)).tensors, expected)


def test_norms_of_rows_are_found_once_for_all_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_linear_parts, "ROWS_PER_BLOCK", 128)
    found, find = [], LinearGradient._find_most

    def counted(gradient: LinearGradient) -> Tensor:
        found.append(len(gradient.rows))
        return find(gradient)

    monkeypatch.setattr(LinearGradient, "_find_most", counted)
    run(Linear(steps=6), cut(rows_for(SCHEMA, 500), 1), 0.7, Rng(seed=3))
    assert sum(found) == 500


def test_samples_of_parts_are_those_of_the_same_rows_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal rows are drawn one by one: all of these are alike in pairs, and the sample of a step splits pairs."""
    monkeypatch.setattr(_linear_parts, "ROWS_PER_BLOCK", 64)
    half = rows_for(SCHEMA, 250)
    data = Data(schema=SCHEMA, x=np.repeat(half.x, 2, axis=0), y=np.repeat(half.y, 2))
    learner, expected = Linear(steps=4, rate=0.3), []
    cuts = [(0, 500), (0, 1, 77, 400, 500)]
    monkeypatch.setattr(Streamed, "gathered", lambda self: pytest.fail("all rows in memory"))
    for edges in cuts:
        parts = [replace(data.take(slice(a, b)), begin=a) for a, b in pairwise(edges)]
        rows = Streamed(schema=SCHEMA, parts=LocalParts(lambda parts=parts: iter(parts[::-1])))  # type: ignore[misc]
        expected.append(run(learner, rows, 0.7, Rng(seed=3)).tensors)
    assert same_tensors(*expected)
    assert same_tensors(run(learner, data, 0.7, Rng(seed=3)).tensors, expected[0])
    sparse = SparseRows(OneHot(), replace(data, begin=0))
    batch = Batch(draws=Rng(seed=3).by_position(), rate=0.3, firsts={0: 0})
    pairs = batch.sample(sparse).reshape(250, 2)
    assert 0.3 < np.mean(pairs[:, 0] != pairs[:, 1]) < 0.55  # 0.42 expected; 0 if rows were drawn by what they hold


@pytest.mark.parametrize("settings", [{"centre": 0.1}, {"base": 0.1}])
def test_what_is_no_sum_over_all_rows_gathers_them(settings: dict[str, float]) -> None:
    learner, data = Linear(steps=3, **settings), rows_for(SCHEMA, 500)  # type: ignore[arg-type]
    parts = Streamed(schema=SCHEMA, parts=data.parts)
    expected = run(learner, data, 0.7, Rng(seed=3)).tensors
    assert isinstance(parts.gathered(), Data)
    assert same_tensors(run(learner, parts, 0.7, Rng(seed=3)).tensors, expected)
