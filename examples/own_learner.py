"""A learner of your own: nearest class mean, with one Gaussian release; then the shared checks on it.

In the package: `privaware/learners/nearest_mean.py`, and one line in `tests/learners/test_every_learner.py`.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privaware.data import Data
from privaware.events import Event, Gaussian
from privaware.features.bounded import Bounded
from privaware.learners import Learner
from privaware.model import Model
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import check_learner


@dataclass(frozen=True, kw_only=True)
class NearestMean(Learner):
    """Sums of unit-length rows and counts by class are released together; a row moves them by at most sqrt(2)."""

    tasks: ClassVar[tuple[str, ...]] = ("classification",)

    def cost(self, schema: Schema, noise: float) -> Event:
        return Gaussian(noise=noise)

    def run(self, data: Data, noise: float, rng: Rng) -> Model:
        schema, feature = data.schema, Bounded()
        rows = feature(data.x, schema)
        one_hot = np.eye(len(schema.classes))[data.y]
        exact_sums = one_hot.T @ np.column_stack([rows, np.ones(len(rows))])
        sums = rng.gaussian(exact_sums, noise=noise, sensitivity=2**0.5)
        means = sums[:, :-1] / np.maximum(sums[:, -1:], 1.0)
        tensors = {"output.weight": 2 * means, "output.bias": -(means**2).sum(1)}
        architecture = {"name": "linear", "inputs": rows.shape[1], "outputs": len(schema.classes)}
        float32 = {name: value.astype(np.float32) for name, value in tensors.items()}
        return Model(schema=schema, features=(feature,), architecture=architecture, tensors=float32)


columns = (Column(name="age", low=0, high=90), Column(name="score", low=-1, high=1))
schema = Schema(columns=columns, classes=("no", "yes"), rows=40)
lower = check_learner(NearestMean(), schema=schema, epsilon=1.0, games=200)
print(f"the checks passed; their canary game proves epsilon of at least {lower:.2f}, claimed is 1")
