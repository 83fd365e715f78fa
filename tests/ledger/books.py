"""A ledger with every kind of entry, and the simplest accountant."""

from __future__ import annotations

from pathlib import Path

from privaware.errors import Refused
from privaware.events import Disjoint, Event, Gaussian, Pure, Unproven, leaves
from privaware.ledger import Ledger

DELTA = 1e-5


def add(event: Event, delta: float) -> float:
    """The simplest accountant: exact, fast, and nothing but addition and maximum."""
    if isinstance(event, Unproven):
        raise Refused(event.reason)
    if isinstance(event, Disjoint):
        return max(add(part, delta) for part in event.events)
    if isinstance(event, Gaussian):
        return 4 / event.noise
    if isinstance(event, Pure):
        return event.epsilon
    return sum(times * add(leaf, delta) for leaf, times in leaves(event))


def pure(epsilon: float) -> Event:
    return Pure(epsilon=epsilon)


def filled(path: Path) -> Ledger:
    """A ledger with an entry of every kind and every field in use."""
    ledger = Ledger.create(path, limit=1.0, delta=DELTA, partitions=("left", "right"), who="ann")
    ledger.spend(pure(0.1), who="ann", what="a count", run="one", seed=7)
    ledger.spend(pure(0.3), who="bob", what="a mean", partition="left")
    ledger.set_limit(2.0, who="ann")
    ledger.spend(Gaussian(noise=40.0), who="bob", what="a sum")
    ledger.finish("one", who="ann")
    return ledger
