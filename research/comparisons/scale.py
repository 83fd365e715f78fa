"""Time and memory of `privaware fit` on tables of 1e5 to 1e8 rows x 30 columns in Parquet, and on wide CSV files.

    python -m research.comparisons.scale write FOLDER [--rows 100000 1000000]
    python -m research.comparisons.scale run FOLDER --out docs/results/scale [--ray ADDRESS --parts 8]
        [--rows 100000 1000000]
    python -m research.comparisons.scale run FOLDER --csv --rows 1000000 --out docs/results/scale
    python -m research.comparisons.scale run FOLDER --unit --rows 100000 1000000 10000000 --out docs/results/scale
    python -m research.papers._page scale

Rows are synthetic, and are written and held in pieces: skewed and plain numbers, spikes at zero, missing values,
categories, and interactions. The command line fits each file in its own process, whose wall time, CPU time and peak
memory are recorded, including the processes that it starts. The score is on rows that are in no file. With `--parts` a
table is a folder of files. With `--csv` it is one quoted file of 100 columns. With `--unit` a column identifies persons
with five rows each on average, anywhere in the table, of which at most five rows count. Runs are seeded, for comparison
only.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from research.comparisons import record

ITEM = "benchmarks/scale"
SIZES = (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
PIECE = 2**18
HELD_OUT = 10**6
"""Number of the piece that scores models; no table reaches it."""
NUMBERS = 21
"""Number of numeric columns of a table."""
CATEGORIES = 8
"""Number of categorical columns of a table."""
PERSON = "person"
"""Name of the column that identifies persons."""
ROWS_EACH = 5
"""Average number of rows of a person."""
CAP = 5
"""Largest number of rows of a person that count."""
TOWNS = np.array([f"town {at}" for at in range(40)], dtype=object)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("write", "run"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, nargs="+", default=SIZES)
    parser.add_argument("--parts", type=int, default=1, help="files of a table")
    parser.add_argument("--out", type=Path, default=Path("docs/results/scale"))
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--learner", default="auto")
    parser.add_argument("--ray", help="the address of a Ray cluster")
    parser.add_argument("--csv", action="store_true", help="one quoted CSV file of 100 columns")
    parser.add_argument("--unit", action="store_true", help="protect persons of several rows each")
    parser.add_argument("--beside", action="store_true", help="without persons, to stand beside --unit")
    parser.add_argument("--load", default="other work on the same cores", help="what else the cores did")
    options = parser.parse_args()
    for rows in options.rows:
        if options.csv:
            table = _write_csv(options.folder, rows)
        else:
            table = write(options.folder, rows, options.parts, rows // ROWS_EACH if options.unit else 0)
        if options.verb == "run":
            run(table, rows, options)


def run(table: Path, rows: int, options: argparse.Namespace) -> None:
    """Measure one cell, unless it is stored."""
    from privaware.bench._store import Store, cell_key

    place = "this machine" if options.ray is None else "ray"
    settings = {"rows": rows, "parts": options.parts, "epsilon": options.epsilon, "learner": options.learner}
    settings |= {"place": place} | ({"format": "csv"} if options.csv else {})
    settings |= {"persons": rows // ROWS_EACH, "cap": CAP} if options.unit else {}
    settings |= {"persons": 0, "cap": 0} if options.beside else {}
    if cell_key(ITEM, settings) in Store(options.out / "cells.jsonl").read():
        return
    if options.csv:
        held_out = _write_csv(options.folder, 100_000, HELD_OUT)
    else:
        held_out = _write_pieces(options.folder / "held_out.parquet", HELD_OUT, 100_000)
    result = fit(table, held_out, options)
    print(json.dumps({**settings, **result}), flush=True)
    record(options.out, ITEM, settings, result)


def fit(table: Path, held_out: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Return what the command line reports about a fit, and the resources of its process."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            str(Path(sys.executable).with_name("privaware")),
            "fit",
            str(table),
            "--target",
            "buys",
            "--json",
            "--seed",
            "0",
        ]
        command += ["--epsilon", str(options.epsilon), "--learner", options.learner, "--test", str(held_out)]
        command += ["--out", f"{folder}/model", "--ledger", f"{folder}/ledger"]
        command += [] if options.ray is None else ["--ray", options.ray]
        command += ["--unit", PERSON, "--cap", str(CAP)] if options.unit else []
        with open(f"{folder}/out", "wb") as out, open(f"{folder}/err", "wb") as err:
            began = time.perf_counter()
            process = subprocess.Popen(command, stdout=out, stderr=err)
            with ThreadPoolExecutor(1) as watch:
                peak = watch.submit(peak_memory, process.pid)
                _, status, used = os.wait4(process.pid, 0)
                seconds = time.perf_counter() - began
        if status:
            raise SystemExit(f"the fit failed: {Path(folder, 'err').read_text()[-2000:]}")
        said = json.loads(Path(folder, "out").read_text())
    return {
        "learner": said["learner"],
        "accuracy": said["internal"]["test_score"],
        "epsilon": said["epsilon"],
        "seconds": round(seconds, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "peak_mb": round(max(peak.result(), used.ru_maxrss) / 1024),
        "cores": os.cpu_count(),
        "load": options.load,
    }


def peak_memory(root: int) -> int:
    """Return the peak memory in kilobytes of a process and those that it started, with shared memory divided."""
    peak = 0
    while Path(f"/proc/{root}").exists():
        total = 0
        for each in (root, *_started_by(root)):
            with suppress(OSError):
                lines = Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
                total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        peak = max(peak, total)
        time.sleep(0.5)
    return peak


def _started_by(root: int) -> list[int]:
    with suppress(OSError):
        return [int(each) for each in Path(f"/proc/{root}/task/{root}/children").read_text().split()]
    return []


def write(folder: Path, rows: int, parts: int = 1, persons: int = 0) -> Path:
    """Write a table of `rows` rows as one file, or as a folder of `parts` files of about equal size."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"rows_{rows}_of_{persons}" if persons else f"rows_{rows}"
    if parts == 1:
        return _write_pieces(folder / f"{name}.parquet", 0, rows, persons)
    table = folder / f"{name}_in_{parts}"
    table.mkdir(exist_ok=True)
    ends = [rows * part // parts for part in range(parts + 1)]
    for part in range(parts):
        first = part * (rows // PIECE // parts + 2)
        _write_pieces(table / f"part-{part:04}.parquet", first, ends[part + 1] - ends[part], persons)
    return table


def _write_pieces(path: Path, first: int, rows: int, persons: int = 0) -> Path:
    """Write the pieces from `first` on to a file; an existing file is kept."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    if path.exists():
        return path
    unfinished, writer = path.with_suffix(".unfinished"), None
    for number, count in enumerate(_counts(rows)):
        columns = piece(first + number, count)
        if persons:
            person_numbers = np.random.default_rng([19, first + number]).integers(0, persons, count)
            columns[PERSON] = pc.binary_join_element_wise("person", pa.array(person_numbers).cast(pa.string()), " ")
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(unfinished, table.schema, compression="zstd")
        writer.write_table(table, row_group_size=PIECE)
    assert writer is not None
    writer.close()
    unfinished.rename(path)
    return path


def _write_csv(folder: Path, rows: int, first: int = 0) -> Path:
    """Write a quoted CSV file of 60 numbers, 30 integers, nine categories and the target; keep an existing file."""
    import pyarrow as pa
    from pyarrow import csv

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"columns_100_{rows}_{first}.csv"
    if path.exists():
        return path
    unfinished, writer = path.with_suffix(".unfinished"), None
    for number, count in enumerate(_counts(rows)):
        draw = np.random.default_rng([100, first + number])
        numbers = np.round(draw.standard_normal((60, count)), 4)
        whole, towns = draw.integers(0, 1000, (30, count)), draw.integers(0, 3, (9, count))
        score = numbers[0] - 0.5 * numbers[1] + (whole[0] > 500) * numbers[2] + (towns[0] == 1)
        columns: dict[str, Any] = {f"n{at}": values for at, values in enumerate(numbers)}
        columns |= {f"i{at}": values for at, values in enumerate(whole)}
        columns |= {f"c{at}": TOWNS[values] for at, values in enumerate(towns)}
        table = pa.table(columns | {"buys": np.where(draw.logistic(size=count) < score, "yes", "no")})
        writer = writer or csv.CSVWriter(unfinished, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()
    unfinished.rename(path)
    return path


def _counts(rows: int) -> Iterator[int]:
    for at in range(0, rows, PIECE):
        yield min(PIECE, rows - at)


def piece(number: int, rows: int) -> dict[str, Any]:
    """Return columns by name; they depend only on the number of the piece."""
    import pyarrow as pa

    draw = np.random.default_rng([18, number])
    numbers = draw.standard_normal((NUMBERS, rows), dtype=np.float32)
    numbers[0:5] = np.exp(1.2 * numbers[0:5]) * 100  # skewed, as amounts are
    numbers[5:8] = np.where(draw.random((3, rows)) < 0.6, 0, np.exp(numbers[5:8]) * 1000)  # mostly zero
    numbers[8:12] = np.floor(45 + 15 * numbers[8:12])  # whole numbers, as ages are
    codes = np.minimum(draw.zipf(1.6, (CATEGORIES, rows)) - 1, np.arange(3, 3 + 5 * CATEGORIES, 5)[:, None])
    score = _score(numbers, codes)
    buys = draw.random(rows) < 1 / (1 + np.exp(-score))
    missing = draw.random((4, rows)) < 0.08
    columns: dict[str, Any] = {}
    for at in range(NUMBERS):
        gaps = missing[at % 4] if at in (2, 6, 9, 15) else None
        columns[f"number_{at}"] = pa.array(numbers[at], mask=gaps)
    for at in range(CATEGORIES):
        gaps = missing[at % 4] if at == 3 else None
        indices = pa.array(codes[at].astype(np.int32), mask=gaps)
        columns[f"category_{at}"] = pa.DictionaryArray.from_arrays(indices, pa.array(TOWNS)).cast(pa.string())
    columns["buys"] = pa.array(np.where(buys, "yes", "no"))
    return columns


def _score(numbers: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return log odds: curves of single columns, and interactions of two columns."""
    score = 0.8 * np.log(numbers[0] / 100) - 0.5 * np.log(numbers[1] / 100) + 0.7 * (numbers[5] > 0)
    score += 1.2 * np.exp(-(((numbers[8] - 50) / 12) ** 2)) + 0.4 * numbers[12] - 0.3 * np.abs(numbers[13])
    score += 0.8 * (codes[0] % 3 == 1) - 0.6 * (codes[1] > 2)
    score += 0.8 * numbers[14] * np.sign(numbers[15]) + 0.9 * ((codes[2] % 2 == 0) ^ (numbers[9] > 45))
    return np.asarray(score - 1.0)


if __name__ == "__main__":
    main()
