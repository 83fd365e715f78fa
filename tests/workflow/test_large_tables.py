"""A table that is read in pieces gives the same model as one that is read at once, for the same charge."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privaware.data import Data, LargeCsv, LargeTable, Streamed, Sum, _large, _large_csv, _persons
from privaware.data._csv import CsvFile
from privaware.errors import WrongInput
from privaware.ledger import Ledger
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.workflow.fit import Fit, fit
from privaware.workflow.load import ReleasedModel, load
from privaware.workflow.predict import predict
from privaware.workflow.run import charge as _charged_run
from privaware.workflow.run.options import RunOptions
from privaware.workflow.run.source import resolve
from privaware.workflow.select import select
from privaware.workflow.verify import verify
from tests.parts import same_tensors


def write(path: Path, rows: int = 900, regression: bool = False, persons: int = 0) -> Path:
    rng = np.random.default_rng(1)
    a, b = rng.normal(40, 12, rows), rng.integers(0, 2, rows)
    frame = pd.DataFrame({"a": np.where(rng.random(rows) < 0.05, np.nan, a), "town": np.where(b, "north", "south")})
    frame["amount"] = np.where(rng.random(rows) < 0.4, 0.0, rng.lognormal(5, 1, rows))
    score = (a - 40) / 12 + b
    frame["y"] = score * 10 + 200 if regression else np.where(score + rng.normal(size=rows) > 0.5, "yes", "no")
    if persons:
        frame["person"] = rng.permutation(rows) % persons
    frame.to_parquet(path, row_group_size=250)
    return path


def both(path: Path, monkeypatch: pytest.MonkeyPatch, **settings: object) -> tuple[Fit, Fit]:
    at_once = fit(path, target="y", epsilon=2.0, seed=3, limit=9.0, **settings)
    in_small_pieces(monkeypatch)
    return at_once, fit(path, target="y", epsilon=2.0, seed=3, limit=9.0, **settings)


def in_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_large, "LARGE", 1)
    monkeypatch.setattr(_large, "PART", 101)
    monkeypatch.setattr(_persons, "MAX_ROWS_PER_SLICE", 500)
    monkeypatch.setattr(_large_csv, "LARGE", 1)
    monkeypatch.setattr(LargeCsv, "block", 5000)
    monkeypatch.setattr(CsvFile, "frame", lambda self: pytest.fail("all rows in memory"))


@pytest.mark.parametrize("unit", [{}, {"unit": "person", "cap": 2}], ids=["rows", "persons"])
@pytest.mark.parametrize(
    ("learner", "settings", "regression"),
    [
        ("boosted", {"steps": 8, "trees": 8}, False),
        ("boosted", {"steps": 8, "trees": 8}, True),
        ("additive", {"steps": 8}, False),
        ("linear", {"steps": 8}, False),
        ("linear", {"steps": 8, "rate": 0.3}, False),
        ("majority", None, False),
        ("mean", None, True),
    ],
)
def test_pieces_give_the_same_model_for_the_same_charge(
    learner: str,
    settings: dict[str, int] | None,
    regression: bool,
    unit: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = write(tmp_path / "t.parquet", regression=regression, persons=300 if unit else 0)
    at_once, in_pieces = both(path, monkeypatch, learner=learner, settings=settings, **unit)
    assert (in_pieces.event, in_pieces.plan) == (at_once.event, at_once.plan)
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
    assert fit(path, target="y", epsilon=2.0, seed=3).learner == "fourier"


@pytest.mark.parametrize("unit", [{}, {"unit": "person", "cap": 2}], ids=["rows", "persons"])
@pytest.mark.parametrize(("regression", "metric"), [(False, "accuracy"), (False, "auc"), (True, "r2"), (True, "mae")])
def test_a_large_table_is_scored_in_pieces_as_in_memory(
    regression: bool, metric: str, unit: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some rows have no target, so that positions in the file are not those of the rows that count."""
    path = write(tmp_path / "t.parquet", regression=regression, persons=300 if unit else 0)
    frame = pd.read_parquet(path)
    frame.loc[[3, *range(202, 320), 899], "y"] = None
    frame.to_parquet(path, row_group_size=250)
    monkeypatch.setattr(Streamed, "gathered", lambda self: pytest.fail("all rows in memory"))
    bought: dict[str, Any] = {"score_epsilon": 0.5, "metric": metric, "say": lambda sentence: None, **unit}
    learned = {"learner": "boosted", "settings": {"steps": 4, "trees": 4}}
    at_once, in_pieces = both(path, monkeypatch, **learned, **bought)
    assert at_once.score == in_pieces.score
    assert at_once.score is not None
    assert (in_pieces.event, in_pieces.plan) == (at_once.event, at_once.plan)
    assert at_once.model is not None
    assert in_pieces.model is not None
    assert same_tensors(in_pieces.model.tensors, at_once.model.tensors)


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


PERSONS: dict[str, Any] = {"unit": "person", "cap": 2}


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_persons_of_large_and_small_tables_are_protected_alike(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names are text, some rows have no target, and a score is bought: the same ledger, card and model."""
    frame = pd.read_parquet(write(tmp_path / "t.parquet", persons=300))
    frame["person"] = "p" + frame.person.astype(str)
    frame.loc[[3, *range(202, 320), 899], "y"] = None
    path = tmp_path / f"t.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path, row_group_size=250)

    said: list[str] = []

    def fitted(name: str) -> ReleasedModel:
        call = {"score_epsilon": 0.5, "learner": "majority", "target": "y", "epsilon": 2.0, **PERSONS}
        call |= {"seed": 3, "ledger": tmp_path / f"{name}.ledger", "out": tmp_path / name, "say": said.append}
        with monkeypatch.context() as patch:
            patch.setattr(_charged_run, "run", power_cut)
            with pytest.raises(RuntimeError, match="power cut"):
                fit(path, **call)
        fit(path, **call)  # it resumes on the same charge
        assert verify(tmp_path / name, ledger=tmp_path / f"{name}.ledger").valid
        ledger = Ledger.open(tmp_path / f"{name}.ledger")
        assert [entry.kind for entry in ledger.entries()].count("spend") == 1
        assert (ledger.unit, ledger.relation) == ("person", "add_remove")
        predict(tmp_path / name, frame, out=tmp_path / f"{name}.csv")
        return load(tmp_path / name)

    at_once = fitted("at_once")
    in_small_pieces(monkeypatch)
    in_pieces = fitted("in_pieces")
    assert same_tensors(in_pieces.tensors, at_once.tensors)
    expected = replace(at_once.card, ledger=in_pieces.card.ledger, created=in_pieces.card.created)
    assert vars(in_pieces.card) == vars(expected)
    assert (expected.guarantee.unit, expected.guarantee.cap) == ("person", 2)
    assert (tmp_path / "at_once.csv").read_bytes() == (tmp_path / "in_pieces.csv").read_bytes()


def power_cut(*_: Any) -> None:
    raise RuntimeError("power cut")


@pytest.mark.parametrize("method", ["cfs_greedy", "top", "worth"])
def test_columns_are_selected_from_counted_rows_of_persons(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, call = write(tmp_path / "t.parquet", persons=300), {"target": "y", "method": method, "epsilon": 3.0}
    at_once = select(path, seed=3, limit=9.0, **call, **PERSONS)
    in_small_pieces(monkeypatch)
    in_pieces = select(path, seed=3, limit=9.0, **call, **PERSONS)
    assert (in_pieces.columns, in_pieces.event) == (at_once.columns, at_once.event)


def test_a_person_who_leaves_moves_no_sum_by_more_than_cap_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the price is for, of the sums that are really formed: it fails where a cap is of each part by itself."""
    in_small_pieces(monkeypatch)
    path = write(tmp_path / "t.parquet", persons=3)
    schema = Schema(
        columns=(Column(name="amount", low=0, high=99),), target="y", classes=("no", "yes"), rows=900, **PERSONS
    )
    frame, moved = pd.read_parquet(path), []
    for person in (None, 0, 1, 2):
        frame[frame.person != person].to_parquet(path, row_group_size=250)
        rows, _ = resolve(path, RunOptions(schema=schema)).read_private_rows(schema)
        assert isinstance(rows, Streamed)
        moved.append(rows.parts.total(_Rows()))
    assert [moved[0] - each for each in moved[1:]] == [2, 2, 2]
    assert moved[0] == 6


class _Rows(Sum[Data, int, None]):
    def partial(self, part: Data) -> int:
        return len(part)

    def merge(self, left: int, right: int) -> int:
        return left + right

    def release(self, total: int, noise: float, rng: Rng) -> None:
        return None


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
