"""Coding is a function of one batch of rows and the schema: row by row, and it counts what does not fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from privaware.data import Data, Outside, coded, read
from privaware.errors import WrongInput
from privaware.schema import Column, Schema

LENIENT = {"missing": "category", "unseen": "other"}
COLUMNS = (
    Column(name="age", low=0, high=90, **LENIENT),  # type: ignore[arg-type]
    Column(name="town", kind="category", categories=("Ulm",), **LENIENT),  # type: ignore[arg-type]
    Column(name="day", kind="date", low="2020-01-01", high="2021-01-01", parts=("days",), **LENIENT),  # type: ignore[arg-type]
    Column(name="ill", kind="boolean", **LENIENT),  # type: ignore[arg-type]
)
SCHEMA = Schema(columns=COLUMNS, classes=("no", "yes"), target="y")
FRAME = pd.DataFrame(
    {
        "age": ["44", "400", "fourty", "", "inf"],
        "town": ["Ulm", "Kiel", "Bonn", "?", "Ulm"],
        "day": ["2020-05-01", "1.5.1990", "soon", "-", "2020-12-31"],
        "ill": ["yes", "no", "maybe", "", "TRUE"],
    }
)


def test_misfit_values_are_counted_by_column_and_never_shown() -> None:
    outside = Outside()
    data = Data.of(read(FRAME), SCHEMA, labelled=False, outside=outside)
    assert outside.counts == {
        "age": {"missing": 1, "no_number": 1, "outside_bounds": 1},
        "town": {"missing": 1, "unseen": 2},
        "day": {"missing": 1, "no_date": 1, "outside_bounds": 1},
        "ill": {"missing": 1, "unseen": 1},
    }
    assert data.x[:2, 0].tolist() == [44, 90]
    assert np.isnan(data.x[2:, 0]).all()
    assert data.x[:, 3].tolist() == [1, 0, 2, 2, 1]
    words = " ".join(outside.sentences(rows=5))
    assert "'town': 2 values not among the categories" in words
    assert not any(value in words for value in ("Kiel", "fourty", "400", "maybe", "soon"))


def test_batches_are_coded_as_the_whole_is() -> None:
    whole = coded(read(FRAME), SCHEMA)
    parts = [coded(read(FRAME.iloc[at : at + 2].reset_index(drop=True)), SCHEMA) for at in (0, 2, 4)]
    assert np.array_equal(np.concatenate(parts), whole, equal_nan=True)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (Column(name="a", kind="date", low="2020-01-01", high="2021-01-01"), "31/31/2020", "expected a date"),
        (Column(name="a", kind="time"), "25:00", "expected a time"),
        (Column(name="a", kind="boolean"), "perhaps", "expected a declared category"),
        (Column(name="a", kind="date", low="2020-01-01", high="2021-01-01"), "", "missing or infinite"),
    ],
)
def test_strict_columns_refuse_by_place_without_the_value(
    tmp_path: Path, column: Column, value: str, message: str
) -> None:
    path = tmp_path / "data.csv"
    path.write_text(f"a,y\n{value},no\n")
    with pytest.raises(WrongInput, match=f"'data.csv': column 'a', line 2: .*{message}") as refused:
        Data.of(read(path), Schema(columns=(column,), classes=("no", "yes"), target="y"))
    assert not value or value not in str(refused.value)


def test_multiline_text_is_read_unless_it_swallowed_rows(tmp_path: Path) -> None:
    schema = Schema(
        columns=(Column(name="note", kind="text", slots=8), Column(name="age", low=0, high=90)),
        classes=("no", "yes"),
        target="y",
    )
    path = tmp_path / "data.csv"
    path.write_text('note,age,y\n"pain, still\nin the arm",44,no\n')
    assert Data.of(read(path), schema).x.shape == (1, 9)
    path.write_text('note,age,y\n"pain,44,no\nnone,45,yes\nfever",46,no\n')
    with pytest.raises(WrongInput, match="column 'note', line 2: the value holds what looks like other rows"):
        Data.of(read(path), schema)


@pytest.mark.parametrize("value", ["", " ", "NA"])
def test_target_without_a_value_is_refused_by_its_line(tmp_path: Path, value: str) -> None:
    path = tmp_path / "data.csv"
    path.write_text(f"age,y\n44, no \n45,{value}\n")
    schema = Schema(columns=(Column(name="age", low=0, high=90),), classes=("no", "yes"), target="y")
    with pytest.raises(WrongInput, match="target 'y', line 3: expected one of the declared classes"):
        Data.of(read(path), schema)


def test_columns_a_model_lacks_are_named_with_other_spellings() -> None:
    frame = pd.DataFrame({"AGE": [3], "town": ["Ulm"]})
    schema = Schema(columns=(Column(name="age", low=0, high=9),), target="y", classes=("0", "1"), rows=1)
    with pytest.raises(WrongInput, match=r"the model needs 'age', .*; 'age' is spelled 'AGE'; rename or add columns"):
        Data.of(read(frame), schema, labelled=False)
    with pytest.raises(WrongInput, match="the columns 'town'; rename or add columns"):
        Data.of(read(frame[["town"]]), schema, labelled=False)


def test_of_many_columns_with_strange_values_the_first_are_named() -> None:
    outside = Outside()
    for at in range(2000):
        outside.add(f"v{at}", "unseen", np.array([True]))
    sentences = outside.sentences(rows=1)
    assert sentences[0].startswith("'v0': 1 value not among the categories")
    assert sentences[20:] == ["1980 more columns have such values; `privaware predict --json` counts them all"]


def test_whole_texts_stand_in_the_rows_beside_numbers() -> None:
    columns = (Column(name="note", kind="text", slots=0), Column(name="age", low=0, high=90, missing="category"))
    schema = Schema(columns=columns, classes=("no", "yes"), target="y", rows=2)
    rows = Data.of(read(pd.DataFrame({"note": ["in pain", None], "age": [200, None], "y": ["no", "yes"]})), schema)
    assert [rows.x[0].tolist(), rows.x[1, 0]] == [["in pain", 90.0], ""]
    assert np.isnan(rows.x[1, 1])
    assert rows.keep(("note",)).x.tolist() == [["in pain"], [""]]


def test_a_declared_empty_category_is_every_missing_value() -> None:
    columns = (Column(name="town", kind="category", categories=("", "Ulm"), missing="category", unseen="other"),)
    rows = Data.of(read(FRAME.assign(y="no")), Schema(columns=columns, classes=("no", "yes"), target="y"))
    assert rows.x[:, 0].tolist() == [1, 2, 2, 0, 1]
