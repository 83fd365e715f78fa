"""The contract of every private algorithm: what it costs, and what it does.

Everything that reads private rows is a `Mechanism`:

1. Its fields are public settings.
2. `cost` sees public facts only, so the cost is known, calibrated and on disk before `run` gets a row.
3. Private rows arrive only as the argument of `run`.
4. Neither more noise nor fewer columns ever cost more.
5. `run` releases nothing beyond what `cost` accounts for.

Kinds of mechanisms have their own protocols in their folders: `Learner`, `Selector`, `Transformation`,
`RoundStrategy`, `SearchProcedure`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

from privaware import accounting
from privaware.data import Data, Rows
from privaware.errors import PrivawareError, Refused
from privaware.events import Event
from privaware.noise import Rng
from privaware.schema import Schema

__all__ = ["DeclaresUnit", "Mechanism", "RunsInParts", "Then", "run", "unit"]

T = TypeVar("T", covariant=True)


@runtime_checkable
class Mechanism(Protocol[T]):
    """A differentially private algorithm that releases a `T`."""

    def cost(self, schema: Schema, noise: float) -> Event:
        """Return the privacy cost, from public facts only.

        Parameters
        ----------
        schema
            The public facts about the rows.
        noise
            The noise multiplier.

        Returns
        -------
        Event
            The cost for one row added or removed, or for one changed label if the mechanism protects labels. Some
            mechanisms return the cost for one row replaced if `schema.relation` is "replace_one". Fewer columns never
            cost more: a selection of columns is charged together with the mechanism that runs on the selected ones.
        """
        ...

    def run(self, data: Data, noise: float, rng: Rng) -> T:
        """Run the mechanism, once for each charge.

        Parameters
        ----------
        data
            The private rows.
        noise
            The noise multiplier for which the cost was charged.
        rng
            The random generator.

        Returns
        -------
        T
            The release, which may be published.
        """
        ...


@runtime_checkable
class DeclaresUnit(Protocol):
    """A mechanism that declares its unit of privacy: `unit` is "row" (whole rows) or "label" (only their labels)."""

    unit: str


@runtime_checkable
class RunsInParts(Protocol):
    """A mechanism that states, by `in_parts`, whether it can run on rows that do not fit into memory.

    If `in_parts` is True, `run` takes any `Rows`, whose parts are read one after the other. If it is False, `run` needs
    all rows in memory.
    """

    in_parts: bool

    def run(self, data: Rows, noise: float, rng: Rng) -> Any: ...


def run(mechanism: Mechanism[Any], rows: Rows, noise: float, rng: Rng) -> Any:
    """Run a mechanism on rows that may not fit into memory.

    Parameters
    ----------
    mechanism
        The mechanism. All rows are first gathered in memory, unless the mechanism has `in_parts` True.
    rows
        The private rows.
    noise
        The noise multiplier for which the cost was charged.
    rng
        The random generator.

    Returns
    -------
    object
        The release of the mechanism.
    """
    if isinstance(mechanism, RunsInParts) and mechanism.in_parts:
        return mechanism.run(rows, noise, rng)
    return mechanism.run(rows.gathered(), noise, rng)


def unit(mechanism: object) -> str:
    """Return the unit that a mechanism, or a class of mechanisms, protects.

    Parameters
    ----------
    mechanism
        A mechanism or a class of mechanisms.

    Returns
    -------
    str
        "row" unless the mechanism declares "label".
    """
    return mechanism.unit if isinstance(mechanism, DeclaresUnit) else "row"


@dataclass(frozen=True, kw_only=True)
class Then:
    """Two mechanisms in sequence: `second` runs on the rows that `join` computes from the release of `first`.

    `run` returns the release of `second` only. At noise multiplier `noise`, `second` runs at `noise` and `first` at
    `share * noise`. `join(rows, release)` returns the new rows; it must transform each row independently of the other
    rows. `outline(schema)` returns the schema of the rows after `join`, without knowing the release of `first`. The
    cost of `second` is computed from this schema. `run` raises `Refused` before `second` runs if `second` would cost
    more on the rows of `join` than was charged. `what` describes the release of `first` in a few words.
    """

    first: Mechanism[Any]
    second: Mechanism[Any]
    join: Callable[[Data, Any], Data]
    outline: Callable[[Schema], Schema] = lambda schema: schema
    share: float = 1.0
    what: str = "first release"
    in_parts: ClassVar[bool] = True

    def cost(self, schema: Schema, noise: float) -> Event:
        return self.first.cost(schema, noise * self.share) + self.second.cost(self.outline(schema), noise)

    def run(self, data: Rows, noise: float, rng: Rng) -> Any:
        released, join = run(self.first, data, noise * self.share, rng), self.join
        rows = data.mapped(lambda part: join(part, released))  # a lambda without self
        _expect_charged(self.second, self.outline(data.schema), rows.schema, noise)
        return run(self.second, rows, noise, rng)


def _expect_charged(mechanism: Mechanism[Any], outline: Schema, released: Schema, noise: float) -> None:
    """Raise `Refused` if `mechanism` costs more for the schema `released` than for `outline`, which was charged.

    Both schemas are public. If `mechanism.cost` raises a `PrivawareError` for `released`, nothing is checked here.
    """
    if outline == released:
        return
    charged = mechanism.cost(outline, noise)
    try:
        actual = mechanism.cost(released, noise)
    except PrivawareError:
        return
    if actual == charged:
        return
    epsilons = [accounting.epsilon(event, accounting.DEFAULT_DELTA) for event in (charged, actual)]
    if epsilons[1] > epsilons[0] * (1 + 1e-6) + 1e-9:
        raise Refused(
            f"expected {type(mechanism).__name__} to cost at most the epsilon {epsilons[0]:.4g} that was charged, got "
            f"{epsilons[1]:.4g} on the columns that were released before; make its cost independent of the columns"
        )
