"""What learners on fixed features share: how a row of each form of data becomes numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from privaware import features
from privaware.data import Data
from privaware.features.hashed import Hashed
from privaware.features.onehot import OneHot
from privaware.features.pixels import Pixels
from privaware.model import Model
from privaware.schema import Schema


def feature_for(schema: Schema, bins: int = 0) -> Any:
    """One-hot rows for tables, pixels for images, hashed n-grams for text: all of length at most 1.

    Noise grows with the width of a row, so text gets about one slot for every sixteen declared rows.
    """
    if schema.form == "image":
        return Pixels()
    if schema.form == "text":
        slots = 2 ** round(math.log2(schema.rows / 16)) if schema.rows > 16 else 64
        return Hashed(slots=min(max(slots, 64), 4096), words=1, letters=3)
    return OneHot(bins=bins)


def rows_of(data: Data, feature: Any) -> np.ndarray:
    """The rows as float32 numbers of bounded norm."""
    return features.apply((feature,), data.x, data.schema)


def linear_model(schema: Schema, feature: Any, weight: np.ndarray, bias: np.ndarray) -> Model:
    """The released form of weights (outputs, width) and biases."""
    architecture = {"name": "linear", "inputs": weight.shape[1], "outputs": len(weight)}
    tensors = {"output.weight": weight.astype(np.float32), "output.bias": bias.astype(np.float32)}
    return Model(schema=schema, features=(feature,), architecture=architecture, tensors=tensors)


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities along the last axis."""
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))
