"""A draft lists what it read off the rows, and is not reviewed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privaware.data import Data, draft, read
from privaware.data._draft import outward
from privaware.errors import WrongInput

ROWS = 60


def draft_column(values: Any, name: str = "a") -> Any:
    frame = pd.DataFrame({name: values, "y": ["n", "p"] * (len(values) // 2)})
    return draft(read(frame), target="y").columns[0]


def test_numbers_get_a_wider_range_and_words_their_categories() -> None:
    number = draft_column([3, 5.5, -2, None] * 15)
    assert (number.kind, number.low, number.high, number.missing) == ("number", -5, 10, "category")
    words = draft_column(["b", "a", "?", "b"] * 15)
    assert (words.categories, words.missing, words.unseen) == (("a", "b"), "category", "other")
    assert draft_column([1.0, np.inf] * 30 + [2.0, 3.0]).missing == "category"
    assert draft_column([1.0, 2.0] * 30).missing == "refuse"


@pytest.mark.parametrize(
    ("values", "name"),
    [
        (list(range(ROWS)), "row"),
        ([at * 17 + at % 3 for at in range(ROWS)], "patient_id"),
        ([f"P{at:05}" for at in range(ROWS)], "code"),
        ([7] * ROWS, "constant"),
        (["same"] * ROWS, "constant"),
        ([None] * ROWS, "empty"),
        ([[1]] * ROWS, "nested"),
        ([np.inf] * ROWS, "infinite"),
        (pd.date_range("2020", periods=ROWS), "day"),
    ],
)
def test_identifiers_and_constant_columns_are_ignored(values: Any, name: str) -> None:
    assert draft_column(values, name).kind == "ignore"


def test_distinct_measurements_are_not_taken_for_identifiers() -> None:
    assert draft_column([at * 17 + at % 3 for at in range(ROWS)], "weight").kind == "number"


def test_sentences_are_text_only_without_other_columns() -> None:
    texts = [f"call me at {at} please" for at in range(ROWS)]
    frame = pd.DataFrame({"words": texts, "y": ["ham", "spam"] * 30})
    assert draft(read(frame), target="y").form == "text"
    mixed = draft(read(frame.assign(age=[1.5, 2.5] * 30)), target="y")
    assert mixed.form == "table"
    assert {column.name: column.kind for column in mixed.columns} == {"words": "ignore", "age": "number"}


@pytest.mark.parametrize(
    ("values", "task", "expected"),
    [
        (["b", "a"], None, ("a", "b")),
        ([10, 9], None, ("9", "10")),
        ([1.0, 0.0], None, ("0", "1")),
        ([True, False], None, ("False", "True")),
        (["10", "9"], None, ("9", "10")),
        ([1.5, 0.5], None, (0.2, 2)),
        ([1, 0], "regression", (-0.01, 2)),
        ([0.5, 1.5], "classification", ("0.5", "1.5")),
    ],
)
def test_text_or_few_whole_numbers_are_classes_unless_task_is_regression(
    values: Any, task: str | None, expected: tuple[Any, ...]
) -> None:
    frame = pd.DataFrame({"a": [1.5, 2.5] * 30, "y": values * 30})
    schema = draft(read(frame), target="y", task=task)
    assert (schema.classes or (schema.low, schema.high)) == expected
    assert len(Data.of(read(frame), schema)) == 60


def test_draft_is_unreviewed_and_lists_its_assumptions() -> None:
    frame = pd.DataFrame({"age": [1.5, 2.5] * 30, "town": ["a", "b"] * 30, "id": range(60), "y": [0, 1] * 30})
    schema = draft(read(frame), target="y")
    assert not schema.reviewed
    assert schema.rows == 60
    assert schema.assumed == (
        "the number of rows",
        "the names and kinds of the columns",
        "the range of age, drafted from the rows and moved outward",
        "the categories of town",
        "that id may be left out",
        "the classes of y",
    )


def test_unit_column_is_not_a_feature() -> None:
    frame = pd.DataFrame({"age": [1.5, 2.5] * 30, "who": ["p", "q", "r"] * 20, "y": [0, 1] * 30})
    schema = draft(read(frame), target="y", unit="who", cap=5)
    assert [column.name for column in schema.columns] == ["age"]
    assert len(Data.of(read(frame), schema)) == 15
    for unit in ("nobody", "y"):
        with pytest.raises(WrongInput, match="expected --unit among the columns"):
            draft(read(frame), target="y", unit=unit)


@pytest.mark.parametrize(
    ("target", "task", "message"),
    [
        ([], None, "at least one row"),
        (["a", None], None, "empty in row 2"),
        (["a", "a"], None, "2 to 100 classes"),
        ([f"t{at}" for at in range(101)], None, "2 to 100 classes"),
        (["a", "b"], "regression", "row 1: expected a finite number"),
        ([1.5, np.inf], "regression", "row 2: expected a finite number"),
        (["a", "b"], "guess", "classification or regression"),
        ([[1], [2]], None, "expected a number or text, got list"),
    ],
)
def test_unusable_target_is_refused(target: Any, task: Any, message: str) -> None:
    frame = pd.DataFrame({"a": range(len(target)), "y": target})
    with pytest.raises(WrongInput, match=message):
        draft(read(frame), target="y", task=task)


def test_draft_codes_every_row_it_was_drafted_from() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "n": np.where(rng.random(200) < 0.1, np.nan, rng.normal(size=200)),
            "c": rng.choice(["u", "v", ""], 200),
            "b": rng.random(200) < 0.5,
            "y": rng.integers(0, 3, 200),
        }
    )
    data = Data.of(read(frame), draft(read(frame), target="y"))
    assert np.array_equal(data.x[:, 0], frame["n"].to_numpy(), equal_nan=True)
    assert np.array_equal(data.x[:, 1], frame["c"].map({"u": 0, "v": 1, "": 2}))
    assert np.array_equal(data.x[:, 2], frame["b"])


STEPS = [float(f"{digit}e{power}") for power in range(-12, 13) for digit in (1, 2, 5)]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.floats(-1e9, 1e9).map(lambda x: float(f"{x:.6g}")), min_size=2, max_size=6))
def test_p47_drafted_bounds_are_the_next_steps_strictly_beyond_the_rows(values: list[float]) -> None:
    large = [value for value in values if abs(value) > 1e-9] or [1.0]
    low, high = outward(min(large), max(large))
    assert low < min(large) <= max(large) < high
    assert high == min(step for step in (*STEPS, *(-step for step in STEPS)) if step > max(large))
    assert low == max(step for step in (*STEPS, *(-step for step in STEPS)) if step < min(large))


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ((0, 100), (-1, 200)),
        ((-3, 0), (-5, 0.01)),
        ((0, 0), (-1, 1)),
        ((1e-200, 2e-200), (-1, 1)),
        ((-1e300, 1e300), (-1e150, 1e150)),
        ((1, 1e300), (0.5, 1e150)),
        ((10, 1000), (5, 2000)),
        ((-0.3, -0.1), (-0.5, -0.05)),
    ],
)
def test_p47_zero_and_huge_ends_are_moved_outward_too(ends: tuple[float, float], expected: tuple[float, float]) -> None:
    assert outward(*ends) == expected


def test_p47_draft_holds_no_extreme_of_a_column_or_target() -> None:
    ages = np.linspace(17.3915, 73.915, ROWS)
    frame = pd.DataFrame({"age": ages, "pay": -ages, "town": ["a", "b"] * 30, "y": ages * 1000})
    schema = draft(read(frame), target="y")
    text = schema.toml()
    assert "3915" not in text.replace(".", "")
    assert [(c.low, c.high) for c in schema.columns[:2]] == [(10, 100), (-100, -10)]
    assert (schema.low, schema.high) == (10_000, 100_000)
    assert "reviewed = false" in text
    assert text.count("drafted from the rows and moved outward") == 3
