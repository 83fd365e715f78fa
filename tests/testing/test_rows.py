"""Synthetic rows cover what a schema declares, and neighbours follow its unit and relation."""

from __future__ import annotations

import numpy as np
import pytest

from privaware.testing import example, extremes, neighbours, rows_for

REPLACED = example(relation="replace_one")


@pytest.mark.parametrize("classes", [0, 2, 5])
@pytest.mark.parametrize("form", ["table", "image", "text"])
def test_synthetic_rows_cover_the_declared_ranges(form: str, classes: int) -> None:
    schema = example(form, classes=classes)
    data = rows_for(schema, 400, seed=1)
    assert len(data) == len(data.x) == 400
    assert len(rows_for(schema, 0).x) == 0
    if classes:
        assert set(data.y) == set(range(classes))
        assert {y for _, _, y in extremes(schema)} == set(range(classes))
    else:
        assert schema.low <= data.y.min() < data.y.max() <= schema.high
    if form == "table":
        for at, column in enumerate(schema.used[:2]):
            known = data.x[:, at][~np.isnan(data.x[:, at])]
            span = column.high - column.low
            assert column.low <= known.min() < column.low + span / 10
            assert column.high >= known.max() > column.high - span / 10
        assert np.isnan(data.x).any(axis=0).tolist() == [False, True, False]
        assert set(data.x[:, 2]) == {0.0, 1.0, 2.0}
    for few in (rows_for(schema, 0), rows_for(schema, 3)):
        for _, other in neighbours(few, "row"):
            assert abs(len(other) - len(few)) == 1


def test_neighbours_follow_the_unit_and_the_relation() -> None:
    rows = rows_for(REPLACED, 4)
    for _, other in neighbours(rows, "row"):
        assert len(other) == 4
    relabelled = [other for _, other in neighbours(rows_for(example(), 4), "label")]
    assert relabelled
    for other in relabelled:
        assert np.array_equal(other.x, rows_for(example(), 4).x, equal_nan=True)
        assert (other.y != rows_for(example(), 4).y).sum() == 1


def test_p30_asymmetric_bounds_are_among_the_rows_tried() -> None:
    lows = {column.low for column in example().used if column.kind == "number"}
    assert 0.0 in lows
    assert all(column.low != -column.high for column in example().used if column.kind == "number")
    tried = np.array([x for _, x, _ in extremes(example())])
    for at, column in enumerate(example().used[:2]):
        assert {column.low, column.high} <= set(tried[:, at])
