"""The cost of reading a table grows linearly with the number of columns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from privaware.workflow.run.options import RunOptions
from privaware.workflow.run.source import resolve
from tests.growth import growth


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
