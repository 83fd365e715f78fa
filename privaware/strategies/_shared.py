"""Shared weights on their way: private steps on one sampled cell at a time, and counts of what cells get right.

A step is that of `privaware.descent`: a Poisson sample, gradients of the sampled cell clipped row by row, one noisy
sum. It is a sum over all shared parameters; those outside the cell are exactly zero in it, and the noise that falls on
them is thrown away, so neither they nor their velocities move.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from privaware.data import Data
from privaware.descent import Descent
from privaware.descent._gradient import as_inputs, as_target
from privaware.descent._probe import mantissas, proven, refuse_kinds
from privaware.descent._run import Run
from privaware.descent._stack import Stack
from privaware.errors import Refused
from privaware.features.standardise import Standardise
from privaware.models._supernet import Supernet
from privaware.models.dpnas import OPERATIONS
from privaware.noise import Rng
from privaware.strategies._cells import Cell

__all__ = ["Scorer", "Shared", "tensors_of"]

AT_ONCE = {"cpu": 256, "cuda": 4096}
"""Rows of one forward pass when cells are scored."""


@dataclass(frozen=True)
class _Sampled:
    """Momentum for the parameters of the sampled cell (`active` is 1 there); the others rest."""

    lr: float
    beta: float
    decay: float

    def start(self, theta: Tensor) -> dict[str, Tensor]:
        return {"velocity": torch.zeros_like(theta), "active": torch.ones_like(theta)}

    def apply(self, theta: Tensor, gradient: Tensor, state: dict[str, Tensor], lr: Any, spread: Any) -> None:
        velocity, active = state["velocity"], state["active"]
        change = gradient.add(theta, alpha=self.decay).sub_(velocity, alpha=1 - self.beta)
        velocity.add_(change.mul_(active))
        theta.sub_(velocity * active, alpha=lr)


class _Run(Run):
    """A run of shared weights, tried beforehand on one cell: with all operations at once that would take minutes."""

    def _load(self, inputs: Any, targets: Any, device: str) -> None:
        supernet: Any = self.modules[0]
        refuse_kinds(supernet)
        self.stack = Stack(self.modules, device=device)
        self.inputs, self.targets = as_inputs(inputs, self.stack), as_target(targets, self.stack)
        many = len(supernet.cells[0].edges)
        kinds = tuple(OPERATIONS[1 + at % (len(OPERATIONS) - 1)] for at in range(many))
        network = supernet.network(kinds)
        if proven(network, self.descent.loss, self.inputs, self.targets, self.stack.device):
            raise Refused("expected layers whose gradients have a rule; the shared network has others")
        self.stack.module.cell = ("selu",) * many  # type: ignore[assignment]  # the largest, for the memory


class Shared:
    """A supernet and the run that trains it; `step` moves the weights of one cell."""

    update = _Sampled

    def __init__(
        self,
        supernet: Supernet,
        descent: Descent,
        inputs: Tensor,
        targets: Tensor,
        *,
        noise: float,
        rows: int,
        rng: Rng,
        device: str,
    ) -> None:
        given = {"noise": [noise], "rows": rows, "rng": rng, "device": device}
        self.run = _Run(descent, [supernet], inputs, targets, **given)  # type: ignore[arg-type]
        self.supernet = supernet
        stack = self.run.stack
        for name, parameter in supernet.named_parameters():
            parameter.requires_grad_(False)
            parameter.data = stack.tensors[name][0]  # live: what a step changes is seen here
        places = supernet.places()
        number = {slot.name: _number(places[slot.name]) for slot in stack.slots}
        sizes = [slot.stop - slot.start for slot in stack.slots]
        owners = np.repeat(list(number.values()), sizes)
        self.owners = torch.from_numpy(owners).to(stack.device)
        self.kinds = 1 + max(number.values())

    def step(self, cell: Cell) -> None:
        """One private step on the weights of this cell."""
        inside = np.zeros(self.kinds, dtype=np.float32)
        inside[0] = 1
        for at, op in enumerate(cell):
            if (number := _number((at, op))) < self.kinds:  # the last edge need not have weights
                inside[number] = 1
        active = torch.from_numpy(inside).to(self.owners.device)[self.owners]
        self.run.state["active"].copy_(active[None])
        self.run.stack.module.cell = cell  # type: ignore[assignment]
        with mantissas(self.run.descent.precision):
            self.run.one_step()

    @torch.no_grad()
    def right(self, cells: list[Cell], inputs: Tensor, targets: Tensor) -> np.ndarray:
        """How many rows each cell gets right with the shared weights as they are."""
        counts = torch.zeros(len(cells), dtype=torch.float64, device=inputs.device)
        for at, cell in enumerate(cells):
            self.supernet.cell = cell
            parts = zip(inputs.split(self._each), targets.split(self._each), strict=True)
            with mantissas(self.run.descent.precision):
                for rows, truth in parts:
                    if len(truth):
                        counts[at] += (self.supernet(rows).argmax(1) == truth).sum()
        return counts.cpu().numpy()

    @property
    def _each(self) -> int:
        return AT_ONCE[self.owners.device.type]


class Scorer:
    """Noised shares of held rows that cells get right, and nothing else of these rows.

    Privacy: one row adds at most 1 to each of m counts, so that it moves all of them together by at most the root of m;
    they are one release. Without noise the rows are taken for public.
    """

    def __init__(self, shared: Shared, held: Data, noise: float, rng: Rng) -> None:
        self.shared, self.noise, self.rng = shared, noise, rng
        self.inputs, self.targets = tensors_of(held, str(shared.owners.device))
        self.rows = held.schema.rows

    def __call__(self, cells: list[Cell], rate: float = 1.0) -> np.ndarray:
        mask = self.rng.poisson(len(self.targets), rate)
        inputs, targets = self.inputs, self.targets
        if rate < 1:
            at = torch.from_numpy(np.flatnonzero(mask)).to(targets.device)
            inputs, targets = inputs[at], targets[at]
        counts = self.shared.right(cells, inputs, targets)
        if self.noise:
            bound = float(np.sqrt(len(cells)))
            counts = self.rng.gaussian(counts, noise=self.noise, sensitivity=bound)
        return np.asarray(counts / (rate * self.rows))


def tensors_of(data: Data, device: str) -> tuple[Tensor, Tensor]:
    """Images with entries of size about 1, and class codes."""
    channels = data.schema.shape[0]
    scaled = Standardise(mean=(0.5,) * channels, deviation=(0.25,) * channels)(data.x)
    return torch.from_numpy(scaled).to(device), torch.from_numpy(data.y).to(device)


def _number(place: tuple[int, str] | None) -> int:
    """A number for each edge and operation; 0 is what every cell uses."""
    return 0 if place is None else 1 + place[0] * len(OPERATIONS) + OPERATIONS.index(place[1])
