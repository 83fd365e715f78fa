"""What the cells of `benchmarks.studies` share: noises from a file, rows, tuned rates, and tables to print."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from privaware import datasets, models
from privaware.errors import WrongInput
from privaware.studies._result import points
from privaware.studies._sweep import Store, sweep
from privaware.studies._trials import Outcome, Rows, Setting, Trial
from privaware.workflow._curves import Point, point

NOISES = Path(__file__).with_name("studies_noise.json")
SEEDS = range(5)
TUNING = (100,)
"""Seeds of models that only choose a learning rate, on rows of their own."""


@dataclass
class Noises:
    """Noise multipliers by rate, steps, epsilon and way of counting; computed here, only looked up elsewhere."""

    compute: bool = False
    known: dict[str, float] = field(default_factory=lambda: _read(NOISES))

    def __call__(self, rate: float, steps: int, epsilon: float, counting: str = "rdp") -> float:
        key = f"{rate:.6g} x {steps}: {epsilon:.6g} by {counting}"
        if key not in self.known:
            if not self.compute:
                raise WrongInput(f"no noise for {key}; run `python -m benchmarks.studies prices`")
            self.known[key] = _least(rate, steps, epsilon, counting)
            print(key, self.known[key], flush=True)
            NOISES.write_text(json.dumps(dict(sorted(self.known.items())), indent=1) + "\n")
        return self.known[key]


def _read(path: Path) -> dict[str, float]:
    return json.loads(path.read_text()) if path.exists() else {}


def rdp(rate: float, steps: int, noise: float, counting: str = "rdp", delta: float = 1e-5) -> float:
    """Epsilon as Bao et al. counted (improved Renyi conversion, TensorFlow Privacy's orders) or as Opacus 0.13 did."""
    from privaware.accounting import OPACUS_ORDERS, TENSORFLOW_ORDERS, _rdp
    from privaware.accounting._terms import alternatives, flatten
    from privaware.events import Gaussian

    [way] = alternatives(steps * Gaussian(noise=noise).sampled(rate=rate))
    classic = counting == "classic"
    orders = OPACUS_ORDERS if classic else TENSORFLOW_ORDERS
    return _rdp.epsilon(flatten(way, None), delta, orders, classic=classic)  # type: ignore[arg-type]


def _least(rate: float, steps: int, epsilon: float, counting: str) -> float:
    low, high = 1e-6, 1e5
    while high / low > 1 + 1e-6:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if rdp(rate, steps, middle, counting) > epsilon else (low, middle)
    return high


@dataclass
class Bench:
    """Where cells run: a device, a store of finished trainings, and the noises.

    `dry` trains nothing: what cells ask for is written down in `asked`, for noises and estimates. On a GPU products are
    computed in tf32.
    """

    device: str
    store: Store
    noise: Noises
    dry: bool = False
    quick: bool = False
    asked: list[Sequence[Trial]] = field(default_factory=list)

    def sweep(self, trials: Sequence[Trial], rows: Rows, **how: Any) -> list[Outcome]:
        if self.device != "cpu":
            trials = [replace(t, setting=replace(t.setting, precision="tf32")) for t in trials]
        if self.dry:
            self.asked.append(trials)
            steps = 40 if "every" in how else 1
            return [Outcome(trial=t, steps=(1,) * steps, scores=(0.5,) * steps) for t in trials]
        return sweep(trials, rows, device=self.device, store=self.store, say=_say, **how)

    def images(self, name: str, form: str) -> Pair:
        return STUB if self.dry else images(name, form, self.device)

    @property
    def seeds(self) -> range:
        return range(3) if self.quick else SEEDS

    def tuned(
        self,
        rows: Pair,
        settings: Mapping[tuple[str, float], Setting],
        rates: Sequence[float],
        tuning: Sequence[int] = TUNING,
    ) -> tuple[tuple[Point, ...], dict[str, float]]:
        """Each setting at its own best of `rates` by validation rows, then new seeds on test rows."""
        places = list(settings)
        tried = [
            Trial(curve=curve, x=x, seed=seed, setting=replace(settings[curve, x], lr=rate))
            for curve, x in places
            for rate in rates
            for seed in tuning
        ]
        scores: dict[tuple[str, float], dict[float, list[float]]] = {place: {} for place in places}
        for outcome in self.sweep(tried, rows.validation):
            own = scores[outcome.trial.curve, outcome.trial.x]
            own.setdefault(outcome.trial.setting.lr, []).append(outcome.score)
        best = {place: max(own, key=lambda rate: np.mean(own[rate])) for place, own in scores.items()}
        final = [
            Trial(curve=curve, x=x, seed=seed, setting=replace(settings[curve, x], lr=best[curve, x]))
            for curve, x in places
            for seed in self.seeds
        ]
        made = points(self.sweep(final, rows.test))
        return made, {f"{curve} at {x:g}": rate for (curve, x), rate in best.items()}


@dataclass(frozen=True)
class Pair:
    """The same training rows with rows to validate on and others to test on."""

    validation: Rows
    test: Rows

    @property
    def count(self) -> int:
        return len(self.test.x)


_NONE = np.zeros(1, np.int64)
_ROWS = Rows(name="none", x=_NONE, y=_NONE, tested=_NONE, truth=_NONE, public=True)
STUB = Pair(_ROWS, _ROWS)
"""In the place of rows when only noises are computed."""


def _say(words: str) -> None:
    print(f"  {words}", flush=True)


def dark(x: np.ndarray) -> np.ndarray:
    """Colour images in grey, one channel."""
    return (x * np.array([0.299, 0.587, 0.114], np.float32)[:, None, None]).sum(1, keepdims=True)


@cache
def parts(name: str) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Training, validation and test rows with the sizes of Bao et al.; SVHN in grey."""
    loaded = datasets.load(name)
    train = datasets.parts(loaded.train, 42_000)[0] if name == "svhn" else loaded.train
    three = (train, *datasets.parts(loaded.test, 5_000, 5_000))
    grey = name == "svhn"
    return tuple((dark(part.x) if grey else part.x, part.y) for part in three)


MIDDLES = {
    "mnist": (np.float32(0.13), np.float32(0.31)),
    "svhn": (np.float32(0.5), np.float32(0.25)),
    "cifar10": (np.float32(0.5), np.float32(0.25)),
}
"""About the mean and deviation of a pixel, from common knowledge rather than from the rows."""


@cache
def images(name: str, form: str, device: str = "cpu") -> Pair:
    """`form` is image (for networks that convolve), flat, or pca followed by the number of components.

    Images are moved and scaled by fixed numbers, `MIDDLES`, which cost nothing: with pixels from 0 to 1 clipped descent
    hardly begins on photographs. Components are exact ones of the centred training rows, as the paper has them, scaled
    by one number so that the mean square of an entry is 1: an evaluation, no release.
    """
    three = [(x.astype(np.float32), y) for x, y in parts(name)]
    if form == "image":
        middle, deviation = MIDDLES[name]
        three = [((x - middle) / deviation, y) for x, y in three]
    else:
        three = [(x.reshape(len(x), -1), y) for x, y in three]
    if form.startswith("pca"):
        mean, kept, scale = _components(three[0][0], int(form[3:]), device)
        three = [((x - mean) @ kept / scale, y) for x, y in three]
    (x, y), (vx, vy), (tx, ty) = three
    shape = "image moved and scaled" if form == "image" else form
    rows = Rows(name=f"{name}, {shape}", x=x, y=y, tested=vx, truth=vy, public=True)
    return Pair(rows, replace(rows, tested=tx, truth=ty, name=f"{name}, {shape}, test"))


def _components(x: np.ndarray, count: int, device: str) -> tuple[np.ndarray, np.ndarray, float]:
    """The mean row, the leading eigenvectors of the covariance, and the root of their mean eigenvalue."""
    import torch

    middle = x.mean(0)
    centred = torch.from_numpy(x - middle).to(device)
    spread = centred.T @ centred / len(x)
    try:
        values, vectors = torch.linalg.eigh(spread)
    except RuntimeError as problem:  # a GPU without its solver library
        _say(f"eigenvectors on the processor: {problem!s:.80}")
        values, vectors = torch.linalg.eigh(spread.cpu())
    kept = vectors[:, -count:].flip(1).cpu().numpy()
    return middle, kept, math.sqrt(float(values[-count:].mean()))


def network(name: str) -> dict[str, Any]:
    """A published network by the end of its name."""
    [found] = [known for key, known in models.named().items() if key.endswith(name)]
    return dict(found.description)


def plain(setting: Setting) -> Setting:
    """The same without clipping or noise."""
    return replace(setting, noise=0.0, norm=math.inf)


def percent(p: Point) -> str:
    return f"{100 * p.mean:.2f} ± {100 * p.spread:.2f}"


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    return {"title": title, "head": list(head), "rows": [[str(cell) for cell in row] for row in rows]}


def chart(name: str, made: Sequence[Point], **how: Any) -> dict[str, Any]:
    kept = [asdict(p) for p in made]
    if not how.get("log", True):  # epoch by epoch the single scores would fill the file
        kept = [{**p, "scores": []} for p in kept]
    return {"name": name, "points": kept, **how}


def by_curve(made: Sequence[Point]) -> dict[tuple[str, float], Point]:
    return {(p.curve, p.x): p for p in made}


def grid_table(title: str, made: Sequence[Point], x: str = "epsilon") -> dict[str, Any]:
    """Places down, curves across."""
    curves = list(dict.fromkeys(p.curve for p in made))
    found = by_curve(made)
    places = sorted({p.x for p in made})
    rows = [[f"{at:g}", *(percent(found[c, at]) if (c, at) in found else "" for c in curves)] for at in places]
    return table(title, [x, *curves], rows)


def scores_of(made: Sequence[Point], curve: str) -> np.ndarray:
    """(repeats, places) of one curve, places rising."""
    own = sorted((p for p in made if p.curve == curve), key=lambda p: p.x)
    return np.array([p.scores for p in own]).T


Cell = Callable[[Bench], dict[str, Any]]
__all__ = [
    "SEEDS",
    "TUNING",
    "Bench",
    "Cell",
    "Noises",
    "Pair",
    "by_curve",
    "chart",
    "dark",
    "grid_table",
    "images",
    "network",
    "parts",
    "percent",
    "plain",
    "point",
    "points",
    "rdp",
    "scores_of",
    "table",
]
