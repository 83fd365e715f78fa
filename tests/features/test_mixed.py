"""Features of the texts of a table beside features of its other columns."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from privaware.data import from_bytes
from privaware.errors import WrongInput
from privaware.features import Mixed, build, describe
from privaware.features.mixed import GROWTH
from privaware.learners.linear import Linear
from privaware.schema import Column, Schema
from privaware.testing import check_mechanism, rows_for

HASHED = {"name": "hashed", "slots": 16}
SCHEMA = Schema(
    columns=(
        Column(name="age", low=0, high=90, missing="category"),
        Column(name="note", kind="text", slots=0),
        Column(name="job", kind="category", categories=("a", "b"), unseen="other"),
    ),
    classes=("no", "yes"),
    rows=40,
)


def test_text_block_has_norm_one_and_columns_at_most_theirs() -> None:
    rows = Mixed(text=HASHED, columns=0.5, count=64)(rows_for(SCHEMA, 30).x, SCHEMA)
    assert rows.shape == (30, 16 + 64)
    np.testing.assert_allclose(np.linalg.norm(rows[:, :16], axis=1), 1.0, atol=1e-5)
    assert np.linalg.norm(rows[:, 16:], axis=1).max() <= 0.5 * 2**GROWTH + 1e-6


def test_each_block_reads_its_own_columns() -> None:
    feature = Mixed(text=HASHED, count=8)
    row = np.array([[20.0, "pain in the arm", 0.0]], dtype=object)
    before = feature(row, SCHEMA)
    other_text, other_age = row.copy(), row.copy()
    other_text[0, 1], other_age[0, 0] = "none", 60.0
    assert np.array_equal(feature(other_text, SCHEMA)[:, 16:], before[:, 16:])
    assert np.array_equal(feature(other_age, SCHEMA)[:, :16], before[:, :16])
    assert not np.array_equal(feature(other_text, SCHEMA), before)
    assert not np.array_equal(feature(other_age, SCHEMA), before)


def test_several_texts_are_joined() -> None:
    two = Schema(columns=tuple(Column(name=name, kind="text", slots=0) for name in "ab"), classes=("no", "yes"))
    feature = Mixed(text=HASHED, count=4)
    joined = build(HASHED)(np.array(["red box"], dtype=object))
    np.testing.assert_allclose(feature(np.array([["red", "box"]], dtype=object), two)[:, :16], joined, atol=1e-6)


def test_description_restores_the_feature() -> None:
    feature = Mixed(text=HASHED, columns=0.3, count=8)
    assert build(describe(feature)) == feature


def test_table_without_a_whole_text_is_refused() -> None:
    hashed = replace(SCHEMA, columns=(Column(name="age", low=0, high=90),))
    with pytest.raises(WrongInput, match="mixed: expected rows of 1 columns, none with images and at least"):
        Mixed(text=HASHED)(np.zeros((2, 1)), hashed)


def test_linear_on_mixed_rows_keeps_the_contract() -> None:
    described = {"name": "mixed", "text": HASHED, "count": 8}
    check_mechanism(Linear(features=[described], steps=4), schema=SCHEMA, games=0)


PICTURES = replace(
    SCHEMA, columns=(SCHEMA.columns[0], Column(name="scan", kind="image"), SCHEMA.columns[2]), shape=(1, 8, 8)
)
PIXELS = [{"name": "pixels"}]


def test_image_block_reads_the_image_alone() -> None:
    rows = rows_for(PICTURES, 6).x
    read = Mixed(image=PIXELS, count=8)(rows, PICTURES)
    alone = build({"name": "pixels"})(from_bytes(rows[:, 1], (1, 8, 8)))
    np.testing.assert_allclose(read[:, :64], alone, atol=1e-6)
    changed = rows.copy()
    changed[:, 0] = 10.0
    assert np.array_equal(Mixed(image=PIXELS, count=8)(changed, PICTURES)[:, :64], read[:, :64])


def test_blocks_of_an_image_count_by_themselves() -> None:
    feature = Mixed(image=[{"name": "extractor", "glyphs": 0.75}], count=8)
    (first, one), (second, two), others = feature.parts(PICTURES)
    assert (first + second, others) == (1280 + 1024, (8, 0.5 * 2**GROWTH))
    assert (round(one, 6), round(two, 6)) == (0.8, 0.6)


def test_description_of_image_features_is_restored() -> None:
    feature = Mixed(image=PIXELS, count=8)
    assert build(json.loads(json.dumps(describe(feature)))).image == (PIXELS[0],)


def test_either_text_or_image_is_given() -> None:
    with pytest.raises(WrongInput, match="expected features of either text or image"):
        Mixed(text=HASHED, image=PIXELS)


def test_linear_on_images_beside_columns_keeps_the_contract() -> None:
    described = {"name": "mixed", "image": PIXELS, "count": 8}
    check_mechanism(Linear(features=[described], steps=4, centre=0.1), schema=PICTURES, games=0)
    check_mechanism(Linear(features=[described], steps=8, weigh=0.1), schema=PICTURES, games=0)
