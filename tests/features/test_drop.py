"""Tables without their categories."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from privaware.errors import WrongInput
from privaware.features import Drop, OneHot
from privaware.schema import Column, Schema

NUMBERS = Schema(columns=(Column(name="a", low=0, high=2), Column(name="b", low=-1, high=1)), classes=("n", "y"))


def test_numbers_are_scaled_as_by_one_hot_and_categories_ignored() -> None:
    sex = Column(name="sex", kind="category", categories=("f", "m"))
    mixed = replace(NUMBERS, columns=(NUMBERS.columns[0], sex, NUMBERS.columns[1]))
    rows = np.array([[0.5, 1.0, 0.1], [9.0, 0.0, np.nan], [2.0, 1.0, -1.0]])
    dropped = Drop()(rows, mixed)
    np.testing.assert_allclose(dropped, OneHot()(rows[:, [0, 2]], NUMBERS), atol=1e-7)
    rows[:, 1] = 0.0
    assert np.array_equal(Drop()(rows, mixed), dropped)
    assert dropped.shape[1] == Drop().width(mixed)


@given(rows=arrays(np.float64, (3, 2), elements=st.floats(width=64)))
def test_norm_of_every_row_is_bounded(rows: np.ndarray) -> None:
    dropped = Drop(norm=0.5)(rows, NUMBERS)
    assert (np.sqrt(np.square(dropped).sum(axis=1)) <= 0.5 + 1e-6).all()


def test_table_without_numbers_is_refused() -> None:
    bare = Schema(columns=(Column(name="w", kind="category", categories=("x",)),), classes=("n", "y"))
    with pytest.raises(WrongInput, match="use onehot"):
        Drop()(np.zeros((1, 1)), bare)
