"""Rows as ordinal codes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from privaware.features.codes import Codes
from privaware.learners._boosting.additive_start import CLIP
from privaware.learners._boosting.coded_rows import MORE_NOISE, MOST_NOISE, CodedLayout, CodedRows
from privaware.learners.boosted import Boosted
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import rows_for
from tests.learners.mixed_columns import THREE, TWO


def layout_of(schema: Schema) -> CodedLayout:
    return CodedLayout(schema=schema, feature=Codes(numbers=True), clip=CLIP)


def test_codes_tell_the_level_and_nearly_the_number() -> None:
    layout, data = layout_of(TWO), rows_for(TWO, 500, seed=2)
    coded, expected = CodedRows(layout, data), layout.feature(data.x, TWO)
    assert [codes.dtype for codes in coded.codes] == [np.uint8] * 3
    for at, codes in enumerate(coded.codes):
        assert np.array_equal(layout.level_of[at][codes], expected[:, at])
    for slope, at in enumerate(layout.numbered):
        assert np.abs(layout.number_of[slope]).max() <= 2**10
        numbers = layout.number_of[slope][coded.codes[at]] / 2**10
        assert np.abs(numbers - expected[:, 3 + slope]).max() < 0.02


def test_columns_of_many_levels_have_wider_codes() -> None:
    many = tuple(str(at) for at in range(300))
    columns = (Column(name="a", low=0, high=1), Column(name="b", kind="category", categories=many))
    schema = Schema(columns=columns, classes=("no", "yes"), rows=100)
    layout = CodedLayout(schema=schema, feature=Codes(cells=4096, numbers=True))
    coded = CodedRows(layout, rows_for(schema, 100, seed=2))
    assert [codes.dtype for codes in coded.codes] == [np.uint16, np.uint16]
    model = Boosted(trees=3, steps=3, depth=9, cells=4096).run(rows_for(schema, 100), noise=1.0, rng=Rng(seed=1))
    assert np.isfinite(model.outputs(rows_for(schema, 100).x)).all()


def test_joined_parts_are_the_rows_of_all_of_them() -> None:
    layout, data = layout_of(THREE), rows_for(THREE, 300, seed=5)
    together = CodedRows(layout, data)
    cut = CodedRows.joined([CodedRows(layout, data.take(slice(at, at + 70))) for at in range(0, 300, 70)])
    assert all(np.array_equal(one, other) for one, other in zip(cut.codes, together.codes, strict=True))
    assert np.array_equal(cut.target, together.target)
    assert cut.values.shape == together.values.shape


def test_more_rows_for_each_weight_allow_more_noise_in_logits() -> None:
    few, some, many = (
        CodedLayout(schema=replace(TWO, rows=rows), feature=Codes(numbers=True), clip=CLIP).most_noise(1.0)
        for rows in (100, 1_000, 10_000_000)
    )
    assert few == MOST_NOISE < some < many == MOST_NOISE * MORE_NOISE


def test_noise_in_logits_of_a_rare_class_is_less() -> None:
    """Labels have nothing to do with the columns, so outputs differ by noise only."""
    data, spreads = rows_for(replace(TWO, rows=2_000), 2_000, seed=3), []
    for share in (0.5, 0.04):
        labels = (np.random.default_rng(4).random(2_000) < share).astype(float)
        model = Boosted(trees=0, steps=30).run(replace(data, y=labels), noise=20.0, rng=Rng(seed=5))
        spreads.append(float(np.diff(model.outputs(data.x), axis=1).std()))
    assert spreads[1] < 0.5 * spreads[0]
