"""A grid whose cells train in moments, and learners of a user's own that fail or count their runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from privaware import registry
from privaware.bench import Settings
from privaware.bench._grid import all_cells
from privaware.cli.bench import _possible
from privaware.data import Data
from privaware.events import Event, Laplace
from privaware.learners.majority import Majority
from privaware.model import Model
from privaware.noise import Rng
from privaware.schema import Schema

SMALL: dict[str, Any] = {
    "data": {"digits": {"train": 60, "test": 40}},
    "epsilons": [1.0, 50.0],
    "seeds": 2,
    "learners": {"majority": {}, "linear": {"steps": 3}},
}
RUNS: list[float] = []
"""The noise multipliers of the runs of `Counted`."""


def grid_cells(table: Mapping[str, Any], folder: Path = Path()) -> list[Settings]:
    """The cells of a grid, as `privaware bench run` builds and checks them."""
    return _possible(all_cells(table, folder), skip=False)[0]


@dataclass(frozen=True, kw_only=True)
class Counted(Majority):
    """The majority, run after run; above noise 0.5 it breaks down."""

    breaks: bool = False
    tasks: ClassVar[tuple[str, ...]] = ("classification",)

    def cost(self, schema: Schema, noise: float) -> Event:
        return Laplace(noise=noise)

    def run(self, data: Data, noise: float, rng: Rng) -> Model:
        RUNS.append(noise)
        if self.breaks and noise > 0.5:
            raise ZeroDivisionError("the noise\nis too loud")
        return super().run(data, noise, rng)


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """`counted` as another package adds it, by an entry point."""

    class Point:
        def load(self) -> Any:
            return Counted

    plain = registry._entry_points
    monkeypatch.setattr(
        registry, "_entry_points", lambda kind: {"counted": Point()} if kind == "learners" else plain(kind)
    )
    RUNS.clear()
