"""The cells of a benchmark: one learner, network, data set, epsilon and seed each; many are trained as one population.

The settings of a cell are plain values: `learner` (the name of its line), `algorithm` (the name in the registry),
`settings`, `network` (a name) and `architecture`, `data` (a name) and `rows`, `delta`, `epsilon` (None: trained without
noise, a baseline), `seed`, and `attacks`. Cells that differ in epsilon and seed only are a population.
"""

from __future__ import annotations

import gc
import hashlib
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np

from privaware import features
from privaware.errors import PrivawareError, WrongInput
from privaware.events import Event, Unproven
from privaware.learners import Learner, PopulationLearner, find_learner
from privaware.model import Model
from privaware.noise import Rng
from privaware.papers import Result, Settings
from privaware.papers._bench_leakage import attack_results
from privaware.papers._bench_rows import BenchRows, bench_rows, bench_schema
from privaware.papers._prices import Prices
from privaware.workflow._progress import step_progress
from privaware.workflow._settings import configured

__all__ = [
    "NO_NETWORK",
    "CellOutcome",
    "dry_prices",
    "TrainingPlace",
    "learner_of",
    "noise_of",
    "populations",
    "train_cells",
]

NO_NETWORK = "-"
"""The name of the network of a learner that has none to choose."""


@dataclass(frozen=True, kw_only=True)
class TrainingPlace:
    """Where cells are trained; no population begins after `deadline` (seconds since the epoch).

    Noise multipliers are calibrated, or looked up among the prices of `paper`. `commit` is that of the source, where a
    copy without its history runs.
    """

    device: str = "cpu"
    deadline: float = float("inf")
    paper: str | None = None
    progress: bool = False
    commit: str | None = None


@dataclass(frozen=True, kw_only=True)
class CellOutcome:
    """The result of a cell or why it failed, and its share of the seconds of its population."""

    result: Result
    seconds: float = 0.0
    population: int = 1

    @property
    def failed(self) -> bool:
        return "failed" in self.result


def populations(cells: Sequence[Settings], most: int) -> list[list[int]]:
    """Places of the cells that differ in epsilon and seed only, at most so many together, in order of appearance."""
    groups: dict[str, list[list[int]]] = {}
    for at, cell in enumerate(cells):
        rest = {name: value for name, value in cell.items() if name not in ("epsilon", "seed")}
        key = json.dumps([rest, cell["epsilon"] is None], sort_keys=True)
        same = groups.setdefault(key, [[]])
        if len(same[-1]) >= most:
            same.append([])
        same[-1].append(at)
    return sorted((group for same in groups.values() for group in same), key=lambda group: group[0])


def learner_of(cell: Settings, **runtime: Any) -> Learner:
    """The learner of a cell; `runtime` values go to fields of these names, where the cell sets none."""
    make = find_learner(cell["algorithm"])
    names = {field.name for field in fields(make)}  # type: ignore[arg-type]
    settings = dict(cell["settings"])
    if cell.get("architecture") is not None:
        settings["architecture"] = dict(cell["architecture"])
    extra = {name: value for name, value in runtime.items() if name in names and name not in settings}
    learner: Any = configured(cell["learner"], make, settings | extra)
    return learner  # type: ignore[no-any-return]


def noise_of(cell: Settings, event_at: Any, prices: Prices | None) -> float:
    """The noise multiplier at which the cell costs its epsilon; 0 for a baseline."""
    epsilon, delta = cell["epsilon"], cell["delta"]
    if epsilon is None:
        return 0.0
    if isinstance(event_at(1.0), Unproven):
        return 1 / float(epsilon)  # nothing can be calibrated: the claimed epsilon is what the algorithm is run at
    if prices is not None:
        return prices.calibrated(_price_key(event_at(1.0), epsilon, delta), event_at, epsilon)
    from privaware import accounting

    return accounting.calibrate(event_at, epsilon, delta)


def _price_key(event: Event, epsilon: float, delta: float) -> str:
    """A price by what is composed at noise multiplier 1."""
    text = repr(event)
    named = text if len(text) <= 120 else f"{text[:60]}... {hashlib.sha256(text.encode()).hexdigest()[:16]}"
    return f"{named} at ({epsilon:g}, {delta:g})"


def dry_prices(cells: Sequence[Settings], prices: Prices) -> None:
    """Asks for the price of every cell, without rows; seeds and networks have the same price."""
    for cell in cells:
        asked = {
            name: value for name, value in cell.items() if name not in ("seed", "network", "architecture", "attacks")
        }
        key = json.dumps(asked, sort_keys=True)
        if key in _asked:
            continue
        make = find_learner(cell["algorithm"])
        schema, public = bench_schema(cell["rows"], make)
        learner = learner_of(cell, public=public)
        noise_of(cell, partial(learner.cost, schema), prices)
        _asked.add(key)


_asked: set[str] = set()


def train_cells(place: TrainingPlace, cells: Sequence[Settings]) -> list[CellOutcome] | None:
    """The outcome of each cell of one population; None after the deadline."""
    if time.time() > place.deadline:
        return None
    began = time.monotonic()
    try:
        outcomes = list(_outcomes(place, cells))
    except Exception as problem:
        outcomes = [CellOutcome(result={"failed": _sentence(problem)})] * len(cells)
    if place.device != "cpu":
        from torch import cuda

        gc.collect()  # a stack and its layers refer to each other
        cuda.empty_cache()  # the next population sizes its microbatches by the free memory
    seconds = (time.monotonic() - began) / len(cells)
    return [CellOutcome(result=one.result, seconds=seconds, population=one.population) for one in outcomes]


def _outcomes(place: TrainingPlace, cells: Sequence[Settings]) -> Iterator[CellOutcome]:
    make = find_learner(cells[0]["algorithm"])
    rows = bench_rows(cells[0]["rows"], make)
    learner, priced_learner = (
        learner_of(cells[0], public=rows.public, **more) for more in (_runtime(place, cells), {})
    )
    schema = rows.train.schema if make.uses_columns else rows.train.schema.keep(())
    prices = None if place.paper is None else Prices(place.paper)
    noises: list[float | None] = []
    reasons: dict[int, str] = {}
    for at, cell in enumerate(cells):
        try:
            noises.append(noise_of(cell, partial(priced_learner.cost, schema), prices))
        except Exception as problem:
            noises.append(None)
            reasons[at] = _sentence(problem)
    priced = [at for at, noise in enumerate(noises) if noise is not None]
    models = _train(learner, rows, {at: float(noises[at] or 0.0) for at in priced}, cells)
    trained = {at: model for at, model in models.items() if isinstance(model, Model)}
    rng = Rng(seed=_seed([*cells, {"for": "attacks"}]))
    attacked = attack_results(trained, rows, cells[0], learner, rng, place.device)
    inputs = _test_inputs(trained, rows, place.device)
    for at in range(len(cells)):
        model = models.get(at, reasons.get(at, ""))
        if isinstance(model, str):
            yield CellOutcome(result={"failed": model})
            continue
        outputs = model.network_outputs(inputs[repr(model.features)], place.device)
        measured = {**_scores(model, rows, outputs), "noise": noises[at], **attacked[at]}
        yield CellOutcome(result=measured, population=len(priced))


def _train(
    learner: Learner, rows: BenchRows, noises: dict[int, float], cells: Sequence[Settings]
) -> dict[int, Model | str]:
    """The trained models by place, as one population where the learner can; a string says why one failed."""
    if not noises:
        return {}
    if len(noises) > 1 and isinstance(learner, PopulationLearner):
        rng = Rng(seed=_seed(cells))
        trained = learner.run_population([learner] * len(noises), rows.train, list(noises.values()), rng)
        return dict(zip(noises, trained, strict=True))
    models: dict[int, Model | str] = {}
    for at, noise in noises.items():
        try:
            models[at] = learner.run(rows.train, noise, Rng(seed=_seed([cells[at]])))
        except Exception as problem:
            models[at] = _sentence(problem)
    return models


def _runtime(place: TrainingPlace, cells: Sequence[Settings]) -> dict[str, Any]:
    """On a GPU, where the cell does not say otherwise, products are computed in TF32 and samples drawn there.

    The chance that a sample does not fit is 1e-10, which a price at delta 1e-5 leaves out.
    """
    runtime: dict[str, Any] = {"device": place.device}
    if place.device != "cpu":
        runtime |= {"precision": "tf32", "overflow": 1e-10}
    if place.progress:
        first = cells[0]
        name = f"{first['learner']} {first['network']} {first['data']}, {len(cells)} cells"
        runtime["progress"] = step_progress(lambda words: print(f"{name}: {words}", file=sys.stderr, flush=True))
    return runtime


def _seed(cells: Sequence[Settings]) -> int:
    text = json.dumps([dict(cell) for cell in cells], sort_keys=True)
    return int(hashlib.sha256(text.encode()).hexdigest()[:12], 16)


def _test_inputs(models: dict[int, Model], rows: BenchRows, device: str) -> dict[str, np.ndarray]:
    """The test rows after each chain of features, which the models of a population have in common."""
    chains = {repr(model.features): model for model in models.values()}
    return {key: features.apply(model.features, rows.test.x, model.schema, device) for key, model in chains.items()}


def _scores(model: Model, rows: BenchRows, outputs: np.ndarray) -> Result:
    """The score: accuracy, with error rate and accuracy in per cent beside it, or R2 of a regression."""
    predictions = model.decide(outputs)
    if model.schema.classes:
        score = float(np.mean(predictions == rows.test.y))
        return {"score": score, "accuracy": 100 * score, "error": 100 * (1 - score)}
    from privaware.metrics import r2

    if not np.isfinite(predictions).all():
        raise WrongInput("the model diverged: it predicts numbers that are not finite; lower its lr")
    return {"score": r2(rows.test.y, predictions)}


def _sentence(problem: Exception) -> str:
    """The reason in one line; of an error that is not ours, its kind too."""
    text = " ".join(str(problem).split())[:300]
    return text if isinstance(problem, PrivawareError) and text else f"{type(problem).__name__}: {text}"
