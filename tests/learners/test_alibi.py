"""ALIBI: the posterior of a label, and learning from noisy labels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from privaware.data import Data
from privaware.learners.alibi import Alibi, posterior
from privaware.metrics import accuracy
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import rows_for

TABLE = Schema(
    columns=(Column(name="a", low=-1, high=1), Column(name="b", low=-1, high=1)), classes=("n", "y"), rows=400
)


def separable(rows: int = 400) -> Data:
    data = rows_for(TABLE, rows, seed=1)
    return replace(data, y=(data.x[:, 0] > data.x[:, 1]).astype(np.int64))


def test_posterior_of_alibi_has_the_right_limits() -> None:
    noisy, prior = np.array([[1.3, -0.4, 0.1]]), np.array([[0.2, 0.5, 0.3]])
    assert posterior(prior, noisy, 1e-3) == pytest.approx(np.array([[1.0, 0, 0]]), abs=1e-9)
    assert posterior(prior, noisy, 1e9) == pytest.approx(prior, abs=1e-6)
    twice = np.array([[5.0, -5.0]])
    odds = np.log(posterior(np.array([[0.5, 0.5]]), twice, 2.0)[0])
    assert odds[0] - odds[1] == pytest.approx(2 / 2.0)


def test_alibi_beats_a_constant() -> None:
    data = replace(separable(2000), schema=replace(TABLE, unit="label", rows=2000))
    model = Alibi().run(data, 0.5, Rng(seed=0))
    assert accuracy(data.y, model.predictions(data)) > 0.85
