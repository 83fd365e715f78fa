"""The prior: pretraining on synthetic images, private linear heads on its features, private fine-tuning of the network.

Pretraining reads no data set, so features have no privacy cost (data-independent). Fine-tuning is the third phase of
Tang et al. 2023: every weight is trained by clipped noisy descent on Poisson samples, each image seen as several
mirrored and shifted copies whose mean gradient is clipped, and the mean of the last quarter of the steps is scored.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privaware.noise import Rng
from privaware.papers import Result, Settings
from privaware.papers._results import spread
from privaware.papers._runner import Bench

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from privaware.data import Data
    from privaware.descent import Descent
    from privaware.features._prior_simclr import Pretraining

__all__ = ["finetune", "heads", "pretrain"]

HELD_OUT_CHUNK = 1_000_000
"""Number of the first chunk of images behind the statistics: pretraining never reaches it."""
BATCH, EPOCHS, ROWS = 4096, 40, 50_000
STEPS = EPOCHS * ROWS // BATCH


def heads(bench: Bench, cells: Sequence[Settings]) -> Iterator[Result]:
    """Private linear heads, the default learner for named features; rows of one feature are computed once."""
    from privaware.learners.linear import Linear

    for (data, scatter), group in itertools.groupby(cells, key=lambda cell: (cell["data"], cell["scatter"])):
        listed = list(group)
        train, test = (None, None) if bench.dry else prior_rows(data, scatter, listed[0].get("first"))
        for cell in listed:
            learner = Linear(features=[{"name": "bounded"}], steps=cell["steps"], device=bench.device)
            noise = bench.prices.calibrated(
                f"head {cell['steps']} {cell['epsilon']:g}", partial(_head_cost, cell["steps"]), cell["epsilon"]
            )
            if train is None or test is None:
                yield {}
                continue
            models = (learner.run(train, noise, Rng(seed=seed)) for seed in range(cell["seeds"]))
            scores = [float((model.predictions(test) == test.y).mean()) for model in models]
            mean, deviation = spread(scores)
            yield {"score": mean, "spread": deviation, "scores": scores}


def _head_cost(steps: int, noise: float) -> Any:
    from privaware.events import Gaussian

    return steps * Gaussian(noise=noise)


def prior_rows(data: str, scatter: float, first: int | None = None) -> tuple[Data, Data]:
    """Features of the prior in place of the pixels. Digits are not averaged with their mirror images."""
    from privaware import datasets
    from privaware.features.prior import Prior

    loaded, prior = datasets.load(data), Prior(scatter=scatter, mirror=data != "mnist")
    parts = []
    for part in (loaded.train, loaded.test):
        features = prior(part.x[:first])
        schema = replace(part.schema, shape=(1, 1, features.shape[1]), rows=len(features))
        parts.append(replace(part, schema=schema, x=features[:, None, None], y=part.y[:first]))
    return parts[0], parts[1]


def recipe(lr: float, copies: int, steps: int = STEPS, precision: str = "float32") -> Descent:
    from privaware.descent import Descent, Poisson, flat, momentum, tail

    return Descent(
        steps=steps,
        sampler=Poisson(rate=BATCH / ROWS),
        clip=flat(1.0),
        update=momentum(lr, 0.9),
        average=tail(0.25),
        copies=copies,
        augment=moved if copies > 1 else None,
        precision=precision,
    )


def finetune(bench: Bench, settings: Settings) -> Result:
    """Private fine-tuning of the whole network on CIFAR-10."""
    import torch

    from privaware import datasets

    epsilon, first = settings["epsilon"], settings.get("first")
    noise = bench.prices.calibrated(f"finetune {epsilon:g}", recipe(lr=1.0, copies=1).cost, epsilon)
    if bench.dry:
        return {}
    loaded = datasets.load("cifar10")
    parts = (loaded.train.x, loaded.train.y, loaded.test.x, loaded.test.y)
    images, labels, test, truth = (torch.from_numpy(part[:first]).to(bench.device) for part in parts)
    precision = "float32" if bench.device == "cpu" else "tf32"
    descent = recipe(settings["lr"], settings["copies"], settings.get("steps", STEPS), precision)
    network = descent.run(
        from_prior(),
        images * 2 - 1,
        labels,
        noise=noise,
        rows=len(images),
        rng=Rng(seed=settings["seed"]),
        device=bench.device,
    )
    return {"score": mirrored_accuracy(network, test * 2 - 1, truth), "noise": noise}


def from_prior() -> nn.Module:
    """The prior's network with an output of zeros."""
    from torch import nn

    from privaware import models
    from privaware.features._prior_weights import load
    from privaware.features.prior import SHIPPED

    stored = load(SHIPPED)
    depth, width = stored.shape
    described = {"name": "wrn", "inputs": [3, 32, 32], "outputs": 10, "depth": depth, "width": width}
    network: Any = models.build(described, np.random.default_rng(0))
    network.load_state_dict(stored.network.state_dict(), strict=False)
    nn.init.zeros_(network.output.weight)
    nn.init.zeros_(network.output.bias)
    return network  # type: ignore[no-any-return]


def moved(images: Tensor, generator: torch.Generator) -> Tensor:
    """Each image mirrored half the time and shifted by up to four pixels, edges reflected."""
    import torch

    count, _, height, width = images.shape

    def random(high: int) -> Tensor:
        return torch.randint(0, high, (count, 1), generator=generator, device=generator.device).to(images.device)

    padded = torch.nn.functional.pad(images, (4, 4, 4, 4), mode="reflect")
    down = torch.arange(height, device=images.device) + random(9)
    across = torch.arange(width, device=images.device) + random(9)
    across = torch.where(random(2) == 1, across.flip(1), across)
    at = torch.arange(count, device=images.device)[:, None, None]
    return padded.permute(0, 2, 3, 1)[at, down[:, :, None], across[:, None]].permute(0, 3, 1, 2)


def mirrored_accuracy(network: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Of an image and its mirror image together."""
    import torch

    network = network.to(images.device).eval()
    with torch.no_grad():
        parts = [(network(some) + network(some.flip(3))).argmax(1) for some in images.split(1000)]
    return float((torch.cat(parts) == labels).float().mean())


def pretrain(bench: Bench, settings: Settings) -> Result:
    """The prior's weights: `pairs` pairs of views on one cosine schedule, resumed from a checkpoint every 200 steps.

    Writes prior.safetensors (weights and statistics) and prior.json beside the store. The schedule goes by count: the
    same settings give the same weights on the same kind of machine.
    """
    import torch

    from privaware.features._prior_simclr import Pretraining, Recipe

    chosen = {name: value for name, value in settings.items() if name not in ("pairs", "statistics")}
    training = Pretraining(Recipe(**chosen), bench.device, "default" if bench.device.startswith("cuda") else "")
    folder = bench.out or Path()
    state, batch = folder / "prior-state.pt", training.recipe.batch
    if state.is_file():
        training.load(torch.load(state, map_location=bench.device, weights_only=True))
    loss = torch.zeros(())
    while training.step_number * batch < settings["pairs"]:
        loss = training.step(training.step_number * batch / settings["pairs"])
        if training.step_number % 200 == 0:
            partial_file = state.with_suffix(".partial")
            torch.save(training.state(), partial_file)
            os.replace(partial_file, state)
            bench.say(f"step {training.step_number}, loss {loss.item():.4f}")
    digest = _write_prior(training, settings, bench, folder)
    state.unlink(missing_ok=True)
    return {"steps": training.step_number, "loss": float(loss), "sha256": digest}


def _write_prior(training: Pretraining, settings: Settings, bench: Bench, folder: Path) -> str:
    """Weights and statistics in one file, and a note that says how they came about."""
    import torch

    from privaware.features._prior_weights import measure, measure_scattering, save
    from privaware.features.prior import Prior
    from privaware.papers._runner import commit, machine

    recipe_used, prior, rows = training.recipe, Prior(), settings["statistics"]
    held_out: dict[str, Any] = {"first": HELD_OUT_CHUNK, "device": bench.device}
    pools: dict[str, Any] = {"depths": prior.depths, "pools": prior.pools, "normed": prior.normed}
    statistics = measure(training.network.eval(), recipe_used.source, rows=rows, **held_out, **pools)
    scattering = measure_scattering(recipe_used.source, rows=rows // 2, **held_out)
    facts = {
        "command": f"privaware reproduce ours/prior/weights, {dict(settings)}",
        "seed": str(recipe_used.seed),
        "commit": commit(),
        "depth": str(recipe_used.depth),
        "width": str(recipe_used.width),
        "recipe": json.dumps(asdict(recipe_used)),
        "steps": str(training.step_number),
        "machine": machine(bench.device),
        "torch": torch.__version__,
    }
    file = folder / "prior.safetensors"
    save(file, training.network, statistics, scattering, prior.normed, facts)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    note = {**facts, "recipe": asdict(recipe_used), "sha256": digest}
    (folder / "prior.json").write_text(json.dumps(note, indent=2) + "\n")
    return digest
