"""A table that is read in pieces gives the same model as one that is read at once, for the same charge."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from privaware.data import Data, LargeCsv, LargeTable, Streamed, _large, _large_csv
from privaware.data._csv import CsvFile
from privaware.errors import WrongInput
from privaware.schema import Column, Schema
from privaware.workflow.fit import Fit, fit
from tests.parts import same_tensors


def write(path: Path, rows: int = 900, regression: bool = False) -> Path:
    rng = np.random.default_rng(1)
    a, b = rng.normal(40, 12, rows), rng.integers(0, 2, rows)
    frame = pd.DataFrame({"a": np.where(rng.random(rows) < 0.05, np.nan, a), "town": np.where(b, "north", "south")})
    frame["amount"] = np.where(rng.random(rows) < 0.4, 0.0, rng.lognormal(5, 1, rows))
    score = (a - 40) / 12 + b
    frame["y"] = score * 10 + 200 if regression else np.where(score + rng.normal(size=rows) > 0.5, "yes", "no")
    frame.to_parquet(path, row_group_size=250)
    return path


def both(path: Path, monkeypatch: pytest.MonkeyPatch, **settings: object) -> tuple[Fit, Fit]:
    at_once = fit(path, target="y", epsilon=2.0, seed=3, limit=9.0, **settings)
    monkeypatch.setattr(_large, "LARGE", 1)
    monkeypatch.setattr(_large, "PART", 101)
    return at_once, fit(path, target="y", epsilon=2.0, seed=3, limit=9.0, **settings)


@pytest.mark.parametrize(
    ("learner", "settings", "regression"),
    [
        ("boosted", {"steps": 8, "trees": 8}, False),
        ("boosted", {"steps": 8, "trees": 8}, True),
        ("additive", {"steps": 8}, False),
        ("linear", {"steps": 8}, False),
        ("majority", None, False),
        ("mean", None, True),
    ],
)
def test_pieces_give_the_same_model_for_the_same_charge(
    learner: str, settings: dict[str, int] | None, regression: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "t.parquet", regression=regression)
    at_once, in_pieces = both(path, monkeypatch, learner=learner, settings=settings)
    assert in_pieces.event == at_once.event
    assert at_once.model is not None
    assert in_pieces.model is not None
    assert in_pieces.model.schema == at_once.model.schema
    assert same_tensors(in_pieces.model.tensors, at_once.model.tensors)


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
@pytest.mark.parametrize("regression", [False, True])
def test_rows_without_a_target_are_left_out_of_large_tables_too(
    suffix: str, regression: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = pd.read_parquet(write(tmp_path / "t.parquet", regression=regression))
    frame.loc[[3, *range(202, 320), 899], "y"] = None  # among them all rows of a part
    path = tmp_path / f"t.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path, row_group_size=250)
    monkeypatch.setattr(_large_csv.LargeCsv, "block", 1500)
    said: list[str] = []
    settings = {"learner": "boosted", "settings": {"steps": 4, "trees": 4}, "say": said.append}
    monkeypatch.setattr(_large_csv, "LARGE", 10**9)
    at_once = fit(path, target="y", epsilon=2.0, seed=3, limit=9.0, **settings)
    monkeypatch.setattr(_large, "LARGE", 1)
    monkeypatch.setattr(_large, "PART", 101)
    monkeypatch.setattr(_large_csv, "LARGE", 1)
    in_pieces = fit(path, target="y", epsilon=2.0, seed=3, limit=9.0, **settings)
    assert sum(sentence.startswith("120 rows have no 'y' and are left out") for sentence in said) == 2
    assert at_once.model is not None
    assert in_pieces.model is not None
    assert in_pieces.model.schema == at_once.model.schema
    assert in_pieces.model.schema.rows == 780
    assert same_tensors(in_pieces.model.tensors, at_once.model.tensors)


def test_auto_never_gathers_the_rows_of_a_large_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gathered(self: Streamed) -> Data:
        raise AssertionError("all rows in memory")

    monkeypatch.setattr(Streamed, "gathered", gathered)
    monkeypatch.setattr(_large, "LARGE", 1)
    monkeypatch.setattr(_large, "PART", 2000)
    path = write(tmp_path / "t.parquet", rows=9000)
    assert fit(path, target="y", epsilon=2.0, seed=3).learner == "boosted"


def test_what_does_not_fit_is_refused_before_the_charge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "t.parquet", regression=True)
    frame = pd.read_parquet(path)
    frame.loc[700, "y"] = np.inf
    frame.to_parquet(path)
    monkeypatch.setattr(_large, "LARGE", 1)
    schema = Schema(columns=(Column(name="amount", low=0, high=99),), target="y", low=0, high=999, rows=900)
    with pytest.raises(WrongInput, match="row 701: expected a finite number"):
        fit(path, schema=schema, epsilon=2.0, learner="mean")
    assert not path.with_name("t.parquet.ledger").exists()


def test_rows_of_persons_are_capped_over_all_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "t.parquet")
    frame = pd.read_parquet(path).assign(person=np.arange(900) % 300)
    frame.to_parquet(path, row_group_size=250)
    at_once, in_pieces = both(path, monkeypatch, learner="majority", unit="person", cap=2)
    assert at_once.model is not None
    assert in_pieces.model is not None
    assert same_tensors(in_pieces.model.tensors, at_once.model.tensors)


def test_a_large_csv_file_gives_the_same_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.csv"
    pd.read_parquet(write(tmp_path / "t.parquet")).to_csv(path, index=False)
    at_once = fit(path, target="y", epsilon=2.0, seed=3, limit=9.0, learner="boosted", settings={"trees": 5})
    monkeypatch.setattr(_large, "LARGE", 1)
    monkeypatch.setattr(_large, "PART", 101)
    monkeypatch.setattr(Streamed, "gathered", lambda self: pytest.fail("all rows in memory"))
    in_pieces = fit(path, target="y", epsilon=2.0, seed=3, limit=9.0, learner="boosted", settings={"trees": 5})
    assert at_once.model is not None
    assert in_pieces.model is not None
    assert same_tensors(in_pieces.model.tensors, at_once.model.tensors)


def test_a_csv_file_larger_than_memory_gives_the_same_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, settings = tmp_path / "t.csv", {"trees": 5, "steps": 8}
    pd.read_parquet(write(tmp_path / "t.parquet")).to_csv(path, index=False)
    at_once = fit(path, target="y", epsilon=2.0, seed=3, limit=9.0, learner="boosted", settings=settings)
    monkeypatch.setattr(_large_csv, "LARGE", 1)
    monkeypatch.setattr(LargeCsv, "block", 2000)
    monkeypatch.setattr(CsvFile, "frame", lambda self: pytest.fail("all rows in memory"))
    in_blocks = fit(path, target="y", epsilon=2.0, seed=3, limit=9.0, learner="boosted", settings=settings)
    assert at_once.model is not None
    assert in_blocks.model is not None
    assert in_blocks.model.schema == at_once.model.schema
    assert same_tensors(in_blocks.model.tensors, at_once.model.tensors)


def test_a_row_of_a_large_csv_file_is_named_by_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.csv"
    pd.DataFrame({"a": range(50), "y": [*range(48), "inf", 49]}).to_csv(path, index=False)
    monkeypatch.setattr(_large, "LARGE", 1)
    monkeypatch.setattr(_large, "PART", 7)
    schema = Schema(columns=(Column(name="a", low=0, high=99),), target="y", low=0, high=99, rows=50)
    with pytest.raises(WrongInput, match="line 50: expected a finite number"):
        fit(path, schema=schema, epsilon=2.0, learner="mean")
    assert not path.with_name("t.csv.ledger").exists()


def test_hashes_are_read_once_for_ledger_and_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    checked = LargeTable.checked
    monkeypatch.setattr(_large, "LARGE", 1)
    monkeypatch.setattr(LargeTable, "checked", lambda *arguments: calls.append(1) or checked(*arguments))
    fit(write(tmp_path / "t.parquet"), target="y", epsilon=2.0, learner="majority")
    assert calls == [1]
