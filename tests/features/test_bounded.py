"""Rows of bounded norm."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from privaware.features import Bounded


@settings(max_examples=200, deadline=None)
@given(
    rows=arrays(np.float32, array_shapes(min_dims=2, max_dims=4, max_side=6), elements=st.floats(width=32)),
    norm=st.floats(1e-6, 1e6),
    exact=st.booleans(),
)
def test_norm_of_every_row_is_bounded(rows: np.ndarray, norm: float, exact: bool) -> None:
    bounded = Bounded(norm=norm, exact=exact)(rows)
    length = np.sqrt(np.square(bounded.astype(float)).sum(axis=1))
    assert np.isfinite(bounded).all()
    assert (length <= norm).all()
    finite = np.nan_to_num(rows.reshape(len(rows), -1), nan=0.0, posinf=0.0, neginf=0.0)
    if exact:
        assert np.allclose(length[np.abs(finite).max(axis=1) > 0], norm, rtol=1e-5)
    else:
        norms = np.sqrt(np.square(finite.astype(float)).sum(axis=1))
        assert np.allclose(length, np.minimum(norms, norm), rtol=1e-5, atol=1e-37)
