"""Private linear heads on frozen features: the accuracies of docs/results/prior.md.

    python -m benchmarks.prior_heads --out FOLDER/heads.json

Full-batch private gradient descent: every step sums the rows' clipped gradients, adds Gaussian noise and divides by
the number of rows. T such releases cost exactly what one with noise smaller by the root of T costs, so the noise has a
closed form; delta is 1e-5, one row is added or removed. Seeds, budgets and step sizes are trained as one population.
The step size follows from rows, width and noise alone; its one constant was fixed on held-out training rows of
Fashion-MNIST (`benchmarks.prior_explore`). Data are looked for in $PRIVAWARE_DATA.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from scipy.optimize import brentq
from scipy.special import ndtr
from torch import Tensor
from torch.nn import functional

from privaware import datasets
from privaware.features.prior import Prior
from privaware.learners.linear import LONGEST, LR_NAMED

PUBLISHED = {
    "cifar10": {0.5: "66.0", 1.0: "70.1", 3.0: "75.4", 8.0: "78.2"},
    "fashion_mnist": {0.5: "87.1", 1.0: "88.7", 3.0: "90.3", 8.0: "90.9"},
    "mnist": {},
}
"""Measured before with the best step size among four by test accuracy (a sketch), for comparison."""
DELTA = 1e-5
CLASSES = 10
APART = 2_000_000
"""Number of the first chunk of synthetic images that are used here."""


@dataclass(frozen=True, kw_only=True)
class Head:
    """The settings of the linear learner that matter here."""

    steps: int = 100
    norm: float = 0.5
    momentum: float = 0.9
    average: float = 0.5
    bias: float = 0.1
    seeds: int = 5

    def noise(self, epsilon: float) -> float:
        """The noise of each of the steps."""
        return gaussian_noise(epsilon, DELTA) * math.sqrt(self.steps)

    def lr(self, epsilon: float, rows: int) -> float:
        """The rule of the linear learner (privaware.learners.linear), from public facts."""
        spread = self.noise(epsilon) * self.norm * math.sqrt(CLASSES * self.steps) / rows
        return min(LR_NAMED / spread, LONGEST)


def gaussian_noise(epsilon: float, delta: float) -> float:
    """The least noise of one Gaussian release of sensitivity 1 (Balle and Wang 2018), on the safe side."""

    def excess(log_noise: float) -> float:
        s = math.exp(log_noise)
        return float(ndtr(0.5 / s - epsilon * s) - math.exp(epsilon) * ndtr(-0.5 / s - epsilon * s) - delta)

    return math.exp(brentq(excess, math.log(0.02), math.log(1e4), xtol=1e-12)) * (1 + 1e-9)


@torch.no_grad()
def train(head: Head, rows: Tensor, labels: Tensor, noise: Tensor, lr: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """A population of heads, one for each entry of `noise` and `lr`: weights (width, members, classes) and biases."""
    count, width, members = len(rows), rows.shape[1], len(noise)
    g = torch.Generator(rows.device).manual_seed(seed)
    shape = (width + 1, members, CLASSES)
    weights = torch.zeros(shape, device=rows.device)
    speed, total = torch.zeros_like(weights), torch.zeros_like(weights)
    target = functional.one_hot(labels, CLASSES).float()[:, None]
    length = (rows.square().sum(1) + head.bias**2).sqrt()[:, None, None]
    kept = head.steps - int(head.steps * (1 - head.average))
    for step in range(head.steps):
        logits = (rows @ weights[:-1].flatten(1)).unflatten(1, (members, CLASSES))
        error = torch.softmax(logits + head.bias * weights[-1], 2) - target
        size = error.square().sum(2, keepdim=True).sqrt() * length
        error *= head.norm / size.clamp(min=head.norm)
        total_error = head.bias * error.sum(0, keepdim=True)
        gradient = torch.cat([(rows.T @ error.flatten(1)).unflatten(1, (members, CLASSES)), total_error])
        drawn = torch.randn(shape, device=rows.device, generator=g)
        gradient += (noise * head.norm)[:, None] * drawn
        speed = head.momentum * speed + gradient / count
        weights -= lr[:, None] * speed
        if step >= head.steps - kept:
            total += weights / kept
    return total[:-1], head.bias * total[-1]


@torch.no_grad()
def accuracies(model: tuple[Tensor, Tensor], rows: Tensor, labels: Tensor) -> Tensor:
    """Of each member of a population."""
    weights, bias = model
    logits = (rows @ weights.flatten(1)).unflatten(1, weights.shape[1:]) + bias
    return (logits.argmax(2) == labels[:, None]).float().mean(0)


def scores(
    head: Head, parts: list[Tensor], epsilons: list[float], factors: tuple[float, ...]
) -> dict[float, dict[float, list[float]]]:
    """Accuracy by epsilon, by multiple of the rule's step size, for each seed."""
    rows, labels, test_rows, test_labels = parts
    cells = [(e, f) for e in epsilons for f in factors for _ in range(head.seeds)]
    rule = {e: head.lr(e, len(rows)) for e in epsilons}
    noise = torch.tensor([head.noise(e) for e, _ in cells], device=rows.device)
    lr = torch.tensor([rule[e] * f for e, f in cells], device=rows.device)
    found: dict[float, dict[float, list[float]]] = {e: {f: [] for f in factors} for e in epsilons}
    at_once = max(1, 2_000_000_000 // (40 * len(rows)))
    for at in range(0, len(cells), at_once):
        some = slice(at, at + at_once)
        model = train(head, rows, labels, noise[some], lr[some], seed=1000 + at)
        for (e, f), score in zip(cells[some], accuracies(model, test_rows, test_labels).tolist()):
            found[e][f].append(score)
    return found


def spread(values: list[float]) -> tuple[float, float]:
    """Mean and standard deviation, in per cent."""
    made = 100 * torch.tensor(values, dtype=torch.float64)
    return float(made.mean()), float(made.std()) if len(values) > 1 else 0.0


Feature = Callable[[Tensor], Tensor]


def in_chunks(make: Feature, images: Tensor, rows: int = 2048) -> Tensor:
    """Features of all images, kept on the device."""
    return torch.cat([make(some) for some in images.split(rows)])


def kinds(given: argparse.Namespace, name: str, device: str) -> Iterator[tuple[str, Feature]]:
    """What is compared. Digits are not averaged with their mirror images."""
    plain = Prior(weights=given.weights, mirror=name != "mnist")
    for weight in given.scatter:
        kind = f"prior + scatter {weight:g}" if weight else "prior"
        yield kind, replace(plain, scatter=weight).on(device)


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    made.add_argument("--weights")
    made.add_argument("--out", type=Path)
    made.add_argument("--sets", nargs="+", default=["cifar10", "fashion_mnist", "mnist"])
    made.add_argument("--epsilons", type=float, nargs="+", default=[0.5, 1.0, 3.0, 8.0])
    made.add_argument("--scatter", type=float, nargs="+", default=[0.0, 1.0])
    made.add_argument("--factor", type=float, default=1.0, help="multiple of the rule's step size")
    made.add_argument("--norm", type=float, default=Head().norm)
    made.add_argument("--bias", type=float, default=Head().bias)
    made.add_argument("--steps", type=int, default=Head().steps)
    made.add_argument("--seeds", type=int, default=Head().seeds)
    made.add_argument("--rows", type=int, help="fewer training rows, for a quick look")
    given = made.parse_args()
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    lines = []
    for name in given.sets:
        lines += measured(name, given)
        if given.out:
            given.out.write_text(json.dumps(lines, indent=1) + "\n")


def measured(name: str, given: argparse.Namespace) -> list[dict[str, Any]]:
    """Every feature on one data set; a line is printed as soon as it is known."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    found = datasets.load(name)
    images, labels, test, test_labels = (
        torch.from_numpy(part).to(device) for part in (found.train.x, found.train.y, found.test.x, found.test.y)
    )
    images, labels = images[: given.rows], labels[: given.rows]
    test, test_labels = test[: given.rows], test_labels[: given.rows]
    head = Head(steps=given.steps, norm=given.norm, bias=given.bias, seeds=given.seeds)
    lines = []
    for kind, make in kinds(given, name, device):
        began = time.perf_counter()
        parts = [in_chunks(make, images), labels, in_chunks(make, test), test_labels]
        by_epsilon = scores(head, parts, given.epsilons, (given.factor,))
        width = parts[0].shape[1]
        rule = {e: given.factor * head.lr(e, len(images)) for e in given.epsilons}
        lines.append(
            {
                "data": name,
                "feature": kind,
                "width": width,
                "head": asdict(head),
                "lr": rule,
                "scores": by_epsilon,
                "seconds": time.perf_counter() - began,
            }
        )
        show(lines[-1])
        del parts
    return lines


def show(line: dict[str, Any]) -> None:
    """One line for each epsilon: mean and spread at each multiple of the rule's step size."""
    print(f"{line['data']}, {line['feature']}: {line['width']} columns, {line['seconds']:.1f} s")
    for epsilon, by_factor in line["scores"].items():
        cells = []
        for factor, values in by_factor.items():
            mean, deviation = spread(values)
            cells.append(f"x{factor:g} {mean:.2f} ± {deviation:.2f}")
        beside = PUBLISHED.get(line["data"], {}).get(epsilon, "")
        print(f"  epsilon {epsilon:g} lr {line['lr'][epsilon]:.3g}: {'  '.join(cells)}   ({beside})", flush=True)


if __name__ == "__main__":
    main()
