"""DPNAS: a search, its derivation and a training follow one another through the store; stored cells belong to items."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privaware.bench._store import Store, cell_key
from privaware.errors import Refused, WrongInput
from privaware.strategies import dpnas
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
    """A hundred digits, small networks, two epochs on shared weights and a few steps from scratch."""
    case = _dpnas_runs.CASES["digits"]
    search = {**case.search, "epochs": 2, "warm_up": 1, "derived": 2, "rate": 0.5, "cells": 2, "updates": 1}
    small = replace(case, network=case.small, search=search, marks=(2, 4), batch=30)
    train, test = (part.take(np.arange(100)) for part in _dpnas_runs.rows("digits"))
    parts = (replace(train, schema=replace(train.schema, rows=100)), test)
    monkeypatch.setitem(_dpnas_runs.CASES, "digits", small)
    for module in (_dpnas_runs, _dpnas_search):
        monkeypatch.setattr(module, "rows", lambda data: parts)
    other = {"name": "simple_cnn", "inputs": [1, 8, 8], "outputs": 10, "filters": [4], "hidden": [4]}
    monkeypatch.setattr(_dpnas_runs, "compared", lambda name, data: other)


def test_search_derivation_and_training_follow_one_another(tmp_path: Path, short_digits: None) -> None:
    item = replace(papers.find("dpnas/search/digits"), runs=[{"variant": "dp", "seed": 0}])
    [search] = run(item, tmp_path, scale="full")
    assert len(search.result["cells"]) == len(search.result["scores"]) == 2
    assert [point["epoch"] for point in search.result["curve"]] == [1, 2]
    assert not [*tmp_path.glob("*.npz"), *tmp_path.glob("*.json")]
    [derived] = run(papers.find("dpnas/derive/digits"), tmp_path, scale="full")
    assert derived.result["cell"] in search.result["cells"]
    assert {one["lr"] for one in derived.result["tried"]} == {4.0, 8.0}
    trained = _dpnas_runs.train(Bench("dpnas", out=tmp_path), {"network": "found", "seed": 0}, data="digits")
    assert len(trained["accuracy"]) == len(trained["last"]) == 2
    assert trained["cell"] == derived.result["cell"]
    assert trained["lr"] == derived.result["lr"]  # marks[1] is the last


def test_searches_of_several_seeds_are_told_apart(tmp_path: Path, short_digits: None) -> None:
    runs = [{"variant": "paper_controller", "seed": seed} for seed in (0, 1)]
    searches = run(replace(papers.find("dpnas/search/digits"), runs=runs), tmp_path, scale="full")
    Store(tmp_path / "cells.jsonl").add(replace(searches[0], item="dpnas/derive/digits", result={"lr": 1.0}))
    bench = Bench("dpnas", out=tmp_path)
    settings = {"network": "paper_controller", "search_seed": 1, "cell": 0, "seed": 0}
    assert _dpnas_runs.train(bench, settings, data="digits")["cell"] == searches[1].result["cells"][0]


def test_resumed_search_keeps_its_curve(tmp_path: Path, short_digits: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dpnas, "CHECKPOINT_EPOCHS", 1)
    scored = _dpnas_search.SharedAccuracy.__call__

    def interrupted(recorder: Any, epoch: int, weights: Any, controller: Any) -> None:
        if epoch == 1:
            raise KeyboardInterrupt
        scored(recorder, epoch, weights, controller)

    monkeypatch.setattr(_dpnas_search.SharedAccuracy, "__call__", interrupted)
    bench, settings = Bench("dpnas", out=tmp_path), {"variant": "dp", "seed": 0}
    with pytest.raises(KeyboardInterrupt):
        _dpnas_search.search(bench, settings, data="digits")
    monkeypatch.setattr(_dpnas_search.SharedAccuracy, "__call__", scored)
    resumed = _dpnas_search.search(bench, settings, data="digits")
    assert [point["epoch"] for point in resumed["curve"]] == [1, 2]
    assert resumed == _dpnas_search.search(Bench("dpnas"), settings, data="digits")


def test_controller_of_the_paper_has_its_printed_settings() -> None:
    strategy = _dpnas_search._as_printed(_dpnas_search._strategy("digits", "dp"), 50_000)
    assert (strategy.rate, strategy.held_rate) == (300 / 30_000, 64 / 20_000)
    assert (strategy.updates, strategy.cells, strategy.controller_lr) == (312, 1, 3e-4)


def test_networks_of_other_searches_take_their_tuned_rate(
    tmp_path: Path, short_digits: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_dpnas_runs, "RATES", (1.0, 2.0))
    settings = {"network": "EfficientNet-S", "seed": 0}
    item = papers.find("dpnas/rates/mnist")
    tune = partial(_dpnas_runs.tune, data="digits")
    [tuned] = run(replace(item, id="dpnas/rates/digits", run=tune, runs=[settings]), tmp_path, scale="full")
    assert [one["lr"] for one in tuned.result["tried"]] == [1.0, 2.0]
    trained = _dpnas_runs.train(Bench("dpnas", out=tmp_path), settings, data="digits", marks=(2, 8))
    assert trained["lr"] == tuned.result["lr"] * 0.707  # of 8 steps, where the short training has 4


def test_refused_initial_weights_are_replaced_and_recorded(short_digits: None, monkeypatch: pytest.MonkeyPatch) -> None:
    train = _dpnas_runs.Descent.run
    calls: list[int] = []

    def refused_once(*args: Any, **more: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise Refused("rounding")
        return train(*args, **more)

    monkeypatch.setattr(_dpnas_runs.Descent, "run", refused_once)
    network = _dpnas_runs.compared("DARTS-S", "digits")
    result = _dpnas_runs.Training(data="digits", network=network, seed=0, lr=1.0).run("cpu")
    assert (result["start"], result["precision"]) == (1, "float32")


def test_networks_are_trained_without_privacy_for_figure_1(short_digits: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_dpnas_runs, "PLAIN_EPOCHS", 5)
    result = _dpnas_runs.plain(Bench("dpnas"), {"network": "EfficientNet-S", "seed": 0}, data="digits")
    assert 0 <= result["score"] <= 1
    assert result["steps"] == 2


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


def test_operation_shares_are_within_their_kind() -> None:
    cells = [("selu", "selu", "tanh"), ("max_pool", "max_pool", "average_pool"), ("zero",) * 3]
    shares = _dpnas_search.operation_shares(cells)
    assert shares["activations"]["selu"] == pytest.approx(2 / 3)
    assert shares["pools"] == {"max_pool": pytest.approx(2 / 3), "average_pool": pytest.approx(1 / 3)}
    assert shares["operations"]["zero"] == pytest.approx(1 / 3)
    assert _dpnas_search.operation_shares([])["pools"] == {"max_pool": 0.0, "average_pool": 0.0}
