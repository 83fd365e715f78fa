"""The page of categorical tables: cells that are too far behind are named."""

from __future__ import annotations

from pathlib import Path

from privaware.bench._store import Cell, Store
from research.papers._categories_page import ITEM, functions
from research.papers._page import Page


def stored(folder: Path, table: str, epsilon: float, scores: dict[str, float], seed: int = 0) -> None:
    for method, score in scores.items():
        settings = {"table": table, "method": method, "epsilon": epsilon, "seed": seed, "schema": "declared"}
        result = {"score": score, "learner": "fourier", "rows": 100, "half": "look"}
        Store(folder / "categories" / "cells.jsonl").add(Cell(item=ITEM, settings=settings, result=result, run={}))


def test_cells_far_behind_the_best_learner_are_named(tmp_path: Path) -> None:
    stored(tmp_path, "near", 1.0, {"auto": 0.8, "linear": 0.82, "constant": 0.5})
    stored(tmp_path, "far", 1.0, {"auto": 0.7, "linear": 0.6, "additive": 0.75, "constant": 0.9})
    assert functions(Page("categories", results=tmp_path))["best"]().splitlines()[-1].endswith("| far 0.050 |")


def test_cells_below_linear_or_the_constant_are_named(tmp_path: Path) -> None:
    stored(tmp_path, "near", 0.1, {"auto": 0.5, "linear": 0.505, "constant": 0.3})
    stored(tmp_path, "low", 0.1, {"auto": 0.5, "linear": 0.4, "constant": 0.6})
    last = functions(Page("categories", results=tmp_path))["small"]().splitlines()[-1]
    assert last.endswith("| low 0.100 |")


def test_means_are_over_the_seeds_of_all_learners(tmp_path: Path) -> None:
    stored(tmp_path, "one", 0.1, {"auto": 0.5, "linear": 0.5, "constant": 0.5})
    stored(tmp_path, "one", 0.1, {"linear": 0.9, "constant": 0.9}, seed=1)
    last = functions(Page("categories", results=tmp_path))["small"]().splitlines()[-1]
    assert last.endswith("| 0.500 | 0.500 | 0.500 | none |")
