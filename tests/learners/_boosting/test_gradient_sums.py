"""Sums of gradients: exact in any order, with sensitivities that a row nearly reaches."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from privaware.features.codes import Codes
from privaware.learners._boosting.additive_start import CLIP
from privaware.learners._boosting.coded_rows import CodedLayout, CodedRows
from privaware.learners._boosting.gradient_sums import SECOND_WEIGHT, GradientSums, LeafSums
from privaware.learners._boosting.splits import random_splits
from privaware.schema import Schema
from privaware.testing import rows_for
from tests.learners.mixed_columns import NUMBER, THREE, TWO


def layout_of(schema: Schema) -> CodedLayout:
    return CodedLayout(schema=schema, feature=Codes(numbers=True), clip=CLIP)


@pytest.mark.parametrize("schema", [TWO, THREE, NUMBER], ids=["two classes", "three classes", "regression"])
def test_sums_are_exact_in_any_order_and_one_row_keeps_its_bound(schema: Schema) -> None:
    data, rng = rows_for(schema, 200, seed=5), np.random.default_rng(1)
    layout = layout_of(schema)
    levels = GradientSums(layout=layout, weights=rng.normal(size=(layout.width, layout.outputs)), unit=1.0)
    splits = random_splits(schema, layout.levels, trees=1, depth=3, generator=rng)
    leaves = LeafSums(layout=layout, columns=splits.columns[0], right=splits.right[0], unit=1.0)
    assert levels.sensitivity <= layout.length * math.sqrt(1 + 1 + 2 * 13 / 8)
    assert leaves.sensitivity == pytest.approx(math.hypot(layout.length, SECOND_WEIGHT))
    released = []
    for rows in (np.arange(200), rng.permutation(200), np.flatnonzero(np.arange(200) != 17)):
        coded = CodedRows(layout, data.take(rows))
        levels.add_outputs(coded)
        by_weight = levels.by_weight(levels.partial(coded))
        released.append((layout.basis.released(by_weight), leaves.partial(coded)))
    for at, bound in enumerate((levels.sensitivity, leaves.sensitivity)):
        assert np.array_equal(released[0][at], released[1][at])
        assert 0 < np.linalg.norm(released[0][at] - released[2][at]) <= bound


@pytest.mark.parametrize("far", [-60.0, 60.0])
def test_sensitivity_of_a_leaf_is_nearly_reached(far: float) -> None:
    layout = layout_of(TWO)
    one = CodedRows(layout, replace(rows_for(TWO, 1, seed=5), y=np.array([int(far < 0)])))
    one.values[:] = far
    splits = random_splits(TWO, layout.levels, trees=1, depth=3, generator=np.random.default_rng(1))
    sums = LeafSums(layout=layout, columns=splits.columns[0], right=splits.right[0], unit=1.0).partial(one)
    assert np.linalg.norm(sums) == pytest.approx(CLIP, abs=1e-5)


@pytest.mark.parametrize("classes", [("no", "yes"), ("a", "b", "c"), ()])
def test_columns_with_one_code_together_give_the_same_sums(classes: tuple[str, ...]) -> None:
    """Codes are joined where rows are many; each weight still gets what it gets alone, to the last bits of outputs."""
    few = replace(TWO, classes=classes) if classes else NUMBER
    data = rows_for(few, 500, seed=2)
    sums = []
    for rows in (200, 10**6):
        layout = layout_of(replace(few, rows=rows))
        coded = CodedRows(layout, replace(data, schema=layout.schema))
        weights = np.random.default_rng(4).normal(size=(layout.width, layout.outputs))
        levels = GradientSums(layout=layout, weights=weights, unit=1.0)
        levels.add_outputs(coded)
        splits = random_splits(few, layout.levels, trees=1, depth=3, generator=np.random.default_rng(3))
        leaves = LeafSums(layout=layout, columns=splits.columns[0], right=splits.right[0], unit=1.0)
        sums.append((levels.by_weight(levels.partial(coded)), leaves.partial(coded), len(coded.codes)))
    assert [count for _, _, count in sums] == [3, 2]
    for alone, together in zip(sums[0][:2], sums[1][:2], strict=True):
        assert together == pytest.approx(alone, abs=1e-3)


@pytest.mark.parametrize("schema", [TWO, THREE, NUMBER], ids=["two classes", "three classes", "regression"])
def test_part_of_another_tree_gives_the_leaves_of_this_tree(schema: Schema) -> None:
    layout, rng = layout_of(schema), np.random.default_rng(1)
    splits = random_splits(schema, layout.levels, trees=2, depth=3, generator=rng)
    first, second = (
        LeafSums(layout=layout, columns=splits.columns[tree], right=splits.right[tree], unit=1.0) for tree in range(2)
    )
    part, fresh = (CodedRows(layout, rows_for(schema, 300, seed=5)) for _ in range(2))
    other = first.partial(part)
    assert np.array_equal(second.partial(part), second.partial(fresh))
    assert not np.array_equal(other, second.partial(fresh))


def test_counts_by_logit_cell_are_the_sums_of_derivatives() -> None:
    layout, rng = layout_of(TWO), np.random.default_rng(1)
    part = CodedRows(layout, rows_for(TWO, 500, seed=5))
    part.values[:] = 4 * rng.normal(size=part.values.shape)
    splits = random_splits(TWO, layout.levels, trees=1, depth=3, generator=rng)
    sums = LeafSums(layout=layout, columns=splits.columns[0], right=splits.right[0], unit=1.0)
    assert np.array_equal(sums._counted(part), sums._summed(part))
    chances = 1 / (1 + np.exp(-part.values[0].astype(float)))
    exact = np.clip(part.target - chances, -layout.length, layout.length)
    leaf = part.places >> 1
    expected = np.bincount(leaf, weights=exact, minlength=8)
    assert sums.partial(part)[:, 0] == pytest.approx(expected, abs=500 * 0.002)
