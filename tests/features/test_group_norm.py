"""Group normalisation without parameters."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from privaware.errors import WrongInput
from privaware.features import GroupNorm


@given(groups=st.sampled_from([1, 2, 3, 6]), shift=st.floats(-5, 5), scale=st.floats(0.5, 20))
def test_group_norm_agrees_with_torch(groups: int, shift: float, scale: float) -> None:
    rows = np.random.default_rng(2).normal(shift, scale, (4, 2, 3, 5, 2)).astype(np.float32)
    normalised = GroupNorm(groups=groups)(rows)
    expected = torch.nn.functional.group_norm(torch.from_numpy(rows).flatten(1, 2), groups)
    np.testing.assert_allclose(normalised.reshape(4, 6, 5, 2), expected.numpy(), atol=2e-5)


def test_groups_must_divide_the_channels() -> None:
    with pytest.raises(WrongInput, match="choose other groups"):
        GroupNorm(groups=4)(np.ones((1, 6, 2, 2), np.float32))
