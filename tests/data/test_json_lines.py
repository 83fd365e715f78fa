"""JSON lines are tables: names from the objects, places by line, and refusals that show no value."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from privaware import fit
from privaware.data import Data, draft, labelled, read, typed
from privaware.data._data import target_of
from privaware.errors import UnusedColumnWarning, WrongInput


def test_json_lines_are_a_table_with_text_numbers_and_gaps(tmp_path: Path) -> None:
    words = ("a fine plot and cast", "dull and far too long")
    rows = [{"text": f"{words[at % 2]}, part {at}", "stars": at % 5, "y": at % 2 == 0} for at in range(60)]
    del rows[3]["stars"]
    lines = "\n\n".join(json.dumps(row) for row in rows)
    for name, content in (("r.jsonl", lines.encode()), ("r.ndjson.gz", gzip.compress(lines.encode()))):
        (tmp_path / name).write_bytes(content)
        raw = read(tmp_path / name)
        assert raw.columns == ["text", "stars", "y"]
        assert raw.place(1) == "line 3"
        schema = draft(raw, target="y")
        assert {column.name: column.kind for column in schema.columns} == {"text": "text", "stars": "number"}
        assert len(Data.of(raw, schema)) == 60


@pytest.mark.parametrize("line", ["[1, 2]", "{'a': 1}", '{"a": 1', "7", '{"a": 1} {"b": 2}'])
def test_a_line_that_is_no_object_is_refused_by_its_number(tmp_path: Path, line: str) -> None:
    (tmp_path / "r.jsonl").write_text('{"a": 1}\n' + line + "\n")
    with pytest.raises(WrongInput, match="line 2: expected one JSON object, got ") as refusal:
        read(tmp_path / "r.jsonl")
    assert "1" not in str(refusal.value).partition("line 2")[2]


def write(path: Path, *rows: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("odd", [{"a": 3, "y": "no", "Ada Lovelace": 1}, {"y": "no", "a": 3}, {"y": "no"}, {}])
def test_names_that_one_row_alone_brings_are_no_names_of_columns(tmp_path: Path, odd: dict[str, object]) -> None:
    """Removed with its row, such a name would be gone from the model: the row would be known from the names."""
    even = [{"a": at, "y": "yes" if at % 2 else "no"} for at in range(30)]
    schema = typed(read(write(tmp_path / "even.jsonl", *even)), target="y").bare()
    assert [column.name for column in schema.columns] == ["a"]
    for number, rows in ((31, [*even, odd]), (2, [odd, *even])):
        raw = read(write(tmp_path / "odd.jsonl", *rows))
        with pytest.raises(WrongInput, match=f"'odd.jsonl': line {number}: expected the names of the first row") as no:
            typed(raw, target="y")
        with pytest.raises(WrongInput, match=r"[23] in all; not every row has the same") as target:
            target_of(raw, "Ada L")
        assert "Ada Lovelace" not in f"{no.value}{target.value}"
        assert len(raw) == 31
        assert len(labelled(raw, "y")) == 31 - ("y" not in odd)


def test_differing_names_need_a_draft_and_are_not_certified(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"a": at, "b": at % 7, "y": "yes" if at % 2 else "no"} for at in range(60)]
    del rows[3]["b"]
    path = write(tmp_path / "r.jsonl", *rows)
    call: dict[str, Any] = {"target": "y", "learner": "majority", "epsilon": 1.0, "ledger": tmp_path / "r.ledger"}
    with pytest.raises(WrongInput, match="line 4: expected the names of the first row"):
        fit(path, **call)
    assert not (tmp_path / "r.ledger").exists()
    with pytest.warns(UnusedColumnWarning, match="Not used: 'a'"):
        assert not fit(path, accept_schema=True, **call).certified


def test_half_a_character_is_refused_by_line_without_values(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"town": "Ulm", "y": at % 2} for at in range(30)]
    for odd in ({"town": "\ud800", "y": 1}, {"town": "Ulm", "y": "\ud800"}, {"\ud800": "Ulm", "y": 1}):
        with pytest.raises(WrongInput, match="line 31: expected text, got half of a character") as refusal:
            read(write(tmp_path / "r.jsonl", *rows, odd))
        assert "Ulm" not in str(refusal.value)
    towns = pd.Series(["Ulm", "Bonn", "\ud800"] * 10, dtype=object)
    frame = pd.DataFrame({"town": towns, "y": [0, 1, 1] * 10})
    with pytest.raises(WrongInput, match="column 'town', row 3: expected text, got half of a character") as refusal:
        typed(read(frame), target="y")
    assert "Ulm" not in str(refusal.value)


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text("\n\n")
    with pytest.raises(WrongInput, match="expected an object in some line"):
        read(tmp_path / "r.jsonl")


def test_a_list_of_objects_is_the_same_table(tmp_path: Path) -> None:
    rows = [{"a": at / 8, "town": "Ulm" if at % 3 else None, "y": "yes" if at % 2 else "no"} for at in range(20)]
    (tmp_path / "r.jsonl").write_text("\n".join(map(json.dumps, rows)))
    expected = read(tmp_path / "r.jsonl")
    for content in (json.dumps(rows), json.dumps(rows, indent=2), "\n".join(map(json.dumps, rows))):
        (tmp_path / "r.json").write_bytes(b"\xef\xbb\xbf " + content.encode())
        raw = read(tmp_path / "r.json")
        pd.testing.assert_frame_equal(raw.frame, expected.frame)
        assert typed(raw, target="y") == typed(expected, target="y")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[{"a": 1}, 2]', "expected a list of JSON objects"),
        ("[]", "expected a list of JSON objects"),
        ('[{"a": "secret"', "'r.json', its text: expected one JSON object, got something else$"),
        ('{"a": ["secret"], "y": [1]', "'r.json', line 1: expected one JSON object"),
    ],
)
def test_other_json_is_refused_without_a_value(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "r.json").write_text(content)
    with pytest.raises(WrongInput, match=message) as problem:
        read(tmp_path / "r.json")
    assert "secret" not in str(problem.value)


@pytest.mark.parametrize("orient", ["columns", "split"])
def test_one_object_of_whole_columns_is_refused_with_advice(tmp_path: Path, orient: Any) -> None:
    pd.DataFrame({"a": [1, 2], "y": ["p", "q"]}).to_json(tmp_path / "r.json", orient=orient)
    with pytest.raises(WrongInput, match=r"one object of whole columns; in pandas write it by to_json\("):
        read(tmp_path / "r.json")


def test_member_of_one_json_object_is_no_public_name(tmp_path: Path) -> None:
    rows = [{"a": 1, "y": "no"}, {"a": 2, "y": "yes"}, {"a": 2, "y": "yes", "hiv": 1}]
    (tmp_path / "r.json").write_text(json.dumps(rows))
    with pytest.raises(WrongInput, match="row 3: expected the names of the first row"):
        typed(read(tmp_path / "r.json"), target="y")
