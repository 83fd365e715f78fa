"""A draft lists what it read off the rows, and is not reviewed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privaware.data import Data, draft, read, typed
from privaware.data._draft_column import outward
from privaware.data._raw import Raw
from privaware.errors import WrongInput
from privaware.schema import DATE_PARTS, NOT_USED, Column, Schema

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
    ],
)
def test_identifiers_and_constant_columns_are_ignored(values: Any, name: str) -> None:
    assert draft_column(values, name).kind in NOT_USED


def test_distinct_measurements_are_not_taken_for_identifiers() -> None:
    assert draft_column([at * 17 + at % 3 for at in range(ROWS)], "weight").kind == "number"


def test_sentences_alone_are_text_data_and_else_a_text_column() -> None:
    texts = [f"call me at {at} please" for at in range(ROWS)]
    frame = pd.DataFrame({"words": texts, "y": ["ham", "spam"] * 30})
    assert draft(read(frame), target="y").form == "text"
    mixed = draft(read(frame.assign(age=[1.5, 2.5] * 30)), target="y")
    assert mixed.form == "table"
    assert {column.name: column.kind for column in mixed.columns} == {"words": "text", "age": "number"}


def test_one_row_does_not_turn_texts_into_a_table() -> None:
    frame = pd.DataFrame({"words": [f"call me at {at} please" for at in range(ROWS)], "y": ["ham", "spam"] * 30})
    assert typed(read(frame), target="y").form == "text"
    alike = frame.assign(source="web")
    for other in (alike, alike.assign(source=["phone"] + ["web"] * (ROWS - 1))):
        schema = typed(read(other), target="y")
        assert (schema.form, [column.kind for column in schema.columns]) == ("table", ["text", "undecided"])


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
def test_text_or_few_integers_are_classes_unless_regression(
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
        with pytest.raises(WrongInput, match="expected unit= among the columns"):
            draft(read(frame), target="y", unit=unit)


def test_many_integers_are_classes_for_images_and_not_for_tables() -> None:
    codes = np.arange(78) % 26
    images = Raw(images=np.zeros((78, 1, 4, 4), np.uint8), labels=codes, name="letters")
    assert draft(images, target="class").classes == tuple(map(str, range(26)))
    assert draft(images, target="class", task="regression").classes == ()
    ages = Raw(images=np.zeros((78, 1, 4, 4), np.uint8), labels=codes + 20, name="faces")
    assert draft(ages, target="class").classes == ()
    assert draft(Raw(frame=pd.DataFrame({"a": codes, "y": codes}), name="table"), target="y").classes == ()


@pytest.mark.parametrize(
    ("target", "task", "message"),
    [
        ([], None, "at least one row"),
        (["a", None], None, "the first of them row 2"),
        (["a", "a"], None, "2 to 100 classes .* NA and none count as missing"),
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
def test_p47_drafted_bounds_are_next_steps_beyond_the_rows(values: list[float]) -> None:
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


def csv_column(tmp_path: Path, values: list[str], name: str = "a") -> Column:
    """What a draft says of a column of a CSV file."""
    path = tmp_path / "data.csv"
    pd.DataFrame({name: values, "y": ["n", "p"] * (len(values) // 2)}).to_csv(path, index=False)
    return draft(read(path), target="y").columns[0]


def test_one_typo_does_not_make_numbers_categories(tmp_path: Path) -> None:
    age = csv_column(tmp_path, [str(20 + at % 50) for at in range(99)] + ["fourty"], "age")
    assert (age.kind, age.low, age.high) == ("number", 10, 100)
    assert (age.missing, age.unseen) == ("category", "other")
    assert csv_column(tmp_path, ["7", "many"] * 50).kind == "category"


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["yes", "no", "Yes", ""] * 25, "boolean"),
        (["2020-01-05", "2021-07-01"] * 50, "date"),
        (["8:15", "17:00 ", "?"] * 34, "time"),
        ([f"a{at}@b.org" for at in range(100)], "identifier"),
        ([f"P{at:05}" for at in range(100)], "identifier"),
        ([f"pain in arm {at}" for at in range(100)], "text"),
        (["yes"] * 100, "ignore"),
        ([""] * 100, "ignore"),
        ([f"{at}.5 kg" for at in range(100)] + ["k.A."] * 18, "number"),
        (["Never married", "Married to spouse here"] * 50, "category"),
    ],
)
def test_kinds_are_recognised_in_a_csv(tmp_path: Path, values: list[str], kind: str) -> None:
    assert csv_column(tmp_path, values).kind == kind


@pytest.mark.parametrize("words", [12, 40])
def test_numbers_with_units_and_words_are_not_free_text(tmp_path: Path, words: int) -> None:
    path = tmp_path / "rows.csv"
    values = [f"{at}.5 kg" for at in range(100)] + ["k.A."] * words
    path.write_text("weight;y\n" + "".join(f"{value};{'pn'[at % 2]}\n" for at, value in enumerate(values)))
    [weight] = typed(read(path), target="y").columns
    assert weight.kind == "undecided"


def test_case_and_blanks_of_categories_are_joined_and_assumed(tmp_path: Path) -> None:
    town = csv_column(tmp_path, ["New York", "new  york", "NEW YORK ", "New York", "Ulm"] * 20, "town")
    assert (town.categories, town.fold) == (("New York", "Ulm"), True)
    frame = pd.DataFrame({"town": ["new york", "ULM", "New York"], "y": ["n", "p", "n"]})
    schema = Schema(columns=(town,), classes=("n", "p"), target="y")
    assert Data.of(read(frame), schema).x[:, 0].tolist() == [0, 1, 0]


def test_dates_are_bounded_by_years_and_read_in_fitting_order(tmp_path: Path) -> None:
    day = csv_column(tmp_path, ["3/4/2020", "25/12/2021"] * 50)
    assert (day.kind, day.day_first, day.parts) == ("date", True, DATE_PARTS[:-1])
    assert "low = 2020-01-01\nhigh = 2022-01-01" in Schema(columns=(day,), classes=("n", "p")).toml()
    assert csv_column(tmp_path, ["4/3/2020", "12/25/2021"] * 50).day_first is False
    assert csv_column(tmp_path, ["2020-04-03 10:30", "2021-12-25 11:15:10"] * 50).parts == ()
    stamps = draft_column(pd.date_range("2020", periods=ROWS))
    assert (stamps.kind, stamps.parts) == ("date", DATE_PARTS[:-1])


def test_draft_of_mixed_kinds_codes_its_own_rows(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    rows = [
        f"{20 + at % 40};{'yes' if at % 3 else 'no'};{1 + at % 28}.1.2020;pain in arm {at};p{at};n" for at in range(99)
    ]
    path.write_text("\n".join(["age;ill;seen;note;patient;y", *rows, "old;no;1.2.2020;;p;p"]))
    schema = draft(read(path), target="y")
    assert [column.kind for column in schema.columns] == ["number", "boolean", "date", "text", "identifier"]
    assert Schema.parse(schema.toml()) == schema
    assert "that a value of age of another kind is missing" in schema.assumed
    assert "that patient may be left out" in schema.assumed
    data = Data.of(read(path), schema)
    assert data.x.shape == (100, len(schema.used)) == (100, 1 + 1 + 3 + 64)
    assert np.isnan(data.x[-1, 0])


def test_one_row_with_a_list_does_not_hide_its_column() -> None:
    towns = pd.Series(["Ulm", "Bonn", "Ulm", "Köln"] * 10, dtype=object)
    frame = pd.DataFrame({"town": towns, "age": range(40), "y": ["a", "b"] * 20})
    assert [column.kind for column in typed(read(frame), target="y").columns] == ["undecided", "number"]
    frame.at[7, "town"] = ["Ulm", "Bonn"]
    with pytest.raises(WrongInput, match="column 'town', row 8: expected a number or text, got list"):
        typed(read(frame), target="y")
    frame["town"] = pd.Series([["Ulm"]] * 39 + [None], dtype=object)
    assert [column.kind for column in typed(read(frame), target="y").columns] == ["ignore", "number"]


@pytest.mark.parametrize("kind", ["datetime64[ns]", "datetime64[ns, UTC]", "timestamp[us][pyarrow]"])
def test_hours_of_time_stamps_are_kept_without_a_schema(kind: str) -> None:
    stamps = pd.Series(pd.date_range("2020", periods=ROWS, freq="h", tz="UTC" if "UTC" in kind else None)).astype(kind)
    schema = typed(read(pd.DataFrame({"seen": stamps, "y": ["a", "b"] * (ROWS // 2)})), target="y")
    assert [each.name for each in schema.used][-1] == "seen (hour)"


def test_dates_without_a_time_have_no_hour() -> None:
    days = pd.Series(pd.date_range("2020", periods=ROWS)).astype("date32[day][pyarrow]")
    schema = typed(read(pd.DataFrame({"seen": days, "y": ["a", "b"] * (ROWS // 2)})), target="y")
    assert [each.name for each in schema.used][-1] == "seen (weekday)"
