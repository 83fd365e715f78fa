"""Functions that learners on fixed features share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from privaware import features
from privaware.data import Data
from privaware.features.pixels import Pixels
from privaware.learners._fixed_features import (
    feature_for,
    linear_model,
    network_rows,
    row_features,
    rows_after,
    softmax,
)
from privaware.schema import Column, Schema
from privaware.testing import example, rows_for

IMAGE = Schema(form="image", shape=(1, 8, 8), classes=("a", "b"), rows=40)
TABLE = Schema(columns=(Column(name="a", low=0, high=1), Column(name="b", low=0, high=1)), classes=("n", "y"), rows=40)
TEXT = Schema(form="text", classes=("n", "y"), rows=40)


@dataclass(frozen=True)
class BySlot:
    """A transformation whose last bits depend on the slot of a row in its microbatch."""

    def __call__(self, x: np.ndarray, schema: Schema) -> Any:
        flat = x.reshape(len(x), -1).astype(np.float32)
        return flat + np.float32(2.0**-20) * (np.arange(len(x)) % 2)[:, None].astype(np.float32)


@dataclass(frozen=True)
class BySize:
    """A transformation whose last bits depend on the size of the microbatch."""

    def __call__(self, x: np.ndarray, schema: Schema) -> Any:
        return x.reshape(len(x), -1).astype(np.float32) + np.float32(len(x) * 2.0**-20)


@pytest.mark.parametrize("feature", [BySlot(), BySize(), features.build({"name": "scatter", "J": 1, "L": 2})])
def test_p39_features_of_a_row_do_not_depend_on_other_rows(feature: Any) -> None:
    data = rows_for(IMAGE, 300, seed=1)
    after = rows_after((feature,), data)
    assert np.array_equal(rows_after((feature,), data.take(np.arange(1, 300))), after[1:])
    assert np.array_equal(rows_after((feature,), data.take(np.array([7]))), after[[7]])


@dataclass(frozen=True)
class BySlotIfMany:
    """The same, in microbatches of more than 16 only; it counts the largest."""

    sizes: list[int]

    def __call__(self, x: np.ndarray, schema: Schema) -> Any:
        self.sizes.append(len(x))
        return BySlot()(x, schema) if len(x) > 16 else x.reshape(len(x), -1).astype(np.float32)


def test_p39_rows_without_slots_use_the_largest_microbatches() -> None:
    feature = BySlotIfMany([])
    data = rows_for(IMAGE, 300, seed=1)
    assert np.array_equal(rows_after((feature,), data), data.x.reshape(300, -1).astype(np.float32))
    assert feature.sizes[-1] == 16


def test_rows_of_every_form_are_those_of_their_features() -> None:
    for schema, name in ((TABLE, "onehot"), (TEXT, "hashed"), (IMAGE, "pixels")):
        data, feature = rows_for(schema, 37, seed=2), features.build({"name": name})
        assert np.array_equal(rows_after((feature,), data), features.apply((feature,), data.x, schema))


def test_softmax_survives_huge_logits() -> None:
    assert softmax(np.array([[1e4, 0.0]])).tolist() == [[1.0, 0.0]]


@pytest.mark.parametrize("there", [400, 300, 310])
def test_feature_progress_tells_only_the_declared_row_count(there: int) -> None:
    schema = Schema(form="image", shape=(1, 4, 4), classes=("no", "yes"), rows=310)
    data = Data(schema=schema, x=np.zeros((there, 1, 4, 4), np.float32), y=np.zeros(there, np.int64))
    heard: list[tuple[int, int, str]] = []
    rows_after((Pixels(),), data, progress=lambda at, of, left, what: heard.append((at, of, what)))
    assert heard[-1] == (310, 310, "features")
    assert all(of == 310 and at <= 310 for at, of, _ in heard)
    assert len(heard) == 3


def test_diverged_network_is_applied_to_many_rows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """NaN at the same place is the same output; row by row, a diverged candidate would take a hundred times as long."""
    schema = example(rows=64, classes=0)
    feature = feature_for(schema)
    inputs = np.ascontiguousarray(row_features((feature,), rows_for(schema, 64)))
    weight = np.full((1, inputs.shape[1]), np.inf)
    weight[:, ::2] *= -1
    model, sizes = linear_model(schema, (feature,), weight, np.zeros(1)), []
    network = model.network()
    network.register_forward_hook(lambda module, rows, outputs: sizes.append(len(rows[0])))
    monkeypatch.setattr(type(model), "network", lambda self: network)
    outputs = network_rows(model, inputs, schema)
    assert np.isnan(outputs).any()
    assert sizes == [64] * 3  # twice on synthetic rows, to find the size
