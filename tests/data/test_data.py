"""Rows are coded by the schema, each by itself."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privaware.data import Data, Raw, draft, read, show_values
from privaware.errors import WrongInput
from privaware.noise import Rng
from privaware.schema import Column, Schema

AGE = Column(name="age", low=0, high=100, missing="category")
TOWN = Column(name="town", kind="category", categories=("n", "e", "1"), missing="category", unseen="other")
SCHEMA = Schema(columns=(AGE, TOWN), target="y", classes=("0", "1"), rows=10)

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-200, 200),
    st.floats(),
    st.sampled_from(["n", " e ", "1.0", "w", "?", "1e400"]),
)
AGES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.floats(),
    st.sampled_from(["7", " 8.5 ", "1e400", "inf", "NA", "true"]),
)


def frame(**columns: Any) -> pd.DataFrame:
    rows = max(len(values) for values in columns.values())
    return pd.DataFrame({"y": ["0", "1"] * (rows // 2) + ["0"] * (rows % 2), **columns})


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(AGES, VALUES, st.integers(0, 1)), min_size=1, max_size=12))
def test_p12_coding_a_row_does_not_depend_on_other_rows(rows: list[tuple[Any, ...]]) -> None:
    table = pd.DataFrame(
        {name: pd.Series([row[at] for row in rows], dtype=object) for at, name in enumerate(["age", "town", "y"])}
    )
    together = Data.of(read(table), SCHEMA)
    uncoded = Data.uncoded(read(table), SCHEMA)
    for at in range(len(rows)):
        alone = Data.of(read(table.iloc[[at]]), SCHEMA)
        assert np.array_equal(alone.x[0], together.x[at], equal_nan=True)
        assert alone.y[0] == together.y[at]
        assert repr(Data.uncoded(read(table.iloc[[at]]), SCHEMA).x[0]) == repr(uncoded.x[at])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=8))
def test_p12_spelling_of_a_float_does_not_depend_on_other_rows(values: list[float]) -> None:
    schema = replace(SCHEMA, columns=(replace(TOWN, categories=tuple(str(at) for at in range(-3, 4))),))
    table = frame(town=[*values, 1.0, 2.5])
    assert Data.of(read(table), schema).x[-2:, 0].tolist() == [4.0, 7.0]


def test_numbers_are_clipped_and_categories_coded() -> None:
    data = Data.of(read(frame(age=[-5, 50, 200.5], town=["e", "n", 1.0])), SCHEMA)
    assert data.x.tolist() == [[0, 1], [50, 0], [100, 2]]
    assert data.y.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    "ages",
    [
        pd.Series([1, None, 3], dtype="Int64"),
        pd.Series([1.0, np.nan, 3.0], dtype="Float32"),
        pd.Series(["1", None, "3"], dtype="string"),
        pd.Series(["1", "?", " 3 "]),
        pd.Series([1, None, 3], dtype="category"),
        pd.Series([1, None, 3], dtype=object),
        pd.Series([np.float16(1), np.nan, 3], dtype="float16"),
        pd.Series([1.0, np.inf, 3.0]),
        pd.Series(pd.arrays.SparseArray([1.0, np.nan, 3.0])),
        pd.Series([1, None, 3], dtype="int64[pyarrow]"),
        pd.Series([b"1", None, b"3"]),
    ],
    ids=lambda series: str(series.dtype),
)
def test_numbers_are_coded_alike_for_every_dtype(ages: pd.Series) -> None:
    data = Data.of(read(frame(age=ages, town=["n"] * 3)), SCHEMA)
    assert np.array_equal(data.x[:, 0], [1, np.nan, 3], equal_nan=True)
    filled = replace(SCHEMA, columns=(replace(AGE, missing=42.0), TOWN))
    assert Data.of(read(frame(age=ages, town=["n"] * 3)), filled).x[:, 0].tolist() == [1, 42, 3]


def test_booleans_are_coded_as_one_and_zero_for_every_dtype() -> None:
    for flags in (
        [True, False],
        ["True", "false"],
        pd.Series([True, False], dtype="boolean"),
        pd.Series([True, False], dtype=object),
    ):
        assert Data.of(read(frame(age=flags, town=["n", "n"])), SCHEMA).x[:, 0].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("abc", "'age', row 2: expected a number; correct"),
        ("1_000", "'age', row 2: expected a number"),
        (3j, "'age', row 2: expected a number"),
        ([1, 2], "'age', row 2: expected a number or text, got list"),
        ({}, "'age', row 2: expected a number or text, got dict"),
        (b"\xff", "'age', row 2: expected a number or text, got bytes"),
        (pd.Timestamp("2020-02-02"), "'age', row 2: expected a number; correct"),
        (None, "'age', row 2: the value is missing or infinite"),
        (float("-inf"), "'age', row 2: the value is missing or infinite"),
        ("1e400", "'age', row 2: the value is missing or infinite"),
        pytest.param(10**5000, "'age', row 2: the value is missing or infinite", id="huge"),
    ],
)
def test_wrong_value_is_refused_naming_column_and_row(value: object, message: str) -> None:
    schema = replace(SCHEMA, columns=(replace(AGE, missing="refuse"),))
    table = frame(age=pd.Series([1, value, 3], dtype=object))
    for reader in (Data.of, Data.uncoded):
        with pytest.raises(WrongInput, match="column " + message.replace("[", r"\[")):
            reader(read(table), schema)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"age": [1, "abc"]}, "expected a number, got 'abc'; correct"),
        ({"age": [1, pd.Timestamp("2020-02-02")]}, "expected a number, got '2020-02-02"),
        ({"age": [1, 2], "town": ["n", "w"]}, "expected a declared category, got 'w'; add it"),
        ({"age": [1, 2], "y": ["0", "many"]}, "expected one of the declared classes '0', '1', got 'many'$"),
    ],
)
def test_owner_may_ask_refusals_to_quote_the_value(columns: dict[str, Any], message: str) -> None:
    schema = replace(SCHEMA, columns=(AGE, replace(TOWN, unseen="refuse")))
    table = frame(**{"town": ["n", "n"], **columns})
    with show_values(), pytest.raises(WrongInput, match=message):
        Data.of(read(table), schema)
    with pytest.raises(WrongInput, match="row 2: expected") as caught:
        Data.of(read(table), schema)
    assert not re.search(", got|abc|2020|'w'|many", str(caught.value))


def test_missing_and_unseen_categories_follow_the_schema() -> None:
    table = frame(town=["n", "w", None])
    only = replace(SCHEMA, columns=(TOWN,))
    assert Data.of(read(table), only).x[:, 0].tolist() == [0, 3, 3]
    strict = replace(only, columns=(replace(TOWN, unseen="refuse"),))
    with pytest.raises(WrongInput, match=r"'town', row 2: expected a declared category; add it"):
        Data.of(read(table), strict)
    closed = replace(only, columns=(replace(TOWN, missing="refuse"),))
    with pytest.raises(WrongInput, match=r"'town', row 3: the value is missing"):
        Data.of(read(table), closed)
    named = replace(only, columns=(replace(TOWN, categories=("?", "none"), missing="refuse"),))
    assert Data.of(read(frame(town=["?", "none"])), named).x[:, 0].tolist() == [0, 1]


def test_dates_are_categories_or_refused_as_numbers() -> None:
    days = pd.Series(pd.to_datetime(["2020-01-01", "2021-01-01"]))
    column = Column(name="day", kind="category", categories=("2020-01-01 00:00:00",), unseen="other")
    schema = replace(SCHEMA, columns=(column,))
    assert Data.of(read(frame(day=days)), schema).x[:, 0].tolist() == [0, 1]
    number = replace(SCHEMA, columns=(Column(name="day", low=0, high=1),))
    with pytest.raises(WrongInput, match="expected a number"):
        Data.of(read(frame(day=days)), number)


def test_p37_declared_class_may_be_absent_but_no_other_may_occur() -> None:
    schema = replace(SCHEMA, columns=(TOWN,), classes=("0", "1", "2"))
    assert set(Data.of(read(frame(town=["n", "e"])), schema).y.tolist()) == {0, 1}
    with pytest.raises(WrongInput, match=r"target 'y', row 2: expected one of the declared classes '0', '2'$"):
        Data.of(read(frame(town=["n", "e"])), replace(schema, classes=("0", "2")))


def test_classes_match_for_every_dtype_of_the_labels() -> None:
    schema = replace(SCHEMA, columns=(TOWN,))
    for labels in ([1, 0], [1.0, 0.0], ["1", "0"], pd.Series([1, 0], dtype="Int64"), ["1 ", " 0"]):
        assert Data.of(read(frame(town=["n", "n"], y=labels)), schema).y.tolist() == [1, 0]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=20), st.integers(1, 3))
def test_p34_cap_keeps_first_rows_of_each_person_independently(people: str, cap: int) -> None:
    table = frame(age=list(range(len(people))), town=["n"] * len(people), person=list(people))
    schema = replace(SCHEMA, unit="person", cap=cap)
    capped = Data.of(read(table), schema).x[:, 0].tolist()
    for person in set(people):
        own_rows = [at for at, who in enumerate(people) if who == person]
        assert [at for at in capped if people[int(at)] == person] == own_rows[:cap]
        without = Data.of(read(table[table.person != person]), schema).x[:, 0].tolist()
        assert without == [at for at in capped if people[int(at)] != person]


def test_p34_missing_unit_value_or_column_is_refused() -> None:
    table = frame(age=[1, 2], town=["n", "n"], person=["a", None])
    with pytest.raises(WrongInput, match=r"unit column 'person', row 2"):
        Data.of(read(table), replace(SCHEMA, unit="person"))
    with pytest.raises(WrongInput, match="expected the unit column"):
        Data.of(read(table), replace(SCHEMA, unit="nobody"))
    assert len(Data.of(read(table), replace(SCHEMA, unit="person"), labelled=False)) == 2


def test_adding_a_row_moves_no_other_row_between_split_parts() -> None:
    table = frame(age=list(range(100)), town=["n"] * 100)
    one = Data.of(read(table[:99]), SCHEMA).split(Rng(seed=4), (0.5, 0.3, 0.2))
    more = Data.of(read(table), SCHEMA).split(Rng(seed=4), (0.5, 0.3, 0.2))
    sizes = sorted(len(b) - len(a) for a, b in zip(one, more, strict=True))
    assert sizes == [0, 0, 1]
    for a, b in zip(one, more, strict=True):
        assert np.array_equal(a.x[:, 0], [age for age in b.x[:, 0] if age != 99])
    assert sum(len(part) for part in more) == 100


def test_p32_repr_shows_no_row() -> None:
    raw = read(frame(age=[12345, 12345], town=["secret", "secret"]))
    data = Data.of(raw, replace(SCHEMA, columns=(replace(AGE, high=99999), TOWN)))
    for text in (repr(raw), str(raw), repr(data), str(data), f"{data}"):
        assert "12345" not in text
        assert "secret" not in text
        assert "2" not in text.replace("2 columns", "")


def test_uncoded_rows_hold_unclipped_numbers_and_category_names() -> None:
    schema = SCHEMA.bare()
    data = Data.uncoded(read(frame(age=[-7.5, None, np.inf], town=[" w ", None, 3.0])), schema)
    assert data.x[0].tolist() == [-7.5, "w"]
    assert [np.isnan(age) for age in data.x[:, 0]] == [False, True, True]
    assert data.x[:, 1].tolist() == ["w", "", "3"]
    with pytest.raises(WrongInput, match="private_schema=True"):
        Data.of(read(frame(age=[1], town=["n"])), schema)


def test_uncoded_rows_of_one_person_are_capped() -> None:
    schema = replace(SCHEMA.bare(), unit="person", cap=1)
    table = frame(age=[1, 2, 3], town=["n"] * 3, person=["a", "a", "b"])
    assert Data.uncoded(read(table), schema).x[:, 0].tolist() == [1, 3]


def test_regression_targets_are_clipped_to_declared_bounds_only() -> None:
    schema = replace(SCHEMA, columns=(TOWN,), classes=(), low=0, high=10)
    table = frame(town=["n", "n"], y=[-5, 50])
    assert Data.of(read(table), schema).y.tolist() == [0, 10]
    assert Data.of(read(table), replace(schema, low=None, high=None)).y.tolist() == [-5, 50]
    for wrong in ("many", None, np.inf):
        with pytest.raises(WrongInput, match=r"target 'y', row 2: expected a finite number"):
            Data.of(read(frame(town=["n", "n"], y=pd.Series([1, wrong], dtype=object))), schema)


def test_text_columns_are_joined_and_missing_text_is_empty() -> None:
    columns = (Column(name="a", kind="text"), Column(name="b", kind="text"))
    schema = Schema(columns=columns, target="y", classes=("0", "1"), form="text")
    data = Data.of(read(frame(a=["x y", None], b=["z", 4.0])), schema)
    assert data.x.tolist() == ["x y z", " 4"]


def test_ignored_columns_are_not_read() -> None:
    schema = replace(SCHEMA, columns=(TOWN, Column(name="junk", kind="ignore")))
    assert Data.of(read(frame(town=["n"], junk=[[1]])), schema).x.shape == (1, 1)
    assert Data.of(read(frame(town=["n"])), schema).x.shape == (1, 1)


def test_keep_selects_columns_and_refuses_unknown_names() -> None:
    data = Data.of(read(frame(age=[1, 2], town=["n", "e"])), SCHEMA)
    assert data.keep(("town",)).x.tolist() == [[0], [1]]
    assert [column.name for column in data.keep(("town",)).schema.columns] == ["town"]
    with pytest.raises(WrongInput, match="expected columns among"):
        data.keep(("nobody",))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int64, bool, np.float64])
def test_images_are_scaled_by_dtype_not_by_values(dtype: Any) -> None:
    top = {np.uint8: 255, np.uint16: 65535, np.int64: 255, bool: 1, np.float64: 1}[dtype]
    images = np.zeros((2, 1, 2, 2), dtype=dtype)
    images[0, 0, 0, 0] = top
    schema = Schema(form="image", shape=(1, 2, 2), classes=("0", "1"))
    both = Data.of(Raw(images=images, labels=np.array([0, 1])), schema).x
    alone = Data.of(Raw(images=images[1:], labels=np.array([1])), schema).x
    assert both[0, 0, 0, 0] == 1.0
    assert np.array_equal(both[1:], alone)


def test_grey_and_colour_images_get_the_declared_shape() -> None:
    grey = np.arange(12, dtype=np.uint8).reshape(1, 1, 3, 4)
    colour = np.repeat(grey, 3, axis=1)
    label = np.array(["a"])
    as_grey = Schema(form="image", shape=(1, 3, 4), classes=("a", "b"))
    as_colour = replace(as_grey, shape=(3, 3, 4))
    for schema in (as_grey, as_colour):
        one = Data.of(Raw(images=grey, labels=label), schema).x
        two = Data.of(Raw(images=colour, labels=label), schema).x
        assert np.array_equal(one, two)
    with pytest.raises(WrongInput, match="expected images of shape"):
        Data.of(Raw(images=grey, labels=label), replace(as_grey, shape=(1, 4, 3)))


def test_reading_drafting_and_coding_emit_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = frame(age=["1", "x", "2020-01-01"], town=[1, "a", None], day=pd.to_datetime(["2020"] * 3))
        rows = Data.of(read(table), draft(read(table), target="y"))
    assert len(rows) == 3
