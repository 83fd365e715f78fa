"""Rows without a target are left out one by one, their owner is told, and places in a file stay right."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from privaware.data import labelled, labelled_part, left_out, read
from privaware.errors import WrongInput

LINES = "age,out\n1,a\n2,\n3,b\n4,NA\n5,a\n"


def test_rows_without_a_target_are_left_out_and_counted(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(LINES)
    raw = read(tmp_path / "t.csv")
    kept = labelled(raw, "out")
    assert kept.frame is not None
    assert [str(age) for age in kept.frame["age"]] in (["1", "3", "5"], ["1.0", "3.0", "5.0"])
    assert [kept.place(row) for row in range(3)] == ["line 2", "line 4", "line 6"]
    (sentence,) = left_out(len(raw) - len(kept), "out")
    assert sentence.startswith("2 rows have no 'out' and are left out")
    assert "words such as NA and none count as missing" in sentence


def test_full_tables_stay_as_they_are() -> None:
    raw = read(pd.DataFrame({"age": [1, 2], "out": ["a", "b"]}))
    assert labelled(raw, "out") is raw
    assert labelled(raw, "nothing") is raw
    assert left_out(0, "out") == []


def test_a_column_without_any_value_is_no_target() -> None:
    with pytest.raises(WrongInput, match=r"empty, or a word .* NA or none, in all 2 rows; name another with target="):
        labelled(read(pd.DataFrame({"age": [1, 2], "out": [None, None]})), "out")


def test_a_declared_class_is_no_missing_target() -> None:
    raw = read(pd.DataFrame({"age": range(4), "out": ["none", "mild", "NA", None]}))
    assert len(labelled(raw, "out")) == 1
    kept = labelled(raw, "out", ("mild", "none"))
    assert kept.frame is not None
    assert kept.frame["out"].tolist() == ["none", "mild"]


def test_places_in_a_file_stay_right_in_any_part_of_it() -> None:
    frame = pd.DataFrame({"age": range(6), "out": ["a", None, "b", None, None, "a"]})
    kept = labelled(replace(read(frame), first=10), "out")
    assert [kept.place(row) for row in range(3)] == ["row 11", "row 13", "row 16"]
    assert kept.frame is not None
    part = replace(kept, frame=kept.frame.iloc[1:].reset_index(drop=True), first=1)
    assert part.place(1) == "row 16"
    assert labelled(replace(part, frame=part.frame.assign(out=[None, "a"])), "out").place(0) == "row 16"


def test_a_part_may_have_no_row_with_a_target() -> None:
    assert len(labelled_part(read(pd.DataFrame({"age": [1, 2], "out": [None, None]})), "out")) == 0
