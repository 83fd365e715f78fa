"""Many trainings at once: settings x seeds as populations, a store to resume from, and the price of all of it.

A sweep trains many models on the same rows and tells the score of each, so it is a release of many models. On rows
that are public (built-in benchmarks) it is an evaluation and its results say so. On private rows everything trained is
charged, composed, before a row is used, and the scores are noised.
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
from privaware.studies._population import grouped, module, on_device, recipe
from privaware.studies._trials import Outcome, Rows, Trial, price
from privaware.workflow._pricing import score_noise

__all__ = ["Store", "sweep"]

Say = Callable[[str], None]


@dataclass(frozen=True)
class Store:
    """Finished trials, one JSON line each; a line cut short by a kill is left out and its trial done again."""

    path: Path

    def read(self) -> dict[str, dict[str, Any]]:
        known: dict[str, dict[str, Any]] = {}
        if not self.path.exists():
            return known
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                made = json.loads(line)
                known[made["key"]] = made
            except (ValueError, KeyError, TypeError):
                continue
        return known

    def add(self, lines: Iterable[dict[str, Any]]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        whole = not self.path.exists() or self.path.read_bytes()[-1:] in (b"", b"\n")
        with open(self.path, "a", encoding="utf-8") as file:
            file.write("" if whole else "\n")
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
    """Each trial trained and scored, those of one recipe as one population; finished ones come from the `store`.

    Scores are taken after every `every` steps (left out: at the end). A population ends early once each of its models
    has scored at least `reach`. For private rows a `ledger` is charged with everything before a row is used.
    """
    say = say or (lambda words: None)
    if not rows.public:
        return _charged(trials, rows, device, every, ledger, store, say)
    known = {} if store is None else store.read()
    keys = [trial.key(rows, every) for trial in trials]
    todo = {key: trial for key, trial in zip(keys, trials, strict=True) if key not in known}
    clock = _Clock(say, sum(_work(trial) for trial in todo.values()), len(trials) - len(todo))
    for group in grouped(todo, device):
        rng = Rng(seed=int(hashlib.sha256("".join(group).encode()).hexdigest()[:12], 16))
        own = [todo[key] for key in group]
        made = _train(own, rows, device, every, reach, rng, clock)
        lines = [{"key": key, "rows": rows.name, **_told(outcome)} for key, outcome in zip(group, made)]
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
    """On private rows: all trainings and the noised scores are charged first, and only those scores come out."""
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
    noise = score_noise(trainings, ledger.delta)
    event = Disjoint(events=(trainings, Gaussian(noise=noise)))
    ledger.spend(event, what=f"a sweep of {len(trials)} models on {rows.name}")
    rng = Rng()
    clock = _Clock(say, sum(map(_work, trials)), 0)
    keyed = {str(at): trial for at, trial in enumerate(trials)}
    made: dict[str, Outcome] = {}
    for group in grouped(keyed, device):
        own = [keyed[key] for key in group]
        made |= zip(group, _train(own, rows, device, every, None, rng, clock), strict=True)
    shares = np.concatenate([made[key].scores for key in keyed])
    # A row to score on moves each sum by at most 1 and the number of rows, which is as secret, by 1.
    exact = np.append(shares, 1.0) * len(rows.truth)
    noisy = rng.gaussian(exact, noise=noise, sensitivity=math.sqrt(exact.size))
    ends = np.cumsum([len(made[key].scores) for key in keyed])[:-1]
    parts = np.split(np.clip(noisy[:-1] / max(float(noisy[-1]), 1.0), 0, 1), ends)
    return [replace(made[key], scores=tuple(part.tolist())) for key, part in zip(keyed, parts)]


def _train(
    trials: list[Trial], rows: Rows, device: str, every: int | None, reach: float | None, rng: Rng, clock: _Clock
) -> list[Outcome]:
    """One population, from start to end."""
    from torch import cuda

    from privaware.studies._watch import Reached, Watch, scorer

    began = time.monotonic()
    first, work = trials[0].setting, sum(map(_work, trials))
    way = recipe(first, rows, device)
    each = {name: [getattr(t.setting, name) for t in trials] for name in ("noise", "lr", "norm")}
    inputs, targets, tested, truth = (on_device(values, device) for values in (rows.x, rows.y, rows.tested, rows.truth))
    watch = Watch("", every or first.steps, scorer(tested, truth), reach)
    with contextlib.suppress(Reached):
        way.run_population(
            [module(trial) for trial in trials],
            inputs,
            targets,
            rows=len(rows.x),
            rng=rng,
            device=device,
            checkpoint=watch,
            progress=clock.listen(work),
            **each,
        )
    if device != "cpu":
        gc.collect()  # a stack and its layers hold each other
        cuda.empty_cache()  # the next one sizes its batches by what is free
    clock.done(work, len(trials), watch.seen[-1][0], time.monotonic() - began)
    return [
        Outcome(trial=trial, steps=tuple(s for s, _ in own), scores=tuple(v for _, v in own))
        for trial, own in zip(trials, watch.columns(), strict=True)
    ]


def _told(outcome: Outcome) -> dict[str, Any]:
    trial = outcome.trial
    setting = {**asdict(trial.setting), "norm": str(trial.setting.norm)}
    place = {"curve": trial.curve, "x": trial.x, "seed": trial.seed, "setting": setting}
    return {**place, "steps": list(outcome.steps), "scores": list(outcome.scores)}


def _work(trial: Trial) -> float:
    """About how much there is to compute; only shares of it matter."""
    setting = trial.setting
    return float(setting.steps) * setting.batch * models.count(setting.architecture)


@dataclass
class _Clock:
    """Tells now and then how far a sweep is and how long it still takes."""

    say: Say
    work: float
    resumed: int
    began: float = field(default_factory=time.monotonic)
    heard: float = field(default_factory=time.monotonic)
    finished: float = 0.0

    def listen(self, work: float) -> Callable[[int, int, float], None]:
        return lambda step, steps, left: self._tell(self.finished + work * step / steps)

    def done(self, work: float, models: int, steps: int, seconds: float) -> None:
        self.finished += work
        if seconds >= 0.5:
            self.say(f"{models} models, {steps} steps: {seconds:.1f} s")

    def _tell(self, done: float) -> None:
        now = time.monotonic()
        if now - self.heard < 5 or not self.work:
            return
        self.heard = now
        share = done / self.work
        left = (now - self.began) * (1 - share) / max(share, 1e-9)
        again = f", {self.resumed} trials were done before" if self.resumed else ""
        self.say(f"{share:.0%} of the sweep, about {left:.0f} s left{again}")
