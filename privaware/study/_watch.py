"""Numbers on the way: every so many steps each model of a population is looked at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from privaware.descent import Checkpoint

if TYPE_CHECKING:
    from privaware.study._trials import Rows

__all__ = ["Reached", "Watch", "scorer"]

AT_ONCE = 5000


class Reached(Exception):
    """Every model of a population has scored what it was to score."""


@dataclass(frozen=True)
class Watch(Checkpoint):
    """In the place of a checkpoint: keeps no file, but `measure`s each network and remembers the numbers."""

    measure: Callable[[Any], Any] = float
    reach: float | None = None
    seen: list[tuple[int, list[Any]]] = field(default_factory=list)

    def load(self, run: Any) -> None:
        """Runs begin at their beginning."""

    @torch.no_grad()
    def save(self, run: Any) -> None:
        self.seen.append((run.step, [self.measure(network) for network in run.released()]))
        if self.reach is None:
            return
        best = np.max([values for _, values in self.seen], axis=0)
        if bool((best >= self.reach).all()):
            raise Reached

    def columns(self) -> list[list[tuple[int, Any]]]:
        """For each model its steps and numbers."""
        return [
            [(step, them[at]) for step, them in self.seen] for at in range(len(self.seen[0][1]))
        ]


def scorer(rows: Rows, device: str) -> Callable[[Any], float]:
    """Accuracy on the rows to score on, or 1 - mean absolute error of numbers in [0, 1]."""
    tested = torch.from_numpy(np.ascontiguousarray(rows.tested)).to(device)
    tested = tested.float() if tested.is_floating_point() else tested
    truth = torch.from_numpy(np.ascontiguousarray(rows.truth)).to(device)

    def score(network: Any) -> float:
        network = network.to(device).eval()
        outputs = torch.cat([network(part) for part in tested.split(AT_ONCE)]).nan_to_num(0.0)
        if rows.classes:
            return float((outputs.argmax(1) == truth).double().mean())
        error = outputs[:, 0].clamp(0, 1).double() - truth.double().clamp(0, 1)
        return 1 - float(error.abs().mean())

    return score
