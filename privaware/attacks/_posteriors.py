"""Quantities that attacks compute from the outputs of a model, in float64."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from privaware import features
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.model import MICROBATCH, Model, scaled


def outputs(models: Sequence[Model], rows: Data, device: str) -> Iterator[np.ndarray]:
    """Yield the raw outputs of each model on the same rows, with shape (rows, outputs), computed on `device`.

    Raw outputs of a classifier are its logits. Equal features of consecutive models are computed once.
    """
    last: tuple[Any, ...] = ()
    for model in models:
        if last != (model.features, model.schema.used):
            last = (model.features, model.schema.used)
            inputs = np.ascontiguousarray(features.apply(model.features, _columns(model, rows), model.schema, device))
        yield model.network_outputs(inputs, device)


def _columns(model: Model, rows: Data) -> np.ndarray:
    """Return the values of the columns that the model uses; one trained after a selection uses fewer columns."""
    return rows.keep(tuple(column.name for column in model.schema.used)).x


def expect_classes(model: Model) -> None:
    """Raise `WrongInput` if `model` predicts numbers, because an attack reads the probabilities of classes."""
    if not model.schema.classes:
        raise WrongInput("expected a model of classes, whose posteriors this attack reads, got one of numbers")


def log_posteriors(model: Model, values: np.ndarray) -> np.ndarray:
    """Return the logarithms of the class probabilities (rows, classes), from the raw outputs `values` of `model`.

    Raise `WrongInput` for a regression.
    """
    from scipy.special import log_softmax

    expect_classes(model)
    return np.asarray(log_softmax(values, axis=1))


def true_posteriors(model: Model, values: np.ndarray, rows: Data) -> np.ndarray:
    """Return the probability of each row's own class, from the raw outputs `values` (rows, classes) of `model`.

    Raise `WrongInput` for a regression.
    """
    return np.exp(log_posteriors(model, values)[np.arange(len(rows)), rows.y])


def losses(model: Model, values: np.ndarray, rows: Data) -> np.ndarray:
    """Return the cross-entropy of each row, or for a regression the squared error of the target scaled to [-1, 1].

    `values` are the raw outputs of `model`.
    """
    if not model.schema.classes:
        return np.asarray((values[:, 0] - scaled(rows.y, model.schema)) ** 2)
    return -log_posteriors(model, values)[np.arange(len(rows)), rows.y]


def confidence(model: Model, values: np.ndarray, rows: Data) -> np.ndarray:
    """Return the log odds `ln(p_y) - ln(1 - p_y)` of each row's own class; for regression, minus the loss.

    `values` are the raw outputs of `model`.
    """
    if not model.schema.classes:
        return -losses(model, values, rows)
    return _odds_of(values, rows.y)


def log_odds(model: Model, values: np.ndarray) -> np.ndarray:
    """Return `ln(p) - ln(1 - p)` of each class (rows, classes), from the raw outputs `values` of `model`.

    Raise `WrongInput` for a regression.
    """
    expect_classes(model)
    return np.stack([_odds_of(values, np.full(len(values), at)) for at in range(values.shape[1])], axis=1)


def _odds_of(values: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return for each row `ln(p) - ln(1 - p)` of the class in `classes`, from the raw outputs `values` (rows, classes).

    `1 - p` is not formed, because it rounds to 0 for a confident model.
    """
    from scipy.special import logsumexp

    own = np.zeros(values.shape, dtype=bool)
    own[np.arange(len(values)), classes] = True
    return values[own] - np.asarray(logsumexp(np.where(own, -np.inf, values), axis=1))


def last_layer(model: Model, rows: Data, device: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the raw outputs of `model` (rows, outputs), and the inputs of its last linear layer (rows, inputs).

    The per-example gradient of this layer follows from them. Raise `WrongInput` if the network has no linear layer, or
    if something follows its last one.
    """
    import torch
    from torch import nn

    network = model.network().to(device)
    layers = [layer for layer in network.modules() if isinstance(layer, nn.Linear)]
    if not layers:
        raise WrongInput("expected a network whose last layer is linear, got one without any")
    seen: list[Any] = []
    layers[-1].register_forward_hook(lambda layer, inputs, result: seen.append((inputs[0], result)))
    x, parts = _columns(model, rows), []
    for start in range(0, max(len(rows), 1), MICROBATCH):
        inputs = features.apply(model.features, x[start : start + MICROBATCH], model.schema, device)
        with torch.no_grad():
            result = network(torch.from_numpy(np.ascontiguousarray(inputs)).to(device))
        entering, leaving = seen[-1]
        if not torch.equal(result, leaving):
            raise WrongInput("expected a network whose last layer is linear, got something after it")
        parts.append((result.cpu().numpy().astype(float), entering.cpu().numpy()))
        seen.clear()
    values, hidden = zip(*parts, strict=True)
    return np.concatenate(values), np.concatenate(hidden)
