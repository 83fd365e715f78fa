"""The kind of a value follows from that value; the kind of a column from counts that one row moves by one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privaware.data import COUNTED, kind_counts, likeliest, words_of
from privaware.data._kinds import decided
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


OPEN = Column(name="a", kind="undecided", fold=True)


def noisy(kinds: list[str], rows_over_noise: float, seed: int = 0) -> np.ndarray:
    """Counts of columns with 1,000 values of these kinds, with normal noise of deviation 1,000 / `rows_over_noise`."""
    exact = np.zeros((len(kinds), len(COUNTED)))
    for row, kind in zip(exact, kinds, strict=True):
        row[COUNTED.index(kind)] = 1000.0
    return exact + np.random.default_rng(seed).normal(0, 1000 / rows_over_noise, exact.shape)


def right(kinds: list[str], rows_over_noise: float, wanted: list[str]) -> float:
    """The fraction of columns that get their true kinds."""
    counts, scale = noisy(kinds, rows_over_noise), 1000 / rows_over_noise
    decided_columns = likeliest([OPEN] * len(kinds), counts, scale, rows=1000)
    return float(np.mean([column.kind == kind for column, kind in zip(decided_columns, wanted, strict=True)]))


@pytest.mark.parametrize("columns", [10, 60, 300])
def test_p57_letters_are_categories_though_noise_is_large(columns: int) -> None:
    assert right(["word"] * columns, 2.0, ["category"] * columns) >= 0.9


@pytest.mark.parametrize("columns", [10, 60, 300])
def test_numbers_stay_numbers_though_noise_is_half_the_rows(columns: int) -> None:
    assert right(["number"] * columns, 2.0, ["number"] * columns) >= 0.9


@pytest.mark.parametrize("columns", [10, 60, 300])
def test_clear_columns_get_their_kinds_in_any_table(columns: int) -> None:
    kinds = ["number", "word", "boolean", "date", "time", "email", "number", "word", "word", "number"] * (columns // 10)
    wanted = {"word": "category", "email": "identifier"}
    assert right(kinds, 8.0, [wanted.get(kind, kind) for kind in kinds]) >= 0.97


def test_a_column_whose_kind_noise_hides_is_a_category() -> None:
    counts = np.zeros((1, len(COUNTED)))
    counts[0, [COUNTED.index(kind) for kind in ("number", "time", "date", "email")]] = [0.0, 61.0, 60.0, 60.0]
    (column,) = likeliest([OPEN], counts, 20.0, rows=1000)
    assert column.kind == "category"
    assert column.certainty < 0.5


def test_a_count_above_the_rows_is_no_surer_sign_of_a_kind() -> None:
    """Noise as large as the rows made 17 of these 500 numbers a date, a time or an identifier."""
    kinds = [
        column.kind
        for seed in range(100)
        for column in likeliest([OPEN] * 5, noisy(["number"] * 5, 1.0, seed), 1000.0, rows=1000)
    ]
    assert sum(kind in ("date", "time", "identifier") for kind in kinds) <= 3


def test_a_column_of_sex_is_a_category() -> None:
    counts = counts_of(["F"] * 480 + ["M"] * 520)
    assert likeliest([OPEN], counts[None], 20.0, rows=1000)[0].kind == "category"
    counts = counts_of(["yes"] * 480 + ["no"] * 515 + ["?"] * 5)
    assert likeliest([OPEN], counts[None], 20.0, rows=1000)[0].kind == "boolean"


def test_certainty_is_not_above_the_fraction_that_is_right() -> None:
    kinds = ["number", "word"] * 400
    columns = likeliest([OPEN] * 800, noisy(kinds, 2.0), 500.0, rows=1000)
    correct = [column.kind == {"word": "category"}.get(kind, kind) for column, kind in zip(columns, kinds, strict=True)]
    sure = [column.certainty for column in columns]
    assert 0 < min(sure) < 0.7 < max(sure) <= 1
    assert 0.75 < np.mean(sure) < np.mean(correct) + 0.02


def test_a_number_that_is_misread_as_mixed_is_not_called_certain() -> None:
    columns = likeliest([OPEN] * 3000, noisy(["number"] * 3000, 2.3), 1000 / 2.3, rows=1000)
    wrong = [column for column in columns if column.kind != "number"]
    assert sum(column.certainty for column in columns) < 3000 - len(wrong) + 30
    assert all(column.certainty < 0.99 for column in wrong)


@pytest.mark.parametrize("scale", [0.0, 20.0])
@pytest.mark.parametrize("letters", ["fm", "nj", "ny", "ft"])
def test_a_single_letter_is_no_evidence_for_a_boolean(letters: str, scale: float) -> None:
    """A column of `f` and `m`, mostly `f`, holds two categories."""
    counts = counts_of([letters[0]] * 890 + [letters[1]] * 110)
    assert likeliest([OPEN], counts[None], scale, rows=1000)[0].kind == "category"
    assert decided(OPEN, counts).kind == "category"
