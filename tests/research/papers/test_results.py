"""Stored tables hold the score of each seed, and pages compute mean and spread from them."""

from __future__ import annotations

import json

from privaware.bench._store import Cell
from privaware.workflow._curves import point
from research.papers import Item
from research.papers._results import Repeats, rows, shown_rows, table, with_published
from research.papers._training import grid_table

ITEM = Item(id="test/one", title="Test", published={"1": "95"})
POINTS = [point("ours", 1.0, [0.9, 0.92])]


def test_table_stores_the_score_of_each_seed() -> None:
    stored = json.loads(json.dumps(grid_table("Title", POINTS)))
    assert stored["rows"] == [["1", {"scores": [0.9, 0.92], "factor": 100.0, "digits": 2}]]


def test_page_shows_mean_and_spread_of_stored_scores() -> None:
    assert with_published(ITEM, grid_table("Title", POINTS))[1] == [["1", "91.00 ± 1.41", "95"]]
    cell = Cell(item=ITEM.id, settings={}, result={"tables": [grid_table("Title", POINTS)]}, run={})
    assert [(row["measured"], row["published"]) for row in rows(ITEM, [cell])] == [(91.0, 95.0)]


def test_tables_of_formatted_means_stay_readable() -> None:
    assert shown_rows(table("Title", ["x", "ours"], [[1, "91.00 ± 1.41"]])) == [["1", "91.00 ± 1.41"]]


def test_repeats_have_their_own_unit() -> None:
    assert str(Repeats(scores=(0.1, 0.3), factor=1.0, digits=3)) == "0.200 ± 0.141"
