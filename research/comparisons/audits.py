"""The error rates of audits: the one-run bound in gradient space over many runs, and alarms about correct mechanisms.

    python -m research.comparisons.audits docs/results/attacks/audits.jsonl

The file has one line for each study: its settings, the number of runs (their seeds start at 0), and the counts. With
full batches each step is one Gaussian release, so the true epsilon equals the claim and the bound can be compared with
it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from privaware import accounting
from privaware.attacks import _bounds
from privaware.attacks._evidence import ALARM, SHOWN, Evidence, evidence_of_canaries
from privaware.attacks._gradient_canaries import gradient_canaries
from privaware.attacks._row_canaries import row_canaries
from privaware.data import Data
from privaware.descent import Descent, FullBatch, flat, sgd
from privaware.events import Event, Laplace
from privaware.learners.additive import Additive
from privaware.learners.boosted import Boosted
from privaware.learners.dpsgd import DpSgd
from privaware.learners.linear import Linear
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.testing import example, rows_for
from research.comparisons._canary_examples import canary_examples

DELTA = 1e-5
FULL = Descent(steps=2, sampler=FullBatch(), clip=flat(1.0), update=sgd(0.1))


def bounds_of_full_batches(epsilon: float, runs: int, share: float = 1.0) -> dict[str, Any]:
    """Compute one-run bounds of full-batch descent with 1,000 canaries, at `share` times the claimed noise."""
    generator = torch.Generator().manual_seed(0)
    inputs, targets = torch.randn(20, 4, generator=generator), torch.randint(2, (20,), generator=generator)
    noise = share * accounting.calibrate(FULL.cost, epsilon, DELTA)
    bounds: dict[float, list[float]] = {SHOWN: [], ALARM: []}
    for seed in range(runs):
        scores = canary_examples(FULL, nn.Linear(4, 2), inputs, targets, noise=noise, rows=20, rng=Rng(seed=seed))
        for confidence, known in bounds.items():
            shift = _bounds.shift_lower(*scores.sides, confidence=confidence)
            known.append(_bounds.epsilon_of_shift(shift, DELTA))
    shown, alarm = (np.array(bounds[confidence]) for confidence in (SHOWN, ALARM))
    return {
        "study": "bounds",
        "epsilon": epsilon,
        "share_of_noise": share,
        "runs": runs,
        "mean": float(shown.mean()),
        "least": float(shown.min()),
        "most": float(shown.max()),
        "above": int((shown > epsilon).sum()),
        "alarms": int((alarm > epsilon).sum()),
    }


@dataclass(frozen=True)
class Counts:
    """A correct mechanism: many counts with Laplace noise."""

    def cost(self, schema: Schema, noise: float) -> Event:
        return Laplace(noise=noise)

    def run(self, data: Data, noise: float, rng: Rng) -> Any:
        return rng.laplace(np.bincount(data.y, minlength=500).astype(float), noise=noise, sensitivity=1.0)


def correct_mechanisms() -> Iterator[tuple[str, Any, Schema, Callable[..., Any]]]:
    """Yield mechanisms that keep their claim, with the function that inserts canaries."""
    images, table = example("image", classes=10, rows=40), example(rows=40)
    yield "linear, full batches", Linear(steps=3), images, gradient_canaries
    yield "dpsgd, samples", DpSgd(steps=3, batch=10, architecture={"name": "linear"}), images, gradient_canaries
    yield "counts with Laplace noise", Counts(), images, gradient_canaries
    yield "additive", Additive(steps=3), table, gradient_canaries
    yield "boosted", Boosted(trees=3, steps=2), table, gradient_canaries
    yield "linear, rows as canaries", Linear(steps=3), images, row_canaries


def alarms(epsilon: float, runs: int) -> Iterator[dict[str, Any]]:
    """Audit correct mechanisms, and count the bounds that exceed the claim and the claims that are refuted."""
    for name, mechanism, schema, insert in correct_mechanisms():
        noise = accounting.calibrate(lambda value, of=mechanism, on=schema: of.cost(on, value), epsilon, DELTA)  # type: ignore[misc]
        rows, claim = rows_for(schema, 40), mechanism.cost(schema, noise)
        audits: list[Evidence] = [
            evidence_of_canaries(
                insert(mechanism, rows, noise, Rng(seed=seed), canaries=400),
                claim,
                DELTA,
                gradients=insert is gradient_canaries,
            )
            for seed in range(runs)
        ]
        yield {
            "study": "alarms",
            "mechanism": name,
            "epsilon": epsilon,
            "runs": runs,
            "mean": float(np.mean([each.epsilon_lower for each in audits])),
            "above": sum(each.epsilon_lower > each.epsilon_claimed for each in audits),
            "alarms": sum(each.refuted for each in audits),
        }


def main() -> None:
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
    torch.set_num_threads(1)
    with open(Path(sys.argv[1]), "w", encoding="utf-8") as file:

        def write(result: dict[str, Any], began: float) -> None:
            run = {"commit": commit.stdout.strip(), "date": str(date.today()), "seconds": time.process_time() - began}
            print(json.dumps({**result, **run}), file=file, flush=True)

        for share, runs in ((1.0, 500), (0.8, 100), (0.5, 100)):
            began = time.process_time()
            write(bounds_of_full_batches(4.0, runs, share), began)
        began = time.process_time()
        for result in alarms(2.0, 200):
            write(result, began)
            began = time.process_time()


if __name__ == "__main__":
    main()
