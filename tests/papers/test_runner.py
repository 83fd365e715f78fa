"""The runner of papers' items: cells are resumed, never run twice, and stand beside the published values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from privaware import papers
from privaware.errors import WrongInput
from privaware.papers import Item, grid
from privaware.papers._prices import Prices
from privaware.papers._results import Cell, Store, rows
from privaware.papers._runner import Bench, RunPlace, run

CALLS: list[Any] = []


def doubled(bench: Bench, settings: Any) -> dict[str, Any]:
    CALLS.append(dict(settings))
    return {"score": 2.0 * settings["seed"] + settings["epsilon"]}


ITEM = Item(
    id="test/table",
    title="A table",
    published={"1": 5.0},
    columns=("epsilon",),
    runs=grid(epsilon=(1, 3), seeds=range(3)),
    quick=grid(epsilon=1, seeds=range(2)),
    run=doubled,
)


def test_finished_cells_are_not_run_again(tmp_path: Path) -> None:
    CALLS.clear()
    assert len(run(ITEM, tmp_path, scale="quick")) == 2
    cells = run(ITEM, tmp_path, scale="full")
    assert len(cells) == 6
    assert len(CALLS) == 6


def test_line_cut_short_is_run_again(tmp_path: Path) -> None:
    run(ITEM, tmp_path, scale="quick")
    path = tmp_path / "cells.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    CALLS.clear()
    assert len(run(ITEM, tmp_path, scale="quick")) == 2
    assert CALLS == [{"epsilon": 1, "seed": 1}]
    assert len(Store(path).read()) == 2


def test_no_cell_begins_after_the_limit(tmp_path: Path) -> None:
    assert len(run(ITEM, tmp_path, scale="full", place=RunPlace(limit=0.0))) == 1


def test_repeats_are_averaged_beside_the_published_value(tmp_path: Path) -> None:
    first, second = rows(ITEM, run(ITEM, tmp_path, scale="full"))
    assert first == {"item": "test/table", "epsilon": 1, "published": 5.0, "measured": 3.0, "spread": 2.0, "repeats": 3}
    assert second["published"] is None


def test_population_yields_results_in_order(tmp_path: Path) -> None:
    item = Item(
        id="test/many",
        title="Many",
        runs=grid(seeds=range(3)),
        run_population=lambda bench, cells: ({"score": settings["seed"]} for settings in cells),
    )
    assert [cell.result["score"] for cell in run(item, tmp_path, scale="full")] == [0, 1, 2]


def test_open_item_is_refused_with_its_reason(tmp_path: Path) -> None:
    item = Item(id="test/open", title="Open", note="its algorithm is not here yet")
    with pytest.raises(WrongInput, match="not here yet"):
        run(item, tmp_path, scale="full")


def test_known_price_needs_no_accountant() -> None:
    def missing() -> float:
        raise ImportError("no accountant")

    prices = Prices("test", known={"a": 1.5})
    assert prices.look_up("a", missing) == 1.5
    with pytest.raises(WrongInput, match="--prices"):
        prices.look_up("b", missing)


def test_noise_is_the_least_that_meets_epsilon() -> None:
    from privaware.papers._prices import rdp_epsilon

    noise = Prices("test").noise(0.01, 100, 1.0)
    assert rdp_epsilon(0.01, 100, noise) <= 1.0 < rdp_epsilon(0.01, 100, noise * 0.999)


def test_stored_tables_give_rows_with_published_numbers() -> None:
    item = Item(id="test/t", title="T", columns=("model",), published={"simple": "93.10 / 97.54"})
    shown = {"title": "t", "head": ["model", "DP-SGD", "SGD"], "rows": [["simple", "95.34 ± 0.17", "98.49 ± 0.08"]]}
    [row] = rows(item, [Cell(item="test/t", settings={}, result={"tables": [shown]})])
    assert (row["published"], row["measured"]) == (93.10, 95.34)
    assert row["values"] == {"DP-SGD": 95.34, "SGD": 98.49}


def test_wrong_item_is_answered_with_close_ones() -> None:
    with pytest.raises(WrongInput, match="bao/lemma"):
        papers.find("bao/lema")
