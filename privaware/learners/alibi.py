"""ALIBI: labels with Laplace noise, denoised at every step by the model's own predictions.

Each label becomes a one-hot vector plus Laplace noise, once. From then on only these noisy vectors
are used: at every step the model's own prediction is the prior, the noisy vector the evidence, and
the gradient follows the posterior. Here the model is a softmax regression on the schema's features.

Paper: Malek, Mironov, Prasad, Shilov, Tramer 2021, Antipodes of Label Differential Privacy,
arXiv:2106.03408.
Privacy: epsilon-DP for the label of one row, features taken as public. Changing a label moves two
entries of its one-hot vector by one each: L1 sensitivity 2, in whole numbers and without a sum over rows. Everything
after is post-processing.
Use when: only the labels are sensitive.

>>> from privaware.schema import Schema
>>> Alibi().cost(Schema(classes=("no", "yes"), rows=100, unit="label"), noise=0.5)
Laplace(noise=0.5)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privaware._validate import expect_count, expect_in
from privaware.data import Data
from privaware.events import Event, Laplace
from privaware.learners import Learner
from privaware.learners._fixed_features import feature_for, linear_model, rows_of, softmax
from privaware.model import Model
from privaware.noise import Rng
from privaware.schema import Schema

__all__ = ["Alibi", "posterior"]


@dataclass(frozen=True, kw_only=True)
class Alibi(Learner):
    """`steps` of full-batch descent with momentum; `decay` is the weight decay."""

    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    unit: ClassVar[str] = "label"

    steps: int = 300
    lr: float = 4.0
    momentum: float = 0.9
    decay: float = 1e-4

    def __post_init__(self) -> None:
        expect_count("alibi", steps=self.steps)
        expect_in("alibi", "(0, 100]", lr=self.lr)
        expect_in("alibi", "[0, 1)", momentum=self.momentum)
        expect_in("alibi", "[0, 0.01]", decay=self.decay)

    def cost(self, schema: Schema, noise: float) -> Event:
        return Laplace(noise=noise)

    def run(self, data: Data, noise: float, rng: Rng) -> Model:
        feature = feature_for(data.schema)
        rows = rows_of(data, feature)
        exact_labels = np.eye(len(data.schema.classes))[data.y]
        noisy = rng.laplace(exact_labels, noise=noise, sensitivity=2.0)
        weight, bias = self._descend(rows, noisy.astype(np.float32), scale=2 * noise)
        return linear_model(data.schema, (feature,), weight, bias)

    def _descend(self, rows: np.ndarray, noisy: np.ndarray, scale: float) -> tuple[np.ndarray, np.ndarray]:
        classes = noisy.shape[1]
        theta = np.zeros((rows.shape[1] + 1, classes), np.float32)
        velocity = np.zeros_like(theta)
        for _ in range(self.steps):
            prior = softmax(rows @ theta[:-1] + theta[-1])
            error = (prior - posterior(prior, noisy, scale)) / max(len(rows), 1)
            gradient = np.concatenate([rows.T @ error, error.sum(axis=0, keepdims=True)])
            velocity = self.momentum * velocity + gradient + self.decay * theta
            theta = theta - self.lr * velocity
        return theta[:-1].T, theta[-1]


def posterior(prior: np.ndarray, noisy: np.ndarray, scale: float) -> np.ndarray:
    """Probabilities of the true class, given the model's prior and a one-hot vector with Laplace noise.

    Only the entry of each class matters, because the differences of the others cancel.

    >>> posterior(np.array([[0.5, 0.5]]), np.array([[1.2, -0.3]]), scale=0.01).round(6).tolist()
    [[1.0, 0.0]]
    """
    evidence = (np.abs(noisy) - np.abs(noisy - 1)) / scale
    return softmax(np.log(np.maximum(prior, 1e-30)) + evidence)
