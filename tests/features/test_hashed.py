"""Hashed n-grams of text."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from privaware.features.hashed import Hashed


@given(texts=st.lists(st.text(max_size=40), min_size=1, max_size=4))
def test_norm_of_every_row_is_bounded_and_independent_of_other_rows(texts: list[str]) -> None:
    hashed = Hashed(slots=64)(np.array(texts, dtype=object))
    assert np.linalg.norm(hashed, axis=1).max() <= 1 + 1e-5
    alone = np.concatenate([Hashed(slots=64)(np.array([text], dtype=object)) for text in texts])
    assert np.array_equal(hashed, alone)
