"""First learners on real data, everything charged: the table of docs/results/core.md.

    python -m benchmarks.core --seeds 10 --out docs/results/core.md

Scores are on the test rows, for the owner's eyes: they are measured here because these data sets are public benchmarks.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from privaware.errors import WrongInput
from privaware.workflow.fit import fit

CASES = [
    # data, epsilon, learner, published or aimed at
    ("adult", 0.1, "linear", "83.5 asked; 78.6 Bao et al."),
    ("adult", 1.0, "linear", "85.0 asked"),
    ("breast_cancer", 1.0, "linear", "majority less a point asked; 55.4 Bao et al."),
    ("breast_cancer", 1.0, "auto", "the same"),
    ("breast_cancer", 1.0, "majority", ""),
    ("wisconsin", 1.0, "auto", ""),
    ("digits", 1.0, "auto", ""),
    ("sms_spam", 1.0, "auto", "93.4 at 7.21, Bao et al."),
    ("medical_cost", 1.0, "auto", "R2; mean absolute error beside it"),
    ("location30", 1.0, "auto", ""),
    ("mnist", 1.0, "auto", "97.2 to 98.1 with better features"),
    ("adult", 1.0, "alibi", "label unit"),
    ("adult", 1.0, "pate", "public part: 3,256 training rows without labels"),
]


def measure(data: str, epsilon: float, learner: str, seeds: int) -> dict[str, float]:
    """Mean and spread over seeds, and the slowest fit's seconds."""
    scores, errors, seconds, constant, spent, name = [], [], [], 0.0, 0.0, learner
    for seed in range(seeds):
        began = time.perf_counter()
        made = fit(data, epsilon=epsilon, learner=learner, seed=seed)
        seconds.append(time.perf_counter() - began)
        scores.append(made.internal["test_score"] or 0.0)
        errors.append(made.internal.get("mae") or 0.0)
        constant, spent, name = made.internal["constant_score"] or 0.0, made.epsilon, made.learner
    return {
        "mean": float(np.mean(scores)),
        "spread": float(np.std(scores, ddof=1)),
        "mae": float(np.mean(errors)),
        "constant": constant,
        "epsilon": spent,
        "first": seconds[0],
        "later": float(np.median(seconds[1:])),
        "learner": name,  # type: ignore[dict-item]
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seeds", type=int, default=10)
    arguments.add_argument("--out", type=Path)
    given = arguments.parse_args()
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    lines = [
        "# First learners, everything charged",
        "",
        f"Command: `python -m benchmarks.core --seeds {given.seeds}`. Commit {commit}. "
        f"Seeds 0 to {given.seeds - 1}. Machine: 2 cores, {platform.machine()}, no accelerator. "
        f"Date: {datetime.now(UTC):%Y-%m-%d}. Delta 1e-5.",
        "",
        "Scores are internal (test rows, public benchmark data): accuracy in per cent, R2 for "
        "medical_cost. Seconds are the whole `fit` in process (plan, calibration, charge, reading, "
        "training, scoring): the first run, which for the first line still imports torch and the "
        "accountants, and the median of the later ones.",
        "",
        "| data | asked | charged | learner | score, mean ± spread | best constant | seconds | to compare |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for data, epsilon, learner, beside in CASES:
        try:
            got = measure(data, epsilon, learner, given.seeds)
        except WrongInput as problem:
            print(f"{data}: left out, {problem}")
            continue
        error = f" (error {got['mae']:.0f})" if got["mae"] else ""
        score = f"{100 * got['mean']:.2f} ± {100 * got['spread']:.2f}{error}"
        took = f"{got['first']:.2f} / {got['later']:.2f}"
        cells = [data, f"{epsilon:g}", f"{got['epsilon']:.4f}", got["learner"], score]
        cells += [f"{100 * got['constant']:.2f}", took, beside]
        line = f"| {' | '.join(str(cell) for cell in cells)} |"
        print(line, flush=True)
        lines.append(line)
    if given.out:
        given.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
