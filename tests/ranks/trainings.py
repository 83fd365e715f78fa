"""Trainings of small networks that one process and several processes repeat bit for bit."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from privaware.descent import (
    Descent,
    FullBatch,
    Member,
    Poisson,
    adam,
    anchored,
    automatic,
    flat,
    low_rank,
    momentum,
    per_layer,
    quantile,
    sgd,
    tail,
    torch_optimizer,
)
from privaware.noise import Rng
from privaware.ranks import on_all_ranks

ROWS = 90


def net(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Dropout(0.2), nn.Linear(6, 3))


def wide() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3))


def convolutional() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Unflatten(1, (1, 2, 2)), nn.Conv2d(1, 5, 2), nn.Tanh(), nn.Flatten(), nn.Linear(5, 3))


def examples(rows: int = ROWS) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(rows, 4, generator=generator), torch.randint(3, (rows,), generator=generator)


def recipe(**changes: object) -> Descent:
    settings = {"steps": 4, "sampler": Poisson(rate=0.4), "clip": flat(0.5), "update": momentum(0.5), **changes}
    return Descent(**settings)  # type: ignore[arg-type]


def weights(modules: list[nn.Module]) -> list[bytes]:
    return [value.detach().numpy().tobytes() for module in modules for value in module.state_dict().values()]


def one(module: nn.Module | None = None, rows: int = ROWS, device: str = "cpu", **changes: object) -> list[bytes]:
    x, y = examples(rows)
    trained = recipe(**changes).run(module or net(), x, y, noise=0.7, rows=ROWS, rng=Rng(3), device=device)
    return weights([trained.cpu()])


def several(**changes: object) -> list[bytes]:
    x, y = examples()
    stack = [Member(net(at), 0.7, lr=0.1 * (at + 1), norm=0.3 + 0.1 * at) for at in range(3)]
    return weights(recipe(**changes).run_population(stack, x, y, rows=ROWS, rng=Rng(3)))


def subsets() -> list[bytes]:
    x, y = examples()
    stack = [Member(net(at), 0.7, subset=torch.arange(at, ROWS, 2).numpy()) for at in range(2)]
    return weights(recipe().run_population(stack, x, y, rows=ROWS // 2, rng=Rng(3)))


def shifted(inputs: Tensor, draws: object) -> Tensor:
    return inputs + 0.1 * draws.normal(inputs.shape).to(inputs.dtype)  # type: ignore[attr-defined]


def made(parameters: Any) -> Any:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.5)


def public_inputs() -> Tensor:
    return torch.randn(12, 4, generator=torch.Generator().manual_seed(5))


TRAININGS: dict[str, Callable[[], list[bytes]]] = {
    "Poisson": one,
    "full batch": lambda: one(sampler=FullBatch()),
    "no noise": lambda: weights([recipe().run(net(), *examples(), noise=0.0, rows=ROWS, rng=Rng(3))]),
    "per layer": lambda: one(clip=per_layer(0.5)),
    "automatic": lambda: one(clip=automatic(0.5)),
    "quantile": lambda: one(clip=quantile(norm=0.5, count_noise=5.0)),
    "adam and tail": lambda: one(update=adam(0.05), average=tail(0.5)),
    "optimizer of torch": lambda: one(update=torch_optimizer(torch.optim.AdamW, net(), 0.05)),
    "function that makes an optimizer": lambda: one(update=torch_optimizer(made, net())),
    "copies": lambda: one(copies=2, augment=shifted),
    "low rank": lambda: one(wide(), projection=low_rank(rank=2), update=sgd(0.3)),
    "anchored": lambda: one(projection=anchored(inputs=public_inputs, classes=3, directions=6), update=sgd(0.3)),
    "microbatch": lambda: one(microbatch=3),
    "convolution": lambda: one(convolutional()),
    "population": several,
    "population, quantile": lambda: several(clip=quantile(norm=0.5, count_noise=5.0)),
    "subsets": subsets,
    "fewer rows than ranks": lambda: one(rows=1),
    "no row": lambda: one(rows=0),
}


ON_GPU: dict[str, Callable[[], list[bytes]]] = {
    "GPU": lambda: one(device="cuda"),
    "GPU, low rank": lambda: one(wide(), device="cuda", projection=low_rank(rank=2), update=sgd(0.3)),
    "GPU, convolution": lambda: one(convolutional(), device="cuda", clip=quantile(norm=0.5, count_noise=5.0)),
}


def of(names: Sequence[str]) -> dict[str, Any]:
    """The trained weights, or the rows of features, by the name of a training or of a learner."""
    known = TRAININGS | ON_GPU
    if set(names) <= set(known):
        return {name: known[name]() for name in names}
    from tests.ranks import models

    return {name: models.of(name) for name in names}


if __name__ == "__main__":
    path, *names = sys.argv[1:]
    results = on_all_ranks(lambda: of(names))
    if os.environ["RANK"] == "0":
        Path(path).write_bytes(pickle.dumps(results))
