"""Many trainings: settings and seeds as populations, a store to resume from, and the privacy cost of all of them.

A sweep trains many models on the same rows and reports the score of each model, so it is a release of many models. On
public rows (built-in benchmarks) it is an evaluation, and its results say so. On private rows the composition of all
trainings is charged before a row is used, and the scores are noised.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import json
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from privaware import models
from privaware.errors import WrongInput
from privaware.events import Disjoint, Gaussian
from privaware.ledger import Ledger
from privaware.noise import Rng
from privaware.workflow._comparison_plan import calibrate_score_noise
from research.studies._population import descent_for, module, on_device, populations
from research.studies._trials import Outcome, Rows, Trial, price

__all__ = ["Store", "sweep"]

Say = Callable[[str], None]


@dataclass(frozen=True)
class Store:
    """Finished trials, one JSON line each; an incomplete line after a kill is ignored, and its trial is repeated."""

    path: Path

    def read(self) -> dict[str, dict[str, Any]]:
        known: dict[str, dict[str, Any]] = {}
        if not self.path.exists():
            return known
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                trial = json.loads(line)
                known[trial["key"]] = trial
            except (ValueError, KeyError, TypeError):
                continue
        return known

    def add(self, lines: Iterable[dict[str, Any]]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        complete = not self.path.exists() or self.path.read_bytes()[-1:] in (b"", b"\n")
        with open(self.path, "a", encoding="utf-8") as file:
            file.write("" if complete else "\n")
            for line in lines:
                file.write(json.dumps(line, allow_nan=False) + "\n")


def sweep(
    trials: Sequence[Trial],
    rows: Rows,
    *,
    device: str = "cpu",
    store: Store | None = None,
    every: int | None = None,
    reach: float | None = None,
    ledger: Ledger | None = None,
    say: Say | None = None,
) -> list[Outcome]:
    """Train and score each trial; trials of one recipe train as one population, and finished ones come from `store`.

    Models are scored after every `every` steps (default: only at the end). A population ends early if each of its
    models has reached the score `reach`. For private rows, `ledger` is charged with everything before a row is used.
    """
    say = say or (lambda words: None)
    if not rows.public:
        return _charged(trials, rows, device, every, ledger, store, say)
    known = {} if store is None else store.read()
    keys = [trial.key(rows, every) for trial in trials]
    todo = {key: trial for key, trial in zip(keys, trials, strict=True) if key not in known}
    clock = _Clock(say, sum(_work(trial) for trial in todo.values()), len(trials) - len(todo))
    for group in populations(todo, device):
        rng = Rng(seed=int(hashlib.sha256("".join(group).encode()).hexdigest()[:12], 16))
        outcomes = _train([todo[key] for key in group], rows, _Scoring(device, every, reach), rng, clock)
        lines = [{"key": key, "rows": rows.name, **_line(outcome)} for key, outcome in zip(group, outcomes)]
        known |= {line["key"]: line for line in lines}
        if store is not None:
            store.add(lines)
    return [
        Outcome(trial=trial, steps=tuple(known[key]["steps"]), scores=tuple(known[key]["scores"]))
        for key, trial in zip(keys, trials, strict=True)
    ]


def _charged(
    trials: Sequence[Trial],
    rows: Rows,
    device: str,
    every: int | None,
    ledger: Ledger | None,
    store: Store | None,
    say: Say,
) -> list[Outcome]:
    """Run a sweep on private rows: charge all trainings and the noised scores first, and return only noised scores."""
    trainings = price(trials, len(rows.x))
    if ledger is None:
        raise WrongInput(
            f"{rows.name} is private and {len(trials)} models would be released; give the ledger to charge, "
            "or sweep over public rows"
        )
    if store is not None:
        raise WrongInput("a store keeps exact scores, which private rows do not allow; leave it out")
    if (ledger.unit, ledger.relation) != ("row", "add_remove"):
        raise WrongInput(
            f"expected a ledger for one row added or removed, got {ledger.unit} and {ledger.relation}; "
            "sweeps are priced for rows"
        )
    noise = calibrate_score_noise(trainings, ledger.delta)
    event = Disjoint(events=(trainings, Gaussian(noise=noise)))
    ledger.spend(event, what=f"a sweep of {len(trials)} models on {rows.name}")
    rng = Rng()
    clock = _Clock(say, sum(map(_work, trials)), 0)
    keyed = {str(at): trial for at, trial in enumerate(trials)}
    outcomes: dict[str, Outcome] = {}
    for group in populations(keyed, device):
        trained = _train([keyed[key] for key in group], rows, _Scoring(device, every, None), rng, clock)
        outcomes |= zip(group, trained, strict=True)
    scores = np.concatenate([outcomes[key].scores for key in keyed])
    # A test row changes each sum by at most 1, and the number of test rows, which is private too, by 1.
    exact = np.append(scores, 1.0) * len(rows.y_test)
    noisy = rng.gaussian(exact, noise=noise, sensitivity=math.sqrt(exact.size))
    ends = np.cumsum([len(outcomes[key].scores) for key in keyed])[:-1]
    parts = np.split(np.clip(noisy[:-1] / max(float(noisy[-1]), 1.0), 0, 1), ends)
    return [replace(outcomes[key], scores=tuple(part.tolist())) for key, part in zip(keyed, parts)]


@dataclass(frozen=True)
class _Scoring:
    """The device of a population, the number of steps between scores, and the score at which it ends early."""

    device: str
    every: int | None
    reach: float | None


def _train(trials: list[Trial], rows: Rows, scoring: _Scoring, rng: Rng, clock: _Clock) -> list[Outcome]:
    """Train and score one population."""
    from torch import cuda

    from privaware.descent import Callbacks, members
    from research.studies._scoring import AllReached, ScoreRecorder, scorer

    began, device = time.monotonic(), scoring.device
    first, work = trials[0].setting, sum(map(_work, trials))
    descent = descent_for(first, rows, device)
    settings = {name: [getattr(t.setting, name) for t in trials] for name in ("noise", "lr", "norm")}
    inputs, targets, x_test, y_test = (
        on_device(values, device) for values in (rows.x, rows.y, rows.x_test, rows.y_test)
    )
    recorder = ScoreRecorder(scoring.every or first.steps, scorer(x_test, y_test), scoring.reach)
    with contextlib.suppress(AllReached):
        descent.run_population(
            members([module(trial) for trial in trials], **settings),
            inputs,
            targets,
            rows=len(rows.x),
            rng=rng,
            device=device,
            callbacks=Callbacks(progress=clock.listen(work), on_step=[recorder]),
        )
    if device != "cpu":
        gc.collect()  # a stack and its layers refer to each other
        cuda.empty_cache()  # the next population sizes its microbatches by the free memory
    clock.end(work, len(trials), recorder.records[-1][0], time.monotonic() - began)
    return [
        Outcome(trial=trial, steps=tuple(s for s, _ in records), scores=tuple(v for _, v in records))
        for trial, records in zip(trials, recorder.columns(), strict=True)
    ]


def _line(outcome: Outcome) -> dict[str, Any]:
    trial = outcome.trial
    setting = {**asdict(trial.setting), "norm": str(trial.setting.norm)}
    entry = {"curve": trial.curve, "x": trial.x, "seed": trial.seed, "setting": setting}
    return {**entry, "steps": list(outcome.steps), "scores": list(outcome.scores)}


def _work(trial: Trial) -> float:
    """Return the relative amount of computation of a trial."""
    setting = trial.setting
    return float(setting.steps) * setting.batch * models.count(setting.architecture)


@dataclass
class _Clock:
    """Reports the progress of a sweep and the remaining time, every few seconds."""

    say: Say
    work: float
    resumed: int
    began: float = field(default_factory=time.monotonic)
    reported: float = field(default_factory=time.monotonic)
    finished: float = 0.0

    def listen(self, work: float) -> Callable[[int, int, float], None]:
        return lambda step, steps, left: self._report(self.finished + work * step / steps)

    def end(self, work: float, models: int, steps: int, seconds: float) -> None:
        self.finished += work
        if seconds >= 0.5:
            self.say(f"{models} models, {steps} steps: {seconds:.1f} s")

    def _report(self, finished: float) -> None:
        now = time.monotonic()
        if now - self.reported < 5 or not self.work:
            return
        self.reported = now
        share = finished / self.work
        left = (now - self.began) * (1 - share) / max(share, 1e-9)
        again = f", {self.resumed} trials were finished before" if self.resumed else ""
        self.say(f"{share:.0%} of the sweep, about {left:.0f} s left{again}")
