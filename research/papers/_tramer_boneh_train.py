"""One training of Tramer and Boneh: features, normalisation, and a population of models that differ in rate and noise.

Settings are those of their Tables 10, 12, 13, 15 and 16: clipping norm 0.1, momentum 0.9, learning rate base x B / 512,
floor(N / B) steps an epoch. Pixels of CIFAR-10 are standardised by ImageNet's constants, as in the authors' code.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from privaware.bench import Result
from privaware.errors import Refused
from privaware.events import Event
from privaware.noise import Rng

if TYPE_CHECKING:
    from torch import Tensor, nn

NORM = 0.1
CHANNELS = {
    "mnist": ((0.1307,), (0.3081,)),
    "fashion_mnist": ((0.2860,), (0.3530,)),
    "cifar10": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}
"""Public constants: the usual ones of the grey images (the authors take raw pixels), ImageNet's for CIFAR-10."""
LENGTHS = {"mnist": (0.2, 0.05), "fashion_mnist": (0.3, 0.15), "cifar10": (1.0, 1.5)}
"""Table 12: the clipping norms of a row's channel means and mean squares."""
FLOOR = 1e-5
NETWORKS = {
    ("linear", 1): "linear.mnist.39700",
    ("linear", 3): "linear.cifar10.155530",
    ("cnn", 1): "scatter_cnn.mnist.33066",
    ("cnn", 3): "scatter_cnn.cifar10.187210",
    ("pixels", 1): "cnn.mnist.26010",
    ("pixels", 3): "cnn.cifar10.550570",
    ("small pixels", 3): "cnn.cifar10.167642",
}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One training. `kind` is the normalisation and `rows` the size of a random part of the training rows.

    `length` clips rows instead of gradients, for amplification by iteration: no momentum, no bias, zeros at the start.
    `every` epochs the models are scored on test rows. `first` keeps only so many images, for a quick look.
    """

    data: str
    head: str
    batch: int
    base_lr: float
    epochs: int
    noise: float
    kind: str = "none"
    rows: int = 0
    steps: int = 0
    shuffled: bool = False
    length: float = 0.0
    every: int = 0
    first: int = 0
    seed: int = 0

    @property
    def lr(self) -> float:
        return self.base_lr * self.batch / 512

    @property
    def precision(self) -> str:
        return "float32" if self.head == "linear" else "tf32"


@dataclass(frozen=True)
class Examples:
    """Features or pixels on the device, to train on and to score on."""

    x: Tensor
    y: Tensor
    test: Tensor
    truth: Tensor


class Shuffled:
    """Batches of a shuffled order, as the authors' code draws them. No amplification by sampling is known for them.

    A population draws once for each of its `models` in every step. All models get the same batch, so that each of them
    visits every row once in an epoch.
    """

    def __init__(self, batch: int, rows: int, seed: int, models: int = 1) -> None:
        self.batch, self.rate, self.models = batch, batch / rows, models
        self.order = self.current = np.empty(0, np.int64)
        self.generator, self.draws = np.random.default_rng(seed), 0

    def event(self, inner: Event) -> Event:
        raise Refused("shuffled batches have no such guarantee: use Poisson samples")

    def draw(self, rng: Rng, rows: int) -> np.ndarray:
        if self.draws % self.models == 0:
            if len(self.order) < self.batch:
                self.order = self.generator.permutation(rows)
            self.current, self.order = np.sort(self.order[: self.batch]), self.order[self.batch :]
        self.draws += 1
        return self.current.copy()


def train(settings: Sequence[Setting], device: str) -> list[Result]:
    """Models that differ in learning rate and noise alone, as one population; the scores of each."""
    from privaware.descent import Callbacks, Descent, Poisson, flat, members, momentum, sgd
    from research.studies._scoring import ScoreRecorder, scorer

    first, rng = settings[0], Rng(seed=settings[0].seed)
    examples = _examples(first, rng, device)
    count = len(examples.x)
    epoch = max(1, count // first.batch)
    steps = first.steps or first.epochs * epoch
    shuffled = Shuffled(first.batch, count, first.seed, models=len(settings))
    descent = Descent(
        steps=steps,
        sampler=shuffled if first.shuffled else Poisson(rate=first.batch / count),
        clip=flat(2**0.5 * first.length if first.length else NORM),
        update=sgd(first.lr) if first.length else momentum(first.lr, 0.9),
        precision=first.precision,
    )
    recorder = ScoreRecorder(first.every * epoch or steps, scorer(examples.test, examples.truth))
    descent.run_population(
        members(
            [_network(first, examples.x)] * len(settings),
            noise=[setting.noise for setting in settings],
            lr=[setting.lr for setting in settings],
        ),
        examples.x,
        examples.y,
        rows=count,
        rng=rng,
        device=device,
        callbacks=Callbacks(on_step=[recorder]),
    )
    free_memory(device)
    return [_result([(step / epoch, score) for step, score in curve], first.every) for curve in recorder.columns()]


def free_memory(device: str) -> None:
    """A stack and its captured graph refer to each other, and hold memory until they are collected."""
    if device.startswith("cuda"):
        import torch

        gc.collect()
        torch.cuda.empty_cache()


def _result(curve: list[tuple[float, float]], every: int) -> Result:
    if not every:
        return {"score": curve[-1][1]}
    return {"score": curve[-1][1], "best": max(score for _, score in curve), "curve": [list(point) for point in curve]}


def _network(setting: Setting, x: Tensor) -> nn.Module:
    from torch import nn

    from privaware import models

    if setting.length:
        network = nn.Linear(x.shape[1], 10, bias=False)
        nn.init.zeros_(network.weight)
        return network
    name = NETWORKS[setting.head, 3 if setting.data == "cifar10" else 1]
    description = models.named()[f"tramer_boneh.{name}"].description
    return models.build(description, np.random.default_rng(setting.seed))


def _examples(setting: Setting, rng: Rng, device: str) -> Examples:
    """Pixels, or scattering features in the setting's normalisation."""
    pixels = setting.head.endswith("pixels")
    load = _pixels if pixels else _scattering
    examples = load(setting.data, device, setting.first)
    if setting.rows:
        examples = _random_part(examples, setting.rows, setting.seed)
    examples = normalised(examples, setting.kind, setting.data, rng)
    if not setting.length:
        return examples
    x, test = (_clipped(part.flatten(1), setting.length) for part in (examples.x, examples.test))
    return replace(examples, x=x, test=test)


@lru_cache(maxsize=1)
def _pixels(data: str, device: str, first: int) -> Examples:
    return _loaded(data, device, first, standardised=True)


@lru_cache(maxsize=3)
def _scattering(data: str, device: str, first: int) -> Examples:
    from privaware.features.scatter import Scatter

    images = _loaded(data, device, first, standardised=data == "cifar10")
    x, test = (Scatter()(part).flatten(1, 2) for part in (images.x, images.test))
    return replace(images, x=x, test=test)


def _loaded(data: str, device: str, first: int, standardised: bool) -> Examples:
    import torch

    from privaware import datasets

    loaded = datasets.load(data)
    tensors = []
    for part in (loaded.train, loaded.test):
        x, y = (torch.from_numpy(values[: first or None]).to(device) for values in (part.x, part.y))
        if standardised:
            mean, deviation = (x.new_tensor(constants)[:, None, None] for constants in CHANNELS[data])
            x = (x - mean) / deviation
        tensors += [x, y]
    return Examples(*tensors)


def _random_part(examples: Examples, rows: int, seed: int) -> Examples:
    import torch

    chosen = torch.from_numpy(np.random.default_rng(seed).permutation(len(examples.x))[:rows]).to(examples.x.device)
    return replace(examples, x=examples.x[chosen], y=examples.y[chosen])


def normalised(examples: Examples, kind: str, data: str, rng: Rng) -> Examples:
    """The features in one of the paper's normalisations; "private" and "floored" pay for two Gaussian releases.

    The use of the released variances is post-processing. "private" is the authors' code: channels whose variance
    came out negative are left out, 1e-5 is added to the others. "floored" takes no variance below its own noise.
    "exact" is not private.
    """
    import torch
    from torch.nn import functional

    how, _, amount = kind.partition(" ")
    if how == "none":
        return examples
    if how == "groups":
        x, test = (
            torch.cat([functional.group_norm(some, int(amount), eps=FLOOR) for some in part.split(5000)])
            for part in (examples.x, examples.test)
        )
        return replace(examples, x=x, test=test)
    noise = 0.0 if how == "exact" else float(amount)
    mean, variance, deviation = statistics(examples.x, LENGTHS[data], noise, rng)
    if how == "floored":
        scale = variance.clamp_min(deviation).rsqrt()
    else:
        scale = (variance > 0) / (variance.clamp_min(0) + FLOOR).sqrt()
    x, test = ((part - mean) * scale for part in (examples.x, examples.test))
    return replace(examples, x=x, test=test)


def statistics(x: Tensor, lengths: tuple[float, float], noise: float, rng: Rng) -> tuple[Tensor, Tensor, float]:
    """Return mean and variance of each channel as `privaware.preprocessing.normalise` releases them.

    The third value is the standard deviation of the noise in the mean square. At `noise` 0 the release is exact.
    """
    import torch

    sums = [torch.zeros(x.shape[1], dtype=torch.float64, device=x.device) for _ in range(2)]
    for part in x.split(5000):
        channels = part.flatten(2).double()
        for total, values, length in zip(sums, (channels, channels.square()), lengths, strict=True):
            means = values.mean(2)
            total += (_clipped(means, length) if noise else means).sum(0)
    released = []
    for total, length in zip(sums, lengths, strict=True):
        exact: Any = total.cpu().numpy()
        released.append((rng.gaussian(exact, noise=noise, sensitivity=length) if noise else exact) / len(x))
    mean, variance = (
        torch.from_numpy(values.astype(np.float32)).to(x.device)[:, None, None]
        for values in (released[0], released[1] - released[0] ** 2)
    )
    return mean, variance, noise * lengths[1] / len(x)


def _clipped(rows: Tensor, length: float) -> Tensor:
    return rows * (length / rows.norm(dim=1, keepdim=True)).clamp_max(1)
