"""Sums over rows that may not fit into memory: `partial` of a part, `merge` of two, `release` of the total.

Rows come in parts: a slice of an array, a piece of a file, or the rows of a worker on another machine. Everything that
a mechanism learns from them is a `Sum`. Partial sums are exact (integers, or multiples of a public power of two, see
`exact_sums`), so merging them in any order gives the same bits. The result therefore depends neither on how rows are
cut into parts nor on which part is ready first. Noise is added once, to the total.

>>> class Count(Sum[list[int], int, float]):
...     def partial(self, part):
...         return len(part)
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

from privaware.exact_sums import Total
from privaware.noise import Rng

B = TypeVar("B")
C = TypeVar("C")
P = TypeVar("P")
R = TypeVar("R")
B_in = TypeVar("B_in", contravariant=True)
B_out = TypeVar("B_out", covariant=True)
R_out = TypeVar("R_out", covariant=True)


Join = Callable[[list[C]], C]
"""A function that joins several neighbouring parts; the length of a part is its number of rows."""

MIN_HELD_ROWS = 2**18
"""Number of rows from which neighbouring held parts are not joined further."""


class Sum(Protocol[B_in, P, R_out]):
    """The interface of a release of a sum over rows. Its fields are public: settings, and earlier releases.

    A `Sum` is pickled to reach other machines, and is called there on the parts of the rows that they hold.
    """

    def partial(self, part: B_in) -> P:
        """Return the exact sum over the rows of one part, which may have none, without changing the part."""
        ...

    def merge(self, left: P, right: P) -> P:
        """Return the exact sum of the partial sums `left` and `right`; it may be `left`, changed in place.

        The operation is associative and commutative bit for bit. By default, tuples and lists are added item by item,
        two `Total` by `Total.merge`, and anything else by `left + right`.
        """
        return _added(left, right)

    def release(self, total: P, noise: float, rng: Rng) -> R_out:
        """Return the release: `total`, the exact sum over all parts, with noise.

        `noise` is the noise multiplier. No other method of a `Sum` draws from `rng`. By default raise `TypeError`:
        there is no release, because the sum stays in memory or its caller adds the noise.
        """
        raise TypeError(f"{type(self).__name__} has no release of its own")


def _added(left: Any, right: Any) -> Any:
    if isinstance(left, (tuple, list)):
        return type(left)(_added(one, other) for one, other in zip(left, right, strict=True))
    return left.merge(right) if isinstance(left, Total) else left + right


class Parts(Protocol[B_out]):
    """The interface of rows in parts, on this machine (`LocalParts`) or on others."""

    def total(self, what: Sum[B_out, P, Any]) -> P:
        """Return the exact sum `what` over all parts, without noise; there must be at least one part."""
        ...

    def map(self, function: Callable[[B_out], C]) -> Parts[C]:
        """Return the same parts after `function`, which maps each part by itself.

        It is called anew whenever the parts are used; its results are not kept in memory.
        """
        ...

    def held(self, make: Callable[[B_out], C], join: Join[C] | None = None) -> ChangingParts[C]:
        """Return the results of `make` for each part, computed once and kept in memory, such as rows coded into bytes.

        If `join` is given, neighbouring results are joined by it until they have `MIN_HELD_ROWS` rows, because a total
        over few large parts is faster.
        """
        ...

    def listed(self) -> Sequence[B_out]:
        """Return all parts in the memory of this process, in their order."""
        ...


class ChangingParts(Parts[B_out], Protocol[B_out]):
    """Parts in memory, with a state that changes from one total to the next."""

    def update(self, change: Callable[[B_out], None]) -> None:
        """Apply `change` to each part, in place, before the next total.

        An example is to update the outputs of a model after another tree. A part that has to be computed again, because
        a machine was lost, gets all changes again, in order.
        """
        ...


def release(what: Sum[B, P, R], parts: Parts[B], noise: float, rng: Rng) -> R:
    """Compute the exact sum over all rows, add noise to it once, and return the release.

    Parameters
    ----------
    what : Sum
        The sum.
    parts : Parts
        The rows.
    noise : float
        The noise multiplier.
    rng : Rng
        The source of noise.

    Returns
    -------
    object
        What `what.release` returns.
    """
    return what.release(parts.total(what), noise, rng)


class LocalParts(Parts[B]):
    """Parts that this process reads by `read()` anew whenever they are used.

    `functions` are applied to each part, one after the other, by several threads that work on different parts.
    """

    def __init__(self, read: Callable[[], Iterable[Any]], functions: tuple[Callable[[Any], Any], ...] = ()) -> None:
        self._read, self._functions = read, functions

    def total(self, what: Sum[B, P, Any]) -> P:
        return merged(what, self.each(what.partial))

    def map(self, function: Callable[[B], C]) -> LocalParts[C]:
        return LocalParts(self._read, (*self._functions, function))

    def held(self, make: Callable[[B], C], join: Join[C] | None = None) -> HeldParts[C]:
        parts = self.each(make)
        return HeldParts(parts if join is None else _neighbours(parts, join))

    def listed(self) -> list[B]:
        return list(self.each(lambda part: part))

    def each(self, function: Callable[[B], C]) -> Iterator[C]:
        """Yield `function(part)` for each part, in their order; few parts are in memory at a time.

        The functions of `map` are applied to the part first.
        """
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
        """Return the parts after the changes that no total has applied yet."""
        changes, self._changes = self._changes, []
        for part in self._held if changes else ():
            for change in changes:
                change(part)
        return self._held

    def update(self, change: Callable[[B], None]) -> None:
        self._changes.append(change)


def _neighbours(parts: Iterable[Any], join: Join[Any]) -> Iterator[Any]:
    """Yield neighbouring parts joined by `join`, each of at least `MIN_HELD_ROWS` rows (`len`) except for the last."""
    few: list[Any] = []
    for part in parts:
        few.append(part)
        if sum(map(len, few)) >= MIN_HELD_ROWS:
            yield join(few)
            few = []
    if few:
        yield join(few)


def merged(what: Sum[Any, P, Any], partials: Iterable[P]) -> P:
    """Return the partial sums merged into one, in their order, by `what.merge`; there must be at least one."""
    return reduce(what.merge, partials)


def in_order(function: Callable[[B], C], parts: Iterable[B]) -> Iterator[C]:
    """Yield `function(part)` for each part, in their order, computed by `threads()` threads.

    Only about as many parts as there are threads are in memory at a time.
    """
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
    """Return how many threads work on parts of a table: the processors of this process, or OMP_NUM_THREADS if less."""
    declared = os.environ.get("OMP_NUM_THREADS", "")
    return min(len(os.sched_getaffinity(0)), int(declared) if declared.isdigit() and int(declared) > 0 else 1024)
