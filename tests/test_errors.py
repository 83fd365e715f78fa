"""Warnings point at the line of the user."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from privaware import Ledger, PrivateClassifier, fit, train

HERE = Path(__file__).name


@pytest.fixture
def table() -> pd.DataFrame:
    draw = np.random.default_rng(0)
    return pd.DataFrame(draw.normal(size=(200, 3)), columns=list("abc")).assign(y=draw.choice(["no", "yes"], 200))


def places(caught: list[warnings.WarningMessage]) -> set[str]:
    assert caught
    return {Path(each.filename).name for each in caught}


def test_warning_of_a_charge_points_at_the_caller(table: pd.DataFrame, tmp_path: Path) -> None:
    table.loc[:3, "y"] = None
    call = {"target": "y", "epsilon": 1.0, "learner": "majority", "accept_schema": True}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for name in ("a", "b"):
            fit(table, ledger=tmp_path / f"{name}.ledger", **call)
    assert places(caught) == {HERE}


def test_warning_of_train_points_at_the_caller(tmp_path: Path) -> None:
    x, y = torch.randn(100, 2), torch.zeros(100, dtype=torch.long)
    options = {"epsilon": 1.0, "steps": 1, "sampling_rate": 1.0, "clipping_norm": 1.0, "lr": 1.0}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for name in ("a", "b"):
            ledger = Ledger.create(tmp_path / f"{name}.ledger", limit=1.0)
            train(torch.nn.Linear(2, 2), x, y, ledger=ledger, **options)
    assert places(caught) == {HERE}


def test_warning_in_a_pipeline_points_at_the_caller(table: pd.DataFrame) -> None:
    from sklearn.model_selection import cross_val_score

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cross_val_score(PrivateClassifier(learner="majority"), table[["a", "b"]], table["y"], cv=2)
    assert places(caught) == {HERE}
