"""Selectors that count over parts release the same however rows are cut and ordered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from privaware import registry
from privaware.data import Data, read
from privaware.mechanism import RunsInParts
from privaware.mechanism import run as run_rows
from privaware.noise import Rng
from privaware.preprocessing import find_transformation
from privaware.preprocessing._ranges.target_histogram import TargetHistogramRange
from privaware.preprocessing._ranges.target_moments import TargetMomentsRange
from privaware.schema import Column, Schema
from privaware.selectors import find_selector
from tests.parts import cut

BARE = (
    Column(name="a", missing="category"),
    Column(name="b", kind="undecided", fold=True),
    Column(name="c", kind="category"),
    Column(name="d", kind="date"),
)
BOUNDED = (
    Column(name="a", low=-50, high=50, missing="category"),
    Column(name="c", kind="category", categories=("p", "q"), unseen="other"),
)
SETTINGS: dict[str, dict[str, Any]] = {"cfs_ga": {"population": 20, "generations": 2}}
MECHANISMS: dict[str, Any] = {
    **{name: find_selector(name) for name in registry.names("selectors")},
    **{name: find_transformation(name) for name in registry.names("preprocessing")},
    "target_histogram": TargetHistogramRange,
    "target_moments": TargetMomentsRange,
}
IN_PARTS = [name for name, make in MECHANISMS.items() if isinstance(make, RunsInParts) and make.in_parts]


def rows(schema: Schema) -> Data:
    rng = np.random.default_rng(5)
    numbers = rng.normal(3, 10, 900)
    numbers[::9] = np.nan
    frame = pd.DataFrame(
        {
            "a": numbers,
            "b": rng.choice(["7", "8.5", "north", "South", ""], 900),
            "c": rng.choice(["p", "q", "rare"], 900, p=[0.6, 0.399, 0.001]),
            "d": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, 900), unit="D"),
            "y": rng.integers(0, 2, 900) if schema.classes else rng.gamma(2.0, 30.0, 900),
        }
    )
    return (Data.of if schema.bounded else Data.uncoded)(read(frame), schema)


def test_the_selectors_before_large_tables_take_them() -> None:
    assert {"ranges", "bins", "target_moments", "target_histogram"} <= set(IN_PARTS)
    assert {"cfs_greedy", "cfs_ga", "top", "worth", "all", "random", "normalise", "pca"} <= set(IN_PARTS)


def selection(name: str, task: str) -> tuple[Any, Data]:
    """A selector, and rows for it."""
    bare = name == "ranges"
    facts: dict[str, Any] = {"classes": ("0", "1")} if task == "classification" else {}
    if not facts and not bare and name != "target_histogram":
        facts = {"low": 0.0, "high": 400.0}
    if name in ("target_moments", "target_histogram") and task == "classification":
        pytest.skip("a class has no range")
    schema = Schema(columns=BARE if bare else BOUNDED, target="y", rows=900, **facts)
    return MECHANISMS[name](**SETTINGS.get(name, {})), rows(schema)


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("name", IN_PARTS)
def test_releases_do_not_depend_on_how_rows_are_cut(name: str, task: str) -> None:
    selector, data = selection(name, task)
    expected = run_rows(selector, data, 0.3, Rng(seed=2))
    for seed in range(3):
        assert run_rows(selector, cut(data, seed), 0.3, Rng(seed=2)) == expected
