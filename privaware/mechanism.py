"""The one contract: what a private algorithm costs, and what it does.

Everything that touches private rows is a `Mechanism`. Its fields are public settings; `cost` sees
public facts only, so the cost is known, calibrated and on disk before a row is read; private rows
arrive only as the argument of `run`; more noise never costs more; and `run` releases nothing beyond
what `cost` says. Kinds of mechanism have protocols of their own in the folders they live in: `Learner`,
`Selector`, `Transformation`, `RoundStrategy`, `SearchProcedure`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

from privaware.data import Data, Rows
from privaware.events import Event
from privaware.noise import Rng
from privaware.schema import Schema

__all__ = ["DeclaresUnit", "Mechanism", "RunsInParts", "Then", "run", "unit"]

T = TypeVar("T", covariant=True)


@runtime_checkable
class Mechanism(Protocol[T]):
    """A differentially private algorithm that releases a `T`."""

    def cost(self, schema: Schema, noise: float) -> Event: ...

    def run(self, data: Data, noise: float, rng: Rng) -> T: ...


@runtime_checkable
class DeclaresUnit(Protocol):
    """What a mechanism has that protects something other than whole rows: `unit` is "row" or "label"."""

    unit: str


@runtime_checkable
class RunsInParts(Protocol):
    """What a mechanism has whose `run` takes any `Rows`: all that it learns of them is a `Sum` over their parts."""

    in_parts: bool

    def run(self, data: Rows, noise: float, rng: Rng) -> Any: ...


def run(mechanism: Mechanism[Any], rows: Rows, noise: float, rng: Rng) -> Any:
    """What a mechanism releases of rows that may not fit into memory; one that needs all of them there gathers them."""
    if isinstance(mechanism, RunsInParts) and mechanism.in_parts:
        return mechanism.run(rows, noise, rng)
    return mechanism.run(rows.gathered(), noise, rng)


def unit(mechanism: object) -> str:
    """What a mechanism, or a class of them, protects: "row" unless it declares "label"."""
    return mechanism.unit if isinstance(mechanism, DeclaresUnit) else "row"


@dataclass(frozen=True, kw_only=True)
class Then:
    """First one mechanism, then a second on the rows that `join` returns, each by itself, for the first release.

    `share` is the first one's noise multiplier over the second's, so that one value scales both. The second's
    cost is a function of the schema that `outline` returns before the first has run, never of what it released.
    `what` says in a few words what the first one does.
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
        return run(self.second, data.mapped(lambda part: join(part, released)), noise, rng)  # without self: pickled
