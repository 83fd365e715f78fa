"""Run the cells of a benchmark: resumable, in this process, in others or on a Ray cluster.

All cells are trained first, then their models are attacked. The store has a trained cell before its model is attacked,
so the next run does not train it again, unless the file of a model that is still to be attacked is missing. The store
has a failed training or attack with its reason; it stops no other cell, and the next run tries it again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from privaware._files import locked_beside
from privaware.bench import Settings
from privaware.bench._cells import CellOutcome, TrainingPlace, attack_cells, batches, train_cells, unattacked
from privaware.bench._kept import KeptModels
from privaware.bench._store import Cell, Store, cell_key, commit, machine
from privaware.strategies._workers import Here, Processes, Ray, Workers

ITEM = "bench"
"""The item of the cells of a user's own grid; cells of a paper have a table or figure as item."""
Say = Callable[[str], None]
Wanted = tuple[str, Settings]
"""The item of a cell (the name of its table, figure or grid) and the settings of the cell."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why the training of a cell failed, or one of its attacks.

    `cell` is the name of the cell (`cell_name`), and `key` tells it from every other cell (`cell_key`). `attack` is the
    label of the failed attack, or None for a training.
    """

    cell: str
    key: str
    reason: str
    attack: str | None = None

    def json(self) -> dict[str, str]:
        """Return the name of the cell, the attack, if one failed, and the reason."""
        attack = {} if self.attack is None else {"attack": self.attack}
        return {"cell": self.cell, **attack, "reason": self.reason}


@dataclass
class BenchState:
    """How far a benchmark is: the number of cells, of trained cells, and why trainings and attacks failed.

    `done` counts trained cells, attacked or not. `not_attacked` counts trained cells whose attacks have neither ended
    nor failed. `failures` has an entry for each failed training, and `attack_failures` for each failed attack.
    """

    cells: int
    done: int = 0
    not_attacked: int = 0
    failures: list[Failure] = field(default_factory=list)
    attack_failures: list[Failure] = field(default_factory=list)

    def json(self) -> dict[str, Any]:
        """Return the state as plain values: the counts, and lists of failed trainings and attacks with their reasons.

        `failures` has dicts with `cell` and `reason`, and `attack_failures` also with `attack`. `not_begun` is the
        number of cells that are neither trained nor failed. `attacks_failed` counts cells with at least one failed
        attack.
        """
        return {
            "cells": self.cells,
            "done": self.done,
            "failed": len(self.failures),
            "not_begun": self.cells - self.done - len(self.failures),
            "attacks_failed": cells_in(self.attack_failures),
            "not_attacked": self.not_attacked,
            "failures": [failure.json() for failure in self.failures],
            "attack_failures": [failure.json() for failure in self.attack_failures],
        }


def cell_name(settings: Settings) -> str:
    """Return a cell in words, such as "dpsgd (steps=9), small, mnist, epsilon 1, seed 0".

    These are the learner with the settings that the grid gives it, the network, data, epsilon and seed. A network that
    cannot be chosen is left out. A baseline, which has no epsilon, has the words "without noise".
    """
    epsilon = "without noise" if settings["epsilon"] is None else f"epsilon {settings['epsilon']:g}"
    network = [] if settings["network"] == "-" else [settings["network"]]
    changed = ", ".join(f"{name}={value}" for name, value in settings.get("settings", {}).items())
    learner = f"{settings['learner']} ({changed})" if changed else settings["learner"]
    return ", ".join([learner, *network, settings["data"], epsilon, f"seed {settings['seed']}"])


def failed_cells(cells: Sequence[Cell]) -> list[Failure]:
    """Return why trainings failed, an entry for each failed cell."""
    return [_failures(cell)[0] for cell in cells if "failed" in cell.result]


def failed_attacks(cells: Sequence[Cell]) -> list[Failure]:
    """Return why attacks failed, an entry for each failed attack of a cell."""
    return [failure for cell in cells for failure in _failures(cell) if failure.attack is not None]


def cells_in(failures: Sequence[Failure]) -> int:
    """Return the number of different cells in `failures`."""
    return len({failure.key for failure in failures})


def _failures(cell: Cell) -> list[Failure]:
    """Return an entry for the failed training of the cell, or for each of its failed attacks."""
    name = cell_name(cell.settings)
    if "failed" in cell.result:
        return [Failure(cell=name, key=cell.key, reason=cell.result["failed"])]
    reasons = cell.result.get("attack_failures", {})
    return [Failure(cell=name, key=cell.key, reason=reason, attack=attack) for attack, reason in reasons.items()]


def run_cells(
    wanted: Sequence[Wanted],
    store: Store,
    place: TrainingPlace,
    *,
    workers: int = 1,
    ray: str | None = None,
    most: int = 32,
    say: Say = lambda words: None,
) -> BenchState:
    """Train every cell in `wanted` that the store lacks or has as failed, attack the models, and return the state.

    The models of all trained cells in `wanted` that lack the result of an attack are attacked. `wanted` has pairs of an
    item (the name of the table, figure or grid) and the settings of a cell. A worker takes at most `most` cells at a
    time. `ray` is the address of a Ray cluster. Without one, `workers` processes run (this process alone for 1). The
    function `say` gets lines about the progress. Cells that are not begun at the deadline of `place` stay out of the
    store. Raise `WrongInput` at once if another run works on the store.
    """
    state = BenchState(cells=len(wanted))
    busy = f"another run works on the store {store.path.name}; wait until it ends, or take another store"
    with locked_beside(store.path, busy):
        run = _Run(store=store, place=place, workers=_workers(workers, ray), most=most, say=say, state=state)
        _run_missing(run, wanted)
    return state


@dataclass
class _Run:
    """One run of a benchmark: it trains and attacks cells, and records each result in `store` with its provenance.

    `workers` work on batches of at most `most` cells at `place`, `say` prints progress, and `state` counts failures.
    """

    store: Store
    place: TrainingPlace
    workers: Workers
    most: int
    say: Say
    state: BenchState

    @property
    def kept(self) -> KeptModels:
        return KeptModels.of(self.store)

    def train(self, todo: Sequence[Wanted]) -> None:
        """Train the cells `todo`, and store each result, or the reason of its failure, as soon as its batch has ended.

        A model that is to be attacked is written to a file first. `state` counts trained and failed cells.
        """
        facts = {
            "commit": self.place.commit or commit(),
            "machine": machine(self.place.device),
            "date": datetime.now(UTC).date().isoformat(),
            **({"command": self.place.command} if self.place.command else {}),
        }
        for item, settings, outcome in self._outcomes(train_cells, todo, [settings for _, settings in todo]):
            run = facts | _facts(outcome, self.place, settings)
            if outcome.model is not None:
                self.kept.keep(settings, outcome.model)
            cell = Cell(item=item, settings=settings, result=outcome.result, run=run)
            self.store.add(cell)
            if outcome.failed:
                self.state.failures += failed_cells([cell])
                self.say(f"failed: {cell_name(settings)}: {outcome.result['failed']}")
            else:
                self.state.done += 1

    def attack(self, trained: Sequence[Cell]) -> None:
        """Attack the models of the cells `trained`, and store the results of the attacks together with the scores.

        The reasons of failed attacks are stored, too. The file of a model is removed if none of its attacks failed.
        """
        self.state.not_attacked = len(trained)
        known = {cell.key: cell for cell in trained}
        jobs = [(cell.item, cell.settings) for cell in trained]
        given = [(settings, self.kept.path(settings)) for _, settings in jobs]
        for item, settings, outcome in self._outcomes(attack_cells, jobs, given):
            before = known[cell_key(item, settings)]
            result = {name: value for name, value in before.result.items() if name != "attack_failures"}
            run = {**before.run, "attack_seconds": round(outcome.seconds, 2)}
            cell = Cell(item=item, settings=settings, result={**result, **outcome.result}, run=run)
            self.store.add(cell)
            self.state.not_attacked -= 1
            failures = failed_attacks([cell])
            if not failures:
                self.kept.drop(settings)
            self.state.attack_failures += failures
            for failure in failures:
                self.say(f"attack failed: {failure.cell}: {failure.attack}: {failure.reason}")

    def _outcomes(
        self, work: Any, wanted: Sequence[Wanted], given: Sequence[Any]
    ) -> Iterator[tuple[str, Settings, CellOutcome]]:
        """Run `work` (`train_cells` or `attack_cells`) on batches, and yield item, settings and outcome of each cell.

        `wanted` has the item and the settings of each cell, and `given` what `work` gets for it. Batches are yielded as
        they end, and after each a line of progress is said. A batch that was not begun before the deadline is left out.
        """
        groups = _jobs(wanted, self.most)
        jobs = [[given[at] for at in group] for group in groups]
        began, ended = time.monotonic(), 0
        for number, outcomes in self.workers.run_jobs(work, self.place, jobs):
            if outcomes is None:
                continue
            for at, outcome in zip(groups[number], outcomes, strict=True):
                yield *wanted[at], outcome
            ended += len(outcomes)
            left = (time.monotonic() - began) / ended * (len(wanted) - ended)
            first, seconds = wanted[groups[number][0]][1], sum(outcome.seconds for outcome in outcomes)
            which = f"{first['learner']}, {first['network']}, {first['data']}: {len(outcomes)} cells in {seconds:.1f} s"
            state = self.state
            count = f"{state.done + len(state.failures)} of {state.cells} cells"
            if work is attack_cells:
                count = f"{ended} of {len(wanted)} models attacked"
            self.say(f"{count}; {which}; about {left:.0f} s left")


def _run_missing(run: _Run, wanted: Sequence[Wanted]) -> None:
    known = run.store.read()
    state = run.state
    todo = []
    for item, settings in wanted:
        cell = known.get(cell_key(item, settings))
        if cell is not None and "failed" not in cell.result:
            state.done += 1
        else:
            todo.append((item, settings))
    if state.done:
        run.say(f"{state.done} of {state.cells} cells were finished before")
    run.train(todo)
    known = run.store.read()
    trained = [known[key] for key in (cell_key(*pair) for pair in wanted) if key in known]
    run.attack([cell for cell in trained if "failed" not in cell.result and unattacked(cell.settings, cell.result)])
    if state.json()["not_begun"] or state.not_attacked:
        run.say(
            f"the time limit is reached with {state.json()['not_begun']} cells not begun and {state.not_attacked} not "
            "attacked; run the same command again to continue"
        )


def _jobs(todo: Sequence[Wanted], most: int) -> list[list[int]]:
    """Return batches, each a list of positions in `todo`, of cells of one item that differ in epsilon and seed only.

    A batch has at most `most` cells. Each position is in exactly one batch.
    """
    return batches([{**settings, "item": item} for item, settings in todo], most)


def _workers(count: int, ray: str | None) -> Workers:
    if ray is not None:
        return Ray(ray)
    return Processes(count) if count > 1 else Here()


def _facts(outcome: CellOutcome, place: TrainingPlace, settings: Settings) -> dict[str, Any]:
    default = "float32" if place.device == "cpu" else "tf32"
    precision = settings["settings"].get("precision", default)
    return {"seconds": round(outcome.seconds, 2), "precision": precision}
