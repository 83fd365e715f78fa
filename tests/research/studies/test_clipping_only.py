"""Clipping without noise."""

from __future__ import annotations

from dataclasses import replace

from research.studies._trials import Rows, synthetic_examples
from research.studies.clipping_only import clipping_only
from tests.research.studies.examples import ONE


def test_clipping_stabilises_a_high_learning_rate() -> None:
    big = synthetic_examples()
    rows = Rows(name="large", x=big.x * 100, y=big.y, x_test=big.x_test * 100, y_test=big.y_test, public=True)
    deep = {"name": "fcn", "inputs": 5, "hidden": [16, 16], "outputs": 2, "dropout": 0.0}
    setting = replace(ONE, architecture=deep, noise=0.0, steps=60)
    study = clipping_only(rows, setting, (1.0,), repeats=3)
    assert study.best["SGD with clipping"] > study.best["SGD"] + 0.1
