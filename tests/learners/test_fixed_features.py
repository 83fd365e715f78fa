"""Functions that learners on fixed features share."""

from __future__ import annotations

import numpy as np

from privaware.learners._fixed_features import softmax


def test_softmax_survives_huge_logits() -> None:
    assert softmax(np.array([[1e4, 0.0]])).tolist() == [[1.0, 0.0]]
