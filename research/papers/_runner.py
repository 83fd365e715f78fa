"""Runs the cells of items: resumable, within a limit of seconds, here, on a GPU or on a Ray cluster.

A finished cell is appended to the store at once and never run again, so the same command goes on where it ended.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from privaware.bench import Result, Settings
from privaware.bench._store import Cell, Store, cell_key, commit, machine
from privaware.errors import WrongInput
from research.papers import Item, find
from research.papers._prices import PaperPrices
from research.papers._results import rows

__all__ = ["Bench", "RunPlace", "best_seconds", "record_prices", "run", "run_all"]

Say = Callable[[str], None]


def _quiet(words: str) -> None:
    pass


@dataclass
class Bench:
    """What the run function of an item may use: a device, prices, and a folder for what it wants to keep.

    With `dry` nothing is trained: a run function only asks for its prices (`reproduce PAPER --prices`). What a run
    function puts into `facts`, such as its precision, is stored beside commit and machine.
    """

    paper: str
    device: str = "cpu"
    out: Path | None = None
    dry: bool = False
    record: bool = False
    say: Say = field(default=_quiet, repr=False)
    facts: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def prices(self) -> PaperPrices:
        return PaperPrices(self.paper, record=self.record)


@dataclass(frozen=True, kw_only=True)
class RunPlace:
    """Where and how long: `limit` is in seconds, and no cell begins after it; `ray` is the address of a cluster."""

    device: str = "cpu"
    limit: float = float("inf")
    ray: str | None = None
    commit: str | None = None


def run(item: Item, out: Path, *, scale: str, place: RunPlace | None = None, say: Say = _quiet) -> list[Cell]:
    """Every cell of the item at this scale that is finished, run now or found in `out`/cells.jsonl."""
    place = place or RunPlace()
    wanted = item.cells(scale)
    if not item.runnable or not wanted:
        raise WrongInput(f"{item.id} cannot be run at scale {scale}: {item.note or 'it has no runs of that scale'}")
    store = Store(out / "cells.jsonl")
    finished = store.read()
    todo = [settings for settings in wanted if cell_key(item.id, settings) not in finished]
    facts = {"commit": place.commit or commit(), "machine": machine(place.device)}
    facts["date"] = datetime.now(UTC).date().isoformat()
    bench = Bench(item.paper, device=place.device, out=out, say=say)
    for settings, result, seconds in _results(item, todo, bench, place):
        run_facts = {**facts, "seconds": round(seconds, 1), **bench.facts}
        cell = Cell(item=item.id, settings=settings, result=result, run=run_facts)
        store.add(cell)
        finished[cell.key] = cell
        say(f"{item.id} {dict(settings)}: {seconds:.1f} s")
    return [finished[key] for settings in wanted if (key := cell_key(item.id, settings)) in finished]


def run_all(
    items: Sequence[Item], out: Path, *, scale: str, place: RunPlace, say: Say = _quiet
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Every item as rows with `published` and `measured`, and why others failed: one that fails stops no other."""
    began, measured, failed = time.monotonic(), [], {}
    for item in items:
        left = replace(place, limit=place.limit - (time.monotonic() - began))
        if left.limit < 0:
            say(f"{item.id}: not begun, for the limit of {place.limit:g} s is reached")
            continue
        try:
            measured += rows(item, run(item, out, scale=scale, place=left, say=say))
        except Exception as problem:
            if len(items) == 1:
                raise
            failed[item.id] = f"{type(problem).__name__}: {problem}"
            say(f"{item.id} failed: {failed[item.id]}")
    return measured, failed


def _results(
    item: Item, todo: Sequence[Settings], bench: Bench, place: RunPlace
) -> Iterator[tuple[Settings, Result, float]]:
    """Settings, result and seconds of each cell, as they end."""
    began = latest = time.monotonic()
    if place.ray and item.run is not None:
        from privaware.strategies._workers import Ray

        for at, (result, seconds) in Ray(place.ray).run_jobs(_remote, (item.id, place.device), list(todo)):
            yield todo[at], result, seconds
        return
    if item.run_population is not None:
        source = item.run_population(bench, todo) if todo else ()
    else:
        assert item.run is not None
        source = (item.run(bench, settings) for settings in todo)
    for settings, result in zip(todo, source):
        yield settings, result, time.monotonic() - latest
        latest = time.monotonic()
        if latest - began > place.limit:
            bench.say(f"{item.id}: the limit of {place.limit:g} s is reached; the same command goes on from here")
            return


def _remote(shared: tuple[str, str], settings: Settings) -> tuple[Result, float]:
    """One cell in a Ray task."""
    id, device = shared
    item, began = find(id), time.monotonic()
    assert item.run is not None
    return item.run(Bench(item.paper, device=device), settings), time.monotonic() - began


def record_prices(items: Sequence[Item], say: Say = _quiet) -> int:
    """Asks every item for its prices at both scales without training, and writes them down; the number of prices."""
    known: dict[str, int] = {}
    for item in (item for item in items if item.priced):
        bench = Bench(item.paper, dry=True, record=True, say=say)
        for settings in [*item.quick, *item.runs]:
            if item.run is not None:
                item.run(bench, settings)
            elif item.run_population is not None:
                list(item.run_population(bench, [settings]))
        known[item.paper] = len(bench.prices.known)
    return sum(known.values())


def best_seconds(work: Callable[[int], object], repeats: int) -> tuple[float, float]:
    """The least seconds by the clock and of the processors that `work(repeat)` took."""
    spans = []
    for repeat in range(repeats):
        wall, before = time.perf_counter(), os.times()
        work(repeat)
        after = os.times()
        spans.append((time.perf_counter() - wall, after.user - before.user + after.system - before.system))
    return min(wall for wall, _ in spans), min(processor for _, processor in spans)
