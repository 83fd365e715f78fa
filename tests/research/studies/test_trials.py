"""Rows and trials of a sweep."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from research.studies._sweep import sweep
from research.studies._trials import Rows, Trial, synthetic_examples
from tests.research.studies.examples import ONE, trials


def test_key_differs_by_setting_data_and_scoring_interval() -> None:
    rows = synthetic_examples()
    keys = {
        trial.key(data, every)
        for trial in (*trials(2), *trials(1, lr=2.0), *trials(1, norm=float("inf"), noise=0.0))
        for data in (rows, replace(rows, name="others"))
        for every in (None, 5)
    }
    assert len(keys) == 4 * 2 * 2


@pytest.mark.parametrize(("name", "classes"), [("wisconsin", True), ("digits", True)])
def test_builtin_rows_are_public_and_trainable(name: str, classes: bool) -> None:
    rows = Rows.builtin(name)
    assert rows.public
    assert rows.classes == classes
    net = {"name": "linear", "inputs": int(np.prod(rows.x.shape[1:])), "outputs": int(rows.y.max()) + 1}
    setting = replace(ONE, architecture=net, batch=100, steps=60, noise=0.5, lr=0.5)
    [outcome] = sweep([Trial(curve="", x=0, seed=0, setting=setting)], rows)
    assert outcome.score > 0.85


def test_resampling_repeats_rows() -> None:
    rows = synthetic_examples()
    large = rows.resampled(3000, 1)
    assert len(large.x) == len(large.y) == 3000
    assert len(np.unique(large.x, axis=0)) <= 300
    assert large.name != rows.resampled(3000, 2).name
