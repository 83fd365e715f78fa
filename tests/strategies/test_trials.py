"""The scores of trials: what one validation row adds depends on no other row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from privaware import models
from privaware.data import Data
from privaware.model import Model
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.strategies._trials import ValidationScorer

WIDTH = 300
COLUMNS = tuple(Column(name=f"c{at}", low=0, high=1) for at in range(WIDTH))


def wide_model(schema: Schema) -> Model:
    """A network whose matrix products are large enough to be computed in blocks."""
    outputs = max(len(schema.classes), 1)
    architecture: dict[str, Any] = {
        "name": "fcn",
        "inputs": WIDTH,
        "hidden": [257, 129],
        "outputs": outputs,
        "dropout": 0.0,
    }
    torch.manual_seed(0)
    network = models.build(architecture)
    return Model.of(network, schema, (), architecture)


def scored_outputs(model: Model, data: Data, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """Return the outputs from which a scorer counts correct predictions."""
    seen: list[np.ndarray] = []

    def decide(self: Model, outputs: np.ndarray) -> np.ndarray:
        seen.append(outputs)
        return outputs.argmax(axis=1)

    with monkeypatch.context() as patch:
        patch.setattr(Model, "decide", decide)
        ValidationScorer(data, 300.0, 1.0, "cpu").scores([model], Rng(seed=0))
    return seen[0]


def test_p39_output_of_a_validation_row_depends_on_no_other_row(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = Schema(columns=COLUMNS, classes=("0", "1", "2"), rows=301)
    x = np.random.default_rng(0).random((301, WIDTH)).astype(np.float32)
    data, model = Data(schema=schema, x=x, y=np.zeros(301, int)), wide_model(schema)
    together = scored_outputs(model, data, monkeypatch)
    for kept in (np.arange(1, 301), np.arange(0, 301, 7), np.array([5])):
        assert np.array_equal(scored_outputs(model, data.take(kept), monkeypatch), together[kept])


def test_regression_scores_of_rows_add_up_exactly() -> None:
    schema = Schema(columns=COLUMNS, low=0.0, high=1.0, rows=301)
    draw = np.random.default_rng(0)
    data = Data(schema=schema, x=draw.random((301, WIDTH)).astype(np.float32), y=draw.random(301))
    model = wide_model(schema)

    def count(kept: np.ndarray) -> float:
        return ValidationScorer(data.take(kept), 300.0, 1.0, "cpu").exact_count(model)

    for cut in range(20, 300, 40):
        assert count(np.arange(301)) == count(np.arange(cut)) + count(np.arange(cut, 301))
