"""DPNAS: a search, its derivation and a training follow one another through the store; stored cells belong to items."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from privaware.bench._store import Store, cell_key
from privaware.errors import WrongInput
from research import papers
from research.papers import _dpnas_runs, _dpnas_search
from research.papers._page import Page, render
from research.papers._runner import Bench, run

RESULTS = Path(__file__).parents[3] / "docs" / "results"


def test_every_stored_cell_is_a_run_of_its_item() -> None:
    cells = Store(RESULTS / "dpnas" / "cells.jsonl").read()
    runs = {cell_key(item.id, settings) for item in papers.matching("dpnas") for settings in item.runs}
    assert len(cells) >= 166
    assert set(cells) <= runs


@pytest.fixture
def short_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred digits, a small network, two epochs on shared weights and a few steps from scratch."""
    case = _dpnas_runs.CASES["digits"]
    search = {**case.search, "epochs": 2, "warm_up": 1, "derived": 2, "rate": 0.5, "cells": 2, "updates": 1}
    small = replace(case, network=case.small, search=search, marks=(2, 4), batch=30)
    train, test = (part.take(np.arange(100)) for part in _dpnas_runs.rows("digits"))
    parts = (replace(train, schema=replace(train.schema, rows=100)), test)
    monkeypatch.setitem(_dpnas_runs.CASES, "digits", small)
    for module in (_dpnas_runs, _dpnas_search):
        monkeypatch.setattr(module, "rows", lambda data: parts)


def test_search_derivation_and_training_follow_one_another(tmp_path: Path, short_digits: None) -> None:
    item = replace(papers.find("dpnas/search/digits"), runs=[{"variant": "dp", "seed": 0}])
    [search] = run(item, tmp_path, scale="full")
    assert len(search.result["cells"]) == len(search.result["scores"]) == 2
    assert [point["epoch"] for point in search.result["curve"]] == [1, 2]
    assert not list(tmp_path.glob("*.npz"))
    [derived] = run(papers.find("dpnas/derive/digits"), tmp_path, scale="full")
    assert derived.result["cell"] in search.result["cells"]
    assert {one["lr"] for one in derived.result["tried"]} == {4.0, 8.0}
    trained = _dpnas_runs.train(Bench("dpnas", out=tmp_path), {"network": "found", "seed": 0}, data="digits")
    assert len(trained["accuracy"]) == len(trained["last"]) == 2
    assert trained["cell"] == derived.result["cell"]
    assert trained["lr"] == derived.result["lr"]  # marks[1] is the last


def test_training_without_its_search_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongInput, match="reproduce dpnas/derive/digits"):
        _dpnas_runs.train(Bench("dpnas", out=tmp_path), {"network": "found", "seed": 0}, data="digits")


def test_rows_that_train_and_rows_that_score_are_disjoint() -> None:
    fits, held_out = _dpnas_runs.halves("digits", 0)
    total = len(_dpnas_runs.rows("digits")[0])
    assert len(fits) + len(held_out) == total
    assert len(fits) == round(0.6 * total)
    assert fits.schema.rows == len(fits)


def test_found_cells_are_shown_with_and_without_averaging() -> None:
    table = render(Page("dpnas", RESULTS))
    last = [
        line.split("|")[6].split("/")[1].split()[0] for line in table.splitlines() if "found, last parameters" in line
    ]
    assert last == ["98.56", "87.35", "66.59"]
    averaged = [
        line.split("|")[6].split("/")[1].split()[0] for line in table.splitlines() if "found, parameters" in line
    ]
    assert np.all(np.array(averaged, float) > np.array(last, float))
