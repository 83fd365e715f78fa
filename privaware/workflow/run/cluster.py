"""Sums over a table whose parts are held by several workers; the results do not depend on the number of workers.

A part is a function of a piece of a file and of public values (the functions and changes applied to it). If a worker is
lost, its pieces go to other workers. They read the pieces again and repeat the log of public steps from the start. Sums
are exact and are merged in the order of the pieces, so a lost worker does not change any result. Noise is drawn once,
in this process.

The workers hold private rows, and this process sees exact sums over them: both must belong to the owner of the rows.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
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
"""Counter that numbers the clusters of this process."""

Piece = Callable[[], Iterable[Any]]
"""A function that reads one piece of a table, on any machine; it yields its rows in one or more parts."""


@dataclass(frozen=True, kw_only=True)
class View:
    """The parts of a piece after `functions`, the first of which is applied first.

    Without `key`, the functions apply to each part as it is read from the piece. With `key`, they apply to the results
    that an earlier step computed from the piece and holds in memory under this number.
    """

    key: int | None = None
    functions: tuple[Callable[[Any], Any], ...] = ()

    def parts(self, piece: Piece, held: Mapping[int, HeldParts[Any]]) -> LocalParts[Any]:
        start = LocalParts(piece) if self.key is None else held[self.key]
        return reduce(lambda parts, function: parts.map(function), self.functions, start)


Held = dict[int, HeldParts[Any]]
"""The held parts of one piece, by their key."""
Step = Callable[[Piece, Held], None]
"""A change to the held parts of a piece, from public values; it is logged so that another worker can repeat it."""


def _hold(key: int, view: View, make: Callable[[Any], Any], join: Join[Any] | None, piece: Piece, held: Held) -> None:
    """Compute `make` of each part of `view` on `piece`, and store the results in `held` under `key`.

    `join`, if given, merges small neighbouring results (see `Parts.held`).
    """
    held[key] = view.parts(piece, held).held(make, join)


def _change(key: int, change: Callable[[Any], None], piece: Piece, held: Held) -> None:
    """Call `change` with each part held under `key`, which changes the part in place; `piece` is not read."""
    held[key].update(change)


def _drop(key: int, piece: Piece, held: Held) -> None:
    """Delete the parts held under `key`."""
    del held[key]


@dataclass(frozen=True, kw_only=True)
class Question:
    """A request for the partial sums by `what` over the `view` of some pieces.

    Each entry of `pieces` is the number of a piece, its reader, and the number of log steps that it has followed.
    `steps` are the log steps from number `first` on. `cluster` distinguishes the tables that share the same workers.
    """

    cluster: int
    what: Sum[Any, Any, Any]
    view: View
    pieces: tuple[tuple[int, Piece, int], ...]
    first: int
    steps: tuple[Step, ...]


@dataclass(frozen=True, kw_only=True)
class Run:
    """The merged partial sum over the pieces `start` to `end - 1`."""

    start: int
    end: int
    partial: Any


class Worker:
    """The part of a cluster that runs on one machine: it reads pieces, holds parts of them, and answers with sums."""

    def __init__(self) -> None:
        self._held: dict[tuple[int, int], Held] = {}

    def partials(self, question: Question) -> list[Run] | PrivawareError:
        """Return the sums by `question.what`, or the error that describes what is wrong with the rows.

        Before its sum, each piece follows the log steps that it has not followed yet. The sums of pieces with
        consecutive numbers are merged into one `Run`. The error is returned, not raised.
        """
        runs: list[Run] = []
        try:
            for number, piece, followed in question.pieces:
                held = self._up_to_date(question, number, piece, followed)
                start, total = number, question.view.parts(piece, held).total(question.what)
                if runs and runs[-1].end == number:
                    before = runs.pop()
                    start, total = before.start, question.what.merge(before.partial, total)
                runs.append(Run(start=start, end=number + 1, partial=total))
        except PrivawareError as problem:
            return problem
        return runs

    def _up_to_date(self, question: Question, number: int, piece: Piece, followed: int) -> Held:
        """Apply the log steps that a piece has not followed yet, and return the results held for this piece.

        `number` is the number of the piece, and `followed` is how many steps it has followed; at 0 it starts empty.
        """
        place = question.cluster, number
        if not followed:
            self._held[place] = {}
        held = self._held[place]
        for step in question.steps[followed - question.first :]:
            step(piece, held)
        return held


class Pool(Protocol):
    """Numbered workers, some of which may be lost."""

    def alive(self) -> list[int]:
        """Return the workers that can be asked; raise `WrongInput` with advice if there are none."""
        ...

    def ask(self, questions: Mapping[int, Question]) -> Iterator[tuple[int, list[Run] | PrivawareError | None]]:
        """Send each worker the question under its number; yield each worker's number with its answer, in any order.

        An answer is a list of sums over runs of pieces, or the error that says what is wrong with the rows. The answer
        of a lost worker is None.
        """
        ...


class Cluster:
    """The pieces of a table on a pool of workers.

    `pieces` are the readers of the pieces, in order. The cluster records which worker holds which piece, and how many
    log steps each piece has followed. Several clusters may share a pool. `near` says that this process can read the
    pieces, too.
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
        """The parts of all pieces of the table, as the pieces are read, without further functions."""
        return ClusterParts(self, View())

    def listed(self, view: View) -> list[Any]:
        """Return all parts of `view` in this process, in the order of the pieces.

        If this process can read the pieces, and `view` has no held parts, it reads them itself. Otherwise the workers
        send them.
        """
        if self._near and view.key is None:
            return view.parts(lambda: itertools.chain.from_iterable(piece() for piece in self._pieces), {}).listed()
        return merged(_Listed(), [run.partial for run in self.runs(_Listed(), view)])

    def hold(self, view: View, make: Callable[[Any], Any], join: Join[Any] | None = None) -> int:
        """Let workers keep `make(part)` of each part of `view` in memory from the next sum on; return the key for it.

        `join`, if given, merges the results of `make` for small neighbouring parts, as in `Parts.held`.
        """
        key = next(self._keys)
        self._log.append(partial(_hold, key, view, make, join))
        return key

    def follow(self, step: Step) -> None:
        """Add a step to the log, which every piece follows before its next sum."""
        self._log.append(step)

    def runs(self, what: Sum[Any, Any, Any], view: View) -> list[Run]:
        """Return the sums by `what` of `view` over runs of pieces, in their order; together the runs cover all pieces.

        Pieces of lost workers are asked again from other workers. An error about the rows is raised.
        """
        runs: list[Run] = []
        missing = set(range(len(self._pieces)))
        while missing:
            for lost in set(self._holder) - set(self._pool.alive()):  # lost while another cluster used the pool
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
        """Assign the pieces of the worker with the number `lost` to the remaining workers in turn.

        Such a piece then follows all steps of the log again.
        """
        workers = itertools.cycle(self._pool.alive())
        for at, holder in enumerate(self._holder):
            if holder == lost:
                self._holder[at], self._followed[at] = next(workers), 0


class _Listed(Sum[Any, list[Any], None]):
    """A sum that collects the parts themselves in a list, for mechanisms that need all rows on this machine at once.

    The list is never released.
    """

    def partial(self, part: Any) -> list[Any]:
        return [part]

    def merge(self, left: list[Any], right: list[Any]) -> list[Any]:
        return left + right

    def release(self, total: list[Any], noise: float, rng: Rng) -> None:
        raise NotImplementedError("rows are private")


class ClusterParts(Parts[B]):
    """`Parts` on a cluster: functions are applied on the workers, again for each sum.

    `source` are the held parts to which the functions are applied; they are kept alive as long as this object.
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
    """`ChangingParts` on a cluster, held by the workers as long as this object lives."""

    def __init__(self, cluster: Cluster, key: int) -> None:
        super().__init__(cluster, View(key=key))
        self._key = key
        weakref.finalize(self, cluster.follow, partial(_drop, key))

    def map(self, function: Callable[[B], C]) -> ClusterParts[C]:
        return ClusterParts(self._cluster, self._after(function), self)

    def update(self, change: Callable[[B], None]) -> None:
        self._cluster.follow(partial(_change, self._key, change))
