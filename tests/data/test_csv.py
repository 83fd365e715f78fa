"""How a row of a CSV file is read follows from that row and the header alone."""

from __future__ import annotations

import functools
import os
import re
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from privaware.data import Data, Raw, draft, read, words_of
from privaware.data._csv import CsvFile
from privaware.errors import WrongInput
from privaware.schema import Column, Schema

TOWN = Column(name="town", kind="category", categories=("Bonn", "Ulm"), missing="category", unseen="other")
AGE = Column(name="age", low=0, high=100, missing="category")
SCHEMA = Schema(columns=(TOWN, AGE), classes=("no", "yes"), target="y", rows=5)
LINES = (
    'yes,  "Ulm",1',
    'no, "Bonn" ,2',
    "no, Ulm ,03",
    'yes,"Bonn","4.5"',
    'no,Ulm",5',
    'no,5 ft 6" or "so",6e0',
    "no,,?",
    'yes,"a ""b"", c",7',
)


def coded(path: Path, lines: list[str], schema: Schema = SCHEMA) -> list[list[float]]:
    path.write_bytes("\n".join(["y,town,age", *lines, ""]).encode("utf-8", "surrogateescape"))
    reader = Data.of if schema.bounded else Data.uncoded
    data = reader(read(path), schema)
    return [[label, *row] for label, row in zip(data.y.tolist(), np.asarray(data.x).tolist(), strict=True)]


def spellings(raw: Raw) -> list[list[str]]:
    """A table as the words that were read, without the spaces around them."""
    columns = [words_of(raw.values(name)).map(str, object) for name in raw.columns or ()]
    return np.stack(columns, axis=1).tolist()


def same(one: Any, other: Any) -> bool:
    return repr(one) == repr(other)


def test_p12_quoted_row_does_not_change_how_others_are_read(tmp_path: Path) -> None:
    path, lines = tmp_path / "data.csv", ['yes,  "Ulm",1', 'no,  "Bonn",2'] * 2
    without, extended = coded(path, lines), coded(path, [*lines, 'no, "Bonn",2'])
    assert [row[1] for row in without] == [1, 0, 1, 0]
    assert extended[:4] == without


@functools.cache
def without(schema: Schema) -> list[list[float]]:
    """The rows of `LINES` alone."""
    with tempfile.TemporaryDirectory() as folder:
        return coded(Path(folder) / "data.csv", list(LINES), schema)


@settings(max_examples=400, deadline=None)
@given(
    st.text(alphabet=" \",;\t'\\yesnoUlm0159.eE-\udce9é#", max_size=24),
    st.integers(0, len(LINES)),
    st.sampled_from([SCHEMA, SCHEMA.bare()]),
)
@example('no,"Ulm', 3, SCHEMA)
@example('no,"Ulm', 4, SCHEMA)
@example('no,"Ulm', 4, SCHEMA.bare())
@example('no, "Bonn",1', 8, SCHEMA)
@example('no,"Ulm"x,1', 2, SCHEMA)
@example("no,\udce9,1", 2, SCHEMA)
@example("no,Ulm,1e999", 2, SCHEMA)
@example("no,Ulm,abc", 2, SCHEMA)
@example("", 2, SCHEMA)
def test_p12_one_csv_line_changes_no_other_row_or_is_refused(
    tmp_path_factory: Any, line: str, at: int, schema: Schema
) -> None:
    path, alone = tmp_path_factory.getbasetemp() / "data.csv", without(schema)
    try:
        together = coded(path, [*LINES[:at], line, *LINES[at:]], schema)
    except WrongInput as problem:
        refusal = str(problem)
    else:
        refusal = ""
    if refusal:
        assert re.match(r"'data.csv'.* line \d+: ", refusal), refusal
        return
    added = len(together) - len(alone)
    assert added == (1 if line else 0)
    assert same(together[:at] + together[at + added :], alone)


def words(folder: Path, records: tuple[str, ...], end: str) -> list[list[str]]:
    (folder / "data.csv").write_bytes(end.join(["y,town,age", *records, ""]).encode())
    return spellings(read(folder / "data.csv"))


@functools.cache
def words_alone(line: str, end: str) -> list[list[str]]:
    with tempfile.TemporaryDirectory() as folder:
        return words(Path(folder), (line,), end)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([*LINES, 'no,"U\nlm",1', ""]), min_size=1, max_size=8), st.sampled_from(["\n", "\r\n"]))
def test_p12_each_record_reads_as_if_alone(tmp_path_factory: Any, lines: list[str], end: str) -> None:
    together = words(tmp_path_factory.getbasetemp(), tuple(lines), end)
    assert together == [row for line in lines for row in words_alone(line, end)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'a,b\n1,2\n\n3,"4\n5,6\n', "line 4: a quotation mark is opened and never closed"),
        (b'a,b\n1,"2"3\n', "line 2: text follows a closing quotation mark"),
        (b'a,b\n"1\n1",2\n1,2,3\n', "line 4: expected 2 fields, got 3"),
        (b'a,b\r\n"1\r\n1",2\r\n\r\n1\r\n', "line 5: expected 2 fields, got 1"),
        (b"a,b\n1,2\n1,\xe9\n", "line 3: expected UTF-8"),
        (b"a,b\n1,2\n1,\0\n", "line 3: expected text, got NUL bytes"),
        (b'a,"b\n1,2\n', "line 1: a quotation mark is opened and never closed"),
        ("a,b\n1,2\n".encode("utf-16-le"), "line 1: expected UTF-8, got UTF-16 .*, such as utf-16-le, or save"),
        ("a,b\n1,2\n".encode("utf-16-be"), "line 1: expected UTF-8, got UTF-16 .*, such as utf-16-be, or save"),
    ],
)
def test_malformed_csv_is_refused_by_the_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(content)
    with pytest.raises(WrongInput, match=f"^'data.csv', {message}"):
        read(path)


def test_names_above_rows_of_another_width_are_not_certain(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(b"# notes\na,b\n1,2\n3,4\n")
    assert not CsvFile(path=path).names_are_certain  # before, a ValueError became "the file is damaged"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["no,Ulm,1", "no,Ulm,x"], "column 'age', line 3: expected a number"),
        (["no,Ulm,1", "", 'no,"a, ""b""",1', "no,Ulm,x"], "column 'age', line 5: expected a number"),
        (["no,Ulm,1", 'no,"U\nlm",1'], "column 'town', line 3: the value goes over several lines"),
        (["no,Ulm,1", "maybe,Ulm,1"], "target 'y', line 3: "),
    ],
)
def test_wrong_value_in_a_csv_is_refused_by_its_line(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(WrongInput, match=f"^'data.csv': {message}"):
        coded(tmp_path / "data.csv", lines)


def test_declared_category_of_several_lines_is_read(tmp_path: Path) -> None:
    import dataclasses

    schema = dataclasses.replace(SCHEMA, columns=(dataclasses.replace(TOWN, categories=("U\nlm", "Bonn")), AGE))
    assert coded(tmp_path / "data.csv", ['no,"U\nlm",1'], schema) == [[0, 0, 1]]


def test_p12_missing_value_leaves_parquet_integers_as_they_are(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    large = 2**53 + 1
    column = Column(name="code", kind="category", categories=(str(large), "5"), missing="category", unseen="other")
    schema = Schema(columns=(column,), classes=("no", "yes"), target="y", rows=3)

    def codes(values: list[int | None]) -> list[float]:
        table = pa.table({"code": pa.array(values, pa.int64()), "y": ["no"] * len(values)})
        pq.write_table(table, tmp_path / "data.parquet")
        return np.asarray(Data.of(read(tmp_path / "data.parquet"), schema).x[:, 0]).tolist()

    assert codes([large, 5]) == [0, 1]
    assert codes([large, 5, None]) == [0, 1, 2]


HEADLESS = "39,Qcanary1,no\n51,Qcanary2,yes\n"


def test_header_with_a_number_is_refused_until_declared(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text(HEADLESS)
    with pytest.raises(WrongInput, match="line 1: expected names of columns, got a number in column 1 of 3") as refused:
        read(path)
    assert "39" not in str(refused.value)
    assert "Qcanary" not in str(refused.value)
    rows = read(path, header=False)
    assert rows.frame is not None
    assert rows.frame.columns.tolist() == ["column_1", "column_2", "column_3"]
    assert rows.frame["column_2"].tolist() == ["Qcanary1", "Qcanary2"]
    assert rows.place(1) == "line 2"
    named = read(path, header=True)
    assert named.frame is not None
    assert named.frame.columns.tolist() == ["39", "Qcanary1", "no"]


def test_names_that_may_be_a_row_are_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("Qcanary1,a,b\nQcanary2,c,d\n")
    for header, shown in ((None, False), (True, True)):
        with pytest.raises(WrongInput, match="expected a target among the columns") as refused:
            draft(read(path, header=header), target="y")
        assert ("Qcanary1" in str(refused.value)) == shown
    path.write_text("Qcanary1,a,Qcanary1\nb,c,d\n")
    with pytest.raises(WrongInput, match=r"got the same for columns 1 and 3; rename one of them$"):
        read(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_rows_come_through_a_pipe_that_is_read_once(tmp_path: Path) -> None:
    content = "y;town;age\nyes;Ulm;1\nno;Bonn;200\n"
    os.mkfifo(tmp_path / "pipe.csv")
    raws: list[Raw] = []
    reader = threading.Thread(target=lambda: raws.append(read(tmp_path / "pipe.csv")), daemon=True)
    reader.start()
    (tmp_path / "pipe.csv").write_text(content)
    reader.join(timeout=10)
    assert raws, "a second reading waits for ever"
    raw = raws[0]
    assert spellings(raw) == [["yes", "Ulm", "1"], ["no", "Bonn", "200"]]
    assert raw.place(1) == "line 3"


def test_target_in_another_case_is_suggested(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("town,Income\n" + "Ulm,high\nBonn,low\n" * 5)
    with pytest.raises(WrongInput, match=r"among the columns of the first line, 2 in all \(.*did you mean 'Income'\?"):
        draft(read(path), target="income")
    with pytest.raises(WrongInput, match=r"name one with target=$"):
        draft(read(path), target="incme")
    with pytest.raises(
        WrongInput, match=r"read as a single column, so check the character between its columns \(sep=\)$"
    ):
        draft(read(path, sep="|"), target="Income")


def test_mistyped_target_lists_columns_and_the_nearest(tmp_path: Path) -> None:
    """A word above numbers shows that the first line holds names."""
    path = tmp_path / "people.csv"
    path.write_text("age,Income\n" + "1,high\n2,low\n" * 5)
    with pytest.raises(WrongInput, match=r"among the columns 'age', 'Income', got 'incme'; did you mean 'Income'\?"):
        draft(read(path), target="incme")


@pytest.mark.parametrize("first", ["Ulm,high,NA", "Ulm,high,?", "Ulm,high,"], ids=["missing", "question mark", "empty"])
def test_first_line_that_may_be_a_row_is_never_listed(tmp_path: Path, first: str) -> None:
    path = tmp_path / "people.csv"
    path.write_text(f"{first}\n" + "Bonn,low,1\nUlm,high,2\n" * 5)
    with pytest.raises(WrongInput) as refused:
        draft(read(path), target="income")
    assert "Ulm" not in str(refused.value)


CELLS = ["7.0", "7", "12.50", "-0.00", "20000", "1e-3", "+5", "NA", "", "2020-01-31", "8:15", "yes", "Ulm", "$5"]


@pytest.mark.parametrize("kind", ["number", "date", "time", "boolean", "category"])
@pytest.mark.parametrize("cells", [CELLS[:6], CELLS[:9], CELLS])
def test_a_cell_means_the_same_beside_any_others(kind: str, cells: list[str], tmp_path: Path) -> None:
    """Alone, beside numbers or beside words, also where its kind is decided after it was read."""
    rules = {"kind": kind, "missing": "category", "unseen": "other"}
    limits = {"low": -100.0, "high": 30000.0} if kind in ("number", "date") else {}
    names = {"categories": ("-0.00", "12.50", "7", "7.0", "ulm")} if kind == "category" else {}
    column = Column(name="a", **rules, **limits, **names, parts=("days",) if kind == "date" else ())
    facts = {"target": "y", "classes": ("0", "1"), "rows": len(cells)}
    undecided = Schema(columns=(Column(name="a", kind="undecided", fold=True),), **facts)

    def coded(rows: list[str]) -> tuple[np.ndarray, np.ndarray]:
        file = tmp_path / "t.csv"
        file.write_text("a,y\n" + "".join(f"{cell},1\n" for cell in rows))
        declared = Schema(columns=(column,), **facts)
        return Data.of(read(file), declared).x, Data.uncoded(read(file), undecided).coded_by(declared).x

    together, alone = coded(cells), [coded([cell]) for cell in cells]
    for way in (0, 1):
        assert np.array_equal(together[way], np.concatenate([each[way] for each in alone]), equal_nan=True)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_line_before_the_header_may_name_the_separator(encoding: str, end: str, tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_bytes(end.join(["sep=;", "a,b;y", "1,5;yes", "x;no", ""]).encode(encoding))
    raw = read(file)
    assert raw.columns == ["a,b", "y"]
    assert words_of(raw.values("a,b")).map(str, object).tolist() == ["1.5", "x"]
    assert (raw.place(0), raw.place(1)) == ("line 3", "line 4")
    assert CsvFile(path=file, sep=",").names == ["a", "b;y"]
