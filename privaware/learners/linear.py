"""Softmax or linear regression on rows of bounded norm, by private gradient descent.

Tables are one-hot encoded against the schema (public bins, declared categories), images flattened,
text hashed; or the named `features` are applied to them, such as the prior for images. Every row
then has norm at most 1. Each step sums the rows' clipped gradients, whose
norms have a closed form, adds Gaussian noise and divides by the declared number of rows; steps have
momentum, and the released weights are the average of the last steps.

Paper: Abadi et al. 2016, Deep Learning with Differential Privacy, arXiv:1607.00133; full batches and
averaging after Tramer and Boneh 2021, arXiv:2011.11660, and De et al. 2022, arXiv:2204.13650.
Privacy: (epsilon, delta) for one row added or removed. A row's gradient is clipped to `norm`, so it
moves the sum by at most `norm`; `steps` Gaussian releases, Poisson-sampled when `rate` is below 1.
Use when: rows are few, the budget is small, or features are good. The default for tables.

A linear model on images: `Linear(features=[{"name": "prior", "scatter": 1.0}])`.

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
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from privaware import features as transforms
from privaware._validate import expect_between, expect_count, expect_in
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import Event
from privaware.features.bounded import Bounded
from privaware.learners import Learner
from privaware.learners._fixed_features import feature_for, rows_after, rows_of, shape_after
from privaware.model import Model, scaled
from privaware.noise import Rng
from privaware.schema import Schema

__all__ = ["Linear"]


@dataclass(frozen=True, kw_only=True)
class Linear(Learner):
    """`lr` left out is chosen from public facts: rows, width and noise. `bins` is for undeclared ones.

    `features` are descriptions of `privaware.features`, applied in order; the result is scaled to norm 1. Noise
    grows with the `constant` of a row, the entry that carries the bias: left out, it is 1, or a tenth beside named
    features. `device` and `progress` change nothing that is released.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification", "regression")

    steps: int = 100
    rate: float = 1.0
    norm: float = 0.5
    lr: float | None = None
    momentum: float = 0.9
    average: float = 0.5
    bins: int = 0
    features: list[dict[str, Any]] | None = None
    constant: float | None = None
    device: str = field(default="cpu", repr=False, compare=False)
    progress: Callable[[int, int, float], None] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        expect_in("linear", "(0, 1]", rate=self.rate)
        expect_count("linear", steps=self.steps)
        expect_count("linear", 0, bins=self.bins)
        expect_between("linear", 1e-9, 1e9, norm=self.norm)  # float32 must hold it
        if self.lr is not None:
            expect_between("linear", 1e-9, 1e9, lr=self.lr)
        if self.constant is not None:
            expect_between("linear", 1e-3, 1e3, constant=self.constant)
        if self.features is not None and not isinstance(self.features, list):
            raise WrongInput(
                f'linear: expected features as a list such as [{{"name": "prior"}}], got {self.features!r:.80}'
            )

    def cost(self, schema: Schema, noise: float) -> Event:
        self._width(schema)  # features that do not fit the rows are refused before anything is charged
        return self._descent(schema, noise).cost(noise)

    def run(self, data: Data, noise: float, rng: Rng) -> Model:
        import torch

        from privaware import models
        from privaware.descent import Callbacks

        schema, chain = data.schema, self._chain(data.schema)
        outputs = max(len(schema.classes), 1)
        architecture = {"name": "linear", "inputs": self._width(schema), "outputs": outputs}
        module = models.build(architecture, rng.initial)
        for parameter in module.parameters():
            torch.nn.init.zeros_(parameter)
        rows = rows_of(data, chain[0]) if self.features is None else rows_after(chain, data)
        if self._constant != 1:
            rows /= np.float32(self._constant)  # larger rows beside 1 instead of rows beside a constant
        trained = self._descent(schema, noise).run(
            module,
            torch.from_numpy(rows),
            self._targets(data),
            noise=noise,
            rows=schema.rows,
            rng=rng,
            device=self.device,
            callbacks=Callbacks(progress=self.progress),
        )
        with torch.no_grad():
            trained.output.weight.div_(self._constant)
        return Model.of(trained, schema, chain, architecture)

    def learning_rate(self, schema: Schema, noise: float) -> float:
        """A learning rate for the noise: large while the signal of the rows dominates, small where noise does."""
        if self.lr is not None:
            return self.lr
        outputs, named = max(len(schema.classes), 1), self.features is not None
        width = outputs if named else outputs * self._width(schema)
        spread = noise * self.norm * math.sqrt(width * self.steps) / (self.rate * schema.rows)
        largest = (LARGEST_LR if named else 64.0) if schema.classes else STABLE
        return float(np.clip((LR_NAMED if named else LR) / spread, 0.01, largest))

    def _chain(self, schema: Schema) -> tuple[Any, ...]:
        if self.features is None:
            return (feature_for(schema, self.bins),)
        return (*(transforms.build(described) for described in self.features), Bounded())

    def _width(self, schema: Schema) -> int:
        chain = self._chain(schema)
        return chain[0].width(schema) if len(chain) == 1 else math.prod(shape_after(chain, schema))

    @property
    def _constant(self) -> float:
        if self.constant is not None:
            return self.constant
        return 1.0 if self.features is None else 0.1

    def _descent(self, schema: Schema, noise: float) -> Any:
        from privaware import descent

        sampler = descent.FullBatch() if self.rate == 1 else descent.Poisson(rate=self.rate)
        return descent.Descent(
            steps=self.steps,
            sampler=sampler,
            clip=descent.flat(self.norm / self._constant),
            update=descent.momentum(self.learning_rate(schema, noise) * self._constant**2, self.momentum),
            average=descent.tail(self.average),
            loss=descent.cross_entropy if schema.classes else descent.squared,
        )

    def _targets(self, data: Data) -> Any:
        import torch

        if data.schema.classes:
            return torch.from_numpy(data.y)
        return torch.from_numpy(scaled(data.y, data.schema).astype(np.float32)[:, None])


STABLE = 0.9
"""The largest learning rate of the squared loss: rows with their constant have squared norm at most 2, so
descent with momentum beta is stable below (1 + beta); this is half of that."""

LR = 2.0
"""Learning rate times noise of a weight: one constant for all data, fixed on three public benchmark sets."""

LR_NAMED = 0.45
"""The same for named features. Noise is the same in all directions and every row has norm 1, so its effect on an
output does not depend on the width. Fixed on held-out training rows of Fashion-MNIST: docs/results/prior.md."""

LARGEST_LR = 300.0
"""The largest learning rate that was tried for named features."""
