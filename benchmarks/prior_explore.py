"""What was tried before the prior's fields and the head's step size were fixed, on held-out training rows only.

    python -m benchmarks.prior_explore --weights FOLDER/prior.safetensors --sets fashion_mnist --out explore.json

The last fifth of the training rows is held out; test rows are never read. Maps of all depths are made once for each
data set, so that one way of pooling and whitening them costs a second. Every line is one change from the line before
it in kind: depths, power, ridge, side, scattering beside, then the head's constant, norm, steps. All multiples of the
rule's step size that were asked for are shown.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.prior_heads import APART, Head, scores, spread
from privaware import datasets
from privaware.features._prior_maps import pooled_maps, preprocess
from privaware.features._prior_simclr import Recipe
from privaware.features._prior_scattering import scattering
from privaware.features._prior_weights import load
from privaware.features._prior_whitening import Statistics

ALL = (0, 1, 2, 3, 4, 5)
POOL = 4


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way from maps to rows and heads."""

    depths: tuple[int, ...] = (1, 3, 4, 5)
    pools: tuple[int, ...] = (4, 4, 2, 2)
    whiten: float = 0.3
    ridge: float = 0.01
    side: int = 32
    scatter: float = 0.0
    head: Head = field(default_factory=lambda: Head(seeds=2))


class Maps:
    """Pooled maps of all depths of one set of images, and their scattering, made when first asked for."""

    def __init__(self, network: Any, images: Tensor, mirror: bool) -> None:
        self.network, self.images, self.mirror = network, images, mirror
        self.made: dict[int, list[Tensor]] = {}
        self.scattered: Tensor | None = None

    @torch.no_grad()
    def at(self, side: int) -> list[Tensor]:
        if side not in self.made:
            self.made.clear()
            parts = [
                pooled_maps(
                    self.network,
                    preprocess(some.float() / 255 if some.dtype == torch.uint8 else some, side),
                    ALL,
                    [POOL] * len(ALL),
                    mirror=self.mirror,
                    normed=False,
                )
                for some in self.images.split(1024)
            ]
            self.made[side] = [torch.cat(maps) for maps in zip(*parts)]
        return self.made[side]

    def some(self, way: Way) -> list[Tensor]:
        made = self.at(way.side)
        return [functional.adaptive_avg_pool2d(made[d], p) for d, p in zip(way.depths, way.pools)]

    @torch.no_grad()
    def beside(self, whitening: Any) -> Tensor:
        if self.scattered is None:
            run, parts = scattering(self.images.device), []
            for some in self.images.split(2048):
                images = (preprocess(some) + 1) / 2
                found = run(images)
                found = (found + run(images.flip(3))) / 2 if self.mirror else found
                parts.append(functional.normalize(whitening(found), dim=1))
            self.scattered = torch.cat(parts)
        return self.scattered


def rows(way: Way, maps: Maps, whitening: Any, beside: Any) -> Tensor:
    made = functional.normalize(whitening(maps.some(way)), dim=1)
    if way.scatter:
        made = torch.cat([made, way.scatter * maps.beside(beside)], 1)
    return functional.normalize(made, dim=1)


def ways() -> Iterator[tuple[str, Way]]:
    """What is tried."""
    plain = Way()
    yield "as it was", plain
    for depths, pools in (
        ((5,), (2,)),
        ((3, 5), (4, 4)),
        ((1, 3, 5), (4, 4, 4)),
        ((1, 3, 4, 5), (4, 4, 4, 4)),
        ((1, 2, 3, 4, 5), (4, 4, 4, 2, 2)),
        (ALL, (4,) * 6),
        (ALL, (4, 4, 4, 4, 2, 2)),
        ((1, 3, 4, 5), (4, 4, 2, 1)),
    ):
        yield f"depths {depths} to {pools}", replace(plain, depths=depths, pools=pools)
    for power in (0.2, 0.4, 0.5):
        yield f"whitening {power:g}", replace(plain, whiten=power)
    for ridge in (0.001, 0.1):
        yield f"ridge {ridge:g}", replace(plain, ridge=ridge)
    beside = replace(plain, scatter=1.0)
    for weight in (0.5, 0.7, 1.0):
        yield f"scattering {weight:g}", replace(plain, scatter=weight)
    for bias, norm in ((1.0, 0.25), (1.0, 1.0), (0.3, 0.5), (0.1, 0.5), (0.1, 0.25), (0.1, 1.0)):
        head = replace(plain.head, bias=bias, norm=norm)
        yield f"scattering 1, constant {bias:g}, norm {norm:g}", replace(beside, head=head)
    for steps in (40, 250):
        head = replace(plain.head, bias=0.1, steps=steps)
        yield f"scattering 1, constant 0.1, {steps} steps", replace(beside, head=head)
    for side in (40, 48):
        yield f"side {side}", replace(plain, side=side)


class Whitenings:
    """From synthetic images, on the device; one that was made for a data set serves the next."""

    def __init__(self, stored: Any, count: int, device: str) -> None:
        source = Recipe(**json.loads(stored.metadata["recipe"])).source
        self.maps = Maps(stored.network, source.generate(count, device, APART), True)
        self.device, self.made = device, {}

    def of(self, way: Way) -> Any:
        key = replace(way, scatter=0.0, head=Head())
        if key not in self.made:
            found = Statistics.of([self.maps.some(way)], way.depths, way.pools)
            covariances = tuple(block.to(self.device) for block in found.covariances)
            found = replace(found, covariances=covariances)
            made = found.whitening(way.depths, way.pools, way.whiten, way.ridge)
            self.made[key] = made.to(self.device)
        return self.made[key]


def measured(name: str, stored: Any, whitenings: Whitenings, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    device = whitenings.device
    found = datasets.load(name).train
    images, labels = (torch.from_numpy(part).to(device) for part in (found.x, found.y))
    images, labels = images[: given.rows], labels[: given.rows]
    cut = len(images) * 4 // 5
    real = Maps(stored.network, images, name != "mnist")
    for kind, way in ways():
        began = time.perf_counter()
        beside = stored.scattering.whitening(way.whiten, device) if way.scatter else None
        made = rows(way, real, whitenings.of(way), beside)
        parts = [made[:cut], labels[:cut], made[cut:], labels[cut:]]
        line = {
            "data": name,
            "kind": kind,
            "way": asdict(way),
            "width": made.shape[1],
            "mean": float(made.mean(0).norm()),
            "scores": scores(way.head, parts, given.epsilons, tuple(given.factors)),
        }
        yield line | {"seconds": time.perf_counter() - began}


def show(line: dict[str, Any]) -> None:
    cells = []
    for epsilon, by_factor in line["scores"].items():
        means = {factor: spread(values)[0] for factor, values in by_factor.items()}
        cells.append(f"{epsilon:g}: " + " ".join(f"x{f:g} {m:.2f}" for f, m in means.items()))
    told = f"{line['width']} columns, mean {line['mean']:.2f}, {line['seconds']:.1f} s"
    print(f"{line['data']}, {line['kind']} ({told})", " | ".join(cells), flush=True)


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    made.add_argument("--weights", required=True)
    made.add_argument("--out", type=Path)
    made.add_argument("--sets", nargs="+", default=["fashion_mnist", "cifar10"])
    made.add_argument("--epsilons", type=float, nargs="+", default=[0.5, 1.0, 3.0])
    made.add_argument("--factors", type=float, nargs="+", default=[0.25, 0.5, 1.0, 2.0])
    made.add_argument("--synthetic", type=int, default=24_576)
    made.add_argument("--rows", type=int, help="fewer training rows, for a quick look")
    given = made.parse_args()
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    device = "cuda" if torch.cuda.is_available() else "cpu"
    stored = load(given.weights, device)
    whitenings = Whitenings(stored, given.synthetic, device)
    lines = []
    for name in given.sets:
        for line in measured(name, stored, whitenings, given):
            show(line)
            lines.append(line)
            if given.out:
                given.out.write_text(json.dumps(lines) + "\n")


if __name__ == "__main__":
    main()
