"""The possible gain of a private selection between two learners at epsilon 1, each at its part of the budget.

    python -m research.comparisons.table_selection [--tables NAME ...] [--seeds N] [--rows N]
    python -m research.papers._page tables

Two candidates and the scores that compare them share the budget (`research/papers/_table_selection.py`). The stored
cells have the score of the rule of `auto` at the whole budget, and of each candidate at its part. Runs are seeded.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from research.comparisons import record
from research.comparisons._development_tables import TABLES
from research.comparisons.table_choice import measured

ITEM = "benchmarks/table_selection"
EPSILON = 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rows", type=int, default=5000, help="training rows at most")
    parser.add_argument("--out", type=Path, default=Path("docs/results/tables"))
    options = parser.parse_args()

    from privaware.bench._store import Store, cell_key
    from research.papers._table_selection import part_of, rule

    known = Store(options.out / "cells.jsonl").read()
    for name in options.tables:
        settings = {"table": name, "epsilon": EPSILON, "rows": options.rows, "seeds": options.seeds}
        if cell_key(ITEM, settings) in known:
            continue
        part = measured(name, part_of(EPSILON, 2), options)
        taken = rule(part["rows"] * EPSILON)
        whole = measured(name, EPSILON, options, (taken,))
        candidates = {
            each: part["scores"][each] for each in part["scores"] if each in ("linear", "boosted", "amortised")
        }
        result = {"half": part["half"], "rule": taken, "whole": whole["scores"][taken], "part": candidates}
        print(json.dumps({**settings, **result}), flush=True)
        record(options.out, ITEM, settings, result)


if __name__ == "__main__":
    main()
