"""The CPU time of `fit` and `predict` as tables get more columns or more rows.

    python -m research.comparisons.growth [--only columns empty rows predict] [--out docs/results/scale]
    python -m research.papers._page scale

Each run reads a CSV file of synthetic rows, with nothing declared, and writes the model and its report.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from research.comparisons import record

ITEM = "benchmarks/growth"
SIZES: dict[str, tuple[tuple[int, int], ...]] = {
    "columns": ((20, 500), (20, 1000), (20, 2000)),
    "empty": ((2000, 50), (2000, 100), (2000, 200)),
    "rows": ((200_000, 9), (2_100_000, 9)),
    "predict": ((20_000, 200),),
}
"""Numbers of rows and columns of each kind of table."""


def numbers(rows: int, columns: int, draw: np.random.Generator) -> pd.DataFrame:
    """Return columns of numbers of three decimals."""
    return pd.DataFrame(draw.normal(size=(rows, columns)).round(3), columns=[f"c{at}" for at in range(columns)])


def table(kind: str, rows: int, columns: int) -> pd.DataFrame:
    """Return a table of this kind: numbers, or categories of which 95% are missing; for rows two categories."""
    draw = np.random.default_rng(rows + columns)
    if kind == "empty":
        words = draw.choice(["red", "green", "blue", "yes", "no"], (rows, columns)).astype(object)
        words[draw.random(words.shape) < 0.95] = ""
        frame = pd.DataFrame(words, columns=[f"c{at}" for at in range(columns)])
        return frame.assign(y=draw.choice(["a", "b"], rows))
    frame = numbers(rows, columns - 2, draw)
    frame = frame.assign(town=draw.choice(list("nesw"), rows), sort=draw.choice(list("abcdefgh"), rows))
    return frame.assign(y=np.where(frame.c0 + frame.c1 + draw.normal(size=rows) > 0, "a", "b"))


def measured(call: Callable[[], Any]) -> dict[str, Any]:
    """Return the seconds and the CPU seconds of a call, and the number of coded columns of a fitted model."""
    began, cpu = time.perf_counter(), time.process_time()
    result = call()
    model = getattr(result, "model", None)
    return {
        "learner": getattr(result, "learner", ""),
        "coded": 0 if model is None else len(model.schema.used),
        "seconds": round(time.perf_counter() - began, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
        "load": round(os.getloadavg()[0], 1),
    }


def run(kind: str, rows: int, columns: int, folder: Path) -> dict[str, Any]:
    """Write a table and measure `fit` on it, or `predict` with a model of two of its columns."""
    from privaware import fit, predict
    from privaware.schema import Column, Schema

    path, frame = folder / f"{kind}-{rows}-{columns}.csv", table(kind, rows, columns)
    frame.to_csv(path, index=False)
    settings: dict[str, Any] = {"target": "y", "epsilon": 1.0, "out": folder / f"{path.stem}-model"}
    if kind != "predict":
        chosen = "linear" if kind == "rows" else "auto"
        return measured(lambda: fit(path, learner=chosen, say=lambda _: None, **settings))
    used = tuple(Column(name=name, low=-4, high=4) for name in ("c0", "c1"))
    schema = Schema(columns=used, target="y", classes=("a", "b"), rows=rows)
    fit(frame[["c0", "c1", "y"]], schema=schema, learner="linear", seed=1, **settings)
    return measured(lambda: predict(settings["out"], path, out=folder / f"{path.stem}-out.csv"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--out", type=Path, default=Path("docs/results/scale"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_DATA_HOME"] = folder
        run("columns", 40, 9, Path(folder))  # the first run imports modules, so it is not timed
        for kind in options.only:
            for rows, columns in SIZES[kind]:
                settings = {"kind": kind, "rows": rows, "columns": columns}
                result = run(kind, rows, columns, Path(folder))
                print(settings, result, flush=True)
                record(options.out, ITEM, settings, result)


if __name__ == "__main__":
    main()
