"""ALIBI: labels with Laplace noise, denoised at every step by the model's own predictions.

Each label becomes a one-hot vector, to which Laplace noise is added once. Training uses only these noisy vectors. At
every step the model's prediction is the prior, the noisy vector is the evidence, and the gradient follows the
posterior. The model is a network. For tables and texts without an `architecture` it is a softmax regression on the
default features.

Paper: Malek, Mironov, Prasad, Shilov, Tramer 2021, Antipodes of Label Differential Privacy, arXiv:2106.03408; algorithm
ALIBI of DPMLBench (the model's posterior as prior; DPMLBench also sets epochs = 60 or 90 and lr = 0.01).
Privacy: epsilon-DP for the label of one row, with features taken as public. Changing a label changes two entries of its
one-hot vector by 1 each, so the L1 sensitivity is 2. At noise multiplier `noise` the Laplace scale is 2 * noise, and
epsilon is 1 / noise. The entries are integers and are not summed over rows. Everything after the noise is
post-processing.
Use when: only the labels are sensitive.

>>> from privaware.schema import Column, Schema
>>> schema = Schema(columns=(Column(name="a", low=0, high=1),), classes=("no", "yes"), rows=100, unit="label")
>>> Alibi().cost(schema, noise=0.5)
Laplace(noise=0.5)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privaware._validate import expect_one_of
from privaware.data import Data
from privaware.events import Event, Laplace
from privaware.learners._fixed_features import feature_for, linear_model, rows_of, softmax
from privaware.learners._networks.plain_network import PlainNetwork
from privaware.model import Model
from privaware.noise import Rng
from privaware.schema import Schema

__all__ = ["Alibi", "evidence", "posterior"]

PRIORS = ("model", "uniform")
"""Choices of the prior probabilities of a label: the predictions of the model, or equal probabilities."""


@dataclass(frozen=True, kw_only=True)
class Alibi(PlainNetwork):
    """A network or softmax regression trained on labels with Laplace noise.

    Parameters
    ----------
    prior : str
        The prior of a label at each step: the prediction of the "model", or "uniform".
    steps, lr : optional
        For a softmax regression, the number of full-batch steps (default 300) and the learning rate (default 4). For a
        network both are as in `PlainNetwork`.

    `PlainNetwork` explains the other settings. `momentum` and `decay` (weight decay) apply to networks and to softmax
    regression, all others to networks only.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    unit: ClassVar[str] = "label"
    phase: ClassVar[str] = "label privacy"
    guarantee: ClassVar[str] = "epsilon"

    prior: str = "model"

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_one_of("alibi", PRIORS, prior=self.prior)

    def cost(self, schema: Schema, noise: float) -> Event:
        if self._is_network(schema):
            self._architecture(schema)
        return Laplace(noise=noise)

    def _is_network(self, schema: Schema) -> bool:
        return schema.form == "image" or self.architecture is not None or self.features is not None

    def _run_all(self, data: Data, noises: Sequence[float], rng: Rng) -> list[Model]:
        exact_labels = np.eye(len(data.schema.classes))[data.y]
        supports = []
        for noise in noises:
            noisy = rng.laplace(exact_labels, noise=noise, sensitivity=2.0)
            supports.append(evidence(noisy, 2 * noise).astype(np.float32))
        if self._is_network(data.schema):
            return self._train(data, np.stack(supports), rng)
        feature = feature_for(data.schema)
        rows = rows_of(data, feature)
        return [linear_model(data.schema, (feature,), *self._regress(rows, support)) for support in supports]

    def _train(self, data: Data, supports: np.ndarray, rng: Rng) -> list[Model]:
        """Return one trained model for each slice of `supports`, all trained as one stack.

        `supports` (networks, rows, classes) are log-likelihoods of the noisy labels, as `evidence` returns them. At
        each step the target of a row is `softmax(log(prior) + support)`.
        """
        import torch

        support = torch.from_numpy(supports).to(self.device)
        network = torch.arange(len(support), device=self.device)[:, None]

        def targets(at: Any, predicted: Any) -> Any:
            prior = predicted.clamp_min(1e-30).log() if self.prior == "model" else 0.0
            return (prior + support[network, at]).softmax(-1)

        modules = self._modules(data.schema, len(supports), rng)
        trained = self._descent(len(data)).run_population(modules, self._rows(data), targets, rng)
        return [self._model(data.schema, module) for module in trained]

    def _regress(self, rows: np.ndarray, support: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return weights (classes, width) and biases (classes,) of a softmax regression trained by full-batch descent.

        `rows` are (rows, width). `support` (rows, classes) are log-likelihoods of the noisy labels, as `evidence`
        returns them.
        """
        theta = np.zeros((rows.shape[1] + 1, support.shape[1]), np.float32)
        velocity = np.zeros_like(theta)
        lr = 4.0 if self.lr is None else self.lr
        for _ in range(300 if self.steps is None else self.steps):
            predicted = softmax(rows @ theta[:-1] + theta[-1])
            prior = predicted if self.prior == "model" else np.ones_like(predicted)
            error = (predicted - posterior(prior, support)) / max(len(rows), 1)
            gradient = np.concatenate([rows.T @ error, error.sum(axis=0, keepdims=True)])
            velocity = self.momentum * velocity + gradient + self.decay * theta
            theta = theta - lr * velocity
        return theta[:-1].T, theta[-1]


def evidence(noisy: np.ndarray, scale: float) -> np.ndarray:
    """Return the log-likelihood of a noisy one-hot vector for each true class, up to a constant.

    Parameters
    ----------
    noisy : numpy.ndarray
        One-hot vectors with Laplace noise (rows, classes).
    scale : float
        The scale of the Laplace noise.

    Returns
    -------
    numpy.ndarray
        The log-likelihoods, in the shape of `noisy`. The value of a class depends only on the entry of that class,
        because all other terms cancel. Two classes of a row differ by at most 2 / scale = epsilon.
    """
    return np.asarray((np.abs(noisy) - np.abs(noisy - 1)) / scale)


def posterior(prior: np.ndarray, support: np.ndarray) -> np.ndarray:
    """Return the posterior probabilities of the classes of each row: `softmax(log(prior) + support)`.

    Parameters
    ----------
    prior : numpy.ndarray
        Prior class probabilities (rows, classes).
    support : numpy.ndarray
        Log-likelihoods (rows, classes), as `evidence` returns them.

    Returns
    -------
    numpy.ndarray
        Probabilities (rows, classes).

    >>> posterior(np.array([[0.5, 0.5]]), evidence(np.array([[1.2, -0.3]]), scale=0.01)).round(6).tolist()
    [[1.0, 0.0]]
    """
    return softmax(np.log(np.maximum(prior, 1e-30)) + support)
