"""Processes of this machine give the sums of one process, whichever of them ends, and end with their pool."""

from __future__ import annotations

import gc
import os
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from privaware.data import _large, show_values
from privaware.data._values import got
from privaware.errors import WrongInput
from privaware.workflow.fit import fit
from privaware.workflow.run import source as _source
from privaware.workflow.run.cluster import Cluster
from privaware.workflow.run.process_pool import ProcessPool
from tests.parts import same_tensors
from tests.workflow.test_large_tables import write

PIECES = [partial(list, [[at]]) for at in range(6)]
own_process: Callable[[Any], Any] = lambda part: os.getpid()  # noqa: E731  # pickled by value, as all lambdas are


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPool]:
    pool = ProcessPool(2)
    yield pool
    pool._end()


def test_parts_are_read_held_and_changed_in_other_processes(pool: ProcessPool) -> None:
    parts = Cluster(pool, PIECES).parts
    workers = parts.map(own_process).listed()
    assert os.getpid() not in workers
    assert workers == sorted(workers, key=workers.index)  # neighbours stay together
    assert len(set(workers)) == 2
    held = parts.map(lambda part: [10 * part[0]]).held(list)
    held.update(lambda part: part.append(part[0] + 1))
    assert held.listed() == [[10 * at, 10 * at + 1] for at in range(6)]


def test_rows_that_this_process_can_read_are_not_sent_to_it(pool: ProcessPool) -> None:
    assert set(Cluster(pool, PIECES, near=True).parts.map(own_process).listed()) == {os.getpid()}


def test_errors_are_said_once_and_late_answers_are_skipped(pool: ProcessPool) -> None:
    def refuse(part: list[int]) -> list[int]:
        if part == [0]:
            raise WrongInput(f"row 1: expected a number{got('abc')}")
        time.sleep(0.02)
        return part

    parts = Cluster(pool, PIECES).parts
    with pytest.raises(WrongInput, match=r"^row 1: expected a number$"):
        parts.map(refuse).listed()
    with show_values(), pytest.raises(WrongInput, match=r"^row 1: expected a number, got 'abc'$"):
        parts.map(refuse).listed()
    with pytest.raises(ZeroDivisionError):
        parts.map(lambda part: 1 / part[0]).listed()
    assert parts.listed() == [[at] for at in range(6)]


def test_pieces_of_an_ended_process_go_to_the_others() -> None:
    pool = ProcessPool(2)
    held = Cluster(pool, PIECES).parts.held(list)
    held.update(lambda part: part.append(7))
    first, *_, last = held.map(own_process).listed()
    os.kill(last, signal.SIGKILL)
    held.update(lambda part: part.append(8))
    assert held.listed() == [[at, 7, 8] for at in range(6)]
    assert set(held.map(own_process).listed()) == {first}
    os.kill(first, signal.SIGKILL)
    with pytest.raises(WrongInput, match="all of them ended"):
        held.listed()


def test_processes_end_with_their_pool() -> None:
    pool = ProcessPool(1)
    [worker, *_] = Cluster(pool, PIECES).parts.map(own_process).listed()
    os.kill(worker, 0)
    del pool
    gc.collect()
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)


@pytest.mark.parametrize("options", [{"not_persons": "person"}, {"unit": "person", "cap": 2}], ids=["rows", "persons"])
def test_fit_by_processes_is_that_of_one_process(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "t.parquet", persons=300)
    settings = {"steps": 4, "trees": 4}
    call = {"target": "y", "epsilon": 2.0, "seed": 3, "limit": 9.0, "learner": "boosted", "settings": settings}
    monkeypatch.setattr(_large, "LARGE", 1)
    monkeypatch.setattr(_large, "PIECE", 1)
    models, asked = [], []
    for processors in (1, 2):
        monkeypatch.setattr(_source, "MIN_CELLS_FOR_PROCESSES", 1)
        monkeypatch.setattr(_source, "threads", lambda count=processors: count)
        monkeypatch.setattr(_source, "ProcessPool", lambda: asked.append(2) or ProcessPool(2))
        models.append(fit(path, **call, **options).model)
    assert asked == [2]
    assert models[0] is not None
    assert models[1] is not None
    assert same_tensors(models[0].tensors, models[1].tensors)
