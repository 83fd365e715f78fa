"""Max pooling."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from privaware.features import MaxPool


@given(size=st.integers(1, 4), height=st.integers(4, 9), width=st.integers(4, 9))
def test_max_pool_agrees_with_torch(size: int, height: int, width: int) -> None:
    rows = np.random.default_rng(3).random((2, 3, height, width), np.float32)
    expected = torch.nn.functional.max_pool2d(torch.from_numpy(rows), size)
    assert np.array_equal(MaxPool(size=size)(rows), expected.numpy())
