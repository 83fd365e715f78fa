"""The epsilons that the papers printed, recomputed by our accountants, and how long those take."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from privaware.bench import Result, Settings
from privaware.events import Composed, Event, Gaussian, Laplace, Pure, Selected
from research.papers._published import tables
from research.papers._runner import Bench

__all__ = ["CLAIMS", "recomputed", "seconds"]


@dataclass(frozen=True)
class Claim:
    """An epsilon that a paper printed, what it was printed for, and whether it holds."""

    entry: str
    printed: str
    event: Event
    verdict: str
    delta: float = 1e-5


def epochs(rows: int, batch: int, count: int, noise: float) -> Event:
    return math.ceil(count * rows / batch) * Gaussian(noise=noise).sampled(rate=batch / rows)


def opacus(rows: int, count: int, noise: float) -> Event:
    """Opacus 1.1: rate 1/ceil(rows/256), that many steps an epoch."""
    each = math.ceil(rows / 256)
    return count * each * Gaussian(noise=noise).sampled(rate=1 / each)


KINDS: dict[str, Callable[..., Event]] = {
    "epochs": epochs,
    "steps": lambda batch, rows, count, noise: count * Gaussian(noise=noise).sampled(rate=batch / rows),
    "opacus": opacus,
    "pure": lambda count, epsilon: count * Pure(epsilon=epsilon),
    "laplace": lambda count, noise: count * Laplace(noise=noise),
}


def claim(entry: Mapping[str, Any]) -> Claim:
    """A claim of published/ours.toml, which says what its fields mean."""
    [event] = [build(*entry[kind]) for kind, build in KINDS.items() if kind in entry]
    if entry.get("normalised"):
        event += 2 * Gaussian(noise=8.0)
    if "selected" in entry:
        event = Selected(event=event, distribution="logarithmic", mean=entry["selected"])
    verdict, delta = tables("ours")["verdicts"][entry["verdict"]], entry.get("delta", 1e-5)
    return Claim(entry["entry"], entry["printed"], entry.get("runs", 1) * event, verdict, delta)


CLAIMS = {paper: [claim(entry) for entry in listed] for paper, listed in tables("ours")["claims"].items()}


def recomputed(bench: Bench, settings: Settings) -> Result:
    """One printed epsilon by the orders and the conversion of the paper's own library, and as reported here."""
    from privaware import accounting

    paper = settings["paper"]
    orders = accounting.TENSORFLOW_ORDERS if paper == "Bao" else accounting.OPACUS_ORDERS
    [claim] = [c for c in CLAIMS[paper] if (c.entry, c.printed) == (settings["entry"], settings["printed"])]
    bounds = accounting.bounds(claim.event, claim.delta, orders=orders)
    theirs = bounds["rdp_classic" if paper == "Tramer" else "rdp"]
    known = {"epsilon": bounds["epsilon"], "method": bounds["method"], "verdict": claim.verdict}
    return {"theirs": theirs, **known}


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return round(time.perf_counter() - start, 4)


def seconds(bench: Bench, settings: Settings) -> Result:
    """How long the accountants take, in a cache of their own."""
    from privaware import accounting

    def cost(noise: float) -> Event:
        return 10_000 * Gaussian(noise=noise).sampled(rate=0.01)

    accounting.epsilon(10 * Gaussian(noise=2.0).sampled(rate=0.1), 1e-5)  # imports
    mixed = 100 * Gaussian(noise=10.0) + 3 * Laplace(noise=2.0) + 1000 * Gaussian(noise=1.3).sampled(rate=0.01)
    schedule = Composed(events=tuple(Gaussian(noise=9 + i / 1000) for i in range(3000)))
    work: dict[str, Callable[[], object]] = {
        "calibrate, 10,000 sampled steps, cold": lambda: accounting.calibrate(cost, 1.7, 1e-5),
        "the same again, from the disk": lambda: accounting.calibrate(cost, 1.7, 1e-5),
        "calibrate one Gaussian, cold": lambda: accounting.calibrate(lambda z: Gaussian(noise=z), 1.0, 1e-5),
        "epsilon, 10,000 sampled steps": lambda: accounting.epsilon(cost(1.234), 1e-5),
        "epsilon, 300,000 sampled steps": lambda: accounting.epsilon(epochs(60_000, 100, 500, 2.1), 1e-5),
        "epsilon, 100 Gaussians, 3 Laplace, 1,000 sampled steps": lambda: accounting.epsilon(mixed, 1e-5),
        "epsilon, 3,000 different Gaussians": lambda: accounting.epsilon(schedule, 1e-5),
    }
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PRIVAWARE_CACHE"] = folder
        measured = {name: timed(function) for name, function in work.items()}
    start = "import time; t = time.perf_counter(); import privaware.accounting; print(time.perf_counter() - t)"
    answer = subprocess.run([sys.executable, "-c", start], capture_output=True, text=True, check=True)
    return {"seconds": measured | {"import privaware.accounting, fresh process": round(float(answer.stdout), 4)}}
