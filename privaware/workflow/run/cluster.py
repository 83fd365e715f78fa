"""Rows in parts that workers on several machines hold: the same sums, whoever holds a part and whoever is lost.

A part is a function of its piece of a file and of public values: the functions it goes through, and the changes since.
So the pieces of a worker that is lost go to others, which read them again and follow the log of public steps from its
beginning; sums are exact and merged in the order of pieces, so that no result shows it. Noise is drawn once, here.

The workers hold private rows and this process sees exact sums of them: both belong to the owner of the rows.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol, TypeVar

from privaware.data import ChangingParts, HeldParts, LocalParts, Parts, Sum
from privaware.data._parts import Join, merged
from privaware.errors import PrivawareError
from privaware.noise import Rng

__all__ = ["Cluster", "ClusterParts", "HeldClusterParts", "Pool", "Question", "Run", "Worker"]

B = TypeVar("B")
C = TypeVar("C")
P = TypeVar("P")


NUMBERS = itertools.count()
"""Of the clusters of this process."""

Piece = Callable[[], Iterable[Any]]
"""Reads its part of a table, wherever it is called: some rows at a time, at least once."""


@dataclass(frozen=True, kw_only=True)
class View:
    """Parts as a function of a piece, or of what is held of it under `key`."""

    key: int | None = None
    functions: tuple[Callable[[Any], Any], ...] = ()

    def parts(self, piece: Piece, held: Mapping[int, HeldParts[Any]]) -> LocalParts[Any]:
        start = LocalParts(piece) if self.key is None else held[self.key]
        return reduce(lambda parts, function: parts.map(function), self.functions, start)


@dataclass(frozen=True, kw_only=True)
class Hold:
    """Makes something of each part and holds it under `key`."""

    key: int
    view: View
    make: Callable[[Any], Any]
    join: Join[Any] | None = None

    def apply(self, piece: Piece, held: dict[int, HeldParts[Any]]) -> None:
        held[self.key] = self.view.parts(piece, held).held(self.make, self.join)


@dataclass(frozen=True, kw_only=True)
class Change:
    """Changes what is held, in place."""

    key: int
    change: Callable[[Any], None]

    def apply(self, piece: Piece, held: dict[int, HeldParts[Any]]) -> None:
        held[self.key].update(self.change)


@dataclass(frozen=True, kw_only=True)
class Drop:
    """Holds it no longer."""

    key: int

    def apply(self, piece: Piece, held: dict[int, HeldParts[Any]]) -> None:
        del held[self.key]


Step = Hold | Change | Drop


@dataclass(frozen=True, kw_only=True)
class Question:
    """The partial sums of `view` over some pieces, each with its number and how many steps it has followed.

    `steps` are those of the log from the `first` on that one of the pieces lacks. `cluster` tells the pieces of one
    table from those of another on the same workers.
    """

    cluster: int
    what: Sum[Any, Any, Any]
    view: View
    pieces: tuple[tuple[int, Piece, int], ...]
    first: int
    steps: tuple[Step, ...]


@dataclass(frozen=True, kw_only=True)
class Run:
    """The merged partial sum of the pieces from `start` to just before `end`."""

    start: int
    end: int
    partial: Any

    def joined(self, following: Run, what: Sum[Any, Any, Any]) -> Run:
        return Run(start=self.start, end=following.end, partial=what.merge(self.partial, following.partial))


class Worker:
    """What runs on a machine of the cluster: it reads pieces, holds what it was asked to, and answers with sums."""

    def __init__(self) -> None:
        self._held: dict[tuple[int, int], dict[int, HeldParts[Any]]] = {}

    def partials(self, question: Question) -> list[Run] | PrivawareError:
        """Sums over runs of neighbouring pieces, or what is wrong with the rows, in a sentence."""
        runs: list[Run] = []
        try:
            for number, piece, followed in question.pieces:
                held = self._up_to_date(question, number, piece, followed)
                run = Run(start=number, end=number + 1, partial=question.view.parts(piece, held).total(question.what))
                if runs and runs[-1].end == number:
                    run = runs.pop().joined(run, question.what)
                runs.append(run)
        except PrivawareError as problem:
            return problem
        return runs

    def _up_to_date(self, question: Question, number: int, piece: Piece, followed: int) -> dict[int, HeldParts[Any]]:
        """What is held of a piece after all steps of the log; one that has followed none begins anew."""
        place = question.cluster, number
        if not followed:
            self._held[place] = {}
        held = self._held[place]
        for step in question.steps[followed - question.first :]:
            step.apply(piece, held)
        return held


class Pool(Protocol):
    """Workers by number, until they are lost."""

    def alive(self) -> list[int]:
        """The workers that can be asked; without one, the pool says in a sentence what to do."""
        ...

    def ask(self, questions: Mapping[int, Question]) -> Iterator[tuple[int, list[Run] | PrivawareError | None]]:
        """Each worker's answer, in any order; None of one that is lost."""
        ...


class Cluster:
    """The pieces of a table on a pool of workers: who holds which, and how far each has followed the log.

    Several may share a pool. `near` says that this process can read the pieces, too.
    """

    def __init__(self, pool: Pool, pieces: Sequence[Piece], *, near: bool = False) -> None:
        self._pool, self._pieces, self._near, self._number = pool, list(pieces), near, next(NUMBERS)
        self._log: list[Step] = []
        self._keys = itertools.count()
        workers = pool.alive()
        self._holder = [workers[at * len(workers) // len(self._pieces)] for at in range(len(self._pieces))]
        self._followed = [0] * len(self._pieces)

    @property
    def parts(self) -> ClusterParts[Any]:
        """The parts that the pieces read."""
        return ClusterParts(self, View())

    def listed(self, view: View) -> list[Any]:
        """All parts in this process; rows that it can read are not sent to it."""
        if self._near and view.key is None:
            return view.parts(lambda: itertools.chain.from_iterable(piece() for piece in self._pieces), {}).listed()
        return merged(_Listed(), [run.partial for run in self.runs(_Listed(), view)])

    def hold(self, view: View, make: Callable[[Any], Any], join: Join[Any] | None = None) -> int:
        """The key of what is held from the next sum on."""
        key = next(self._keys)
        self._log.append(Hold(key=key, view=view, make=make, join=join))
        return key

    def follow(self, step: Step) -> None:
        """Adds a step, which every piece follows before its next sum."""
        self._log.append(step)

    def runs(self, what: Sum[Any, Any, Any], view: View) -> list[Run]:
        """The sums over all pieces, in their order."""
        runs: list[Run] = []
        missing = set(range(len(self._pieces)))
        while missing:
            for lost in set(self._holder) - set(self._pool.alive()):  # while another cluster asked
                self._reassign(lost)
            for worker, answer in self._pool.ask(self._questions(what, view, missing)):
                if answer is None:
                    self._reassign(worker)
                elif isinstance(answer, PrivawareError):
                    raise answer
                else:
                    runs += answer
            missing = set(range(len(self._pieces))) - {at for run in runs for at in range(run.start, run.end)}
        return sorted(runs, key=lambda run: run.start)

    def _questions(self, what: Sum[Any, Any, Any], view: View, missing: set[int]) -> dict[int, Question]:
        questions, end = {}, len(self._log)  # a finalizer may add a step at any time
        for worker in sorted({self._holder[at] for at in missing}):
            numbers = [at for at in sorted(missing) if self._holder[at] == worker]
            first = min(self._followed[at] for at in numbers)
            questions[worker] = Question(
                cluster=self._number,
                what=what,
                view=view,
                pieces=tuple((at, self._pieces[at], self._followed[at]) for at in numbers),
                first=first,
                steps=tuple(self._log[first:end]),
            )
            for at in numbers:
                self._followed[at] = end
        return questions

    def _reassign(self, lost: int) -> None:
        """Gives the pieces of a lost worker to the others, in turn."""
        workers = itertools.cycle(self._pool.alive())
        for at, holder in enumerate(self._holder):
            if holder == lost:
                self._holder[at], self._followed[at] = next(workers), 0


class _Listed(Sum[Any, list[Any], None]):
    """The parts themselves: for mechanisms that need all rows at once, on this machine, and never released."""

    def partial(self, part: Any) -> list[Any]:
        return [part]

    def merge(self, left: list[Any], right: list[Any]) -> list[Any]:
        return left + right

    def release(self, total: list[Any], noise: float, rng: Rng) -> None:
        raise NotImplementedError("rows are private")


class ClusterParts(Parts[B]):
    """`Parts` on a cluster: functions are called where a piece is, anew in each total.

    `source` are the held parts that they begin with, which live as long as these.
    """

    def __init__(self, cluster: Cluster, view: View, source: HeldClusterParts[Any] | None = None) -> None:
        self._cluster, self._view, self._source = cluster, view, source

    def total(self, what: Sum[B, P, Any]) -> P:
        return merged(what, [run.partial for run in self._cluster.runs(what, self._view)])

    def map(self, function: Callable[[B], C]) -> ClusterParts[C]:
        return ClusterParts(self._cluster, self._after(function), self._source)

    def held(self, make: Callable[[B], C], join: Join[C] | None = None) -> HeldClusterParts[C]:
        return HeldClusterParts(self._cluster, self._cluster.hold(self._view, make, join))

    def listed(self) -> list[B]:
        return self._cluster.listed(self._view)

    def _after(self, function: Callable[[B], Any]) -> View:
        return View(key=self._view.key, functions=(*self._view.functions, function))


class HeldClusterParts(ClusterParts[B], ChangingParts[B]):
    """`ChangingParts` on a cluster, held there as long as this object lives."""

    def __init__(self, cluster: Cluster, key: int) -> None:
        super().__init__(cluster, View(key=key))
        self._key = key
        weakref.finalize(self, cluster.follow, Drop(key=key))

    def map(self, function: Callable[[B], C]) -> ClusterParts[C]:
        return ClusterParts(self._cluster, self._after(function), self)

    def update(self, change: Callable[[B], None]) -> None:
        self._cluster.follow(Change(key=self._key, change=change))
