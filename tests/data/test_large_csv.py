"""CSV files in blocks: the same rows, facts and refusals as of a file that is read at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from privaware.data import Data, LargeCsv, _large_csv, large_csv, read, row_hashes, typed
from privaware.errors import WrongInput

KEY = b"k" * 32
READING = {"header": None, "sep": None, "decimal": None, "encoding": None}


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Numbers that are text in some blocks, missing values, a value over two lines, and words."""
    rng, path = np.random.default_rng(0), tmp_path / "t.csv"
    lines = ["amount;town;code;note;y"]
    for row in range(300):
        amount = "" if row % 11 == 0 else f"{rng.normal():.3f}".replace(".", ",")
        code = "n/a" if row == 190 else str(rng.integers(0, 9))
        note = '"two\nlines"' if row % 50 == 7 else "plain"
        lines.append(f"{amount};{rng.choice(['Ulm', ' Bonn '])};{code};{note};{rng.choice(['no', 'yes'])}")
    path.write_text("\n".join(lines) + "\n")
    monkeypatch.setattr("privaware.data._large_csv.LargeCsv.block", 700)
    return path


def test_facts_rows_and_digest_are_those_of_the_file_at_once(table: Path) -> None:
    large, raw = LargeCsv(table, READING), read(table)
    assert len(list(large.file.blocks())) > 10
    assert typed(large.head, target="y", labels=large.column("y")) == typed(raw, target="y")
    schema = typed(raw, target="y").bare()
    expected, rows = Data.uncoded(raw, schema), large.streamed(schema).gathered()
    assert np.array_equal(np.asarray(rows.x).astype(str), np.asarray(expected.x).astype(str))
    assert np.array_equal(rows.y, expected.y)
    assert np.array_equal(large.checked(schema, KEY)[0], row_hashes(raw, KEY))


def test_a_refusal_names_the_line_of_the_file(table: Path) -> None:
    text = table.read_text().splitlines()
    text[200] = text[200].rsplit(";", 1)[0] + ";perhaps"
    table.write_text("\n".join(text) + "\n")
    schema = typed(read(table), target="y").bare()
    declared = replace(schema, classes=("no", "yes"))
    with pytest.raises(WrongInput, match="line 201: expected one of the declared classes") as at_once:
        Data.uncoded(read(table), declared)
    with pytest.raises(WrongInput) as in_blocks:
        LargeCsv(table, READING).checked(declared, KEY)
    assert str(in_blocks.value) == str(at_once.value)


def test_a_damaged_record_is_refused_by_its_line(table: Path) -> None:
    text = table.read_text().splitlines()
    text[250] += ";more"
    table.write_text("\n".join(text) + "\n")
    with pytest.raises(WrongInput, match="line 251: expected 5 fields, got 6"):
        LargeCsv(table, READING).column("y")


def test_only_large_files_of_text_are_read_in_blocks(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert large_csv(table, READING) is None
    monkeypatch.setattr(_large_csv, "LARGE", 100)
    assert large_csv(table, READING) is not None
    assert large_csv(table.with_name("none.csv"), READING) is None
    (table.parent / "t.parquet").write_bytes(table.read_bytes())
    assert large_csv(table.parent / "t.parquet", READING) is None
