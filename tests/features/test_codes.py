"""Level codes are whole numbers below the number of levels, functions of one row and the schema."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privaware.errors import WrongInput
from privaware.features.codes import Codes, public_edges
from privaware.schema import Column, Schema

COLUMNS = (
    Column(name="age", low=0, high=90, bins=(30, 60), missing="category"),
    Column(name="amount", low=-10, high=1000, missing="category"),
    Column(name="job", kind="category", categories=("a", "b"), unseen="other"),
)
SCHEMA = Schema(columns=COLUMNS, classes=("no", "yes"), rows=40)


@given(st.lists(st.tuples(st.floats(0, 90), st.floats(-10, 1000), st.integers(0, 2)), max_size=20))
def test_codes_are_levels(rows: list[tuple[float, float, int]]) -> None:
    codes = Codes()(np.array(rows, dtype=float).reshape(-1, 3), SCHEMA)
    assert (codes == np.round(codes)).all()
    assert (codes >= 0).all()
    assert (codes < np.array(Codes().levels(SCHEMA))).all()


def test_missing_values_have_the_last_level() -> None:
    codes = Codes()(np.array([[np.nan, np.inf, 2.0]]), SCHEMA)
    assert codes[0].tolist() == [level - 1 for level in Codes().levels(SCHEMA)]


@pytest.mark.parametrize(("low", "high"), [(0, 1e6), (-5, 5), (-100, -1), (3, 4), (0, 1e-9)])
def test_zero_or_the_bound_nearest_to_it_has_a_level_of_its_own(low: float, high: float) -> None:
    edges = public_edges(low, high, cells=32)
    anchor = min(max(0.0, low), high)
    beside = np.array([anchor - 1e-5 * (high - low), anchor, anchor + 1e-5 * (high - low)])
    inside = beside[(beside >= low) & (beside <= high)]
    assert len(set(np.searchsorted(edges, inside, "right"))) == len(inside)
    assert (np.diff(edges) > 0).all()
    assert 24 <= len(edges) <= 64


def test_column_without_bounds_is_refused() -> None:
    with pytest.raises(WrongInput, match="low and high"):
        Codes().levels(Schema(columns=(Column(name="c"),), classes=("a", "b"), rows=5))
