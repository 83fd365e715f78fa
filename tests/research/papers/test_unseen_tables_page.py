"""The page of unseen tables: shares of the plain gain, and tables below the private constant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from privaware.bench._store import Cell, Store
from research.papers._page import Page
from research.papers._unseen_tables_page import ITEM, functions


def stored(folder: Path, table: str, rows: int, scores: dict[str, list[float]]) -> None:
    for method, values in scores.items():
        for seed, score in enumerate(values):
            private = {"epsilon": 1.0, "seed": seed} if method in ("auto", "private constant") else {}
            settings: dict[str, Any] = {"table": table, "method": method, **private}
            result = {"score": score, "rows": rows, "task": "regression", "half": "check", "learner": "boosted"}
            cell = Cell(item=ITEM, settings=settings, result=result, run={"commit": "abc"})
            Store(folder / "unseen_tables" / "cells.jsonl").add(cell)


@pytest.fixture
def shown(tmp_path: Path) -> dict[str, Any]:
    plain = {"constant": [0.0], "plain trees": [0.8]}
    stored(tmp_path, "good", 5000, {"auto": [0.5, 0.7], "private constant": [-0.1, 0.0], **plain})
    stored(tmp_path, "low", 500, {"auto": [-0.1, 0.0], "private constant": [-0.02, 0.0], **plain})
    return functions(Page("unseen_tables", results=tmp_path))


def test_share_is_the_sum_of_gains_over_that_of_plain_trees(shown: dict[str, Any]) -> None:
    assert float(shown["share"]("check", 1.0)) == pytest.approx((0.6 - 0.05) / 1.6, abs=1e-3)
    assert float(shown["share"]("check", 1.0, 2000)) == pytest.approx(0.75)
    assert shown["share"]("look", 1.0) == ""


def test_table_below_its_private_constant_is_named(shown: dict[str, Any]) -> None:
    [row] = [line for line in shown["shares"]("check").splitlines() if line.startswith("| 1 ")]
    assert row.split("|")[-2].strip() == "low"
    assert shown["every"]("check").splitlines()[2].startswith("| low |")
