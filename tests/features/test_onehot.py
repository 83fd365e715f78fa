"""One-hot tables of bounded norm."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from privaware.features.onehot import OneHot
from privaware.schema import Column, Schema

SCHEMA = Schema(
    columns=(
        Column(name="bare", low=-2, high=7),
        Column(name="binned", low=0, high=10, bins=(1, 5), missing="category"),
        Column(name="word", kind="category", categories=("a", "b", "c"), unseen="other"),
        Column(name="strict", kind="category", categories=("a", "b")),
    ),
    classes=("n", "y"),
)
WILD = st.floats(allow_nan=True, allow_infinity=True, width=64)


@given(rows=arrays(float, (3, 4), elements=WILD), bins=st.integers(0, 5))
def test_norm_of_every_row_is_bounded(rows: np.ndarray, bins: int) -> None:
    encoded = OneHot(bins=bins, norm=0.7)(rows, SCHEMA)
    assert encoded.shape[1] == OneHot(bins=bins).width(SCHEMA)
    assert np.isfinite(encoded).all()
    assert np.linalg.norm(encoded, axis=1).max() <= 0.7 * (1 + 1e-6)


def test_each_declared_value_has_its_own_slot() -> None:
    values = np.array([[0, 0.5, 0, 0], [0, 3, 1, 0], [0, 9, 2, 1], [0, np.nan, 3, 1]])
    encoded = OneHot()(values, SCHEMA)[:, 1:] > 0
    assert encoded[:, :4].argmax(axis=1).tolist() == [0, 1, 2, 3]
    assert encoded[:, 4:8].argmax(axis=1).tolist() == [0, 1, 2, 3]
    assert encoded[:, 8:].argmax(axis=1).tolist() == [0, 0, 1, 1]


def test_text_slots_add_at_most_one_to_the_squared_norm() -> None:
    columns = (Column(name="note", kind="text", slots=8), Column(name="age", low=0, high=10))
    schema = Schema(columns=columns, classes=("n", "y"))
    encode = OneHot()
    assert (encode.squares(schema), OneHot(bins=4).squares(schema)) == (2, 9)
    extreme = np.hstack([np.full((2, 8), [[1.0], [0.1]]), [[10.0], [0.0]]])
    rows = encode(extreme, schema)
    assert (np.square(rows, dtype=float).sum(axis=1) <= 1 + 1e-6).all()
    assert np.allclose(rows[1, :8], 0.1 / np.sqrt(2))  # within the norm: only scaled
