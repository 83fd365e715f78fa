"""Parquet files in pieces: the same rows, types and refusals as of a file that is read at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from privaware.data import Cells, Data, LargeTable, _large, large_table, read, row_hashes, typed, words_of
from privaware.errors import WrongInput
from privaware.schema import Column, Schema

KEY = b"k" * 32


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(_large, "PART", 37)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "number": np.where(rng.random(200) < 0.1, np.nan, rng.normal(size=200)),
            "whole": pd.array(rng.integers(0, 5, 200), dtype="Int64"),
            "flag": rng.random(200) < 0.5,
            "word": rng.choice(["north", " South ", "8.50", ""], 200),
            "day": pd.Timestamp("2021-03-01") + pd.to_timedelta(rng.integers(0, 99, 200), unit="D"),
            "y": rng.choice(["no", "yes"], 200),
        }
    )
    frame.loc[3, "word"] = None
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=70)
    return tmp_path / "t.parquet"


def test_types_and_facts_are_those_of_the_file_at_once(table: Path) -> None:
    large = LargeTable(table)
    assert typed(large.head, target="y", labels=large.column("y")) == typed(read(table), target="y")


def test_rows_and_their_digest_are_those_of_the_file_at_once(table: Path) -> None:
    large, raw = LargeTable(table), read(table)
    schema = typed(raw, target="y").bare()
    expected, rows = Data.uncoded(raw, schema), large.streamed(schema).gathered()
    assert isinstance(rows.x, Cells)
    assert np.array_equal(np.asarray(rows.x).astype(str), np.asarray(expected.x).astype(str))
    assert np.array_equal(rows.y, expected.y)
    assert np.array_equal(large.checked(schema, KEY)[0], row_hashes(raw, KEY))


def test_what_was_read_does_not_stay_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow as pa

    monkeypatch.setattr(_large, "PART", 2**12)
    rows, group = 2**20, 2**14
    frame = pd.DataFrame({"a": np.random.default_rng(0).random(rows)})
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=group)
    before, most = pa.total_allocated_bytes(), 0
    for part in _large.RowGroups(path=tmp_path / "t.parquet")():
        most = max(most, pa.total_allocated_bytes() - before)
        del part
    assert most < rows * 8 / 3


def test_repeated_text_is_read_as_categories_and_names_are_not(tmp_path: Path) -> None:
    names = [f"person {at}" for at in range(5000)]
    pd.DataFrame({"name": names, "town": ["Ulm", "Bonn"] * 2500}).to_parquet(tmp_path / "t.parquet")
    [part] = LargeTable(tmp_path / "t.parquet").parts.listed()
    assert part.frame is not None
    categories = [isinstance(kind, pd.CategoricalDtype) for kind in part.frame.dtypes]
    assert categories == [False, True]
    assert words_of(part.frame["name"]).map(str, object).tolist() == names
    [part] = LargeTable(tmp_path / "t.parquet").only(columns=("town",)).parts.listed()
    assert part.columns == ["town"]


def test_a_refusal_names_the_row_of_the_file(table: Path) -> None:
    frame = pd.read_parquet(table)
    frame.loc[150, "word"] = "elsewhere"
    frame.to_parquet(table)
    column = Column(name="word", kind="category", categories=("north", "South", "8.50"), missing="category")
    schema = Schema(columns=(column,), target="y", classes=("no", "yes"), rows=200)
    with pytest.raises(WrongInput, match=r"'word', row 151: expected a declared category") as at_once:
        Data.of(read(table), schema)
    with pytest.raises(WrongInput) as in_pieces:
        LargeTable(table).checked(schema, KEY)
    assert str(in_pieces.value) == str(at_once.value)


def test_only_large_tables_are_read_in_pieces(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert large_table(table) is None
    assert large_table(table.with_name("none.parquet")) is None
    monkeypatch.setattr(_large, "LARGE", 200 * 6)
    assert large_table(table) == LargeTable(table)
    monkeypatch.setattr(_large, "LARGE", 200 * 6 + 1)
    assert large_table(str(table)) is None


def test_a_file_without_rows_has_one_empty_part(table: Path) -> None:
    empty = table.with_name("empty.parquet")
    pd.read_parquet(table).iloc[:0].to_parquet(empty)
    assert len(LargeTable(empty).head) == 0
    with pytest.raises(WrongInput, match="at least one row"):
        typed(LargeTable(empty).head, target="y", labels=LargeTable(empty).column("y"))
