"""What is summed over rows that may not fit into memory: `partial` of a part, `merge` of two, `release` of the total.

Rows come in parts: a slice of an array, a piece of a file, or what a worker on another machine holds. Everything that a
mechanism learns of them is a `Sum`. Its partial sums are exact (whole numbers, or multiples of a public lattice step,
see `exact_sums`), so that merging them in any order gives the same bits: neither how rows are cut into parts nor which
part is ready first can be seen in a result. Noise is drawn once, from the total.

>>> class Count(Sum[list[int], int, float]):
...     def partial(self, part):
...         return len(part)
...     def merge(self, left, right):
...         return left + right
...     def release(self, total, noise, rng):
...         return float(rng.laplace(float(total), noise=noise, sensitivity=1.0))
>>> parts = HeldParts([[1, 2, 3], [4], [5, 6]])
>>> parts.total(Count())
6
>>> abs(release(Count(), parts, 1e-9, Rng(seed=1)) - 6.0) < 1e-6
True
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import reduce
from typing import Any, Protocol, TypeVar

from privaware.noise import Rng

__all__ = [
    "ChangingParts",
    "HeldParts",
    "Join",
    "LocalParts",
    "Parts",
    "Sum",
    "in_order",
    "merged",
    "release",
    "threads",
]

B = TypeVar("B")
C = TypeVar("C")
P = TypeVar("P")
R = TypeVar("R")
B_in = TypeVar("B_in", contravariant=True)
B_out = TypeVar("B_out", covariant=True)
R_out = TypeVar("R_out", covariant=True)


Join = Callable[[list[C]], C]
"""One part of several neighbours, which have a length: their numbers of rows."""

HELD = 2**18
"""Rows from which on a part that is held is large enough."""


class Sum(Protocol[B_in, P, R_out]):
    """A release of what is summed over rows. Its fields are public: settings, and what was released before.

    It is pickled to reach other machines, and called there on the parts they hold.
    """

    def partial(self, part: B_in) -> P:
        """The exact sum over the rows of one part, which may have none; the part stays as it is."""
        ...

    def merge(self, left: P, right: P) -> P:
        """The exact sum of both: associative and commutative, bit for bit. It may reuse `left`."""
        ...

    def release(self, total: P, noise: float, rng: Rng) -> R_out:
        """What is released of the total of all parts: the only place that draws noise."""
        ...


class Parts(Protocol[B_out]):
    """Rows in parts: on this machine (`LocalParts`), or on others."""

    def total(self, what: Sum[B_out, P, Any]) -> P:
        """The exact sum over all parts."""
        ...

    def map(self, function: Callable[[B_out], C]) -> Parts[C]:
        """The same parts after `function`, which is called anew in each total: nothing is held."""
        ...

    def held(self, make: Callable[[B_out], C], join: Join[C] | None = None) -> ChangingParts[C]:
        """What `make` returns for each part, made once and held in memory, such as rows coded into bytes.

        With `join` neighbours are held as one, up to `HELD` rows: a total over few large parts is faster.
        """
        ...

    def listed(self) -> Sequence[B_out]:
        """All parts in the memory of this process, in their order."""
        ...


class ChangingParts(Parts[B_out], Protocol[B_out]):
    """Parts that are held, with a state that changes from one total to the next."""

    def update(self, change: Callable[[B_out], None]) -> None:
        """Changes each part in place before the next total, such as the outputs of a model after another tree.

        A part that has to be made again, because a machine was lost, gets all changes again, in order.
        """
        ...


def release(what: Sum[B, P, R], parts: Parts[B], noise: float, rng: Rng) -> R:
    """What a sum releases of all rows: the total of its parts, then noise, once."""
    return what.release(parts.total(what), noise, rng)


class LocalParts(Parts[B]):
    """Parts that this process reads, anew in each total; threads work on several at once."""

    def __init__(self, read: Callable[[], Iterable[Any]], functions: tuple[Callable[[Any], Any], ...] = ()) -> None:
        self._read, self._functions = read, functions

    def total(self, what: Sum[B, P, Any]) -> P:
        return merged(what, self.each(what.partial))

    def map(self, function: Callable[[B], C]) -> LocalParts[C]:
        return LocalParts(self._read, (*self._functions, function))

    def held(self, make: Callable[[B], C], join: Join[C] | None = None) -> HeldParts[C]:
        made = self.each(make)
        return HeldParts(made if join is None else _neighbours(made, join))

    def listed(self) -> list[B]:
        return list(self.each(lambda part: part))

    def each(self, function: Callable[[B], C]) -> Iterator[C]:
        """`function` of each part in their order; few of them are in memory at once."""
        functions = (*self._functions, function)
        return in_order(lambda part: reduce(lambda value, step: step(value), functions, part), self._read())


class HeldParts(LocalParts[B], ChangingParts[B]):
    """Parts in the memory of this process."""

    def __init__(self, parts: Iterable[B]) -> None:
        self._held = list(parts)
        super().__init__(self._changed)
        self._changes: list[Callable[[B], None]] = []

    def total(self, what: Sum[B, P, Any]) -> P:
        changes, self._changes = self._changes, []

        def partial(part: B) -> P:
            for change in changes:
                change(part)
            return what.partial(part)

        return merged(what, self.each(partial))

    def _changed(self) -> list[B]:
        """The parts for a map of them, after the changes that no total has made yet."""
        changes, self._changes = self._changes, []
        for part in self._held if changes else ():
            for change in changes:
                change(part)
        return self._held

    def update(self, change: Callable[[B], None]) -> None:
        self._changes.append(change)


def _neighbours(parts: Iterable[Any], join: Join[Any]) -> Iterator[Any]:
    """Neighbouring parts as one, each of `HELD` rows or more except for the last."""
    few: list[Any] = []
    for part in parts:
        few.append(part)
        if sum(map(len, few)) >= HELD:
            yield join(few)
            few = []
    if few:
        yield join(few)


def merged(what: Sum[Any, P, Any], partials: Iterable[P]) -> P:
    """All partial sums as one; there is at least one part."""
    return reduce(what.merge, partials)


def in_order(function: Callable[[B], C], parts: Iterable[B]) -> Iterator[C]:
    """`function` of each part, by as many threads as there are processors; few parts are in memory at once."""
    workers = threads()
    if workers == 1:
        yield from map(function, parts)
        return
    with ThreadPoolExecutor(workers) as pool:
        running: deque[Future[C]] = deque()
        try:
            for part in parts:
                running.append(pool.submit(copy_context().run, function, part))
                if len(running) > workers:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            for future in running:
                future.cancel()


def threads() -> int:
    """How many threads sum parts: the processors of this process, or fewer if OMP_NUM_THREADS says so."""
    declared = os.environ.get("OMP_NUM_THREADS", "")
    return min(len(os.sched_getaffinity(0)), int(declared) if declared.isdigit() and int(declared) > 0 else 1024)
