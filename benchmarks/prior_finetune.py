"""Private fine-tuning of the whole network from the prior, CIFAR-10: the third phase of Tang et al. 2023.

    python -m benchmarks.prior_finetune --prices benchmarks/prior_finetune_prices.json          # where accountants are
    python -m benchmarks.prior_finetune --device cuda --precision tf32 --seconds 300 --out finetune.json

The network begins with the prior's weights and an output of zeros; every weight is trained by clipped noisy descent on
Poisson samples, each row seen as several mirrored and shifted copies whose mean gradient is clipped, and the mean of
the last quarter of the way is scored. Noise multipliers are read from the file that the first command writes (the
accountants need not be where the accelerator is). No epsilon is begun that would end past --seconds.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from privaware import datasets, models
from privaware.descent import Descent, Poisson, flat, momentum, tail
from privaware.features._prior_weights import load
from privaware.features.prior import SHIPPED
from privaware.noise import Rng

PRICES = Path(__file__).with_name("prior_finetune_prices.json")
ROWS, DELTA = 50_000, 1e-5
BATCH, EPOCHS = 4096, 40
STEPS = EPOCHS * ROWS // BATCH
ASIDE = {1.0: "73", 3.0: "78", 8.0: "82"}
"""What is aimed at."""


def priced(file: Path) -> None:
    """Writes the noise of every epsilon."""
    from privaware import accounting

    made = {}
    for epsilon in ASIDE:
        made[str(epsilon)] = accounting.calibrate(lambda noise: recipe(lr=1.0, copies=1).cost(noise), epsilon, DELTA)
    facts = {"rate": BATCH / ROWS, "steps": STEPS, "delta": DELTA, "noise": made}
    file.write_text(json.dumps(facts, indent=1) + "\n")


def recipe(lr: float, copies: int, precision: str = "float32", steps: int = STEPS) -> Descent:
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


def moved(images: Tensor, generator: torch.Generator) -> Tensor:
    """Each image mirrored half the time and shifted by up to four pixels, edges reflected."""
    rows, _, height, width = images.shape

    def drawn(low: int, high: int) -> Tensor:
        found = torch.randint(low, high, (rows, 1), generator=generator, device=generator.device)
        return found.to(images.device)

    padded = nn.functional.pad(images, (4, 4, 4, 4), mode="reflect")
    down = torch.arange(height, device=images.device) + drawn(0, 9)
    across = torch.arange(width, device=images.device) + drawn(0, 9)
    across = torch.where(drawn(0, 2) == 1, across.flip(1), across)
    at = torch.arange(rows, device=images.device)[:, None, None]
    return padded.permute(0, 2, 3, 1)[at, down[:, :, None], across[:, None]].permute(0, 3, 1, 2)


def begun() -> nn.Module:
    """The prior with an output of zeros."""
    stored = load(SHIPPED)
    depth, width = stored.shape
    described = {"name": "wrn", "inputs": [3, 32, 32], "outputs": 10, "depth": depth, "width": width}
    network = models.build(described, np.random.default_rng(0))
    network.load_state_dict(stored.network.state_dict(), strict=False)
    nn.init.zeros_(network.output.weight)
    nn.init.zeros_(network.output.bias)
    return network


@torch.no_grad()
def accuracy(network: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Of an image and its mirror image together."""
    network = network.to(images.device).eval()
    parts = [(network(some) + network(some.flip(3))).argmax(1) for some in images.split(1000)]
    return float((torch.cat(parts) == labels).float().mean())


def measured(epsilon: float, noise: float, given: argparse.Namespace) -> dict[str, Any]:
    found = datasets.load("cifar10")
    images, labels, test, truth = (
        torch.from_numpy(part).to(given.device) for part in (found.train.x, found.train.y, found.test.x, found.test.y)
    )
    began = time.perf_counter()
    trained = recipe(given.lr, given.copies, given.precision, given.steps).run(
        begun(), images * 2 - 1, labels, noise=noise, rows=ROWS, rng=Rng(seed=given.seed), device=given.device
    )
    score = accuracy(trained, test[: given.test] * 2 - 1, truth[: given.test])
    return {
        "epsilon": epsilon,
        "noise": noise,
        "lr": given.lr,
        "copies": given.copies,
        "steps": given.steps,
        "seed": given.seed,
        "accuracy": score,
        "seconds": time.perf_counter() - began,
    }


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    made.add_argument("--prices", type=Path, help="only write the noise multipliers")
    made.add_argument("--device", default="cpu")
    made.add_argument("--precision", default="float32")
    made.add_argument("--epsilons", type=float, nargs="+", default=[3.0, 8.0, 1.0])
    made.add_argument("--lr", type=float, default=2.0)
    made.add_argument("--copies", type=int, default=2)
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--seconds", type=float, default=float("inf"))
    made.add_argument("--steps", type=int, default=STEPS, help="fewer, for a quick look")
    made.add_argument("--test", type=int, help="fewer test rows, for a quick look")
    made.add_argument("--out", type=Path)
    given = made.parse_args()
    if given.prices:
        priced(given.prices)
        return
    noise = json.loads(PRICES.read_text())["noise"]
    start, slowest, lines = time.perf_counter(), 0.0, []
    for epsilon in given.epsilons:
        if lines and time.perf_counter() - start + slowest > given.seconds:
            break
        lines.append(measured(epsilon, noise[str(epsilon)], given))
        slowest = max(slowest, lines[-1]["seconds"])
        score = f"{100 * lines[-1]['accuracy']:.2f} (aim {ASIDE.get(epsilon, 'none')})"
        print(f"epsilon {epsilon:g}: {score}, {lines[-1]['seconds']:.0f} s", flush=True)
        if given.out:
            given.out.write_text(json.dumps(lines, indent=1) + "\n")


if __name__ == "__main__":
    main()
