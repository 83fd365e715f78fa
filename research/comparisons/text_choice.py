"""The study behind the choice of `auto` for text: every candidate on labelled texts, at several budgets.

    python -m research.comparisons.text_choice FOLDER [--texts NAME ...] [--rows N ...] [--seeds N] [--seconds S]
        [--candidates NAME ...] [--remember FILE]

FOLDER holds the unpacked packages that `_text_sets.py` names. The script writes `privaware/workflow/auto/text.json`
and keeps the stored cells that are not measured again. A quarter of the rows is scored; runs are seeded.
`--remember FILE` caches the outputs of the public network.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from research.comparisons import _remembered
from research.comparisons._text_sets import CHOSEN_ON, NAMES, load

DELTA = 1e-5
EVIDENCE = Path("privaware/workflow/auto/text.json")
CANDIDATES: dict[str, dict[str, Any]] = {
    "words and letters": {"features": [{"name": "hashed", "slots": 4096, "words": 1, "letters": 3}]},
    "weighed words, stems and letters": {
        "features": [{"name": "hashed", "slots": 32_768, "words": 1, "letters": 3, "stems": 4}, {"name": "weigh"}],
        "steps": 15,
        "momentum": 0.5,
    },
    "sentences as a public network reads them": {
        "features": [{"name": "sentences", "words": 0.5, "slots": 32_768}],
        "steps": 15,
        "momentum": 0.5,
    },
}
"""Settings of `linear` that are compared."""
CLOSER_FROM = 2_000
"""Rows x epsilon from which all candidates have a clipping norm of 0.25."""


def measured(name: str, rows: int, epsilons: list[float], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return one cell for each epsilon, with the mean score of the constant and of each candidate over the seeds."""
    from privaware.data import Data
    from privaware.noise import Rng
    from privaware.schema import Schema
    from privaware.workflow.run.training_plan import training_plan

    texts, labels = load(name, options.folder)
    classes, y = np.unique(labels, return_inverse=True)
    count = min(rows, len(texts) * 3 // 4)
    schema = Schema(form="text", classes=tuple(map(str, classes)), rows=count)
    train = Data(schema=schema, x=texts[:count], y=y[:count])
    held_out = Data(schema=schema, x=texts[count : count + count // 3], y=y[count : count + count // 3])
    found = []
    for epsilon in epsilons:
        norm = {"norm": 0.25} if count * epsilon >= CLOSER_FROM else {}
        learners: dict[str, Any] = {each: {**CANDIDATES[each], **norm} for each in options.candidates}
        scores = {}
        for each, settings in {"constant": None, **learners}.items():
            learner = "majority" if settings is None else "linear"
            plan = training_plan(schema, epsilon=epsilon, delta=DELTA, learner=learner, settings=settings)
            models = [plan.mechanism.run(train, plan.noise, Rng(seed)) for seed in range(options.seeds)]
            hits = [np.mean(model.predictions(held_out) == held_out.y) for model in models]
            scores[each] = round(float(np.mean(hits)), 4)
        half = "choose" if name in CHOSEN_ON else "check"
        facts = {"text": name, "half": half, "rows": count, "classes": len(classes), "epsilon": epsilon}
        found.append({**facts, "scores": scores})
        print(json.dumps(found[-1]), file=sys.stderr, flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--texts", nargs="+", default=list(NAMES))
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.3, 1.0, 3.0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 4000])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3600.0, help="begin nothing after so many seconds")
    parser.add_argument("--candidates", nargs="+", choices=list(CANDIDATES), default=list(CANDIDATES))
    parser.add_argument("--remember", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=EVIDENCE)
    options = parser.parse_args()
    if options.remember is not None:
        _remembered.remember(_remembered.read(options.remember))
    began = time.monotonic()
    for rows in options.rows:
        for name in options.texts:
            if time.monotonic() - began > options.seconds:
                return
            cells = measured(name, rows, options.epsilons, options)
            known = json.loads(options.out.read_text()) if options.out.exists() else []
            keys = {(cell["text"], cell["rows"], cell["epsilon"]) for cell in cells}
            kept = [cell for cell in known if (cell["text"], cell["rows"], cell["epsilon"]) not in keys]
            lines = ",\n".join(json.dumps(cell) for cell in [*kept, *cells])
            options.out.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
