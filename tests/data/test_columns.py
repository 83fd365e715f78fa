"""A column of a text file is held as numbers only where they spell exactly what was read."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privaware.data import words_of
from privaware.data._columns import TextBlock, TextColumn

NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(10**18), 10**18).map(str),
    st.floats(-1000, 1000).map(lambda number: f"{number:.2f}"),
)
TEXTS = st.one_of(NUMBERS, st.sampled_from(["", "-0", "-0.0", "0", "0.0", "007", "1e5", "nan", "inf", "NA", "x", "+1"]))


def read_back(blocks: list[list[str]]) -> list[str]:
    column = TextColumn()
    for block in blocks:
        column.append(TextBlock.of(pa.array(block, pa.string())))
    return words_of(column.series()).map(str, object).tolist()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.one_of(TEXTS, NUMBERS), min_size=1, max_size=6), min_size=1, max_size=3))
def test_every_spelling_is_read_back_as_it_was(blocks: list[list[str]]) -> None:
    assert read_back(blocks) == ["0" if word == "-0" else word for block in blocks for word in block]


@pytest.mark.parametrize(
    ("blocks", "kind"),
    [
        ([["1", "2.5", ""], ["0", "1e-05"]], "float64"),
        ([["1", "-0"], ["0.5"]], "float64"),
        ([["1.0", "2.5"], ["0.0", "-0.0", "1e-05"]], "double[pyarrow]"),
        ([["1.0", "2"]], "category"),
        ([["1", "2"], ["x"]], "category"),
        ([["12.50"]], "category"),
    ],
)
def test_numbers_are_held_as_numbers(blocks: list[list[str]], kind: str) -> None:
    column = TextColumn()
    for block in blocks:
        column.append(TextBlock.of(pa.array(block, pa.string())))
    assert str(column.series().dtype) == kind
