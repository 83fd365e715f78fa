"""Implementations of one training step, for one network or several: plain, by this library, by Opacus."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from privaware import models
from privaware.descent import Descent, FullBatch, clipped_sum, cross_entropy, flat, members, sgd
from privaware.descent._cuda_graph import CapturedStep
from privaware.descent._training import Training, prepare
from privaware.noise import Rng


def allow_tf32(on: bool) -> None:
    """Set whether matrix products and convolutions on CUDA may round to TF32."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = on


def examples(description: dict[str, Any], count: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    inputs = models.example(description, count).to(device)
    with torch.no_grad():
        outputs = models.build(description).to(device)(inputs[:2]).shape[1]
    return inputs, torch.randint(outputs, (count,), device=device)


def built(description: dict[str, Any], device: str, dropout: bool = False) -> nn.Module:
    module = models.build(description).to(device)
    return module.train() if dropout else module.eval()


def plain_eager(module: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Callable[[], None]:
    optimiser = torch.optim.SGD(module.parameters(), lr=0.01)

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        F.cross_entropy(module(x), y).backward()
        optimiser.step()

    return step


def plain_captured(module: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Callable[[], None]:
    optimiser = torch.optim.SGD(module.parameters(), lr=0.01)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())

    def body() -> None:
        F.cross_entropy(module(x), y).backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=False)

    with torch.cuda.stream(side):
        for _ in range(3):
            body()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        body()
    return graph.replay


def private(
    modules: list[nn.Module],
    x: torch.Tensor,
    y: torch.Tensor,
    *,
    device: str,
    captured: bool = False,
    sampler: Any = None,
    precision: str = "float32",
    microbatch: int | None = None,
) -> Callable[[], None]:
    allow_tf32(precision != "float32")
    descent = Descent(
        steps=1_000 if captured else 10**9,
        sampler=sampler or FullBatch(),
        clip=flat(1.0),
        update=sgd(0.01),
        overflow=1e-10,
        precision=precision,
        microbatch=microbatch,
    )
    prepared = prepare(modules, descent.loss, x, y, device)
    population = members(modules, noise=[1.0] * len(modules))
    training = Training(descent, population, prepared, rows=len(x), rng=Rng())
    if not captured:
        return training.one_step
    graphs, steps_taken = CapturedStep(training), count(1)

    def step() -> None:
        graphs.one_step()
        if next(steps_taken) % 900 == 0:  # the tables hold a thousand steps, so the first ones are replayed
            graphs.step.zero_()

    return step


def own_loop(module: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Callable[[], None]:
    """Return a step of a user's own loop over `clipped_sum`, with noise and update by PyTorch."""
    optimiser = torch.optim.SGD(module.parameters(), lr=0.01)

    def step() -> None:
        sums, _ = clipped_sum(module, cross_entropy, x, y, 1.0)
        for name, parameter in module.named_parameters():
            parameter.grad = (sums[name] + torch.randn_like(parameter)) / len(x)
        optimiser.step()

    return step


def opacus(kind: str, module: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Callable[[], None]:
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    optimiser = torch.optim.SGD(module.parameters(), lr=0.01)
    loader = DataLoader(TensorDataset(x, y), batch_size=len(x))
    module.train()
    criterion = nn.CrossEntropyLoss()
    wrapped = PrivacyEngine().make_private(
        module=module,
        optimizer=optimiser,
        data_loader=loader,
        criterion=criterion,
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        poisson_sampling=False,
        grad_sample_mode=kind,
    )
    if kind == "ghost":
        module, optimiser, criterion, _ = wrapped
    else:
        module, optimiser, _ = wrapped

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        criterion(module(x), y).backward()
        optimiser.step()

    return step
