"""The ledgers of the same rows, or of tables that share rows with them, and the epsilon of all of them together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from privaware._rounded import rounded_up
from privaware.data import Sketch
from privaware.errors import Refused, warn_caller
from privaware.events import NOTHING, Event
from privaware.ledger import (
    KnownCharges,
    KnownLedger,
    Ledger,
    charged_together,
    forget_sketch,
    known_ledgers,
    known_sketches,
    knows_rows,
    spent_together,
)

__all__ = ["SOME", "OtherLedger", "SameRows", "similar_ledgers"]

ALL, MOST, SOME = "all", "most", "some"
AMOUNTS = {
    frozenset({ALL}): "these rows are",
    frozenset({MOST}): "a table that probably shares rows with this one is",
    frozenset({ALL, MOST}): "these rows, or tables that probably share rows with them, are",
}
"""Subject and verb of the sentence about other ledgers, by their values of `OtherLedger.rows`."""


@dataclass(frozen=True, kw_only=True)
class OtherLedger:
    """Another ledger of the rows of a ledger.

    Attributes
    ----------
    charges
        The charges of the other ledger.
    rows
        "all" if it was charged for exactly the same rows, "most" if its table resembles the table of these rows (see
        `Sketch.resembles`: half the rows of the smaller table, or more, are probably in both), "some" if it
        was charged for an earlier fit of this process that shares rows with them.
    """

    charges: KnownCharges
    rows: str

    @property
    def known(self) -> KnownLedger:
        """The ledger whose charges these are."""
        return KnownLedger(path=self.charges.path, genesis=self.charges.genesis)


@dataclass(frozen=True, kw_only=True)
class SameRows:
    """A ledger and all other known ledgers of the same rows.

    Attributes
    ----------
    ledger
        The ledger.
    others
        The other ledgers. A file that only repeats the entries of another ledger is left out.
    """

    ledger: Ledger
    others: tuple[OtherLedger, ...]

    @classmethod
    def of_table(cls, ledger: Ledger, digest: str, sketch: Sketch) -> SameRows:
        """Return the ledgers of a table, which is known by the `digest` and the `sketch` of its rows."""
        return cls(ledger=ledger, others=tuple(_without_copies(ledger, _known_of(digest, sketch))))

    @classmethod
    def of_ledger(cls, ledger: Ledger) -> SameRows:
        """Return the ledgers of all tables that `ledger` was charged for.

        If this user's data folder has no registry of rows, there are no other ledgers.
        """
        known: list[tuple[str, KnownLedger]] = []
        if knows_rows():
            sketches = dict(known_sketches())
            for digest in dict.fromkeys(entry.rows for entry in ledger.entries() if entry.rows is not None):
                known += _known_of(digest, _read_sketch(digest, sketches.get(digest)))
        return cls(ledger=ledger, others=tuple(_without_copies(ledger, known)))

    def beside(self, others: Iterable[tuple[str, KnownLedger]]) -> SameRows:
        """Return these ledgers and `others`, each once; all except `ledger` are read again.

        `others` are pairs of the rows, as in `OtherLedger`, and the ledger.
        """
        own = [(other.rows, other.known) for other in self.others]
        return replace(self, others=tuple(_without_copies(self.ledger, [*own, *others])))

    @property
    def counted(self) -> list[OtherLedger]:
        """The other ledgers with the unit, cap and relation of this ledger; their charges compose with its charges."""
        return [other for other in self.others if other.charges.promise == self.ledger.facts.promise]

    @property
    def uncounted(self) -> list[OtherLedger]:
        """The other ledgers that no total counts: with another unit, cap or relation, or without a readable entry."""
        counted = self.counted
        return [other for other in self.others if other not in counted]

    def epsilon(self, event: Event = NOTHING) -> float | None:
        """Return the epsilon of this ledger, the counted ledgers and `event` together, at the delta of this ledger.

        Return None if the two accountants disagree about it, as they may at a very large epsilon.
        """
        charges: list[Ledger | KnownCharges] = [self.ledger, *(other.charges for other in self.counted)]
        try:
            return spent_together(charges, self.ledger.delta, event)
        except Refused:
            return None

    def event(self, event: Event = NOTHING) -> Event:
        """Return all charges of this ledger and the counted ledgers, and `event`, composed."""
        return charged_together([self.ledger, *(other.charges for other in self.counted)], event)

    def sentences(self, *, event: Event = NOTHING, during_run: bool) -> list[str]:
        """Return the warnings about the other ledgers.

        One sentence has the total epsilon of this ledger and the counted ledgers, if there are any. Others name the
        ledgers with another unit, cap or relation, and there is one for each ledger that cannot be read.

        Parameters
        ----------
        event : Event
            A cost that is not charged yet.
        during_run : bool
            Whether the warnings belong to a run; the sentence with the total then counts this run, and advises to
            charge one ledger only.
        """
        several = [self._total_sentence(event, during_run)] if self.counted else []
        return [*several, *self.sentences_without_total()]

    def sentences_without_total(self) -> list[str]:
        """Return the sentences about ledgers that are not counted or cannot be read."""
        return [*self._uncounted(), *self._unread()]

    def counted_words(self, *, paths: bool = True) -> str:
        """Return the words that name the counted ledgers, at least one, and their epsilons.

        Without `paths` they have the number of ledgers in place of the paths, for words that are released: a path tells
        about the owner, and the path of a ledger in the data folder is the digest of the rows.
        """
        counted = self.counted
        start = AMOUNTS.get(frozenset(other.rows for other in counted), "rows of this fit are")
        epsilons = [f"epsilon {rounded_up(other.charges.spent())}" for other in counted]
        if not paths:
            which = "another ledger too" if len(counted) == 1 else f"{len(counted)} other ledgers too"
            return f"{start} charged to {which} ({', '.join(epsilons)})"
        pairs = zip(counted, epsilons, strict=True)
        names = ", ".join(f"'{other.charges.path}' ({epsilon})" for other, epsilon in pairs)
        which = f"another ledger too, {names}" if len(counted) == 1 else f"{len(counted)} other ledgers too: {names}"
        return f"{start} charged to {which}"

    def json(self) -> dict[str, Any]:
        """Return plain values: `other_ledgers`, a list of dictionaries, and `epsilon_together`.

        Each dictionary has `path`, `rows`, `epsilon_spent`, `delta`, `counted` and `problem`. `epsilon_together` is the
        epsilon of this ledger and the counted ledgers together (see `epsilon`).
        """
        others = [
            {
                "path": str(other.charges.path),
                "rows": other.rows,
                "epsilon_spent": other.charges.spent() if other.charges.facts is not None else None,
                "delta": None if other.charges.facts is None else other.charges.facts.delta,
                "counted": other in self.counted,
                "problem": other.charges.problem or None,
            }
            for other in self.others
        ]
        return {"other_ledgers": others, "epsilon_together": self.epsilon()}

    def _total_sentence(self, event: Event, during_run: bool) -> str:
        counted = len(self.counted)
        all_of_them = "both together" if counted == 1 else f"all {counted + 1} ledgers together"
        spent = self.epsilon(event)
        shown = "more than can be stated" if spent is None else f"epsilon {rounded_up(spent)}"
        epsilon = f"{all_of_them} spend {shown} at delta {rounded_up(self.ledger.delta)}"
        if not during_run:
            return f"{self.counted_words()}; {epsilon}"
        return f"{self.counted_words()}: with this run {epsilon}; charge one of them only (--ledger FILE)"

    def _uncounted(self) -> Iterator[str]:
        uncounted = [other for other in self.uncounted if other.charges.facts is not None]
        for rows, amount in ((ALL, "these"), (MOST, "most of these")):
            paths = [f"'{other.charges.path}'" for other in uncounted if other.rows == rows]
            which, what = ("another ledger", "both") if len(paths) == 1 else ("other ledgers", "all of them")
            if paths:
                yield (
                    f"{amount} rows are charged to {which} too, {', '.join(paths)}, for another unit, cap or relation, "
                    f"so that no epsilon holds for {what}"
                )

    def _unread(self) -> Iterator[str]:
        for other in self.others:
            charges = other.charges
            if charges.problem:
                start = f"these rows were charged to '{charges.path}', which cannot be read ({charges.problem})"
                ways = "put back the file from a backup"
                if charges.facts is None:
                    yield f"{start} and is NOT counted, so the true total is larger; {ways}"
                else:
                    yield f"{start}; its charges are counted from the copies in your data folder; {ways}"


def similar_ledgers(digest: str, sketch: Sketch | None) -> list[KnownLedger]:
    """Return the ledgers of other tables that probably share rows with a table (`Sketch.resembles`).

    The table is known by its `digest` and its `sketch`. Other tables may have other columns, and more or fewer rows.
    Without a sketch no ledger is returned.
    """
    ledgers: list[KnownLedger] = []
    for other, content in known_sketches() if sketch is not None else ():
        table = None if other == digest else _read_sketch(other, content)
        if sketch is not None and table is not None and sketch.resembles(table):
            ledgers += known_ledgers(other)
    return ledgers


def _read_sketch(digest: str, content: bytes | None) -> Sketch | None:
    """Return the sketch that `content` holds, of the table with this `digest`; None if `content` is None.

    A damaged sketch is deleted from the registry, with a warning, and None is returned.
    """
    try:
        return None if content is None else Sketch.from_bytes(content)
    except ValueError:
        warn_caller(
            f"the sketch {digest[:8]} of a table in the data folder is damaged, so a copy of that table with other "
            "columns is not recognised; the next charge for that table writes its sketch again"
        )
        forget_sketch(digest)
        return None


def _known_of(digest: str, sketch: Sketch | None) -> list[tuple[str, KnownLedger]]:
    """Return the known ledgers of a table, each with "all" (charged for these rows) or "most" (for a similar table).

    `digest` identifies the rows exactly. `sketch` finds similar tables; None finds none.
    """
    similar = [(MOST, known) for known in similar_ledgers(digest, sketch)]
    return [*((ALL, known) for known in known_ledgers(digest)), *similar]


def _without_copies(ledger: Ledger, known: Iterable[tuple[str, KnownLedger]]) -> Iterator[OtherLedger]:
    """Yield each ledger in `known` except `ledger` once: first the readable ledgers, then the unreadable ledgers.

    A readable file whose entries are all in ledgers before it is left out, because it is a copy.
    """
    first: dict[KnownLedger, str] = {}
    for rows, each in known:
        first.setdefault(each, rows)
    others = [OtherLedger(charges=each.charges(), rows=rows) for each, rows in first.items()]
    genesis = {ledger.genesis}
    counted = {entry.hash for entry in ledger.entries()}
    for other in others:
        hashes = {entry.hash for entry in other.charges.entries()}
        if not other.charges.problem:
            genesis.add(other.charges.genesis)
            if not hashes <= counted:
                counted |= hashes
                yield other
    for other in others:
        if other.charges.problem and other.charges.genesis not in genesis:
            genesis.add(other.charges.genesis)
            yield other
