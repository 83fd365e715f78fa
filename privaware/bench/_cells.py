"""The cells of a benchmark: one learner, network, data set, epsilon and seed each.

The settings of a cell are a dict of plain values:

- `learner` is the learner's name in the grid, `algorithm` its name in the registry, and `settings` its settings.
- `network` is a name, and `architecture` a description of the network, or None.
- `data` is a name, and `rows` the table that says which rows (see `_rows.py`).
- `delta`, `seed`, and `epsilon`, which is None for a baseline: a model trained without noise.
- `attacks` is a list of names, or of tables of a name and settings.
- `shadows` is the number of shadow models and `shadow` their settings, if there are any.

A batch is a list of cells that differ in epsilon and seed only, so they train on the same rows and are attacked with
the same shadow models. Each cell is trained alone, and all its random numbers follow from its own settings, so on one
device it repeats bit for bit, whatever is trained before or beside it.
"""

from __future__ import annotations

import gc
import hashlib
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from privaware import features
from privaware.bench import Result, Settings, reason_of
from privaware.bench._kept import read_model
from privaware.bench._leakage import attack_of, attack_results
from privaware.bench._prices import Prices
from privaware.bench._rows import BenchRows, bench_rows
from privaware.bench._store import training_key
from privaware.errors import WrongInput
from privaware.events import Event, Unproven
from privaware.learners import Learner, find_learner
from privaware.model import Model
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.workflow.run.learner_settings import configured
from privaware.workflow.run.progress import step_progress

NO_NETWORK = "-"
"""What a table shows as the network of a learner that has no choice of network."""


@dataclass(frozen=True, kw_only=True)
class TrainingPlace:
    """Where and how cells of a benchmark are trained and attacked by membership inference.

    `device` is "cpu" or "cuda". No batch of cells (see `batches`) begins after the time `deadline`, in seconds since
    the epoch. `prices` is a JSON file of noise multipliers that were computed before; a noise multiplier that it lacks
    is computed and not written to it. `progress` prints the steps of each training to standard error. `commit` is the
    commit of the source; None reads the commit from git. `command` is the command line to record with each cell;
    None records none.
    """

    device: str = "cpu"
    deadline: float = float("inf")
    prices: Path | None = None
    progress: bool = False
    commit: str | None = None
    command: str | None = None


@dataclass(frozen=True, kw_only=True)
class CellOutcome:
    """The outcome of training one cell, or of attacking its model.

    `result` has the scores and the results of attacks by name. If the training failed, it has only the reason under
    "failed". `seconds` is the time of training (or of attacking) its batch, divided by the number of cells of the
    batch. `model` is the trained model if attacks on it are to follow, else None.
    """

    result: Result
    seconds: float = 0.0
    model: Model | None = field(default=None, repr=False)

    @property
    def failed(self) -> bool:
        return "failed" in self.result


def batches(cells: Sequence[Settings], most: int) -> list[list[int]]:
    """Return batches, each a list of positions in `cells`, of cells that differ in epsilon and seed only.

    A batch has at most `most` cells, and baselines (epsilon None) are apart from other cells. Batches are in the order
    of their first cells.
    """
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
    """Build the learner of a cell from the entries `algorithm`, `settings` and `architecture` of its settings `cell`.

    Each keyword in `runtime` also sets the field of its name, if the class of the learner has that field and the cell
    does not set it. Raise `WrongInput` for an unknown or wrong setting.
    """
    make = find_learner(cell["algorithm"])
    names = {field.name for field in fields(make)}  # type: ignore[arg-type]
    settings = dict(cell["settings"])
    if cell.get("architecture") is not None:
        settings["architecture"] = dict(cell["architecture"])
    extra = {name: value for name, value in runtime.items() if name in names and name not in settings}
    learner: Any = configured(cell["learner"], make, settings | extra)
    return learner  # type: ignore[no-any-return]


def noise_of(cell: Settings, event_at: Any, prices: Prices | None) -> float:
    """Return the noise multiplier of a cell: the smallest one whose event costs at most the cell's (epsilon, delta).

    `event_at` is a function from a noise multiplier to the event of the training. With `prices`, a noise multiplier
    stored there is used instead of computing one. Return 0 for a baseline (epsilon None), and 1 / epsilon if `event_at`
    returns `Unproven`, the event of an algorithm without a proven guarantee.
    """
    epsilon, delta = cell["epsilon"], cell["delta"]
    if epsilon is None:
        return 0.0
    if isinstance(event_at(1.0), Unproven):
        return 1 / float(epsilon)  # nothing can be calibrated: the claimed epsilon is what the algorithm is run at
    if prices is not None:
        return prices.calibrated(_price_key(event_at(1.0), epsilon, delta), event_at, epsilon, delta)
    from privaware import accounting

    return accounting.calibrate(event_at, epsilon, delta)


def _price_key(event: Event, epsilon: float, delta: float) -> str:
    """Return the key of a noise multiplier in `Prices`: "EVENT at (EPSILON, DELTA)".

    `event` is the event of the training at noise multiplier 1, and EVENT is its `repr`. A `repr` of more than 120
    characters is shortened to its first 60 characters and 16 digits of its SHA-256.
    """
    text = repr(event)
    named = text if len(text) <= 120 else f"{text[:60]}... {hashlib.sha256(text.encode()).hexdigest()[:16]}"
    return f"{named} at ({epsilon:g}, {delta:g})"


def unattacked(settings: Settings, result: Result) -> bool:
    """Return whether `result` of a trained cell lacks an AUC of one of the cell's attacks."""
    return any(f"auc {attack_of(wanted).label}" not in result for wanted in settings.get("attacks", ()))


def train_cells(place: TrainingPlace, cells: Sequence[Settings]) -> list[CellOutcome] | None:
    """Train the cells of one batch, and return an outcome for each cell, in the order of `cells`.

    The outcome has the scores, and the model if the cell has attacks. If a training fails, its outcome has the reason
    instead. If the rows or the learner of the batch cannot be made, every outcome has this reason. Return None, and
    train nothing, if the deadline of `place` is over.
    """
    if time.time() > place.deadline:
        return None
    began = time.monotonic()
    try:
        outcomes = list(_trained(place, cells))
    except Exception as problem:
        outcomes = [CellOutcome(result={"failed": reason_of(problem)})] * len(cells)
    _free_memory(place)
    seconds = (time.monotonic() - began) / len(cells)
    return [replace(one, seconds=seconds) for one in outcomes]


def attack_cells(place: TrainingPlace, waiting: Sequence[tuple[Settings, Path]]) -> list[CellOutcome] | None:
    """Attack the models of trained cells of one batch; return one outcome for each cell, in the order of `waiting`.

    `waiting` has pairs of the settings of a cell and the path of the file with its model. A model whose file is missing
    or damaged is trained again from the settings of its cell. The outcomes have only the results of attacks, no scores.
    Return None, and attack nothing, if the deadline of `place` is over.
    """
    if time.time() > place.deadline:
        return None
    began = time.monotonic()
    cells = [cell for cell, _ in waiting]
    outcomes = [CellOutcome(result=result) for result in attacked(place, cells, [read_model(at) for _, at in waiting])]
    _free_memory(place)
    seconds = (time.monotonic() - began) / len(waiting)
    return [replace(one, seconds=seconds) for one in outcomes]


def _free_memory(place: TrainingPlace) -> None:
    if place.device != "cpu":
        from torch import cuda

        gc.collect()  # a stack and its layers refer to each other
        cuda.empty_cache()  # the next training sizes its microbatches by the free memory


@dataclass(frozen=True)
class _Batch:
    """What the cells of one batch share.

    `learner` trains on `rows`, with the settings for the device. `priced_learner` is the same learner without the
    settings for the device; only its `cost` is called. `schema` is the argument of `priced_learner.cost`: the schema of
    the training rows, without columns if the learner reads the target only.
    """

    rows: BenchRows
    learner: Learner
    priced_learner: Learner
    schema: Schema

    @classmethod
    def of(cls, place: TrainingPlace, cells: Sequence[Settings]) -> _Batch:
        make = find_learner(cells[0]["algorithm"])
        rows = bench_rows(cells[0]["rows"], make)
        learner, priced = (learner_of(cells[0], public=rows.public, **more) for more in (_runtime(place, cells), {}))
        return cls(rows, learner, priced, rows.train.schema if make.uses_columns else rows.train.schema.keep(()))

    def train(self, cell: Settings, place: TrainingPlace) -> tuple[Model, float]:
        """Return the trained model of the cell with the settings `cell`, and its noise multiplier."""
        prices = None if place.prices is None else Prices(place.prices)
        noise = noise_of(cell, partial(self.priced_learner.cost, self.schema), prices)
        return self.learner.run(self.rows.train, noise, Rng(seed=_seed(cell, "training"))), noise


def _trained(place: TrainingPlace, cells: Sequence[Settings]) -> Iterator[CellOutcome]:
    batch = _Batch.of(place, cells)
    for cell in cells:
        try:
            model, noise = batch.train(cell, place)
            result = {**_scores(model, batch.rows, place.device), "noise": noise}
        except Exception as problem:
            yield CellOutcome(result={"failed": reason_of(problem)})
        else:
            yield CellOutcome(result=result, model=model if cell.get("attacks") else None)


def attacked(place: TrainingPlace, cells: Sequence[Settings], models: Sequence[Model | None]) -> Iterator[Result]:
    """Yield a dict for each of `cells`, in their order: the results of its attacks, as `attack_results` returns them.

    `models` has the model of each cell; None is trained again from the settings of the cell. If the training or the
    setting up of the attacks fails, the dict has only "attack_failures", with the reason for each attack of the cell.
    """
    for cell, model in zip(cells, models, strict=True):
        try:
            batch = _Batch.of(place, cells)
            target = batch.train(cell, place)[0] if model is None else model
            attacker = Rng(seed=_seed(cell, "attacks"))
            yield attack_results({0: target}, batch.rows, cell, batch.learner, attacker, place.device)[0]
        except Exception as problem:
            labels = [attack_of(wanted).label for wanted in cell["attacks"]]
            yield {"attack_failures": dict.fromkeys(labels, reason_of(problem))}


def _runtime(place: TrainingPlace, cells: Sequence[Settings]) -> dict[str, Any]:
    """Return settings for the device and for printing progress, which a cell's own settings override.

    `cells` are the cells of a batch; printed progress names the first of them and their number. On a GPU, products are
    computed in TF32, and Poisson samples are drawn into buffers of a fixed size. The probability that any sample of a
    run exceeds its buffer is at most 1e-10 (`overflow`). The noise multiplier is computed without this probability.
    """
    runtime: dict[str, Any] = {"device": place.device}
    if place.device != "cpu":
        runtime |= {"precision": "tf32", "overflow": 1e-10}
    if place.progress:
        first = cells[0]
        name = f"{first['learner']} {first['network']} {first['data']}, {len(cells)} cells"
        runtime["progress"] = step_progress(lambda words: print(f"{name}: {words}", file=sys.stderr, flush=True))
    return runtime


def _seed(cell: Settings, use: str) -> int:
    """Return the seed of a cell's random numbers for `use` ("training" or "attacks"): a hash of both arguments.

    Only the settings in `training_key` count: the seed is the same for cells that differ only in names or attacks.
    """
    return int(hashlib.sha256(f"{use} {training_key(cell)}".encode()).hexdigest()[:12], 16)


def _scores(model: Model, rows: BenchRows, device: str) -> Result:
    """Return the scores of `model` on the test rows of `rows`, by name.

    For classification these are `score` (the accuracy as a fraction), `accuracy` and `error` (percentages) and
    `test_rows` (their number). For regression it is only `score`, which is R2; predictions that are not finite raise
    `WrongInput`.
    """
    predictions = model.decide(model.network_outputs(_test_inputs(model, rows, device), device))
    if model.schema.classes:
        score = float(np.mean(predictions == rows.test.y))
        return {"score": score, "accuracy": 100 * score, "error": 100 * (1 - score), "test_rows": len(rows.test)}
    from privaware.metrics import r2

    if not np.isfinite(predictions).all():
        raise WrongInput("the model diverged: it predicts numbers that are not finite; lower its lr")
    return {"score": r2(rows.test.y, predictions)}


def _test_inputs(model: Model, rows: BenchRows, device: str) -> np.ndarray:
    """Return the inputs of the test rows in `rows`, after the features of `model` are applied to them.

    The last result is cached: a model with the same features on the same rows and device gets it again.
    """
    key = (repr(model.features), id(rows.test.x), device)
    if _tested.get("key") != key:
        inputs = features.apply(model.features, rows.test.x, model.schema, device)
        _tested.update(key=key, rows=rows.test.x, inputs=inputs)
    return np.asarray(_tested["inputs"])


_tested: dict[str, Any] = {}
"""The result of the last `_test_inputs` (`inputs`), with its `key` and the test `rows`.

The key contains the `id` of the rows. Keeping the rows here prevents Python from giving this `id` to other rows.
"""
