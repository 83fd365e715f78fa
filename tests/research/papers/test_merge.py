"""Cells that were run elsewhere take their place on the pages of their items."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from privaware.bench._store import Cell, Store
from research.papers import Item, find
from research.papers._merge import merge

ITEM = Item(id="test/one", title="One", runs=[{"rate": 2}], page="page")


def cell(item: str, **settings: Any) -> Cell:
    return Cell(item=item, settings=settings, result={"score": 1.0})


def test_new_cell_takes_the_place_of_the_earlier_one(tmp_path: Path) -> None:
    store = Store(tmp_path / "page" / "cells.jsonl")
    for stored in (cell("test/one", rate=1), cell("test/two", rate=1)):
        store.add(stored)
    assert merge([cell("test/one", rate=2)], tmp_path, [ITEM]) == 1
    assert [(one.item, one.settings["rate"]) for one in store.read().values()] == [("test/one", 2), ("test/two", 1)]


def test_only_planned_cells_are_added_and_only_once(tmp_path: Path) -> None:
    failed = Cell(item="test/one", settings={"rate": 2}, result={"failed": "memory"})
    cells = [cell("test/one", rate=3), cell("test/other", rate=2), failed]
    assert merge(cells, tmp_path, [ITEM]) == 0
    assert merge([cell("test/one", rate=2)] * 2, tmp_path, [ITEM]) == 1


def test_cells_of_an_item_without_page_go_to_the_paper(tmp_path: Path) -> None:
    assert merge([cell("test/one", rate=2)], tmp_path, [replace(ITEM, page=None)]) == 1
    assert len(Store(tmp_path / "test" / "cells.jsonl").read()) == 1


def test_an_item_with_cells_of_other_settings_is_outdated() -> None:
    lemma = find("bao/lemma")
    assert not lemma.is_outdated
    assert replace(lemma, runs=[{"draws": 1}]).is_outdated
    assert replace(lemma, id="bao/lemma/never_run").status == "ready"
