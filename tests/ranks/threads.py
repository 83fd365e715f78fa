"""Ranks that are threads of one process and take turns, to test quickly what processes do."""

from __future__ import annotations

import contextlib
import pickle
import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Any, TypeVar

import cloudpickle
import torch
from torch import Tensor

from privaware.ranks import Ranks, RanksEnded, _session

T = TypeVar("T")


class Hub:
    """The place where ranks meet. One thread runs at a time, because torch's settings belong to the process."""

    def __init__(self, size: int) -> None:
        self.values: list[Any] = [None] * size
        self.totals = self.features = 0
        self.meeting, self.turn = threading.Barrier(size), threading.Lock()

    def wait(self) -> None:
        self.turn.release()
        try:
            self.meeting.wait(timeout=60)
        finally:
            self.turn.acquire()


class ThreadRanks(Ranks):
    """One rank of a hub. Its sums are added from the last rank to the first."""

    def __init__(self, rank: int, size: int, hub: Hub) -> None:
        super().__init__(rank, size)
        self.hub = hub

    def gathered(self, value: Any) -> list[Any]:
        self.hub.values[self.rank] = value
        self.hub.wait()
        values = list(self.hub.values)
        self.hub.wait()
        return values

    def shared(self, value: Any) -> Any:
        content = self.gathered(cloudpickle.dumps(value) if self.leads else None)[0]
        return value if self.leads else pickle.loads(content)

    def _broadcast(self, values: Tensor, group: str) -> None:
        received = self.gathered(values.clone())[0]
        if not self.leads:
            values.copy_(received)

    def send_parts(self, tensors: Any, bounds: Any) -> None:
        self.gathered([[item[begin:end].clone() for item in tensors] for begin, end in pairwise(bounds)])

    def receive_part(self, shapes: Any) -> list[Tensor]:
        received: list[Tensor] = self.gathered(None)[0][self.rank]
        assert [(tuple(item.shape), item.dtype) for item in received] == list(shapes)
        return received

    def exchanged(self, rows: Tensor, sent: Any, received: Any) -> Tensor:
        every = self.gathered(rows.split(list(sent)))
        here = [parts[self.rank] for parts in every]
        assert [len(part) for part in here] == list(received)
        return torch.cat(here)

    def collected(self, tensors: Any) -> list[list[Tensor]]:
        every = self.gathered([item.clone() for item in tensors])
        self.hub.features += self.leads
        return every if self.leads else []

    def add_up(self, sums: Tensor) -> None:
        every = self.gathered(sums.clone())
        self.hub.totals += self.leads
        sums.copy_(sum(reversed(every[:-1]), every[-1]) if self.leads else torch.full_like(sums, torch.nan))

    def broadcast(self, values: Tensor) -> Tensor:
        return values.copy_(self.gathered(values.clone())[0])


def led(size: int, call: Callable[[], T], hub: Hub | None = None) -> T:
    """What `call` returns if it leads `size` threads; `hub` counts their totals and collected features."""
    hub = hub or Hub(size)
    problems: list[BaseException] = []

    def follow(rank: int) -> None:
        with hub.turn:
            try:
                with contextlib.suppress(RanksEnded):  # rank 0 failed, and its caller sees why
                    ThreadRanks(rank, size, hub).follow()
            except BaseException as problem:
                problems.append(problem)
                hub.meeting.abort()

    threads = [threading.Thread(target=follow, args=(rank,)) for rank in range(1, size)]
    for thread in threads:
        thread.start()
    leader = ThreadRanks(0, size, hub)
    hub.turn.acquire()
    _session._leading.append(leader)
    try:
        result = call()
        leader.end("ended", None)
    except BaseException:
        leader.end("failed", "")
        if leader._busy:
            hub.meeting.abort()
        raise
    finally:
        _session._leading.clear()
        hub.turn.release()
        for thread in threads:
            thread.join()
    assert problems == []
    return result


def together(size: int, call: Callable[[Ranks], T]) -> list[T | Exception]:
    """What `call` returns or raises on each of `size` threads."""
    hub = Hub(size)
    results: list[Any] = [None] * size

    def run(rank: int) -> None:
        with hub.turn:
            try:
                results[rank] = call(ThreadRanks(rank, size, hub))
            except Exception as problem:
                results[rank] = problem

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
