"""JSON lines are tables: names from the objects, places by line, and refusals that show no value."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from privaware.data import Data, draft, read
from privaware.errors import WrongInput


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


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text("\n\n")
    with pytest.raises(WrongInput, match="expected an object in some line"):
        read(tmp_path / "r.jsonl")
