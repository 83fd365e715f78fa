"""Softmax or linear regression on rows of bounded norm, by private gradient descent.

Tables are one-hot encoded against the schema (public bins, declared categories), images flattened,
text hashed; every row then has length at most 1. Each step sums the rows' clipped gradients, whose
norms have a closed form, adds Gaussian noise and divides by the declared number of rows; momentum
smooths the way and the released weights are the average of the last steps.

Paper: Abadi et al. 2016, Deep Learning with Differential Privacy, arXiv:1607.00133; full batches and
averaging after Tramer and Boneh 2021, arXiv:2011.11660, and De et al. 2022, arXiv:2204.13650.
Privacy: (epsilon, delta) for one row added or removed. A row's gradient is clipped to `norm`, so it
moves the sum by at most `norm`; `steps` Gaussian releases, Poisson-sampled when `rate` is below 1.
Use when: rows are few, the budget is small, or features are good. The default for tables.

>>> from privaware.testing import rows_for
>>> from privaware.schema import Column, Schema
>>> from privaware.noise import Rng
>>> schema = Schema(columns=(Column(name="c", low=-1, high=1),), classes=("n", "y"), rows=200)
>>> model = Linear(steps=20).run(rows_for(schema, 200), noise=0.5, rng=Rng(seed=1))
>>> sorted(model.tensors)
['output.bias', 'output.weight']
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import Event
from privaware.learn._rows import feature_for, rows_of
from privaware.model import Model, scaled
from privaware.noise import Rng
from privaware.schema import Schema

__all__ = ["Linear"]


@dataclass(frozen=True, kw_only=True)
class Linear:
    """`lr` left out is chosen from public facts: rows, width and noise. `bins` is for undeclared ones."""

    tasks: ClassVar[tuple[str, ...]] = ("classification", "regression")

    steps: int = 100
    rate: float = 1.0
    norm: float = 0.5
    lr: float | None = None
    momentum: float = 0.9
    average: float = 0.5
    bins: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise WrongInput(f"linear: expected rate in (0, 1], got {self.rate!r}")
        if self.steps < 1:
            raise WrongInput(f"linear: expected steps >= 1, got {self.steps!r}")
        if self.bins < 0:
            raise WrongInput(f"linear: expected bins >= 0, got {self.bins!r}")
        for name in ("norm", "lr"):
            value = getattr(self, name)
            if value is not None and not 1e-9 <= value <= 1e9:  # single precision must hold it
                raise WrongInput(f"linear: expected {name} from 1e-9 to 1e9, got {value!r}")

    def cost(self, schema: Schema, noise: float) -> Event:
        return self._descent(schema, noise).cost(noise)

    def run(self, data: Data, noise: float, rng: Rng) -> Model:
        import torch

        from privaware import models

        schema = data.schema
        feature = feature_for(schema, self.bins)
        architecture = {
            "name": "linear",
            "inputs": feature.width(schema),
            "outputs": max(len(schema.classes), 1),
        }
        module = models.build(architecture, rng.initial)
        for parameter in module.parameters():
            torch.nn.init.zeros_(parameter)
        descent = self._descent(schema, noise)
        trained = descent.run(
            module,
            torch.from_numpy(rows_of(data, feature)),
            self._targets(data),
            noise=noise,
            rows=schema.rows,
            rng=rng,
        )
        return Model.of(trained, schema, (feature,), architecture)

    def step_size(self, schema: Schema, noise: float) -> float:
        """A step that fits the noise: long while the signal of the rows dominates, short where noise does."""
        if self.lr is not None:
            return self.lr
        width = feature_for(schema, self.bins).width(schema) * max(len(schema.classes), 1)
        spread = noise * self.norm * math.sqrt(width * self.steps) / (self.rate * schema.rows)
        return float(np.clip(LR / spread, 0.01, 64.0 if schema.classes else STABLE))

    def _descent(self, schema: Schema, noise: float) -> Any:
        from privaware import descent

        sampler = descent.FullBatch() if self.rate == 1 else descent.Poisson(rate=self.rate)
        return descent.Descent(
            steps=self.steps,
            sampler=sampler,
            clip=descent.flat(self.norm),
            update=descent.momentum(self.step_size(schema, noise), self.momentum),
            average=descent.tail(self.average),
            loss=descent.cross_entropy if schema.classes else descent.squared,
        )

    def _targets(self, data: Data) -> Any:
        import torch

        if data.schema.classes:
            return torch.from_numpy(data.y)
        return torch.from_numpy(scaled(data.y, data.schema).astype(np.float32)[:, None])


STABLE = 0.9
"""The longest step of the squared loss: rows with their constant have squared length at most 2, so
descent with momentum beta is stable below (1 + beta), and half of that leaves room."""

LR = 2.0
"""Step times spread of the noise: one constant for all data, fixed on three public benchmark sets."""
