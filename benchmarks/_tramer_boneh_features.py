"""Scattering features of a data set and the normalisations that Tramer and Boneh compare."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from privaware import datasets
from privaware.features.scatter import Scatter
from privaware.noise import Rng

PIXELS = {"cifar10": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))}
"""Public constants; the grey data sets stay in [0, 1]."""
LENGTHS = {"mnist": (0.2, 0.05), "fashion_mnist": (0.3, 0.15), "cifar10": (1.0, 1.5)}
"""Table 12: what a row's channel means and mean squares are cut to."""
FLOOR = 1e-5


@dataclass(frozen=True)
class Features:
    """Scattering features (rows, channels, height, width) on the device."""

    x: Tensor
    y: Tensor
    test: Tensor
    truth: Tensor


class Bench:
    """What the cells share: device, sizes of a quick look, and features made once for each data set."""

    def __init__(self, device: str, quick: bool) -> None:
        self.device, self.quick = device, quick
        self.features = cache(self._features)

    def _features(self, name: str) -> Features:
        found = datasets.load(name)
        most = 600 if self.quick else None
        parts = []
        for part in (found.train, found.test):
            x = torch.from_numpy(part.x[:most]).to(self.device)
            if name in PIXELS:
                mean, deviation = (x.new_tensor(v)[:, None, None] for v in PIXELS[name])
                x = (x - mean) / deviation
            made = Scatter()(x)
            parts += [made.flatten(1, 2), torch.from_numpy(part.y[:most]).to(self.device)]
        return Features(*parts)

    def batch(self, batch: int, rows: int) -> int:
        return min(batch, rows // 6) if self.quick else batch

    def epochs(self, epochs: int) -> int:
        return 1 if self.quick else epochs


def some(features: Features, rows: int, seed: int) -> Features:
    """A random part of the training rows."""
    chosen = torch.from_numpy(np.random.default_rng(seed).permutation(len(features.x))[:rows])
    chosen = chosen.to(features.x.device)
    return replace(features, x=features.x[chosen], y=features.y[chosen])


def normalised(features: Features, kind: str, name: str, rng: Rng) -> Features:
    """The features in one of the paper's normalisations; "private" and "floored" ones pay two Gaussian releases.

    What is made of the released variances is free. "private" is the authors' code: channels whose variance came out
    negative are left out, 1e-5 is added to the others. "floored" believes no variance below its own noise. "exact" is
    not private.
    """
    how, _, amount = kind.partition(" ")
    if how == "none":
        return features
    if how == "groups":
        parts = [_grouped(part, int(amount)) for part in (features.x, features.test)]
        return replace(features, x=parts[0], test=parts[1])
    noise = 0.0 if how == "exact" else float(amount)
    mean, variance, level = statistics(features.x, LENGTHS[name], noise, rng)
    if how == "floored":
        scale = variance.clamp_min(level).rsqrt()
    else:
        scale = (variance > 0) / (variance.clamp_min(0) + FLOOR).sqrt()
    parts = [(part - mean) * scale for part in (features.x, features.test)]
    return replace(features, x=parts[0], test=parts[1])


def _grouped(x: Tensor, groups: int) -> Tensor:
    return torch.cat([functional.group_norm(part, groups, eps=FLOOR) for part in x.split(5000)])


def statistics(x: Tensor, lengths: tuple[float, float], noise: float, rng: Rng) -> tuple[Tensor, Tensor, float]:
    """Mean and variance of each channel as `privaware.selectors.normalise` releases them, and the deviation of the
    noise in the mean square; exact at noise 0."""
    sums = [torch.zeros(x.shape[1], dtype=torch.float64, device=x.device) for _ in range(2)]
    for part in x.split(5000):
        places = part.flatten(2).double()
        for total, each, length in zip(sums, (places, places.square()), lengths):
            each = each.mean(2)
            if noise:
                each = each * (length / each.norm(dim=1, keepdim=True)).clamp_max(1)
            total += each.sum(0)
    found = []
    for total, length in zip(sums, lengths):
        exact = total.cpu().numpy()
        released = rng.gaussian(exact, noise=noise, sensitivity=length) if noise else exact
        found.append(released / len(x))
    mean, variance = (
        torch.from_numpy(v.astype(np.float32)).to(x.device)[:, None, None] for v in (found[0], found[1] - found[0] ** 2)
    )
    return mean, variance, noise * lengths[1] / len(x)
