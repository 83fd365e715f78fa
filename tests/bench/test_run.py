"""Cells of a benchmark: resumed, repeated bit for bit, and a failing one stops no other."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privaware import attacks, registry
from privaware.bench import _cells, _run
from privaware.bench._cells import TrainingPlace, batches, noise_of, train_cells
from privaware.bench._run import ITEM, run_cells
from privaware.bench._store import Store
from privaware.errors import WrongInput
from privaware.model import Model
from tests.bench.grids import RUNS, SMALL, grid_cells, install

HERE = TrainingPlace()


def wanted(**change: Any) -> list[Any]:
    return [(ITEM, cell) for cell in grid_cells({**SMALL, **change})]


def test_finished_cells_never_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    store = Store(tmp_path / "cells.jsonl")
    one = wanted(learners={"counted": {}}, seeds=1)
    assert run_cells(one, store, HERE).json()["done"] == 2
    state = run_cells(wanted(learners={"counted": {}}), store, HERE)
    assert (state.cells, state.done, len(RUNS)) == (4, 4, 4)
    assert len(store.read()) == 4


def test_second_run_on_a_held_store_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    store = Store(tmp_path / "cells.jsonl")
    one = wanted(learners={"counted": {}}, seeds=1)
    refused: list[str] = []

    def say(words: str) -> None:
        with pytest.raises(WrongInput, match=r"another run works on the store cells\.jsonl; wait") as problem:
            run_cells(one, store, HERE)
        refused.append(str(problem.value))
        run_cells(one, Store(tmp_path / "other.jsonl"), HERE)

    assert run_cells(one, store, HERE, say=say).done == 2
    assert refused
    assert run_cells(one, store, HERE).done == 2  # free again
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cells.jsonl", "other.jsonl"]


def test_failing_cell_is_stored_with_reason_and_the_rest_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    store = Store(tmp_path / "cells.jsonl")
    words: list[str] = []
    state = run_cells(wanted(learners={"counted": {"breaks": True}, "majority": {}}), store, HERE, say=words.append)
    assert (state.done, len(state.failures)) == (6, 2)
    first = {"cell": "counted (breaks=True), digits, epsilon 1, seed 0"}
    assert state.json()["failures"][0] == first | {"reason": "ZeroDivisionError: the noise is too loud"}
    failed = [cell.result for cell in store.read().values() if "failed" in cell.result]
    assert failed == [{"failed": "ZeroDivisionError: the noise is too loud"}] * 2
    assert any("failed: counted" in line for line in words)
    assert words[-1].startswith("8 of 8 cells")
    RUNS.clear()
    run_cells(wanted(learners={"counted": {"breaks": True}, "majority": {}}), store, HERE)
    assert len(RUNS) == 2  # only what failed is tried again


def test_cells_of_one_name_fail_each_for_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two grids in one store whose cells differ in the number of rows only."""
    install(monkeypatch)
    store = Store(tmp_path / "cells.jsonl")
    tables = [{"digits": {"train": train, "test": 40}} for train in (50, 60)]
    learners = {"counted": {"breaks": True, "epsilons": [1.0]}}
    both = [cell for data in tables for cell in wanted(learners=learners, seeds=1, data=data)]
    state = run_cells(both, store, HERE)
    assert (state.cells, len(state.failures), state.json()["not_begun"]) == (2, 2, 0)
    assert len(_run.failed_cells(list(store.read().values()))) == 2


def test_attacks_on_cells_of_one_name_are_counted_apart(tmp_path: Path, broken: list[bool]) -> None:
    store = Store(tmp_path / "cells.jsonl")
    tables = [{"digits": {"train": train, "test": 40}} for train in (50, 60)]
    both = [cell for data in tables for cell in wanted(**ATTACKED, data=data, epsilons=[1.0])]
    assert run_cells(both, store, HERE).json()["attacks_failed"] == 2
    assert _run.cells_in(_run.failed_attacks(list(store.read().values()))) == 2


ATTACKED: dict[str, Any] = {"learners": {"counted": {}}, "seeds": 1, "attacks": ["threshold", "broken"]}


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """An attack `broken` that fails as long as the list is empty; `counted` is the learner that counts its runs."""
    mended: list[bool] = []
    found = registry.find

    def attack(game: Any, rng: Any) -> Any:
        if not mended:
            raise IndexError("no such row")
        return np.zeros(len(game.rows))

    install(monkeypatch)
    for module in (attacks, registry):
        monkeypatch.setattr(
            module, "find", lambda kind, name: attack if (kind, name) == ("attacks", "broken") else found(kind, name)
        )
    return mended


def test_training_is_stored_before_its_attack_begins(
    tmp_path: Path, broken: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "cells.jsonl")
    attack_cells = _run.attack_cells
    stored: list[int] = []

    def noted(*given: Any) -> Any:
        stored.append(sum("score" in cell.result for cell in store.read().values()))
        return attack_cells(*given)

    monkeypatch.setattr(_run, "attack_cells", noted)
    run_cells(wanted(**ATTACKED), store, HERE)
    assert stored == [2]


def test_p60_failed_attack_is_stored_beside_the_training(tmp_path: Path, broken: list[bool]) -> None:
    store = Store(tmp_path / "cells.jsonl")
    state = run_cells(wanted(**ATTACKED), store, HERE)
    assert (state.done, len(state.failures), len(state.attack_failures)) == (2, 0, 2)
    [first, _] = store.read().values()
    assert first.result["score"] > 0
    assert first.result["auc threshold"] >= 0.5
    assert first.result["attack_failures"] == {"broken": "IndexError: no such row"}
    facts = state.json()
    assert (facts["attacks_failed"], facts["not_attacked"]) == (2, 0)
    assert facts["attack_failures"][0]["attack"] == "broken"


def test_rerun_repeats_a_failed_attack_without_a_training(tmp_path: Path, broken: list[bool]) -> None:
    store = Store(tmp_path / "cells.jsonl")
    run_cells(wanted(**ATTACKED), store, HERE)
    assert len(RUNS) == 2
    broken.append(True)
    state = run_cells(wanted(**ATTACKED), store, HERE)
    assert (state.done, state.attack_failures, len(RUNS)) == (2, [], 2)
    assert all(cell.result["auc broken"] == 0.5 for cell in store.read().values())
    assert [path.name for path in tmp_path.iterdir()] == ["cells.jsonl"]  # no model is kept any longer


def test_lost_model_is_trained_again_for_its_attack(tmp_path: Path, broken: list[bool]) -> None:
    store = Store(tmp_path / "cells.jsonl")
    run_cells(wanted(**ATTACKED), store, HERE)
    before = {cell.result["auc threshold"] for cell in store.read().values()}
    shutil.rmtree(tmp_path / ".cells.jsonl.models")
    broken.append(True)
    assert run_cells(wanted(**ATTACKED), store, HERE).attack_failures == []
    assert len(RUNS) == 4
    assert {cell.result["auc threshold"] for cell in store.read().values()} == before


def test_batch_has_all_seeds_and_epsilons_of_a_line() -> None:
    cells = grid_cells({**SMALL, "learners": {"dpsgd": {"steps": 2}}})
    assert batches(cells, 32) == [[0, 1, 2, 3]]
    assert batches(cells, 3) == [[0, 1, 2], [3]]
    outcomes = train_cells(HERE, cells) or []
    noises = [outcome.result["noise"] for outcome in outcomes]
    assert noises[0] == noises[1] > noises[2] == noises[3]


NETWORKS = ["dpsgd", "rgp", "alibi"]
"""A learner of each way to train several networks together."""


@pytest.fixture
def weights(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[int, bytes]]:
    """The weights of trained cells by place, as bytes."""
    trained: list[bytes] = []
    scores = _cells._scores

    def noted(model: Model, *rest: Any) -> Any:
        trained.append(b"".join(each.tobytes() for each in model.tensors.values()))
        return scores(model, *rest)

    monkeypatch.setattr(_cells, "_scores", noted)

    def run(cells: Sequence[Any], places: Sequence[int]) -> dict[int, bytes]:
        trained.clear()
        assert not any(outcome.failed for outcome in train_cells(HERE, [cells[at] for at in places]) or [])
        return dict(zip(places, trained, strict=True))

    return run


@pytest.mark.parametrize("learner", NETWORKS)
def test_seeded_cell_repeats_bit_for_bit_in_any_company(learner: str, weights: Callable[..., dict[int, bytes]]) -> None:
    cells = grid_cells({**SMALL, "learners": {learner: {"epochs": 2.0, "batch": 20}}})
    alone = weights(cells, [1])[1]
    assert len(alone) > 1000
    assert weights(cells, [1])[1] == alone  # twice
    for places in ([0, 1], [1, 0], [3, 2, 1, 0]):
        assert weights(cells, places)[1] == alone
    assert len(set(weights(cells, [0, 1, 2, 3]).values())) == 4  # seeds and epsilons differ


def test_attack_changes_no_weight_of_its_model(weights: Callable[..., dict[int, bytes]]) -> None:
    learners = {"learners": {"dpsgd": {"steps": 2}}}
    plain, attacked = (grid_cells({**SMALL, **learners, **more}) for more in ({}, {"attacks": ["threshold"]}))
    assert weights(plain, [1])[1] == weights(attacked, [1])[1]


def test_cells_without_noise_are_a_batch_of_their_own() -> None:
    cells = grid_cells({**SMALL, "baseline": {"learner": "linear", "steps": 3}, "learners": {"linear": {"steps": 3}}})
    assert batches(cells, 32) == [[0, 1], [2, 3, 4, 5]]
    assert noise_of(cells[0], None, None) == 0.0


def test_noise_meets_the_epsilon_of_the_cell() -> None:
    from privaware import accounting

    [cell, *_] = grid_cells({**SMALL, "learners": {"majority": {}}})
    [outcome] = train_cells(HERE, [cell]) or []
    assert outcome.result["noise"] == pytest.approx(1.0, rel=1e-3)
    assert set(outcome.result) == {"score", "accuracy", "error", "test_rows", "noise"}
    from privaware.events import Laplace

    assert accounting.epsilon(Laplace(noise=outcome.result["noise"]), 1e-5) <= 1.0


def test_nothing_begins_after_the_time_limit(tmp_path: Path) -> None:
    late = TrainingPlace(deadline=time.time() - 1)
    state = run_cells(wanted(), Store(tmp_path / "cells.jsonl"), late)
    assert state.json()["not_begun"] == 8
    assert not (tmp_path / "cells.jsonl").exists()


@pytest.mark.slow
def test_cells_train_in_other_processes(tmp_path: Path) -> None:
    store = Store(tmp_path / "cells.jsonl")
    state = run_cells(wanted(), store, HERE, workers=2)
    assert (state.done, state.failures) == (8, [])
    alone = Store(tmp_path / "alone.jsonl")
    run_cells(wanted(), alone, HERE)
    assert {k: c.result for k, c in store.read().items()} == {k: c.result for k, c in alone.read().items()}


def test_cells_train_on_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from privaware.strategies._workers import Here

    asked = []
    monkeypatch.setattr(_run, "Ray", lambda address: asked.append(address) or Here())
    state = run_cells(wanted(seeds=1), Store(tmp_path / "cells.jsonl"), HERE, ray="auto")
    assert (state.done, asked) == (4, ["auto"])


def test_killed_run_goes_on_and_no_cell_runs_twice(tmp_path: Path) -> None:
    """A process is killed in the middle; its successor runs only what is missing, each cell once."""
    lines = "\n".join(f"[learners.m{at}]\nlearner = 'majority'\n" for at in range(12))
    head = "data = {digits = {train = 60, test = 40}}\nepsilons = [1.0]\nseeds = 1\n"
    (tmp_path / "grid.toml").write_text(head + lines)
    call = [sys.executable, "-c", "from privaware.cli import main; main()", "bench", "run", "grid.toml", "--json"]
    process = subprocess.Popen(call, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    store = tmp_path / "bench.jsonl"
    while process.poll() is None and not (store.exists() and store.read_bytes().count(b"\n") >= 2):
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = len(Store(store).read())
    answer = json.loads(subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, check=True).stdout)
    assert (answer["cells"], answer["done"], answer["failed"]) == (12, 12, 0)
    complete = [line for line in store.read_text().splitlines() if line.endswith("}}")]
    assert before >= 2
    assert len(complete) == len(Store(store).read()) == 12
