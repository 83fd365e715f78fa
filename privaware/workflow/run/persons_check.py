"""Columns that may identify persons: the question to the owner, and a private count that answers it.

The guarantee protects single rows unless the owner names a column of persons. A name such as `PatNr` is only a hint, so
the owner is asked. `DistinctValues` can answer: if a column has clearly fewer different values than there are rows,
values repeat.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privaware._rounded import rounded_down, rounded_up
from privaware.data import Data, Rows, Sum, release, uncoded_column, words_of
from privaware.errors import Refused, WrongInput
from privaware.events import Event, Laplace
from privaware.ledger import Ledger
from privaware.mechanism import run
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.workflow.run.options import RunOptions
from privaware.workflow.run.plan import grouped, rows_moved
from privaware.workflow.run.resume import next_run
from privaware.workflow.run.source import Source

__all__ = ["CHECK_SHARE", "DistinctValues", "PersonsCheck", "persons_question"]

CHECK_SHARE = 0.01
"""The fraction of the budget that `--check-persons` spends."""
ERROR = 0.01
"""The largest probability that the check finds repeated values in any column although no column has them."""


@dataclass(frozen=True, kw_only=True)
class DistinctValues:
    """A mechanism that releases how many different values each of `columns` has, from rows in uncoded form.

    A row without a value counts as a value of its own.

    Paper: Dwork, McSherry, Nissim, Smith 2006, Calibrating Noise to Sensitivity.
    Privacy: epsilon-DP, by one Laplace release for each column. Let D be the number of different values. Adding a row
    adds 1 to D if its value is new, and 0 otherwise. Removing a row subtracts 1 if no other row has its value, and 0
    otherwise. Replacing a row removes one and adds one, which changes D by -1, 0 or 1. So the sensitivity is 1. For a
    single column the same holds for all rows of one value, because they add 1 to D however many they are: the release
    protects the persons of that column as it protects rows. Values are compared by a fixed 64-bit hash. The argument
    holds for any function of the value, so equal hashes of different values change the count but not the sensitivity.
    Use when: it is not known whether a column identifies persons with several rows.

    Parameters
    ----------
    columns : tuple of str
        The columns.

    Examples
    --------
    >>> from privaware.schema import Column
    >>> known = Schema(columns=(Column(name="PatNr", kind="category"),), classes=("no", "yes"), rows=100)
    >>> DistinctValues(columns=("PatNr",)).cost(known, noise=100.0)
    Laplace(noise=100.0)
    """

    in_parts: ClassVar[bool] = True

    columns: tuple[str, ...]

    def cost(self, schema: Schema, noise: float) -> Event:
        event = Laplace(noise=noise)
        return event if len(self.columns) == 1 else len(self.columns) * event

    def run(self, data: Rows, noise: float, rng: Rng) -> dict[str, float]:
        """Return the noisy number of different values by the name of the column."""
        positions = {column.name: at for at, column in enumerate(data.schema.declared)}
        return {name: float(release(_Hashes(place=positions[name]), data.parts, noise, rng)) for name in self.columns}


@dataclass(frozen=True, kw_only=True)
class _Hashes(Sum[Data, list[np.ndarray], float]):
    """The hashes of the different values of the column at `place`, and how many rows have no value.

    The release is their total number, with Laplace noise.
    """

    place: int

    def partial(self, part: Data) -> list[np.ndarray]:
        import pandas as pd

        values = uncoded_column(part.x, self.place)
        words = words_of(pd.Series(values)) if isinstance(values, np.ndarray) else words_of(values)
        missing = words.missing()
        spellings = np.array(words.spellings, dtype=object)[np.unique(words.codes[~missing])]
        hashes = pd.util.hash_array(spellings, categorize=False) if len(spellings) else np.zeros(0, np.uint64)
        return [hashes, np.array([missing.sum()])]

    def merge(self, left: list[np.ndarray], right: list[np.ndarray]) -> list[np.ndarray]:
        return [*left[:-1], *right[:-1], left[-1] + right[-1]]

    def release(self, total: list[np.ndarray], noise: float, rng: Rng) -> float:
        count = len(np.unique(np.concatenate(total[:-1]))) + int(total[-1][0])
        return float(rng.laplace(np.array([count]), noise=noise, sensitivity=1.0)[0])


@dataclass(frozen=True, kw_only=True)
class PersonsCheck:
    """A private count of the different values of `columns` that costs `epsilon`; `schema` has the facts of the rows."""

    columns: tuple[str, ...]
    epsilon: float
    schema: Schema

    @classmethod
    def of(cls, source: Source, options: RunOptions, epsilon: float) -> PersonsCheck | None:
        """Build the check of the rows of `source` that `options.check_persons` requests; None if it requests none.

        `epsilon` is the cost of the check. Raise `WrongInput` for another unit than row, for built-in data, for an
        `epsilon` of 0, and if no column is named and no name of a column suggests persons.
        """
        asked: Any = options.check_persons
        if not asked:
            return None
        if source.schema.unit != "row":
            raise WrongInput(f"expected --check-persons with the unit row, got the unit {source.schema.unit!r:.80}")
        if source.builtin or not epsilon > 0:
            raise WrongInput("expected --check-persons with a charged run on private rows; leave it out")
        columns = source.persons() if asked is True else asked
        if not columns:
            raise WrongInput(
                "expected a column that may identify persons or cases with --check-persons, but no name of a column "
                "suggests it; leave it out, or name the column of persons with --unit"
            )
        return cls(columns=tuple(columns), epsilon=epsilon, schema=source.schema)

    @property
    def mechanism(self) -> DistinctValues:
        return DistinctValues(columns=self.columns)

    @property
    def noise(self) -> float:
        """The noise multiplier at which the releases of all columns together cost `epsilon`."""
        return len(self.columns) * rows_moved(self.mechanism, self.schema) / self.epsilon

    @property
    def event(self) -> Event:
        return grouped(self.mechanism.cost(self.schema, self.noise), rows_moved(self.mechanism, self.schema))

    @property
    def sentence(self) -> str:
        """The check in the words of a plan."""
        return (
            f"Before the training, {CHECK_SHARE:.0%} of the budget (epsilon {rounded_up(self.epsilon)}) counts the "
            f"different values of {_listed(self.columns)}. If values clearly repeat, the run stops and only this part "
            "is spent."
        )

    @property
    def margin(self) -> float:
        """A number of rows that the noise of a count seldom exceeds: `noise * log(len(columns) / (2 * ERROR))`.

        With probability at least `1 - ERROR`, the noise of no count exceeds it on a given side.
        """
        return self.noise * math.log(len(self.columns) / (2 * ERROR))

    def repeated(self, counts: dict[str, float]) -> list[str]:
        """Return the columns whose noisy number of different values is more than `margin` below the declared rows.

        `counts` has the noisy number of different values of each column.
        """
        return [name for name, count in counts.items() if self.schema.rows - count > self.margin]

    def sentences(self, counts: dict[str, float]) -> list[str]:
        """Return the result of the check in words, one sentence for each column of `counts` (see `repeated`)."""
        return [self._sentence(name, count) for name, count in counts.items()]

    def _sentence(self, name: str, count: float) -> str:
        rows, repeats = self.schema.rows, self.schema.rows - count
        if repeats > self.margin:
            values, limit = max(count, 1.0), max(count + self.margin, 1.0)
            return (
                f"Values of {name!r} repeat: about {values:,.0f} different values in {rows:,} rows, at most "
                f"{math.ceil(limit):,} with {1 - ERROR:.0%} confidence, so at least {rounded_down(rows / limit, 2)} "
                "rows for each value on average."
            )
        most = min(max(repeats + self.margin, 0.0), rows)
        return (
            f"Values of {name!r} do not clearly repeat: at most {math.ceil(most):,} of {rows:,} rows repeat the value "
            f"of another row ({1 - ERROR:.0%} confidence)."
        )

    def charge(self, ledger: Ledger, key: str, source: Source, rng: Rng, rows: str | None) -> list[str]:
        """Charge and run the check, before the main charge, and return its result in words.

        Parameters
        ----------
        ledger
            The ledger to charge.
        key
            The key of this check among the runs of the ledger (see `next_run`).
        source
            The source of the rows.
        rng
            The random generator of the run.
        rows
            The digest of the rows for the ledger, or None.

        Returns
        -------
        list of str
            One sentence for each column. If values clearly repeat, `Refused` is raised instead.
        """
        name = f"{key}-{next_run(ledger, key, source.digest)}"
        what = f"count different values of {', '.join(self.columns)}"
        assert source.read_words is not None  # `of` refuses built-in data
        ledger.spend(self.event, what=what, run=name, seed=rng.seed, rows=rows)
        counts = run(self.mechanism, source.read_words(self.columns), self.noise, rng.spawn())
        ledger.finish(name)
        if repeated := self.repeated(counts):
            raise Refused(self.refusal(repeated, counts))
        return self.sentences(counts)

    def refusal(self, repeated: Sequence[str], counts: dict[str, float]) -> str:
        """Return why a run stops: values repeat, so the guarantee would protect rows and not persons.

        `repeated` are the columns whose values clearly repeat, at least one. `counts` has their noisy numbers of
        different values.
        """
        found = " ".join(self._sentence(name, counts[name]) for name in repeated)
        first = repeated[0]
        return (
            f"{found} The guarantee would protect rows, not persons. Only the check was charged (epsilon "
            f"{rounded_up(self.epsilon)}). Pass --unit={first!r} and a new --ledger FILE to protect persons, or "
            f"--not-persons={first!r} if it identifies nobody."
        )


def persons_question(columns: Sequence[str], used: Sequence[str], repeated: Sequence[str] = ()) -> str:
    """Return the question whether columns identify persons.

    Parameters
    ----------
    columns
        The columns that may identify persons or cases.
    used
        The columns among `columns` that are used as features.
    repeated
        The columns among `columns` with the same value in several rows, for the owner only.

    Returns
    -------
    str
        The question, with the options that answer it.

    >>> persons_question(["PatNr"], []).partition("?")[0]
    "Does 'PatNr' identify persons or cases, as its name suggests"
    """
    one = len(columns) == 1
    column = repr(columns[0]) if one else "COLUMN"
    now = (
        f"Used as features now: {_listed(used)}."
        if used
        else f"{'It is not used as a feature' if one else 'They are not used as features'}."
    )
    seen = f" {_listed(repeated)} {'has' if len(repeated) == 1 else 'have'} the same value in several rows."
    return (
        f"{'Does' if one else 'Do'} {_listed(columns)} identify persons or cases, as "
        f"{'its name suggests' if one else 'their names suggest'}?{seen if repeated else ''} The guarantee protects "
        f"single rows. If a person has several rows, pass --unit={column}. If nobody is identified, "
        f"pass --not-persons={column}. {now}"
    )


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in columns)
