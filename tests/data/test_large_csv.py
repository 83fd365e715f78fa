"""CSV files in blocks: the same rows, facts and refusals as of a file that is read at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from privaware.data import Data, LargeCsv, Raw, _large_csv, draft, large_csv, read, row_hashes, typed
from privaware.errors import WrongInput
from privaware.schema import Column, Schema

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


def fixed_decimals(path: Path, rows: int = 400) -> Path:
    """Prices and rates with as many decimals in each row, and what else is found among them."""
    rng, lines = np.random.default_rng(1), ["price,rate,mixed,gaps,typo,loss,y"]
    for row in range(rows):
        number = rng.normal(0, 5)
        mixed = rng.choice([f"{number:.1f}", f"{number:.2f}", f"{number:.0f}", "1e-3", "+2.5", '"1,250.00"'])
        gaps = rng.choice([f"{number:.2f}", "", "NA", "?"])
        typo = "12..5" if row == 250 else f"{number:.3f}"
        loss = f"{rng.normal(0, 0.004):.2f}"  # often -0.00
        lines.append(f"{number:.2f},{number / 100:.6f},{mixed},{gaps},{typo},{loss},{row % 2}")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_fixed_decimals_are_numbers_from_the_first_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privaware.data._large_csv.LargeCsv.block", 700)
    path = fixed_decimals(tmp_path / "t.csv")
    large, raw = LargeCsv(path, READING), read(path)
    schema = typed(raw, target="y").bare()
    for part in large.streamed(schema).parts.listed():
        assert [type(column).__name__ for column in part.x.columns][:2] == ["Spelt", "Spelt"]
    expected, rows = Data.uncoded(raw, schema), large.streamed(schema).gathered()
    assert np.array_equal(np.asarray(rows.x).astype(str), np.asarray(expected.x).astype(str))
    assert np.array_equal(large.checked(schema, KEY)[0], row_hashes(raw, KEY))
    drafted = draft(raw, target="y")
    kinds = {column.name: column.kind for column in drafted.columns}
    assert kinds == dict.fromkeys(("price", "rate", "mixed", "gaps", "typo", "loss"), "number")
    words = pd.read_csv(path, dtype=str, keep_default_na=False).astype(object)
    of_words = Raw(frame=words, typed=False)
    assert np.array_equal(row_hashes(of_words, KEY), row_hashes(raw, KEY))
    assert draft(of_words, target="y") == drafted
    assert np.array_equal(Data.of(of_words, drafted).x, Data.of(raw, drafted).x, equal_nan=True)
    assert np.array_equal(large.streamed(drafted).gathered().x, Data.of(raw, drafted).x, equal_nan=True)


def test_categories_of_fixed_decimals_are_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privaware.data._large_csv.LargeCsv.block", 100)
    path = tmp_path / "t.csv"
    sizes = ["0.50", "0.5", "-0.00", "0.00"] * 30
    path.write_text("size,y\n" + "".join(f"{size},{at % 2}\n" for at, size in enumerate(sizes)))
    column = Column(name="size", kind="category", categories=("0.50", "-0.00"), unseen="other")
    schema = Schema(columns=(column,), target="y", classes=("0", "1"), rows=120)
    assert LargeCsv(path, READING).streamed(schema).gathered().x.ravel().tolist() == [0.0, 2.0, 1.0, 2.0] * 30
