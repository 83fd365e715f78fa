"""Random splits: columns are drawn by what the additive start found."""

from __future__ import annotations

import numpy as np
import pytest

from privaware.features.codes import Codes
from privaware.learners._boosting.coded_rows import CodedLayout
from privaware.learners._boosting.splits import ANY_COLUMN, column_chances, random_splits
from privaware.schema import Column, Schema

COLUMNS = tuple(Column(name=f"c{at}", low=0, high=1) for at in range(4))
SCHEMA = Schema(
    columns=(*COLUMNS, Column(name="d", kind="category", categories=tuple("abcdef"))), low=-1, high=1, rows=4000
)


def test_trees_split_on_strong_columns_more_often() -> None:
    """What noise alone gave a column does not count, nor does what all of its levels have in common."""
    layout = CodedLayout(schema=SCHEMA, feature=Codes(numbers=True))
    weights, deviations = np.zeros((layout.width, 1)), np.full(len(layout.levels) + len(layout.numbered), 0.1)
    weights[layout.starts[0] + np.arange(layout.levels[0])] = 3.0
    weights[layout.starts[1] + np.arange(layout.levels[1]), 0] = 0.1 * (-1.0) ** np.arange(layout.levels[1])
    weights[layout.starts[4] + np.arange(6), 0] = np.linspace(-1, 1, 6)
    weights[1 + sum(layout.levels) + 2] = 1.0  # the slope of the third column
    chances = column_chances(layout, weights, deviations)
    assert chances.sum() == pytest.approx(1)
    assert chances[0] == chances[1] <= max(ANY_COLUMN / 5, 0.07)
    assert min(chances[2], chances[4]) > 0.3
    assert column_chances(layout, weights, 100 * deviations) == pytest.approx(np.full(5, 0.2))
    generator = np.random.default_rng(0)
    splits = random_splits(SCHEMA, layout.levels, trees=400, depth=3, generator=generator, chances=chances)
    assert np.bincount(splits.columns.ravel(), minlength=5) / 1200 == pytest.approx(chances, abs=0.05)
