"""The total cost of the entries of a ledger, and whether it ever exceeded the limit."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set

from privaware import accounting
from privaware._rounded import number
from privaware.errors import PrivawareError, Refused
from privaware.events import NOTHING, AnyOf, Composed, Disjoint, Event, leaves
from privaware.ledger._entry import Entry, Facts

SLACK = 1e-9
"""Relative amount by which the total may exceed the limit, for rounding errors."""
MAX_CHOICES = 64
"""Largest number of combinations of parts that are compared one by one; each needs its own accounting."""


def limit_of(entries: Iterable[Entry]) -> float:
    """Return the present limit: the last limit that one of `entries` sets; the first entry created the ledger."""
    limits = [e.facts.limit if e.facts else e.limit for e in entries if e.facts or e.limit]
    assert limits[-1] is not None
    return limits[-1]


def spends(entries: Iterable[Entry], facts: Facts) -> Iterator[tuple[str | None, Event]]:
    """Yield the partition that each charge among `entries` used (None: all rows), and its event, in order.

    `facts` are those of the ledger. Every partition is None if a unit may be in several partitions.
    """
    alone = facts.units_in_one_partition
    return ((entry.partition if alone else None, entry.event) for entry in entries if entry.event is not None)


def total(paid: Iterable[tuple[str | None, Event]]) -> Event:
    """Compose the events of `paid`, pairs of a partition (None: all rows) and an event; count equal events together.

    The result is the composition of all events on all rows, plus one `Disjoint` with the composition of each named
    partition: a row is in one named partition only, so only the most costly one counts.

    An event may itself contain a `Disjoint`. Each charge divides the rows anew, and so does each event of a composition
    within a charge. So a row may be in different parts of equal `Disjoint` events. Therefore a `Disjoint` that occurs
    more than once is replaced by `AnyOf`: at every epsilon its worst part counts, which costs slightly more. (A
    `Repeated` event is one occurrence: a row is in the same part each time.) All `Disjoint` events of the charges are
    replaced if the product of their numbers of parts exceeds `MAX_CHOICES`.
    """
    counts: dict[str | None, Counter[Event]] = {None: Counter()}
    splits: Counter[Disjoint] = Counter()
    for partition, event in paid:
        counted = Counter[Event]()
        for leaf, times in leaves(event):
            counted[leaf] += times
            if isinstance(leaf, Disjoint):
                splits[leaf] += 1
        counts.setdefault(partition, Counter()).update(counted)
    too_many = math.prod(len(leaf.events) for leaf in splits) > MAX_CHOICES
    as_worst_part = {leaf for leaf, runs in splits.items() if too_many or runs > 1}
    everywhere = _composed(counts.pop(None), as_worst_part)
    parts = tuple(_composed(count, as_worst_part) for count in counts.values())
    return everywhere + Disjoint(events=parts) if parts else everywhere


def _composed(counts: Mapping[Event, int], as_worst_part: Set[Event]) -> Event:
    events = tuple(
        count * (AnyOf(events=event.events) if isinstance(event, Disjoint) and event in as_worst_part else event)
        for event, count in counts.items()
    )
    return events[0] if len(events) == 1 else Composed(events=events)


def rounded_up(epsilon: float) -> float:
    """Return `epsilon` rounded up to three significant digits, as a person would type a limit; 0 and infinity stay.

    >>> rounded_up(1.14887), rounded_up(0.5)
    (1.15, 0.5)
    """
    if not 0 < epsilon < math.inf:
        return epsilon
    step = 10.0 ** (math.floor(math.log10(epsilon)) - 2)
    return float(f"{math.ceil(epsilon * (1 - SLACK) / step) * step:.3g}")


def epsilon_of(event: Event, delta: float) -> float:
    """Return the epsilon of an event at `delta`; 0 for `NOTHING`, without running the accountants."""
    return 0.0 if event == NOTHING else accounting.epsilon(event, delta)


def refuse_endless(epsilon: float, entries: Iterable[Entry], delta: float, where: str) -> None:
    """Raise `Refused` if `epsilon`, the cost of `entries` at `delta`, is infinite.

    The message starts with `where` and names the first entry whose own epsilon is infinite. If there is none, it says
    that the chances of failure of all entries, such as `Approximate`, add up to `delta` or more.
    """
    if math.isfinite(epsilon):
        return
    alone = (entry for entry in entries if entry.event and not math.isfinite(epsilon_of(entry.event, delta)))
    names = [entry.what if entry.number == 0 else f"entry {entry.number} ({entry.what})" for entry in alone]
    if not names:
        raise Refused(
            f"{where}: expected chances of failure that add up to less than delta {number(delta)}, got more: each run "
            "without declared ranges and categories adds up to a hundredth of its delta; declare them (--schema)"
        )
    raise Refused(
        f"{where}: expected releases with a finite epsilon, but none is proven at delta {number(delta)} for "
        f"{names[0]}; no release can be charged on top of it"
    )


def overspent(entries: tuple[Entry, ...]) -> Iterator[str]:
    """Yield a sentence for each limit of the ledger that was exceeded, or under which the cost cannot be computed.

    `entries` are all entries of the ledger. Costs only grow, so it is enough to check the last entry under each limit.
    """
    facts = entries[0].facts
    assert facts is not None
    changes = [entry.number for entry in entries if entry.kind == "limit"]
    for end in (*changes, len(entries)):
        now = entries[:end]
        try:
            spent = epsilon_of(total(spends(now, facts)), facts.delta)
        except PrivawareError as problem:
            yield f"the epsilon of the events up to entry {end - 1} cannot be computed: {problem}"
            continue
        if not spent <= limit_of(now) * (1 + SLACK):
            yield (
                f"the events up to entry {end - 1} cost epsilon {spent:.6g}, more than the limit of"
                f" {number(limit_of(now))} that held then"
            )
