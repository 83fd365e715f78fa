"""Schemas survive their files, and an invalid one is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privaware.errors import WrongInput
from privaware.schema import Column, Schema

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
BOUNDS = st.tuples(st.floats(-1e9, 1e9), st.floats(1e-3, 1e9)).map(lambda ab: (ab[0], ab[0] + ab[1]))


@st.composite
def columns(draw: st.DrawFn, name: str) -> Column:
    kind = draw(st.sampled_from(["number", "category", "text", "ignore"]))
    if kind == "category":
        words = draw(st.lists(NAMES, unique=True, max_size=4))
        missing = draw(st.sampled_from(["refuse", "category"]))
        return Column(name=name, kind=kind, categories=tuple(words), missing=missing, unseen="other")
    if kind != "number":
        return Column(name=name, kind=kind)
    low, high = draw(BOUNDS)
    bins = sorted(draw(st.sets(st.floats(-1e6, 1e6), max_size=3)))
    return Column(name=name, low=low, high=high, bins=tuple(bins), missing=draw(st.just((low + high) / 2)))


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    names = draw(st.lists(NAMES, unique=True, min_size=2, max_size=5))
    drawn_columns = tuple(draw(columns(name)) for name in names[1:])
    classes = tuple(draw(st.lists(NAMES, unique=True, min_size=2, max_size=4)))
    low, high = draw(BOUNDS)
    entries = draw(st.sampled_from([{"classes": classes}, {"low": low, "high": high}, {}]))
    return Schema(
        columns=drawn_columns,
        target=names[0],
        rows=draw(st.integers(1, 10**9)),
        unit=draw(NAMES),
        cap=draw(st.integers(1, 9)),
        reviewed=draw(st.booleans()),
        assumed=tuple(draw(st.lists(NAMES, max_size=2))),
        **entries,
    )


@given(schemas())
def test_toml_and_json_round_trip(schema: Schema) -> None:
    assert Schema.parse(schema.toml()) == schema
    assert Schema.from_json(json.loads(json.dumps(schema.json()))) == schema


def test_numpy_numbers_are_written_plainly() -> None:
    column = Column(name="a", low=np.float64(-0.5), high=np.float64(1e22))
    schema = Schema(columns=(column,), classes=("a", "b"))
    assert "low = -0.5" in schema.toml()
    assert Schema.parse(schema.toml()) == schema


def test_lists_and_tuples_make_equal_schemas() -> None:
    listed = Schema(columns=[Column(name="a", kind="category", categories=["x"])], classes=["n", "y"])  # type: ignore[arg-type]
    assert listed == Schema.parse(listed.toml())
    assert hash(listed.columns[0]) == hash(Schema.parse(listed.toml()).columns[0])


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"name": ""}, "non-empty name"),
        ({"name": "\ud800"}, "non-empty name"),
        ({"name": "a", "kind": "numeric"}, "kind among"),
        ({"name": "a", "low": 1}, "low < high"),
        ({"name": "a", "low": 2, "high": 1}, "low < high"),
        ({"name": "a", "low": 10**16, "high": 10**16 + 1}, "low < high"),
        ({"name": "a", "low": 0, "high": 5e-324}, "low < high"),
        ({"name": "a", "low": 0, "high": 10**400}, "low < high"),
        ({"name": "a", "low": float("nan"), "high": 1}, "low < high"),
        ({"name": "a", "low": False, "high": True}, "low < high"),
        ({"name": "a", "low": 0, "high": 1, "bins": (0.5, 0.2)}, "increasing"),
        ({"name": "a", "low": 0, "high": 1, "missing": 2}, "within the bounds"),
        ({"name": "a", "low": 0, "high": 1, "missing": "mean"}, "missing as"),
        ({"name": "a", "low": 0, "high": 1, "unseen": "drop"}, "unseen as"),
        ({"name": "a", "kind": "category", "categories": ("x", "x")}, "distinct"),
        ({"name": "a", "kind": "category", "categories": (1, 2)}, "as text"),
        ({"name": "a", "kind": "category", "categories": "xy"}, "as a list"),
        ({"name": "a", "kind": "category", "categories": ("x",), "missing": 3}, "missing as"),
    ],
)
def test_invalid_column_is_refused(entries: dict[str, object], words: str) -> None:
    with pytest.raises(WrongInput, match=words):
        Column(**entries)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"rows": 0}, "rows as a whole number"),
        ({"rows": True}, "rows as a whole number"),
        ({"rows": 10**5000}, "thousands of digits"),
        ({"cap": 0}, "cap as a whole number"),
        ({"unit": ""}, "unit as text"),
        ({"form": "video"}, "form among"),
        ({"relation": "cousin"}, "relation among"),
        ({"classes": ("a",)}, "at least two"),
        ({"classes": ("a", "a")}, "at least two"),
        ({"low": 0}, "target bounds"),
        ({"low": 5, "high": 1, "classes": ("a", "b")}, "target bounds"),
        ({"form": "image", "shape": (1, 2)}, "image shape"),
        ({"columns": (Column(name="target"),)}, "apart from the columns"),
        ({"columns": (Column(name="a"), Column(name="a"))}, "distinct column names"),
        ({"columns": ("a",)}, "of type Column"),
        ({"reviewed": 1}, "true or false"),
    ],
)
def test_invalid_schema_is_refused(entries: dict[str, object], words: str) -> None:
    with pytest.raises(WrongInput, match=words):
        Schema(**entries)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value",
    [
        None,
        3,
        [],
        {},
        {"columns": {}},
        {"columns": [{}]},
        {"columns": [3]},
        {"columns": [], "extra": 1},
        {"columns": [], "rows": None},
    ],
)
def test_invalid_json_schema_is_refused(value: object) -> None:
    with pytest.raises(WrongInput):
        Schema.from_json(value)


def test_a_dict_is_no_schema_file() -> None:
    bounds: Any = {"age": (0, 100)}
    with pytest.raises(WrongInput, match="expected the path of a schema file, or a Schema, got an object of dict"):
        Schema.read(bounds)


def test_unreadable_schema_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.toml", tmp_path, Path("a\0b.toml")):
        with pytest.raises(WrongInput, match="cannot read the schema"):
            Schema.read(path)
    (tmp_path / "latin.toml").write_bytes(b"target = '\xe9'")
    with pytest.raises(WrongInput, match="UTF-8"):
        Schema.read(tmp_path / "latin.toml")


def test_bare_keeps_only_names_kinds_classes_and_rows() -> None:
    known = Column(name="a", low=3, high=4, bins=(3.5,), missing="refuse")
    town = Column(name="t", kind="category", categories=("x",), missing="category")
    schema = Schema(columns=(known, town), classes=("n", "y"), rows=77, low=None)
    other = Schema(
        columns=(
            Column(name="a", low=-9, high=9, missing="category"),
            Column(name="t", kind="category", categories=("p", "q")),
        ),
        classes=("n", "y"),
        rows=77,
    )
    assert schema.bare() == other.bare()
    assert not schema.bare().bounded
    assert schema.bare().assumed == (
        "the number of rows",
        "the names and kinds of the columns",
        "the classes of target",
    )
    images = Schema(columns=(), target="class", classes=("n", "y"), rows=77, form="image", shape=(3, 8, 8))
    assert images.bare().assumed == ("the number of rows", "the size of the images", "the classes")
    assert not Schema(columns=(known,)).bounded  # a regression target without bounds
    assert Schema(columns=(known,), low=0, high=1).bounded
