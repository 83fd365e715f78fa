"""Majority and mean."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from privaware.data import Data
from privaware.learners.majority import Majority
from privaware.learners.mean import Mean
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import rows_for

QUIET = 1e-6


TABLE = Schema(
    columns=(Column(name="a", low=-1, high=1), Column(name="b", low=-1, high=1)), classes=("n", "y"), rows=400
)


def separable(rows: int = 400) -> Data:
    data = rows_for(TABLE, rows, seed=1)
    return replace(data, y=(data.x[:, 0] > data.x[:, 1]).astype(np.int64))


def test_constant_learners_release_class_shares_and_mean() -> None:
    data = separable()
    shares = Majority().run(data, QUIET, Rng(seed=0)).probabilities(data)[0]
    assert shares == pytest.approx(np.bincount(data.y) / len(data), abs=1e-4)
    schema = replace(TABLE, classes=(), low=0.0, high=10.0)
    numbers = Data(schema=schema, x=data.x, y=np.linspace(2, 4, 400))
    assert Mean().run(numbers, QUIET, Rng(seed=0)).predictions(numbers)[0] == pytest.approx(3.0, abs=1e-3)
