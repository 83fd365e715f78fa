"""Private bins of numbers whose bounds are declared."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from privaware.data import Data
from privaware.events import NOTHING
from privaware.noise import Rng
from privaware.preprocessing.bins import Bins
from privaware.schema import Column, Schema
from privaware.testing import check_mechanism
from tests.selectors.neighbours import ratios

SKEWED = Column(name="amount", low=0, high=100_000, missing="category")
COLUMNS = (SKEWED, Column(name="age", low=0, high=90, bins=(30, 60)), Column(name="size", low=-1, high=1))
SCHEMA = Schema(columns=COLUMNS, target="y", classes=("0", "1"), rows=5000)


def rows(count: int = 5000) -> Data:
    rng = np.random.default_rng(0)
    amount = np.clip(rng.lognormal(6, 1.2, count), 0, 100_000)
    x = np.stack([amount, rng.uniform(0, 90, count), rng.uniform(-1, 1, count)], axis=1)
    x[:100, 0] = np.nan
    return Data(schema=replace(SCHEMA, rows=count), x=x, y=rng.integers(0, 2, count))


def test_bins_follow_the_rows_of_a_skewed_column() -> None:
    data = rows()
    released = Bins(count=4).run(data, 5.0, Rng(seed=1))
    shares = np.diff([0, *(np.nanmean(data.x[100:, 0] < edge) for edge in released.columns[0].bins), 1])
    assert 0.1 < shares.min() <= shares.max() < 0.45  # four equal bins of the range would hold 0.999 in one
    assert released.columns[1].bins == (30, 60)
    assert released.columns[2].bins == pytest.approx((-0.5, 0, 0.5), abs=0.15)
    assert Bins.join(data, released).schema == released


def test_wide_bounds_become_closer_where_rows_are_many() -> None:
    data = rows()
    released = Bins().run(data, 5.0, Rng(seed=1))
    assert np.nanmean(data.x[:, 0] > released.columns[0].high) < 0.05
    assert released.columns[0].high < 50_000
    assert np.nanmax(Bins.join(data, released).x[:, 0]) <= released.columns[0].high
    few = Bins().run(rows(200), 5.0, Rng(seed=1))
    assert [(column.low, column.high) for column in few.columns] == [(column.low, column.high) for column in COLUMNS]


def test_a_regression_target_gets_closer_bounds() -> None:
    data = rows()
    wide = replace(data.schema, classes=(), low=0.0, high=1e5)
    joint = Bins.join(
        replace(data, schema=wide, y=data.x[:, 1]),
        Bins().run(replace(data, schema=wide, y=data.x[:, 1]), 5.0, Rng(seed=1)),
    )
    assert joint.schema.low == 0.0
    assert 85 < joint.schema.high < 500
    assert joint.y.max() <= joint.schema.high


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("target", [{}, {"classes": (), "low": 0.0, "high": 9.0}])
def test_bins_keep_the_contract(relation: str, target: dict[str, Any]) -> None:
    schema = replace(SCHEMA, rows=24, relation=relation, **target)
    assert check_mechanism(Bins(), schema=schema, games=50) <= 1.0


def test_one_row_reaches_the_sensitivity() -> None:
    assert ratios(Bins(), rows(200), at=150) == pytest.approx([1.0])


def test_nothing_is_charged_where_there_is_nothing_to_bin() -> None:
    schema = replace(SCHEMA, columns=COLUMNS[1:2])
    assert Bins().cost(schema, 1.0) == NOTHING
    assert Bins().run(replace(rows(50).keep(("age",)), schema=schema), 1.0, Rng(seed=1)) == schema
