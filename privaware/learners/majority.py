"""The private constant: the most frequent class, with noisy class frequencies as probabilities.

Paper: Dwork, McSherry, Nissim, Smith 2006, Calibrating Noise to Sensitivity (the private histogram).
Privacy: epsilon-DP for one row added or removed, with epsilon = 1 / noise. One row changes one count, an integer, by 1,
so the L1 sensitivity is 1.
Use when: rows are too few for anything else, or a baseline is wanted that a model must beat.

>>> from privaware.schema import Schema
>>> Majority().cost(Schema(classes=("no", "yes"), rows=100), noise=2.0)
Laplace(noise=2.0)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privaware.data import Data, Rows, Sum, release
from privaware.events import Event, Laplace
from privaware.exact_sums import count
from privaware.learners import Learner
from privaware.learners._fixed_features import constant_model
from privaware.model import Model
from privaware.noise import Rng
from privaware.schema import Schema

__all__ = ["Majority"]


@dataclass(frozen=True, kw_only=True)
class Majority(Learner):
    """A constant prediction from one noisy histogram of the classes; it has no settings."""

    uses_columns: ClassVar[bool] = False
    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    guarantee: ClassVar[str] = "epsilon"
    sums: ClassVar[str] = "exact"
    in_parts: ClassVar[bool] = True

    def cost(self, schema: Schema, noise: float) -> Event:
        return Laplace(noise=noise)

    def run(self, data: Rows, noise: float, rng: Rng) -> Model:
        noisy = release(ClassCounts(classes=len(data.schema.classes)), data.parts, noise, rng)
        counts = np.maximum(noisy, 0.5)
        return constant_model(data.schema, np.log(counts / counts.sum()))


@dataclass(frozen=True, kw_only=True)
class ClassCounts(Sum[Data, np.ndarray, np.ndarray]):
    """The number of rows in each of `classes` classes; `release` adds Laplace noise of scale `noise` to each count."""

    classes: int

    def partial(self, part: Data) -> np.ndarray:
        return count(part.y, self.classes)

    def release(self, total: np.ndarray, noise: float, rng: Rng) -> np.ndarray:
        return np.asarray(rng.laplace(total, noise=noise, sensitivity=1.0))
