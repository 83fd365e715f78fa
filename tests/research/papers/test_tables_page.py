"""The page of tables: `auto` and each peer are compared on the splits that both were measured on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from privaware.bench._store import Cell, Store
from research.papers._page import Page
from research.papers._tables_page import ITEM, functions


@pytest.fixture
def shown(tmp_path: Path) -> dict[str, Any]:
    scores = {
        ("constant", 0.0): {0: 0.5, 1: 0.5},
        ("plain_trees", 0.0): {0: 0.9},
        ("auto", 1.0): {0: 0.70, 1: 0.80},
        ("one_split", 1.0): {1: 0.79},
        ("both_splits", 1.0): {0: 0.72, 1: 0.75},
    }
    for (method, epsilon), by_seed in scores.items():
        for seed, score in by_seed.items():
            settings = {"table": "T", "epsilon": epsilon, "seed": seed, "method": method}
            result = {"accuracy": score, "learner": "fourier"}
            Store(tmp_path / "tables" / "cells.jsonl").add(Cell(item=ITEM, settings=settings, result=result))
    return functions(Page("tables", results=tmp_path))


def test_peer_is_compared_on_the_splits_that_it_has(shown: dict[str, Any]) -> None:
    assert shown["summary"]()["lead"] == pytest.approx(0.80 - 0.79)
    assert "| one_split | +0.010 |" in shown["cells"]()


def test_cell_far_behind_is_named(shown: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown["summary"]()["far_behind"] == []
    monkeypatch.setattr("research.papers._tables_page.FAR_BEHIND", -0.02)
    assert shown["summary"]()["far_behind"] == ["T at 1"]
