"""A declared column becomes numbers and categories in public ranges, and parts of it can be kept."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pytest

from privaware.data import Data, read
from privaware.errors import WrongInput
from privaware.schema import CodedColumn, Column, Schema

SEEN = Column(name="seen", kind="date", low="2020-01-01", high="2021-01-01", missing="category")
NOTE = Column(name="note", kind="text", slots=4)
ILL = Column(name="ill", kind="boolean", missing="category")
AT = Column(name="at", kind="time", missing="category")
SCHEMA = Schema(columns=(SEEN, NOTE, ILL, AT, Column(name="who", kind="identifier")), classes=("n", "y"), target="y")
FRAME = pd.DataFrame(
    {
        "seen": ["2020-03-01 13:30", None],
        "note": ["pain, severe pain", ""],
        "ill": ["Yes", "?"],
        "at": ["8:30", ""],
        "y": ["n", "y"],
    }
)


def test_parts_have_public_ranges_and_their_names() -> None:
    assert [column.name for column in SCHEMA.used] == [
        *(f"seen ({part})" for part in ("days", "month", "weekday", "hour")),
        *(f"note (slot {at})" for at in range(1, 5)),
        "ill",
        "at",
    ]
    assert {column.kind for column in SCHEMA.used} == {"number", "category"}
    assert all(column.bounded for column in SCHEMA.used)
    assert [column.name for column in SCHEMA.declared] == ["seen", "note", "ill", "at"]


def test_rows_are_coded_part_by_part() -> None:
    x = Data.of(read(FRAME), SCHEMA).x
    sunday = datetime.date(2020, 3, 1)
    assert x[0, :4].tolist() == [(sunday - datetime.date(1970, 1, 1)).days + 13.5 / 24, 2, 6, 13]
    assert np.isnan(x[1, 0])
    assert x[1, 1:4].tolist() == [12, 7, 24]  # the slots for missing values
    assert 0.99 < np.square(x[0, 4:8]).sum() <= 1
    assert x[1, 4:8].tolist() == [0, 0, 0, 0]
    assert x[0, 8:].tolist() == [1, 8.5]
    assert x[1, 8] == 2


def test_keeping_parts_keeps_what_was_coded() -> None:
    names = ("seen (month)", "note (slot 2)", "ill")
    kept = SCHEMA.keep(names)
    assert [column.name for column in kept.used] == list(names)
    assert [column.name for column in SCHEMA.keep(("seen", "at")).used][-2:] == ["seen (hour)", "at"]
    data = Data.of(read(FRAME), SCHEMA)
    assert np.array_equal(data.keep(names).x, Data.of(read(FRAME), kept).x)
    assert Schema.parse(kept.toml()) == kept == Schema.from_json(kept.json())


def test_name_of_a_column_is_no_part_of_another_column() -> None:
    job = Column(name="job", kind="category", categories=("nurse", "cook"))
    schema = Schema(columns=(job, Column(name="job (nurse)", low=0, high=1)), classes=("n", "y"))
    assert [column.name for column in schema.keep(("job (nurse)",)).columns] == ["job (nurse)"]
    assert [column.name for column in schema.keep(("job (cook)",)).used] == ["job (cook)"]


@pytest.mark.parametrize("part", ["month", "days", "slot 3"])
def test_names_of_parts_of_undecided_columns_are_refused(part: str) -> None:
    columns = Column(name="joined", kind="undecided"), Column(name=f"joined ({part})")
    with pytest.raises(WrongInput, match="undecided"):
        Schema(columns=columns, classes=("n", "y"))
    assert Schema(columns=(columns[0], Column(name="joined (late)")), classes=("n", "y")).used


def test_dates_round_trip_as_dates_and_old_schemas_open() -> None:
    assert "low = 2020-01-01" in SCHEMA.toml()
    assert Schema.parse(SCHEMA.toml()) == SCHEMA == Schema.from_json(SCHEMA.json())
    odd = Column(name="seen", kind="date", low=1 / 3, high=datetime.datetime(2020, 1, 1, 12, 30))
    schema = Schema(columns=(odd,), classes=("n", "y"))
    assert Schema.parse(schema.toml()) == schema
    entries = SCHEMA.json()
    new = ("fold", "day_first", "parts", "slots")
    entries["columns"] = [{"name": "age", "low": 0, "high": 9}]
    assert Schema.from_json(entries).columns == (Column(name="age", low=0, high=9),)
    plain = Column(name="plain")
    for column, written in zip(SCHEMA.columns, SCHEMA.json()["columns"], strict=True):
        assert [name for name in new if name in written] == [
            name for name in new if getattr(column, name) != getattr(plain, name)
        ]


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"kind": "date", "low": "2020-13-01", "high": "2021-01-01"}, "low as a date"),
        ({"kind": "date", "low": "2021-01-01", "high": "2020-01-01"}, "low < high"),
        ({"kind": "date", "parts": ("hour", "days")}, "parts in order"),
        ({"kind": "number", "parts": ("days",)}, "parts in order"),
        ({"kind": "text", "slots": -1}, "slots as a whole number"),
        ({"kind": "number", "slots": 0}, "slots as a whole number"),
        ({"kind": "category", "categories": ("a", "A "), "fold": True}, "more than case and blanks"),
        ({"kind": "boolean", "categories": ("a",)}, "false and true"),
        ({"kind": "category", "fold": 1}, "fold as true or false"),
    ],
)
def test_wrong_facts_about_a_kind_are_refused(entries: dict[str, object], message: str) -> None:
    with pytest.raises(WrongInput, match=message):
        Column(name="a", **entries)  # type: ignore[arg-type]


def test_name_that_a_part_has_is_refused() -> None:
    with pytest.raises(WrongInput, match="names of the parts"):
        Schema(columns=(SEEN, Column(name="seen (month)")), classes=("n", "y"))


def test_slots_of_a_text_are_marked() -> None:
    assert [column.of_text for column in SCHEMA.used if isinstance(column, CodedColumn)] == [False] * 4 + [True] * 4
