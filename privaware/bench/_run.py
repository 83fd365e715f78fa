"""Runs the cells of a benchmark: resumable, in this process, in others or on a Ray cluster.

A finished cell is in the store at once and never runs again; one that failed is there with its reason, stops no other,
and is tried again by the next run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from privaware._files import locked
from privaware.bench import Settings
from privaware.bench._cells import CellOutcome, TrainingPlace, batches, train_cells
from privaware.bench._provenance import commit, machine
from privaware.bench._store import Cell, Store, cell_key
from privaware.errors import WrongInput
from privaware.strategies._workers import Here, Processes, Ray, Workers

__all__ = ["ITEM", "BenchState", "cell_name", "failed_cells", "run_cells"]

ITEM = "bench"
"""The item that cells of a user's own grid belong to."""
Say = Callable[[str], None]


@dataclass
class BenchState:
    """How many cells there are, how many are finished, and why others failed; the rest was not begun."""

    cells: int
    done: int = 0
    failures: dict[str, str] = field(default_factory=dict)

    def json(self) -> dict[str, Any]:
        rest = self.cells - self.done - len(self.failures)
        counts = {"cells": self.cells, "done": self.done, "failed": len(self.failures), "not_begun": rest}
        return {**counts, "failures": [{"cell": name, "reason": reason} for name, reason in self.failures.items()]}


def cell_name(settings: Settings) -> str:
    """A cell as a person names it."""
    epsilon = "without noise" if settings["epsilon"] is None else f"epsilon {settings['epsilon']:g}"
    network = [] if settings["network"] == "-" else [settings["network"]]
    return ", ".join([settings["learner"], *network, settings["data"], epsilon, f"seed {settings['seed']}"])


def failed_cells(cells: Sequence[Cell]) -> dict[str, str]:
    """The reasons of failed cells by name."""
    return {cell_name(cell.settings): cell.result["failed"] for cell in cells if "failed" in cell.result}


def run_cells(
    wanted: Sequence[tuple[str, Settings]],
    store: Store,
    place: TrainingPlace,
    *,
    workers: int = 1,
    ray: str | None = None,
    most: int = 32,
    say: Say = lambda words: None,
) -> BenchState:
    """Every cell, by the item it belongs to, that the store lacks; a worker takes at most `most` of them at a time.

    Two runs at once would train the same cells, so the second is refused.
    """
    with _held(store):
        return _run_missing(wanted, store, place, _workers(workers, ray), most, say)


@contextmanager
def _held(store: Store) -> Iterator[None]:
    """The store is this run's alone until the block or the process ends."""
    folder = store.path.with_name(f".{store.path.name}.lock")
    with ExitStack() as held:
        try:
            held.enter_context(locked(folder))
        except BlockingIOError:
            raise WrongInput(
                f"another run works on the store {store.path.name}; wait until it ends, or take another --store"
            ) from None
        try:
            yield
        finally:
            with suppress(OSError):
                folder.rmdir()


def _run_missing(
    wanted: Sequence[tuple[str, Settings]], store: Store, place: TrainingPlace, workers: Workers, most: int, say: Say
) -> BenchState:
    known = store.read()
    state = BenchState(cells=len(wanted))
    todo = []
    for item, settings in wanted:
        cell = known.get(cell_key(item, settings))
        if cell is not None and "failed" not in cell.result:
            state.done += 1
        else:
            todo.append((item, settings))
    if state.done:
        say(f"{state.done} of {state.cells} cells were finished before")
    groups = _jobs(todo, most)
    facts = {
        "commit": place.commit or commit(),
        "machine": machine(place.device),
        "date": datetime.now(UTC).date().isoformat(),
        **({"command": place.command} if place.command else {}),
    }
    began, trained = time.monotonic(), 0
    jobs = [[settings for _, settings in group] for group in groups]
    for at, outcomes in workers.run_jobs(train_cells, place, jobs):
        if outcomes is None:
            continue
        for (item, settings), outcome in zip(groups[at], outcomes, strict=True):
            store.add(
                Cell(item=item, settings=settings, result=outcome.result, run=facts | _facts(outcome, place, settings))
            )
            if outcome.failed:
                state.failures[cell_name(settings)] = outcome.result["failed"]
                say(f"failed: {cell_name(settings)}: {outcome.result['failed']}")
            else:
                state.done += 1
        trained += len(outcomes)
        left = (time.monotonic() - began) / trained * (len(todo) - trained)
        first, seconds = groups[at][0][1], sum(outcome.seconds for outcome in outcomes)
        what = f"{first['learner']}, {first['network']}, {first['data']}: {len(outcomes)} cells in {seconds:.1f} s"
        say(f"{state.done + len(state.failures)} of {state.cells} cells; {what}; about {left:.0f} s left")
    if rest := state.json()["not_begun"]:
        say(f"the time limit is reached with {rest} cells not begun; the same command goes on from here")
    return state


def _jobs(todo: Sequence[tuple[str, Settings]], most: int) -> list[list[tuple[str, Settings]]]:
    """Batches of cells; cells of different items do not mix."""
    marked = [{**settings, "item": item} for item, settings in todo]
    return [[todo[at] for at in group] for group in batches(marked, most)]


def _workers(count: int, ray: str | None) -> Workers:
    if ray is not None:
        return Ray(ray)
    return Processes(count) if count > 1 else Here()


def _facts(outcome: CellOutcome, place: TrainingPlace, settings: Settings) -> dict[str, Any]:
    default = "float32" if place.device == "cpu" else "tf32"
    precision = settings["settings"].get("precision", default)
    return {"seconds": round(outcome.seconds, 2), "precision": precision}
