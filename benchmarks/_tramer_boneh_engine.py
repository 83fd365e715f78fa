"""One model at a time by the library's engine: scattering features or pixels, Poisson or shuffled batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from benchmarks import tramer_boneh
from benchmarks._tramer_boneh_features import Bench, Features, normalised, some
from benchmarks._tramer_boneh_settings import NETWORKS, NORM, Setting, noise_of
from privaware import datasets, models
from privaware.descent import Callbacks, Descent, Poisson, Sampler, flat, members, momentum
from privaware.descent import every as observed
from privaware.descent._training import Training
from privaware.errors import Refused
from privaware.events import Event
from privaware.noise import Rng


class Shuffled:
    """Batches of a shuffled order, as the authors' code draws them. Nothing is known that they would be worth."""

    def __init__(self, batch: int, rows: int, seed: int) -> None:
        self.batch, self.rate, self.order = batch, batch / rows, np.empty(0, np.int64)
        self.draws = np.random.default_rng(seed)

    def event(self, inner: Event) -> Event:
        raise Refused("shuffled batches have no such guarantee: use Poisson samples")

    def draw(self, rng: Rng, rows: int) -> np.ndarray:
        if len(self.order) < self.batch:
            self.order = self.draws.permutation(rows)
        now, self.order = self.order[: self.batch], self.order[self.batch :]
        return np.sort(now)


def trained(bench: Bench, setting: Setting, seed: int, sampler: str = "poisson", every: int = 1) -> dict[str, Any]:
    """One seed by the engine: normalisation, samples, noise and initial weights its own; a curve over epochs."""
    rng = Rng(seed=seed)
    features = bench.features(setting.data)
    if setting.rows:
        features = some(features, setting.rows, seed)
    features = normalised(features, setting.kind, setting.data, rng)
    rows, cnn = len(features.x), setting.head == "cnn"
    batch = bench.batch(setting.batch, rows)
    each = max(1, rows // batch)
    steps = setting.steps or bench.epochs(setting.epochs) * each
    steps = min(steps, 3) if bench.quick else steps
    description = models.named()[NETWORKS[setting.head, features.x.shape[1]]].description
    network = models.build(description, np.random.default_rng(seed))
    draws: Sampler = Poisson(rate=batch / rows) if sampler == "poisson" else Shuffled(batch, rows, seed)
    descent = Descent(
        steps=steps,
        sampler=draws,
        clip=flat(NORM),
        update=momentum(setting.base_lr * batch / 512, 0.9),
        precision="tf32" if cnn else "float32",
        overflow=1e-10,
    )
    curve: list[tuple[float, float]] = []

    def look(training: Training) -> None:
        curve.append((training.step / each, right(training.released()[0], features, bench.device)))

    descent.run(
        network,
        features.x,
        features.y,
        noise=noise_of(setting),
        rows=rows,
        rng=rng,
        device=bench.device,
        callbacks=Callbacks(on_step=[observed(every * each, look)]),
    )
    return {"setting": asdict(setting), "score": curve[-1][1], "best": max(score for _, score in curve), "curve": curve}


@contextmanager
def tf32(allowed: bool) -> Iterator[None]:
    """Products may be rounded to ten bits inside, if allowed, and are not afterwards."""
    cuda, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    cuda.allow_tf32 = cudnn.allow_tf32 = allowed
    try:
        yield
    finally:
        cuda.allow_tf32 = cudnn.allow_tf32 = False


@torch.no_grad()
def right(network: torch.nn.Module, features: Features, device: str) -> float:
    network = network.to(device).eval()
    found = [network(part).argmax(1) for part in features.test.split(5000)]
    return float((torch.cat(found) == features.truth).float().mean())


def from_pixels(bench: Bench, name: str, seed: int) -> dict[str, Any]:
    """The end-to-end CNN of `benchmarks.tramer_boneh` with shuffled batches."""
    case = _case(name)
    given = {"data": name, "head": "pixels", "batch": case.batch, "base_lr": case.base_lr}
    setting = Setting(**given, epochs=case.epochs, kind="none", noise=case.noise)
    return on_pixels(bench, setting, seed, sampler="shuffled")


def on_pixels(bench: Bench, setting: Setting, seed: int, sampler: str = "poisson") -> dict[str, Any]:
    """One seed of the end-to-end CNN."""
    return together(bench, [setting], seed, sampler)[0]


def together(bench: Bench, settings: list[Setting], seed: int, sampler: str = "poisson") -> list[dict[str, Any]]:
    """CNNs that differ in learning rate alone, as one population on the same rows."""
    first, rng = settings[0], Rng(seed=seed)
    if first.head == "pixels":
        rows = _pixels(first.data, bench.device, 600 if bench.quick else None)
        rows = some(rows, first.rows, seed) if first.rows else rows
        name = _case(first.data).network
    else:
        rows = normalised(bench.features(first.data), first.kind, first.data, rng)
        name = NETWORKS[first.head, rows.x.shape[1]]
    count, shuffled = len(rows.x), sampler == "shuffled"
    batch = bench.batch(first.batch, count)
    rates = [setting.base_lr * batch / 512 for setting in settings]
    descent = Descent(
        steps=3 if bench.quick else first.steps or first.epochs * (count // batch),
        sampler=Shuffled(batch, count, seed) if shuffled else Poisson(rate=batch / count),
        clip=flat(NORM),
        update=momentum(rates[0], 0.9),
        precision="tf32",
    )
    network = models.build(models.named()[name].description, np.random.default_rng(seed))
    made = descent.run_population(
        members([network] * len(settings), noise=[noise_of(setting) for setting in settings], lr=rates),
        rows.x,
        rows.y,
        rows=count,
        rng=rng,
        device=bench.device,
    )
    return [
        {"setting": asdict(setting), "score": right(network, rows, bench.device)}
        for setting, network in zip(settings, made, strict=True)
    ]


def _case(name: str) -> tramer_boneh.Case:
    return next(case for case in tramer_boneh.CASES if case.data == name)


@lru_cache(maxsize=1)
def _pixels(name: str, device: str, most: int | None) -> Features:
    loaded = datasets.load(name)
    x, test = (tramer_boneh.normalised(part.x[:most], name, device) for part in (loaded.train, loaded.test))
    y, truth = (torch.from_numpy(p.y[:most]).to(device) for p in (loaded.train, loaded.test))
    return Features(x, y, test, truth)
