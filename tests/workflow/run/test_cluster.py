"""Sums over a cluster are those of one process, whoever holds a piece, however often workers are lost."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import cloudpickle
import numpy as np
import pytest

from privaware.data import Data, Streamed, Sum
from privaware.errors import PrivawareError, WrongInput
from privaware.learners import find_learner
from privaware.mechanism import Then
from privaware.mechanism import run as run_rows
from privaware.noise import Rng
from privaware.preprocessing.bins import Bins
from privaware.schema import Schema
from privaware.testing import rows_for
from privaware.workflow.run.cluster import Cluster, Question, Run, Worker
from tests.learners.test_in_parts import IN_PARTS, SETTINGS, TASKS
from tests.parts import same_tensors
from tests.selectors.test_in_parts import IN_PARTS as SELECTORS
from tests.selectors.test_in_parts import selection


class Machines:
    """Workers in this process. All that passes between is pickled; `losses` counts the questions whose worker dies."""

    def __init__(self, count: int, losses: tuple[int, ...] = ()) -> None:
        self.workers = {at: Worker() for at in range(count)}
        self.losses, self.asked, self.lost = losses, 0, 0

    def alive(self) -> list[int]:
        if not self.workers:
            raise WrongInput("none is left")
        return list(self.workers)

    def ask(self, questions: Mapping[int, Question]) -> Iterator[tuple[int, list[Run] | PrivawareError | None]]:
        for number in reversed(questions):
            self.asked += 1
            question = cloudpickle.loads(cloudpickle.dumps(questions[number]))
            answer: Any = self.workers[number].partials(question)
            if self.asked in self.losses:  # after it worked and before it answered
                del self.workers[number]
                self.lost += 1
                yield number, None
            else:
                yield number, cloudpickle.loads(cloudpickle.dumps(answer))


class Values(Sum[list[int], list[int], None]):
    def partial(self, part: list[int]) -> list[int]:
        return list(part)

    def merge(self, left: list[int], right: list[int]) -> list[int]:
        return left + right

    def release(self, total: list[int], noise: float, rng: Rng) -> None:
        return None


PIECES = [partial(list, [[at]]) for at in range(7)]
LOSSES = {"none": (), "one at once": (1,), "two at once": (1, 2), "one after another": (4, 6), "later": (8,)}


@pytest.mark.parametrize("losses", LOSSES.values(), ids=LOSSES.keys())
def test_held_parts_follow_all_changes_in_order_and_once(losses: tuple[int, ...]) -> None:
    pool = Machines(3, losses)
    parts = Cluster(pool, PIECES).parts.map(lambda piece: [10 * piece[0]]).held(list)
    expected = [[10 * at] for at in range(7)]
    for round in range(4):
        parts.update(lambda part, round=round: part.append(part[-1] * 2 + round))
        for value in expected:
            value.append(value[-1] * 2 + round)
        assert parts.total(Values()) == [number for value in expected for number in value]
    assert pool.lost == len(losses)


def test_held_parts_of_held_parts_have_only_earlier_changes() -> None:
    pool = Machines(2, (5,))
    first = Cluster(pool, PIECES).parts.held(list)
    first.update(lambda part: part.append(100))
    second = first.map(lambda part: [sum(part)]).held(list)
    first.update(lambda part: part.append(1000))
    for _ in range(3):
        assert second.total(Values()) == [at + 100 for at in range(7)]
    assert first.total(Values()) == [number for at in range(7) for number in (at, 100, 1000)]
    assert pool.lost == 1


def test_workers_drop_what_nobody_needs_any_more() -> None:
    pool = Machines(2)
    cluster = Cluster(pool, PIECES)
    held = cluster.parts.held(list)
    mapped = held.map(lambda part: [part[0] + 1])
    del held
    gc.collect()
    assert mapped.total(Values()) == list(range(1, 8))
    del mapped
    gc.collect()
    cluster.parts.total(Values())
    assert all(not of_piece for worker in pool.workers.values() for of_piece in worker._held.values())


def test_two_tables_on_the_same_workers_do_not_mix() -> None:
    pool = Machines(3, (5, 9))
    first, second = (Cluster(pool, PIECES).parts.held(lambda part, by=by: [by * part[0]]) for by in (1, 10))
    for _ in range(2):
        assert first.total(Values()) == list(range(7))
        assert second.total(Values()) == [10 * at for at in range(7)]
    assert pool.lost == 2


def test_neighbouring_pieces_come_as_one_sum() -> None:
    pool = Machines(2)
    [first] = pool.workers[0].partials(
        Cluster(pool, PIECES)._questions(Values(), Cluster(pool, PIECES).parts._view, set(range(7)))[0]
    )
    assert (first.start, first.end, first.partial) == (0, 4, [0, 1, 2, 3])


def test_losing_every_worker_is_said_in_a_sentence() -> None:
    parts = Cluster(Machines(2, (1, 2)), PIECES).parts
    with pytest.raises(WrongInput, match="none is left"):
        parts.total(Values())


def test_wrong_rows_are_reported_by_the_worker_that_reads_them() -> None:
    def refuse(piece: list[int]) -> list[int]:
        if piece == [5]:
            raise WrongInput("line 5: expected a number")
        return piece

    with pytest.raises(WrongInput, match=r"^line 5: expected a number$"):
        Cluster(Machines(3), PIECES).parts.map(refuse).total(Values())


def pieces_of(data: Data, count: int) -> list[Any]:
    """Pieces of one part each, the first of two."""
    parts = [data.take(rows) for rows in np.array_split(np.arange(len(data)), count + 1)]
    return [partial(list, parts[:2]), *(partial(list, [part]) for part in parts[2:])]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", IN_PARTS)
def test_learners_release_the_same_bits_where_workers_are_lost(name: str, task: str) -> None:
    schema, make = TASKS[task], find_learner(name)
    if schema.task not in make.tasks:
        pytest.skip(f"{name} does not do {schema.task}")
    learner, data = make(**SETTINGS.get(name, {})), rows_for(schema, 700)
    expected = run_rows(learner, data, 0.7, Rng(seed=3)).tensors
    for workers, losses in ((1, ()), (3, (1,)), (4, (2, 7, 9))):
        pool = Machines(workers, losses)
        rows = Streamed(schema=schema, parts=Cluster(pool, pieces_of(data, 5)).parts)
        assert same_tensors(run_rows(learner, rows, 0.7, Rng(seed=3)).tensors, expected)


def test_rows_that_must_be_in_one_memory_come_in_their_order() -> None:
    schema: Schema = TASKS["two classes"]
    data = rows_for(schema, 300)
    rows = Streamed(schema=schema, parts=Cluster(Machines(3, (2,)), pieces_of(data, 6)).parts).gathered()
    assert np.array_equal(rows.x, data.x, equal_nan=True)
    assert np.array_equal(rows.y, data.y)


@pytest.mark.parametrize("name", SELECTORS)
def test_selectors_release_the_same_where_workers_are_lost(name: str) -> None:
    selector, data = selection(name, "regression")
    expected = run_rows(selector, data, 0.3, Rng(seed=2))
    for workers, losses in ((1, ()), (3, (1, 4))):
        rows = Streamed(schema=data.schema, parts=Cluster(Machines(workers, losses), pieces_of(data, 4)).parts)
        assert run_rows(selector, rows, 0.3, Rng(seed=2)) == expected


def test_a_chain_reaches_the_workers_without_its_progress_bar() -> None:
    data = rows_for(TASKS["two classes"], 300)
    learner = find_learner("boosted")(trees=3, steps=2, progress=Terminal().show)
    chain = Then(first=Bins(), second=learner, join=Bins.join)
    rows = Streamed(schema=data.schema, parts=Cluster(Machines(2), pieces_of(data, 3)).parts)
    left, right = (chain.run(given, 0.7, Rng(seed=3)).tensors for given in (rows, data))
    assert same_tensors(left, right)


class Terminal:
    """What cannot be pickled."""

    def show(self, step: int, steps: int, left: float, what: str = "training") -> None: ...

    def __reduce__(self) -> str:
        raise TypeError("a terminal stays where it is")
