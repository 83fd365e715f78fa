"""The runner of papers' items: cells are resumed, never run twice, and stand beside the published values."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from privaware.bench._store import Cell, Store
from privaware.errors import WrongInput
from research import papers
from research.papers import Item, grid
from research.papers._prices import PaperPrices
from research.papers._results import rows
from research.papers._runner import Bench, RunPlace, run, run_all
from research.papers._training import NO_ROWS, swept
from research.papers.bao import ITEMS
from tests.research.studies.examples import trials

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


def test_cells_run_as_tasks_of_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from privaware.strategies import _workers

    monkeypatch.setattr(_workers, "Ray", lambda address: _workers.Here())
    cells = run(papers.find("bao/lemma"), tmp_path, scale="quick", place=RunPlace(ray="auto"))
    assert [cell.settings for cell in cells] == [{"draws": 2000}]
    assert cells[0].result["tables"]


def test_failed_item_stops_no_other(tmp_path: Path) -> None:
    def broken(bench: Bench, settings: Any) -> dict[str, Any]:
        raise RuntimeError("out of memory")

    items = [replace(ITEM, id="test/broken", run=broken), ITEM]
    measured, failed = run_all(items, tmp_path, scale="quick", place=RunPlace())
    assert failed == {"test/broken": "RuntimeError: out of memory"}
    assert [row["item"] for row in measured] == ["test/table"]
    with pytest.raises(RuntimeError):
        run_all(items[:1], tmp_path, scale="quick", place=RunPlace())


def test_no_item_begins_after_the_limit(tmp_path: Path) -> None:
    CALLS.clear()
    assert run_all([ITEM], tmp_path, scale="quick", place=RunPlace(limit=-1.0)) == ([], {})
    assert CALLS == []


BLOCKED = """
import sys
for name in ("opendp", "dp_accounting", "altair"):
    sys.modules[name] = None
from research import papers
from research.papers import _training
from research.papers.bao import ITEMS
from research.papers._runner import Bench
real = _training.swept
def noted(bench, trials, rows, **how):
    bench.asked.extend(trials)
    return real(bench, trials, rows, **how)
for module in ("_training", "_bao_figures"):
    sys.modules["research.papers." + module].swept = noted
for item in ITEMS:
    if item.page == "studies" and item.id != "bao/lemma":
        bench = Bench("bao", device="cuda", dry=True)
        bench.asked = []
        bench.prices.look_up = lambda key, compute: bench.prices.known[key]
        for settings in [*item.runs, *item.quick]:
            item.run(bench, settings)
        finals = {trial.seed for trial in bench.asked if trial.seed < 100}
        print(item.id, len(finals))
"""


def test_every_study_has_its_prices_and_runs_without_accountants() -> None:
    process = subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    seeds = dict(line.split() for line in process.stdout.splitlines())
    assert set(seeds) == {item.id for item in ITEMS if item.page == "studies" and item.id != "bao/lemma"}
    five = [id for id in seeds if id.startswith(("bao/table1/", "bao/table4", "bao/table6", "bao/figure7"))]
    assert {seeds[id] for id in five} == {"5"}


def test_training_on_a_gpu_uses_tf32() -> None:
    asked = swept(Bench("bao", device="cuda", dry=True), trials(2), NO_ROWS.test)
    assert all(outcome.trial.setting.precision == "tf32" for outcome in asked)


def test_only_chosen_cells_are_run(tmp_path: Path) -> None:
    other = replace(ITEM, id="test/other", runs=[{"network": "cnn"}], quick=[])
    [chosen] = papers.restricted([ITEM, other], ["epsilon=1", "seed=0,2"])
    assert [cell.settings for cell in run(chosen, tmp_path, scale="full")] == [
        {"epsilon": 1, "seed": 0},
        {"epsilon": 1, "seed": 2},
    ]
    assert papers.restricted([ITEM], []) == [ITEM]


@pytest.mark.parametrize(("only", "reason"), [("seed", "NAME=VALUE"), ("seed=9", "no cell has"), ("sed=1", "no cell")])
def test_choice_without_cells_is_refused(only: str, reason: str) -> None:
    with pytest.raises(WrongInput, match=reason):
        papers.restricted([ITEM], [only])


def test_open_item_is_refused_with_its_reason(tmp_path: Path) -> None:
    item = Item(id="test/open", title="Open", note="its algorithm is not here yet")
    with pytest.raises(WrongInput, match="not here yet"):
        run(item, tmp_path, scale="full")


def test_known_price_needs_no_accountant() -> None:
    def missing() -> float:
        raise ImportError("no accountant")

    prices = PaperPrices("test", known={"a": 1.5})
    assert prices.look_up("a", missing) == 1.5
    with pytest.raises(WrongInput, match="--prices"):
        prices.look_up("b", missing)


def test_noise_is_the_least_that_meets_epsilon() -> None:
    from research.papers._prices import rdp_epsilon

    noise = PaperPrices("test").noise(0.01, 100, 1.0)
    assert rdp_epsilon(0.01, 100, noise) <= 1.0 < rdp_epsilon(0.01, 100, noise * 0.999)


def test_stored_tables_give_rows_with_published_numbers() -> None:
    item = Item(id="test/t", title="T", columns=("model",), published={"simple": "93.10 / 97.54"})
    shown = {"title": "t", "head": ["model", "DP-SGD", "SGD"], "rows": [["simple", "95.34 ± 0.17", "98.49 ± 0.08"]]}
    [row] = rows(item, [Cell(item="test/t", settings={}, result={"tables": [shown]})])
    assert (row["published"], row["measured"]) == (93.10, 95.34)
    assert row["values"] == {"DP-SGD": 95.34, "SGD": 98.49}


def test_first_column_labels_the_rows_of_an_item_without_columns() -> None:
    shown = {"title": "t", "head": ["parameters", "DP-SGD"], "rows": [["310", "80.59 ± 2.73"]]}
    [row] = rows(Item(id="test/t", title="T"), [Cell(item="test/t", settings={}, result={"tables": [shown]})])
    assert (row["parameters"], row["measured"]) == ("310", 80.59)


def test_wrong_item_is_answered_with_close_ones() -> None:
    with pytest.raises(WrongInput, match="bao/lemma"):
        papers.find("bao/lema")
