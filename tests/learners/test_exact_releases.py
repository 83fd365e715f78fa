"""What is given to the noise: exact sums over rows, in any order, at a million rows and with bits to lose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from privaware.data import Data
from privaware.learners.adassp import Adassp
from privaware.learners.linear import Linear
from privaware.learners.majority import Majority
from privaware.learners.mean import Mean
from privaware.learners.newton import Newton
from privaware.noise import Rng
from privaware.schema import Column, Schema


class Tape(Rng):
    """Records exact values and sensitivities, and releases the same public values whatever the rows."""

    def gaussian(self, exact: Any, *, noise: Any, sensitivity: Any) -> Any:
        return self._record(exact, sensitivity)

    def laplace(self, exact: Any, *, noise: Any, sensitivity: Any) -> Any:
        return self._record(exact, sensitivity)

    def _record(self, exact: Any, sensitivity: float) -> Any:
        tape = self.__dict__.setdefault("tape", [])
        values = np.asarray(exact).astype(float)
        tape.append((values, float(sensitivity)))
        public = np.random.default_rng(len(tape)).standard_normal(values.shape) * 1000
        if isinstance(exact, float):
            return float(public)
        return public if isinstance(exact, np.ndarray) else exact.new_tensor(public)


def schema_of(rows: int, classes: int) -> Schema:
    columns = tuple(Column(name=f"c{at}", low=0, high=1) for at in range(8))
    named = tuple(f"k{at}" for at in range(classes))
    target: dict[str, Any] = {"classes": named} if classes else {"low": -1.0, "high": 1.0}
    return Schema(columns=columns, target="y", rows=rows, **target)


def alike(rows: int, classes: int) -> Data:
    """Similar rows of one class: sums grow, and float32 loses their low bits."""
    rng = np.random.default_rng(0)
    y = np.zeros(rows, dtype=np.int64) if classes else rng.uniform(0.3, 0.9, rows)
    return Data(schema=schema_of(rows, classes), x=rng.random((rows, 8)) * 0.1 + 0.9, y=y)


def rare(rows: int, classes: int) -> Data:
    """Ordinary rows with one positive in a hundred."""
    rng = np.random.default_rng(1)
    y = (rng.random(rows) < 0.01).astype(np.int64) if classes else rng.uniform(-1, 1, rows)
    return Data(schema=schema_of(rows, classes), x=rng.random((rows, 8)), y=y)


def tape_of(learner: Any, data: Data) -> list[tuple[np.ndarray, float]]:
    rng = Tape(seed=0)
    learner.run(data, 1.0, rng)
    return list(rng.__dict__["tape"])


LEARNERS = {
    "linear": (Linear(steps=2), 2),
    "linear, three classes": (Linear(steps=2), 3),
    "linear, regression": (Linear(steps=2), 0),
    "newton": (Newton(steps=1), 2),
    "newton, three classes": (Newton(steps=1), 3),
    "newton, regression": (Newton(steps=1), 0),
    "adassp": (Adassp(), 0),
    "adassp, three classes": (Adassp(), 3),
    "mean": (Mean(), 0),
    "majority": (Majority(), 3),
}
QUICK = ("linear", "mean")


def expect_within_sensitivity(learner: Any, data: Data, missing: int) -> None:
    fewer = data.take(np.delete(np.arange(len(data)), missing))
    for (one, sensitivity), (two, _) in zip(tape_of(learner, data), tape_of(learner, fewer), strict=True):
        assert np.linalg.norm(one - two) <= sensitivity


@pytest.mark.parametrize("rows_like", [alike, rare])
@pytest.mark.parametrize("name", LEARNERS)
def test_p39_row_order_changes_no_bit_of_a_noised_sum(name: str, rows_like: Any) -> None:
    learner, classes = LEARNERS[name]
    data = rows_like(20_001, classes)
    other = data.take(np.random.default_rng(2).permutation(20_001))
    for (one, _), (two, _) in zip(tape_of(learner, data), tape_of(learner, other), strict=True):
        assert np.array_equal(one, two)


@pytest.mark.parametrize("name", LEARNERS)
def test_p39_one_row_moves_a_sum_by_its_sensitivity_at_most(name: str) -> None:
    learner, classes = LEARNERS[name]
    for rows_like in (alike, rare):
        for missing in (0, 500, 999):
            expect_within_sensitivity(learner, rows_like(1_000, classes), missing)


@pytest.mark.parametrize("name", QUICK)
def test_p39_one_of_1e6_rows_moves_a_sum_within_its_sensitivity(name: str) -> None:
    learner, classes = LEARNERS[name]
    expect_within_sensitivity(learner, alike(1_000_000, classes), 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("rows_like", [alike, rare])
def test_p39_one_of_1e7_rows_moves_a_sum_within_its_sensitivity(name: str, rows_like: Any) -> None:
    learner, classes = LEARNERS[name]
    expect_within_sensitivity(learner, rows_like(10_000_000, classes), 5)
