"""Every format that people have reads as the same table."""

from __future__ import annotations

import bz2
import gzip
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privaware.data import Data, read, words_of
from privaware.data._csv import CsvFile
from privaware.errors import WrongInput
from privaware.schema import Column, Schema

COLUMNS = (
    Column(name="price", low=0, high=100, missing="category"),
    Column(name="town", kind="category", categories=("Bonn", "Köln")),
    Column(name="day", kind="date", low="2019-01-01", high="2022-01-01", missing="category"),
    Column(name="member", kind="boolean", missing="category"),
)
SCHEMA = Schema(columns=COLUMNS, classes=("no", "yes"), target="y")
FRAME = pd.DataFrame(
    {
        "price": [1.5, None, 20.25],
        "town": ["Köln", "Bonn", "Köln"],
        "day": pd.to_datetime(["2020-02-01", "2021-12-31", None]),
        "member": pd.array([True, None, False], dtype="boolean"),
        "y": ["no", "yes", "yes"],
    }
)
EXPECTED = Data.of(read(FRAME), SCHEMA)


def text(sep: str = ",", **options: Any) -> str:
    return FRAME.to_csv(index=False, sep=sep, **options)


def polars_frame(path: Path) -> Any:
    pytest.importorskip("polars", reason="polars is not installed")
    import polars

    return polars.from_pandas(FRAME)


def zipped(path: Path) -> Path:
    with zipfile.ZipFile(path.with_suffix(".zip"), "w") as archive:
        archive.writestr("inner.csv", text(";"))
    return path.with_suffix(".zip")


def zstandard(path: Path) -> Path:
    import pyarrow as pa

    with pa.output_stream(str(path) + ".zst", compression="zstd") as file:
        file.write(text().encode())
    return Path(str(path) + ".zst")


def written(content: bytes, name: str = "data.csv") -> Callable[[Path], Path]:
    def write(path: Path) -> Path:
        (path.parent / name).write_bytes(content)
        return path.parent / name

    return write


def saved(method: str, suffix: str) -> Callable[[Path], Path]:
    def write(path: Path) -> Path:
        if suffix == ".xlsx":
            pytest.importorskip("openpyxl", reason="openpyxl is not installed")
        target = path.with_suffix(suffix)
        getattr(FRAME, method)(target, **({"index": False} if suffix == ".xlsx" else {}))
        return target

    return write


@pytest.mark.parametrize(
    "source",
    [
        *(written(text(sep).encode()) for sep in ",;\t|"),
        written(text("\t").encode(), "data.tsv"),
        written(text(";", decimal=",").encode()),
        written(text().replace("\n", "\r\n").encode("utf-8-sig")),
        written(text("|").encode("utf-16")),
        written(text(date_format="%d.%m.%Y").encode()),
        written(text(quoting=1).replace("\n", "\n\n").encode()),
        written(gzip.compress(text().encode()), "data.csv.gz"),
        written(bz2.compress(text(";").encode()), "data.csv.bz2"),
        zipped,
        zstandard,
        saved("to_parquet", ".parquet"),
        saved("to_feather", ".feather"),
        saved("to_excel", ".xlsx"),
        polars_frame,
        lambda path: FRAME.convert_dtypes(dtype_backend="pyarrow"),
    ],
)
def test_formats_read_as_the_same_rows(tmp_path: Path, source: Callable[[Path], Any]) -> None:
    data = Data.of(read(source(tmp_path / "data.csv")), SCHEMA)
    assert np.array_equal(data.x, EXPECTED.x, equal_nan=True)
    assert np.array_equal(data.y, EXPECTED.y)


def test_encoding_and_decimal_comma_are_named(tmp_path: Path) -> None:
    path = written(text("|", decimal=",").encode("latin-1"))(tmp_path / "data.csv")
    with pytest.raises(WrongInput, match=r"'data.csv', line 2: expected UTF-8, got other bytes; name .* encoding="):
        read(path)
    assert np.array_equal(Data.of(read(path, encoding="latin-1", decimal=","), SCHEMA).x, EXPECTED.x, equal_nan=True)
    grouped = written(b"a;b\n1.234,5;x\n-1.000;y\n")(tmp_path / "data.csv")
    frame = read(grouped, decimal=",").frame
    assert frame is not None
    assert words_of(frame["a"]).map(str, object).tolist() == ["1234.5", "-1000"]


@pytest.mark.parametrize(
    ("reading", "message"),
    [
        ({"sep": ",,"}, "sep= as one character"),
        ({"decimal": ";"}, "decimal= as"),
        ({"sep": ",", "decimal": ","}, "to differ"),
        ({"encoding": "klingon"}, "encoding= as"),
        ({"encoding": "utf-16"}, "expected utf-16, got other bytes"),
    ],
)
def test_wrong_options_are_refused(tmp_path: Path, reading: dict[str, Any], message: str) -> None:
    path = written(b"a,b\n1,Qcanary\n")(tmp_path / "data.csv")
    with pytest.raises(WrongInput, match=message) as refused:
        read(path, **reading)
    assert "Qcanary" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("data.zip", b"PK no archive", "zip archive: it is truncated"),
        ("data.csv.gz", b"no gzip at all", "truncated, damaged or of another format"),
        ("data.csv.zst", b"nothing", "truncated, damaged or of another format"),
        ("data.feather", b"nothing", "as Feather"),
        ("data.xlsx", b"nothing", "Excel workbook"),
        ("data.parquet.gz", b"nothing", "convert it"),
    ],
)
def test_damaged_files_are_refused_in_one_sentence(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(WrongInput, match=message) as refused:
        read(tmp_path / name)
    assert len(str(refused.value).splitlines()) == 1


def test_excel_without_its_package_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data.xlsx").write_bytes(b"x")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(WrongInput, match=r"privaware\[excel\]"):
        read(tmp_path / "data.xlsx")


def test_folder_of_texts_is_a_table_of_text_and_class(tmp_path: Path) -> None:
    for label in ("ham", "spam"):
        (tmp_path / label).mkdir()
        (tmp_path / label / "1.txt").write_text(f"a {label}\nof two lines")
        (tmp_path / label / ".DS_Store").write_bytes(b"\0")
    frame = read(tmp_path).frame
    assert frame is not None
    assert frame.to_dict("list") == {"text": ["a ham\nof two lines", "a spam\nof two lines"], "class": ["ham", "spam"]}


def test_column_without_a_name_is_called_by_its_place(tmp_path: Path) -> None:
    frame = read(written(b",a\n0,x\n1,y\n")(tmp_path / "data.csv")).frame
    assert frame is not None
    assert list(frame.columns) == ["column_1", "a"]


LINES = st.lists(
    st.sampled_from(["1,x", "2.0,y", '3,"a\nb"', '"4","say ""hi"", c"', "", ',"x"', "5.5, z "]), min_size=1, max_size=30
)


@settings(max_examples=60, deadline=None)
@given(LINES, st.integers(8, 90), st.sampled_from(["\n", "\r\n"]))
def test_blocks_of_any_size_read_the_same(tmp_path_factory: Any, lines: list[str], size: int, end: str) -> None:
    path = tmp_path_factory.mktemp("csv") / "data.csv"
    path.write_bytes(end.join(["a,b", *lines, ""]).encode())
    if not any(lines):
        return
    alone, parted = CsvFile(path=path), CsvFile(path=path, block=size)
    frames = [
        {name: words_of(values).map(str, object).tolist() for name, values in file.frame().items()}
        for file in (alone, parted)
    ]
    assert frames[0] == frames[1]
    assert [alone.line(at) for at in range(3)] == [parted.line(at) for at in range(3)]
