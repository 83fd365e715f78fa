"""The page of tables with text: losses are of seeds that ran with and without the further column."""

from __future__ import annotations

from pathlib import Path

from privaware.bench._store import Cell, Store
from research.papers._declared_bounds import ITEM as BOUNDS
from research.papers._declared_bounds import declared_bounds, declared_gain
from research.papers._mixed_page import ITEM, functions
from research.papers._page import Page


def cell(item: str, score: float, **settings: object) -> Cell:
    return Cell(item=item, settings=settings, result={"score": score, "constant": 0.5}, run={"commit": "abc"})


def test_losses_compare_the_same_seeds(tmp_path: Path) -> None:
    store = Store(tmp_path / "mixed" / "cells.jsonl")
    for variant, scores in {"alone": [0.8, 0.9], "number": [0.79]}.items():
        for seed, score in enumerate(scores):
            store.add(cell(ITEM, score, set="a", variant=variant, epsilon=1.0, seed=seed, method="auto"))
    shown = functions(Page("mixed", results=tmp_path))
    assert shown["loss"]("number") == "1.0 points on average and 1.0 at most"
    assert "| a | 1 | 1 | 0.500 | 0.800 | 0.790 |" in shown["table"]("number")


def test_declared_bounds_need_all_methods_of_a_cell() -> None:
    methods = {"no schema": 0.7, "declared": 0.72, "declared without bins": 0.65}
    cells = [cell(BOUNDS, score, table="t", epsilon=1.0, seed=0, method=name) for name, score in methods.items()]
    cells.append(cell(BOUNDS, 0.9, table="u", epsilon=1.0, seed=0, method="declared"))
    assert declared_gain(cells, 1.0, "no schema") == "+0.020 on average, level or ahead in 1 of 1 cells"
    assert len(declared_bounds(cells).splitlines()) == 3
