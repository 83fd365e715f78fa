"""A small network, its examples and its training."""

from __future__ import annotations

import torch
from torch import nn

from privaware.descent import Callbacks, Descent, Poisson, flat, members, sgd
from privaware.descent._training import Training, prepare
from privaware.noise import Rng

ROWS = 40


class RecordingRng(Rng):
    """Records every release; samples can be fixed."""

    def __init__(self, seed=0, masks=None):
        super().__init__(seed)
        self.calls, self.masks = [], masks

    def gaussian(self, exact, *, noise, sensitivity):
        self.calls.append((exact.clone(), noise, sensitivity))
        return super().gaussian(exact, noise=noise, sensitivity=sensitivity)

    def poisson(self, rows, rate):
        if self.masks is None:
            return super().poisson(rows, rate)
        return self.masks[len(self.calls)][:rows]


def net(kind=torch.float32, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).to(kind)


def examples(count=ROWS, kind=torch.float32, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, 4, generator=generator, dtype=kind), torch.randint(3, (count,), generator=generator)


def recipe(**changes):
    settings = {"steps": 5, "sampler": Poisson(rate=0.3), "clip": flat(0.5), "update": sgd(0.5), **changes}
    return Descent(**settings)


def flat_of(module):
    return torch.cat([p.detach().flatten() for p in module.parameters()])


def train(descent, *, seed=3, noise=1.0, module=None, data=None, declared=ROWS, **callbacks):
    x, y = data or examples()
    arguments = {"noise": noise, "rows": declared, "rng": Rng(seed), "callbacks": Callbacks(**callbacks)}
    return descent.run(module or net(), x, y, **arguments)


def training(descent, modules, x, y, *, noise, rows, rng, device="cpu"):
    prepared = prepare(modules, descent.loss, x, y, device)
    return Training(descent, members(modules, noise), prepared, rows=rows, rng=rng)
