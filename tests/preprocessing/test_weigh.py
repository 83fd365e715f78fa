"""Private weights of entries: the contract, a planted bug, and what is weighed how."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from privaware.data import Data
from privaware.features.hashed import Hashed
from privaware.features.weighed import Weighed
from privaware.noise import Rng
from privaware.preprocessing.weigh import Weigh
from privaware.schema import Schema
from privaware.testing import BrokenPromise, check_mechanism, example, replay
from privaware.testing._rows import joined

TEXT = example("text", rows=24)
HASHED = (Hashed(slots=16, words=1, letters=3, stems=4),)


def test_weights_keep_the_contract() -> None:
    assert check_mechanism(Weigh(features=HASHED), schema=TEXT, games=6) <= 1.0


class LongRows(Weigh):
    """Planted: rows are twice as long as was paid for."""

    def run(self, data: Data, noise: float, rng: Rng) -> Weighed:
        return super().run(data, noise / 2, rng)


def test_weights_with_less_noise_than_was_paid_are_caught() -> None:
    with pytest.raises(BrokenPromise):
        check_mechanism(LongRows(features=HASHED), schema=TEXT, games=0)


@pytest.mark.parametrize("pixels", [np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-45, (np.inf, np.nan, 3e38)])
def test_extreme_rows_move_the_sum_by_at_most_one(pixels: Any) -> None:
    schema = Schema(form="image", shape=(1, 1, 3), classes=("a", "b"), rows=10)
    data = Data(schema=schema, x=np.ones((10, 1, 1, 3), np.float32), y=np.zeros(10, np.int64))
    run = replay(Weigh(), data, joined(data, np.full((1, 1, 3), pixels, np.float32), 1), 0.05)
    assert max(run.ratios.values()) <= 1.0


def test_entries_as_frequent_as_the_noise_weigh_most() -> None:
    schema = Schema(form="image", shape=(1, 1, 3), classes=("a", "b"), rows=1000)
    x = np.zeros((1000, 1, 1, 3), np.float32)
    x[:, 0, 0, 0] = 1.0
    x[:10, 0, 0, :2] = (0.0, 1.0)
    data = Data(schema=schema, x=x, y=np.zeros(1000, np.int64))
    squares = [Weigh().run(data, 10.0, Rng(seed))(np.ones((1, 3)))[0] ** 2 for seed in range(20)]
    frequent, rare, absent = np.median(squares, axis=0)
    assert frequent == pytest.approx(2.0**-6)
    assert rare >= 0.5
    assert sum(row[2] == 0.0 for row in squares) >= 4  # noise of about half of the draws is negative
    assert absent <= rare
