"""Rows have bounded norm whatever they hold, and no row sees another."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from privaware import features
from privaware.errors import WrongInput
from privaware.features.hashed import Hashed
from privaware.features.onehot import OneHot
from privaware.features.pixels import Pixels
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
def test_no_row_of_a_table_is_longer_than_the_norm(rows: np.ndarray, bins: int) -> None:
    made = OneHot(bins=bins, norm=0.7)(rows, SCHEMA)
    assert made.shape[1] == OneHot(bins=bins).width(SCHEMA)
    assert np.isfinite(made).all()
    assert np.linalg.norm(made, axis=1).max() <= 0.7 * (1 + 1e-6)


@given(rows=arrays(np.float32, (3, 1, 2, 3), elements=st.floats(allow_nan=True, width=32)))
def test_no_image_is_longer_than_the_norm(rows: np.ndarray) -> None:
    made = Pixels(norm=2.0)(rows)
    assert np.isfinite(made).all()
    assert np.linalg.norm(made, axis=1).max() <= 2.0 * (1 + 1e-5)


@given(texts=st.lists(st.text(max_size=40), min_size=1, max_size=4))
def test_no_text_is_longer_than_the_norm(texts: list[str]) -> None:
    made = Hashed(slots=64)(np.array(texts, dtype=object))
    assert np.linalg.norm(made, axis=1).max() <= 1 + 1e-5
    alone = np.concatenate([Hashed(slots=64)(np.array([text], dtype=object)) for text in texts])
    assert np.array_equal(made, alone)


def test_each_declared_value_has_a_slot_of_its_own() -> None:
    values = np.array([[0, 0.5, 0, 0], [0, 3, 1, 0], [0, 9, 2, 1], [0, np.nan, 3, 1]])
    made = OneHot()(values, SCHEMA)[:, 1:] > 0
    assert made[:, :4].argmax(axis=1).tolist() == [0, 1, 2, 3]
    assert made[:, 4:8].argmax(axis=1).tolist() == [0, 1, 2, 3]
    assert made[:, 8:].argmax(axis=1).tolist() == [0, 0, 1, 1]


def test_descriptions_build_the_same_transformation_again() -> None:
    for feature in (OneHot(bins=3, norm=0.5), Pixels(), Hashed(slots=32)):
        assert features.build(features.describe(feature)) == feature
    with pytest.raises(WrongInput, match="expected a feature named"):
        features.build({"name": "nothing"})
