"""A column of a text file is held as numbers with which exactly what was read is spelt again."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privaware.data import Raw, Words, kind_counts, numbers_of, row_hashes, words_of
from privaware.data._columns import series_of, spelt_or_text
from privaware.data._values import spelt_of

KEY = b"k" * 32

NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(10**18), 10**18).map(str),
    st.floats(-1000, 1000).map(lambda number: f"{number:.2f}"),
    st.builds("{:.{}f}".format, st.floats(-1e-3, 1e4), st.integers(0, 18)),
)
TEXTS = st.one_of(
    NUMBERS,
    st.sampled_from(
        ["", "-0", "-0.0", "0", "0.0", "007", "1e5", "nan", "inf", "NA", "x", "+1", "1e-3", "-0.00", "1.", "1e999"]
    ),
)


def read_back(blocks: list[list[str]]) -> list[str]:
    return words_of(series(blocks)).map(str, object).tolist()


def series(blocks: list[list[str]]) -> pd.Series:
    return series_of([spelt_or_text(pa.array(block, pa.string())) for block in blocks])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.one_of(TEXTS, NUMBERS), min_size=1, max_size=6), min_size=1, max_size=3))
def test_every_spelling_is_read_back_as_it_was(blocks: list[list[str]]) -> None:
    assert read_back(blocks) == ["0" if word == "-0" else word for block in blocks for word in block]


@pytest.mark.parametrize(
    ("blocks", "kind"),
    [
        ([["1", "2.5", ""], ["0", "1e-05"]], "float64"),
        ([["1", "-0"], ["0.5"]], "float64"),
        ([["1.0", "2.5"], ["0.0", "-0.0", "1e-05"]], "spelt"),
        ([["1.0", "2"]], "spelt"),
        ([["1", "2"], ["x"]], "category"),
        ([["1", "2", "x"], ["NA", "3.50", "+4", "5"]], "spelt"),
        ([["12.50", "-0.00", ""], ["0.10", "1e-3"]], "spelt"),
        ([["x", "y", "3.50"]], "category"),
    ],
)
def test_numbers_are_held_as_numbers(blocks: list[list[str]], kind: str) -> None:
    assert str(series(blocks).dtype) == kind


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.one_of(TEXTS, NUMBERS, NUMBERS), min_size=1, max_size=6), min_size=1, max_size=3))
def test_numbers_missing_values_and_kinds_are_those_of_the_words(blocks: list[list[str]]) -> None:
    column = series(blocks)
    words = words_of(pd.Series([word for block in blocks for word in block], dtype=object))
    numbers, missing = numbers_of(column)
    expected, expected_missing = numbers_of(words)
    assert np.array_equal(numbers, expected, equal_nan=True)
    assert np.array_equal(missing, expected_missing)
    assert np.array_equal(kind_counts(spelt_of(column) or words_of(column)), kind_counts(words))
    assert np.array_equal(row_hashes(Raw(frame=column.to_frame("a")), KEY), row_hashes(Raw(frame=text(words)), KEY))


def text(words: Words) -> pd.DataFrame:
    return pd.DataFrame({"a": words.map(str, object)}, dtype=object)


def test_rows_of_a_column_can_be_chosen() -> None:
    column = series([["1.50", "NA", "x"], ["", "2", "3.0"]])
    chosen = column.iloc[[5, 1, 0]].reset_index(drop=True)
    assert words_of(chosen).map(str, object).tolist() == ["3.0", "NA", "1.50"]
    assert column.iloc[2] == "x"
    assert words_of(column[column.index > 2]).map(str, object).tolist() == ["", "2", "3.0"]
