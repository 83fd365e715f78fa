"""The ledger of one data set: an append-only list of charges, written to disk before a mechanism gets a row.

A ledger is one SQLite file, which several processes can share safely. Its first entry states the first limit on
epsilon. It also fixes delta, the unit of privacy, the cap on the rows of a person, the neighbouring relation and the
names of disjoint parts of the rows. Each later entry carries the hash of the entry before it.

There is no refund and no stored total: the spent epsilon is recomputed from the events every time. A registry in the
user's data folder knows which ledgers were charged for which rows.

>>> from tempfile import TemporaryDirectory
>>> from privaware.events import Pure
>>> with TemporaryDirectory() as folder:
...     ledger = Ledger.create(f"{folder}/patients.ledger", limit=1.0, delta=1e-5)
...     entry = ledger.spend(Pure(epsilon=0.75), what="a noisy histogram")
...     ledger.spend(Pure(epsilon=0.5), what="another one")
Traceback (most recent call last):
privaware.errors.BudgetExceeded: another one would bring the total to epsilon 1.25 ...
"""

from __future__ import annotations

from privaware.ledger._entry import NOT_RESUMED, Entry, Facts
from privaware.ledger._ledger import Ledger
from privaware.ledger._print import explained_lines, ledger_lines, ledger_rows, unit_words
from privaware.ledger._registry import (
    KnownCharges,
    KnownLedger,
    charged_together,
    digest_key,
    forget_sketch,
    known_ledgers,
    known_sketches,
    knows_rows,
    memory_ledger,
    register,
    spent_together,
    unwritten_key,
)

__all__ = [
    "NOT_RESUMED",
    "Entry",
    "Facts",
    "KnownCharges",
    "KnownLedger",
    "Ledger",
    "charged_together",
    "digest_key",
    "explained_lines",
    "forget_sketch",
    "known_ledgers",
    "known_sketches",
    "knows_rows",
    "ledger_lines",
    "ledger_rows",
    "memory_ledger",
    "register",
    "spent_together",
    "unit_words",
    "unwritten_key",
]
