"""Sums over parts are the same however rows are cut, changes come in order, and few parts are in memory at once."""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from privaware.data import Data, HeldParts, LocalParts, Streamed, Sum, _parts, show_values
from privaware.data._parts import in_order
from privaware.data._values import got
from privaware.exact_sums import Lattice, Total, add_column_sums
from privaware.noise import Rng
from privaware.schema import Column, Schema
from tests.parts import cut

SCHEMA = Schema(columns=(Column(name="a", low=0, high=1),), classes=("n", "y"), rows=1000)


class Values(Sum[list[int], list[int], None]):
    def partial(self, part: list[int]) -> list[int]:
        return list(part)

    def merge(self, left: list[int], right: list[int]) -> list[int]:
        return left + right

    def release(self, total: list[int], noise: float, rng: Rng) -> None:
        return None


def data(rows: int = 200_000) -> Data:
    generator = np.random.default_rng(0)
    return Data(schema=SCHEMA, x=generator.random((rows, 1)), y=generator.integers(0, 2, rows))


def test_parts_come_in_order_whatever_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    for workers in ("1", "2"):
        monkeypatch.setenv("OMP_NUM_THREADS", workers)
        assert LocalParts(lambda: [[at] for at in range(50)]).total(Values()) == list(range(50))


def test_changes_come_before_the_next_total_and_once_each() -> None:
    parts = HeldParts([[1], [2]])
    parts.update(lambda part: part.append(part[0] * 10))
    parts.update(lambda part: part.append(part[-1] + 1))
    assert parts.total(Values()) == [1, 10, 11, 2, 20, 21]
    assert parts.total(Values()) == [1, 10, 11, 2, 20, 21]


def test_neighbours_are_held_as_one_up_to_enough_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_parts, "MIN_HELD_ROWS", 5)
    parts = LocalParts(lambda: [[1, 2], [3], [4, 5], [6, 7, 8, 9, 10, 11], [12]])
    held = parts.held(list, lambda few: [value for part in few for value in part])
    assert held._held == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11], [12]]


def test_a_map_of_held_parts_sees_their_changes() -> None:
    parts = HeldParts([[1], [2]])
    mapped = parts.map(lambda part: [sum(part)])
    parts.update(lambda part: part.append(10))
    assert mapped.total(Values()) == [11, 12]
    assert parts.total(Values()) == [1, 10, 2, 10]


def test_few_parts_are_in_memory_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    alive, most, lock = 0, 0, threading.Lock()

    def pieces():
        nonlocal alive, most
        for at in range(40):
            with lock:
                alive += 1
                most = max(most, alive)
            yield at

    for _ in in_order(lambda at: at, pieces()):
        with lock:
            alive -= 1
    assert most <= 4


def test_a_failure_in_a_part_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        LocalParts(lambda: [1, 0, 2]).map(lambda part: [1 // part]).total(Values())


def test_mapped_rows_have_the_schema_of_the_function() -> None:
    rows, narrower = cut(data(1000), 1), Schema(classes=("n", "y"), rows=1000)
    kept = rows.keep(())
    assert kept.schema.used == narrower.used
    assert kept.gathered().x.shape == (1000, 0)


def test_gathered_parts_of_rows_in_memory_are_the_rows() -> None:
    rows = data()
    again = Streamed(schema=SCHEMA, parts=rows.parts).gathered()
    assert np.array_equal(again.x, rows.x)
    assert np.array_equal(again.y, rows.y)


def test_totals_merge_to_the_same_bits_in_any_order() -> None:
    lattice = Lattice(bound=1.0, bits=45)
    values = lattice.round(np.random.default_rng(0).uniform(-1, 1, (4096, 3)))
    values[::7] *= 2.0**-30
    values = lattice.round(values)
    results = []
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(len(values))
        totals = []
        for rows in np.array_split(order, 3 + seed):
            totals.append(Total())
            add_column_sums(totals[-1], values[rows], lattice)
        first = totals.pop()
        for other in totals:
            first.merge(other)
        results.append(first.value)
    assert all(np.array_equal(results[0], other) for other in results)


def test_refusals_in_threads_show_values_where_the_owner_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    with show_values():
        assert list(in_order(got, ["abc"])) == [", got 'abc'"]


def test_parts_are_split_as_the_same_rows_in_memory() -> None:
    """However the table is cut, and in whatever order its parts are read."""
    rows, shares = data(1000), (0.7, 0.2, 0.1)
    expected = rows.split(Rng(seed=4), shares)
    for edges in ([], [1, 500], [0, 3, 3, 999]):
        cut = [replace(rows.take(slice(a, b)), begin=a) for a, b in pairwise([0, *edges, 1000]) if a < b]
        table = Streamed(schema=SCHEMA, parts=LocalParts(lambda cut=cut: iter(cut[::-1])))  # type: ignore[misc]
        for shard, there in zip(expected, table.split(Rng(seed=4), shares), strict=True):
            parts = sorted(there.parts.listed(), key=lambda part: part.begin or 0)
            assert np.array_equal(np.concatenate([part.x for part in parts]), shard.x)
            assert np.array_equal(np.concatenate([part.y for part in parts]), shard.y)


def test_rows_that_cannot_be_told_apart_are_not_split() -> None:
    rows = data(10)
    for begins in ((None, None), (0, 0)):
        parts = [replace(rows, begin=begin) for begin in begins]
        with pytest.raises(RuntimeError, match="could not be told apart"):
            Streamed(schema=SCHEMA, parts=LocalParts(lambda parts=parts: iter(parts))).split(Rng(seed=1), (1.0, 1.0))  # type: ignore[misc]
