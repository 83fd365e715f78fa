"""Pairs of columns found by a private test."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from privaware import accounting
from privaware.data import Data, release
from privaware.events import Gaussian
from privaware.features.codes import Codes
from privaware.learners._coded_rows import CodedLayout, CodedRows
from privaware.learners._splits import ANY, PairSums, column_chances, found_pairs, random_splits
from privaware.learners.boosted import Boosted
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import check_mechanism

COLUMNS = tuple(Column(name=f"c{at}", low=0, high=1) for at in range(4))
SCHEMA = Schema(
    columns=(*COLUMNS, Column(name="d", kind="category", categories=tuple("abcdef"))), low=-1, high=1, rows=4000
)


def rows(schema: Schema = SCHEMA) -> Data:
    """The target is whether the second and the fourth column are both large or both small."""
    generator = np.random.default_rng(0)
    x = np.column_stack([generator.random((4000, 4)), generator.integers(0, 6, 4000)])
    return Data(schema=schema, x=x, y=0.8 * np.sign((x[:, 1] - 0.5) * (x[:, 3] - 0.5)))


def test_the_pair_that_acts_together_is_found_first_and_none_in_much_noise() -> None:
    layout, data = CodedLayout(schema=SCHEMA, feature=Codes()), rows()
    sums = PairSums(layout=layout, unit=1.0)
    parts = data.parts.held(partial(CodedRows, layout))
    for seed in range(5):
        assert found_pairs(sums, release(sums, parts, 5.0, Rng(seed=seed)), 5.0)[0] == (1, 3)
    assert found_pairs(sums, release(sums, parts, 1e4, Rng(seed=9)), 1e4) == []


def test_one_row_moves_a_cell_of_each_pair() -> None:
    layout, data = CodedLayout(schema=SCHEMA, feature=Codes()), rows()
    sums = PairSums(layout=layout, unit=1.0)
    whole, fewer = (sums.partial(CodedRows(layout, data.take(np.arange(at, 4000)))) for at in (0, 1))
    assert np.count_nonzero(whole - fewer) == len(sums.pairs) == 10
    assert 0.7 * sums.sensitivity < np.linalg.norm(whole - fewer) <= sums.sensitivity


def test_trees_prefer_pairs() -> None:
    columns, _ = random_splits(SCHEMA, (8,) * 5, (400, 3), np.random.default_rng(0), [(1, 3)])
    together = [{1, 3} <= set(tree) for tree in columns.tolist()]
    assert 0.7 < np.mean(together) < 0.9


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
    assert chances[0] == chances[1] <= max(ANY / 5, 0.07)
    assert min(chances[2], chances[4]) > 0.3
    assert column_chances(layout, weights, 100 * deviations) == pytest.approx(np.full(5, 0.2))
    columns, _ = random_splits(SCHEMA, layout.levels, (400, 3), np.random.default_rng(0), chances=chances)
    assert np.bincount(columns.ravel(), minlength=5) / 1200 == pytest.approx(chances, abs=0.05)


def test_pairs_are_within_the_price_and_learn_interactions_better() -> None:
    scores = {}
    for share in (0.0, 0.2):
        learner = Boosted(trees=60, steps=5, depth=2, pairs=share)
        price = accounting.epsilon(learner.cost(SCHEMA, 3.0), 1e-5)
        assert price == pytest.approx(accounting.epsilon(Gaussian(noise=3.0), 1e-5), rel=1e-6)
        models = [learner.run(rows(), 3.0, Rng(seed=seed)) for seed in (1, 2)]
        errors = [np.mean((model.predictions(rows()) - rows().y) ** 2) for model in models]
        scores[share] = 1 - np.mean(errors) / rows().y.var()
    assert scores[0.2] > scores[0.0] + 0.1


@pytest.mark.parametrize("classes", [("0", "1"), pytest.param((), marks=pytest.mark.slow)])
def test_pairs_keep_the_contract(classes: tuple[str, ...]) -> None:
    bounds = {} if classes else {"low": -1, "high": 1}
    schema = Schema(columns=SCHEMA.columns, classes=classes, rows=24, **bounds)
    assert check_mechanism(Boosted(trees=1, steps=1, pairs=0.4), schema=schema, games=20) <= 1.0
