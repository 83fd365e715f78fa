"""The cost of reading a table grows linearly with the number of columns."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd

from privaware.workflow.run.options import RunOptions
from privaware.workflow.run.source import resolve


def calls(function: Callable[[], Any]) -> int:
    """Return how many functions, of Python and of C, a call of `function` calls."""
    counted = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(before)
    return counted


def growth(function: Callable[[int], Callable[[], Any]], size: int) -> float:
    """Return the calls for `2 * size` divided by the calls for `size`: 2 for a linear cost, 4 for a quadratic cost.

    `function(size)` prepares the call that is counted. The first call is not counted, because it fills caches.
    """
    function(size)()
    return calls(function(2 * size)) / calls(function(size))


def test_cost_of_a_table_is_linear_in_the_number_of_columns(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)

    def prepared(columns: int) -> Callable[[], object]:
        table = pd.DataFrame(draw.normal(size=(20, columns)).round(3), columns=[f"c{at}" for at in range(columns)])
        table.assign(y=["a", "b"] * 10).to_csv(tmp_path / f"{columns}.csv", index=False)
        return lambda: read(tmp_path / f"{columns}.csv")

    def read(path: Path) -> None:
        source = resolve(path, RunOptions(target="y"))
        source.read_private_rows(source.schema)
        source.notices()

    assert growth(prepared, 300) < 2.1
