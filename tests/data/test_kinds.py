"""The kind of a value follows from that value; the kind of a column from counts that one row moves by one."""

from __future__ import annotations

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from privaware.data import COUNTED, decided, kind_counts, words_of
from privaware.schema import DATE_PARTS, Column

VALUES = st.one_of(
    st.text(max_size=30),
    st.sampled_from(["7", "yes", "1/2/2020", "31/12/2020", "8:15", "a@b.c", "so many words", "NA"]),
)


def counts_of(words: list[str]) -> np.ndarray:
    return kind_counts(words_of(pd.Series(words, dtype=object)))


@given(st.lists(VALUES, max_size=8), VALUES)
def test_one_row_moves_one_count_by_at_most_one(words: list[str], more: str) -> None:
    moved = counts_of([*words, more]) - counts_of(words)
    assert np.abs(moved).sum() <= 1
    assert (moved >= 0).all()


def test_numbers_held_as_numbers_count_as_their_words_do() -> None:
    numbers = np.array([1.0, np.nan, 2.5])
    assert np.array_equal(kind_counts(numbers), counts_of(["1", "", "2.5"]))


def test_most_values_decide_and_dates_count_together() -> None:
    column = Column(name="a", kind="undecided", fold=True)
    dates = counts_of(["1/2/2020", "13/2/2020", "2020-02-03", "5", "5"])
    day = decided(column, dates)
    assert (day.kind, day.day_first, day.parts, day.fold) == ("date", True, DATE_PARTS[:-1], False)
    assert decided(column, counts_of(["2020-02-03 10:15", "2020-02-03 11:15", "2020-02-03"])).parts == ()
    town = decided(column, counts_of(["Ulm", "Bonn", "yes"]))
    assert (town.kind, town.fold, town.unseen, town.missing) == ("category", True, "other", "category")
    assert decided(column, np.zeros(len(COUNTED))).kind == "number"
