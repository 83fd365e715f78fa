"""What items that train many networks share: rows, learning rates chosen on validation rows, and tables of points.

Everything is an evaluation on public benchmark rows. On a GPU products are computed in TF32.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from privaware import datasets, models
from privaware.workflow._curves import Point
from research.papers._results import Repeats, table
from research.papers._runner import Bench
from research.studies import Rows, Setting, Store
from research.studies._result import points
from research.studies._sweep import sweep
from research.studies._trials import Outcome, Trial

TUNING_SEED = 100
"""Of the models that only choose a learning rate."""
STANDARDISE = {"mnist": (0.13, 0.31), "svhn": (0.5, 0.25), "cifar10": (0.5, 0.25)}
"""Mean and standard deviation of a pixel, as public knowledge rather than from the rows."""


@dataclass(frozen=True)
class Split:
    """The same training rows with rows to choose a learning rate on, and with others to test on."""

    validation: Rows
    test: Rows


_NOTHING = np.zeros(1, np.int64)
_NO_ROWS = Rows(name="none", x=_NOTHING, y=_NOTHING, x_test=_NOTHING, y_test=_NOTHING, public=True)
NO_ROWS = Split(_NO_ROWS, _NO_ROWS)
"""In place of rows where only prices are asked for."""


def sweep_options(bench: Bench) -> dict[str, Any]:
    """Device, store and progress of a study: finished trainings come from the folder of the bench."""
    store = None if bench.out is None else Store(bench.out / "trainings.jsonl")
    return {"device": bench.device, "store": store, "say": bench.say}


def precision(bench: Bench) -> str:
    """TF32 on a GPU; noted among the facts of the run."""
    bench.facts["precision"] = "float32" if bench.device == "cpu" else "tf32"
    return str(bench.facts["precision"])


def swept(bench: Bench, trials: Sequence[Trial], rows: Rows, **how: Any) -> list[Outcome]:
    """Every trial trained and scored; where only prices are asked for, each scores one half."""
    trials = [replace(t, setting=replace(t.setting, precision=precision(bench))) for t in trials]
    if bench.dry:
        count = 40 if "every" in how else 1
        return [Outcome(trial=t, steps=(1,) * count, scores=(0.5,) * count) for t in trials]
    return sweep(trials, rows, **sweep_options(bench), **how)


Place = tuple[str, float]
"""A curve and a place on it."""


def validated(
    bench: Bench, rows: Split, settings: Mapping[Place, Setting], rates: Sequence[float]
) -> dict[Place, dict[float, float]]:
    """Return the validation score of each setting at each of `rates`, from one model of `TUNING_SEED`."""
    tried = [
        Trial(curve=curve, x=x, seed=TUNING_SEED, setting=replace(setting, lr=rate))
        for (curve, x), setting in settings.items()
        for rate in rates
    ]
    scores: dict[Place, dict[float, float]] = {place: {} for place in settings}
    for outcome in swept(bench, tried, rows.validation):
        scores[outcome.trial.curve, outcome.trial.x][outcome.trial.setting.lr] = outcome.score
    return scores


def tested(bench: Bench, rows: Split, settings: Mapping[Place, Setting], seeds: int) -> tuple[Point, ...]:
    """Return the test scores of each setting, trained with `seeds` seeds."""
    final = [
        Trial(curve=curve, x=x, seed=seed, setting=setting)
        for (curve, x), setting in settings.items()
        for seed in range(seeds)
    ]
    return points(swept(bench, final, rows.test))


def tuned(
    bench: Bench, rows: Split, settings: Mapping[Place, Setting], rates: Sequence[float], seeds: int
) -> tuple[tuple[Point, ...], dict[str, float]]:
    """Each setting at the best of `rates` by validation rows, then trained with `seeds` seeds and tested."""
    scores = validated(bench, rows, settings, rates)
    best = {place: max(rates, key=lambda rate: of_rate[rate]) for place, of_rate in scores.items()}
    chosen = {place: replace(setting, lr=best[place]) for place, setting in settings.items()}
    return tested(bench, rows, chosen, seeds), {f"{curve} at {x:g}": rate for (curve, x), rate in best.items()}


def grey(x: np.ndarray) -> np.ndarray:
    """Colour images as one channel."""
    return (x * np.array([0.299, 0.587, 0.114], np.float32)[:, None, None]).sum(1, keepdims=True)


@cache
def parts(name: str) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Training, validation and test rows with the sizes of Bao et al.; SVHN in grey."""
    loaded = datasets.load(name)
    train = datasets.parts(loaded.train, 42_000)[0] if name == "svhn" else loaded.train
    three = (train, *datasets.parts(loaded.test, 5_000, 5_000))
    return tuple((grey(part.x) if name == "svhn" else part.x, part.y) for part in three)


def images(bench: Bench, name: str, form: str) -> Split:
    """Return the rows of a data set in one form.

    `form` is "image" (for convolutions), "scaled" (the same numbers as a vector), "flat" (pixels from 0 to 1 as a
    vector), or "pca" followed by the number of components. With "unit" before it, as in "unit pca300", each image is
    first standardised by its own mean and deviation.

    Images and scaled vectors are standardised by fixed numbers, which has no privacy cost (data-independent): with
    pixels from 0 to 1 clipped descent is slow on photographs. Components are exact ones of the centred training rows,
    as the paper has them, scaled by one number so that the mean square of an entry is 1: an evaluation, no release.
    """
    return NO_ROWS if bench.dry else _images(name, form, bench.device)


@cache
def _images(name: str, form: str, device: str) -> Split:
    three = [(x.astype(np.float32), y) for x, y in parts(name)]
    own, _, shape = form.rpartition(" ")
    if own:
        three = [(_standardised(x), y) for x, y in three]
    elif shape in ("image", "scaled"):
        mean, deviation = map(np.float32, STANDARDISE[name])
        three = [((x - mean) / deviation, y) for x, y in three]
    if shape != "image":
        three = [(x.reshape(len(x), -1), y) for x, y in three]
    if shape.startswith("pca"):
        center, components, scale = _components(three[0][0], int(shape[3:]), device)
        three = [((x - center) @ components / scale, y) for x, y in three]
    (x, y), (x_validation, y_validation), (x_test, y_test) = three
    rows = Rows(name=f"{name}, {form}", x=x, y=y, x_test=x_validation, y_test=y_validation, public=True)
    return Split(rows, replace(rows, x_test=x_test, y_test=y_test, name=f"{name}, {form}, test"))


def _standardised(x: np.ndarray) -> np.ndarray:
    """Return each image with mean 0 and deviation 1 over all of its pixels."""
    axes = tuple(range(1, x.ndim))
    mean, deviation = x.mean(axes, keepdims=True), x.std(axes, keepdims=True)
    return np.asarray((x - mean) / np.maximum(deviation, 1e-3), np.float32)


def _components(x: np.ndarray, count: int, device: str) -> tuple[np.ndarray, np.ndarray, float]:
    """The mean row, the leading eigenvectors of the covariance, and the root of their mean eigenvalue."""
    import torch

    mean = x.mean(0)
    centred = torch.from_numpy(x - mean).to(device)
    covariance = centred.T @ centred / len(x)
    try:
        values, vectors = torch.linalg.eigh(covariance)
    except RuntimeError:  # a GPU without its solver library
        values, vectors = torch.linalg.eigh(covariance.cpu())
    components = vectors[:, -count:].flip(1).cpu().numpy()
    return mean, components, math.sqrt(float(values[-count:].mean()))


def network(name: str) -> dict[str, Any]:
    """A published network by the end of its name."""
    [model] = [known for key, known in models.named().items() if key.endswith(name)]
    return dict(model.description)


def plain(setting: Setting) -> Setting:
    """The same without clipping or noise."""
    return replace(setting, noise=0.0, norm=math.inf)


def percent(p: Point) -> Repeats:
    """The scores of a point, shown in per cent."""
    return Repeats(scores=list(p.scores))


def chart(name: str, measured: Sequence[Point], **how: Any) -> dict[str, Any]:
    """A plot as a result holds it; curves by epoch keep no single scores."""
    stored = [asdict(p) for p in measured]
    if not how.get("log", True):
        stored = [{**p, "scores": []} for p in stored]
    return {"name": name, "points": stored, **how}


def by_place(measured: Sequence[Point]) -> dict[Place, Point]:
    return {(p.curve, p.x): p for p in measured}


def grid_table(title: str, measured: Sequence[Point], x: str = "epsilon") -> dict[str, Any]:
    """Places down, curves across."""
    curves = list(dict.fromkeys(p.curve for p in measured))
    known = by_place(measured)
    places = sorted({p.x for p in measured})
    rows = [[f"{at:g}", *(percent(known[c, at]) if (c, at) in known else "" for c in curves)] for at in places]
    return table(title, [x, *curves], rows)


def scores_of(measured: Sequence[Point], curve: str) -> np.ndarray:
    """(repeats, places) of one curve, places rising."""
    chosen = sorted((p for p in measured if p.curve == curve), key=lambda p: p.x)
    return np.array([p.scores for p in chosen]).T
