"""Flattened images of bounded norm."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from privaware.features.pixels import Pixels


@given(rows=arrays(np.float32, (3, 1, 2, 3), elements=st.floats(allow_nan=True, width=32)))
def test_norm_of_every_row_is_bounded(rows: np.ndarray) -> None:
    flat = Pixels(norm=2.0)(rows)
    assert np.isfinite(flat).all()
    assert np.linalg.norm(flat, axis=1).max() <= 2.0 * (1 + 1e-5)
