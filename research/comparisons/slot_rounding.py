"""How much the clipped gradient of an example differs between slots of a microbatch, by network and precision.

    python -m research.comparisons.slot_rounding --device cuda

A slot is the place of one example in a microbatch. Every slot holds the same synthetic example. The number is the
largest distance between its clipped gradients in two slots, divided by their norm. A training takes a width at which it
is at most `SLOT_ROUNDING` (about 0.001).
"""

from __future__ import annotations

import argparse
import math

import torch

from privaware import models
from privaware.descent import cross_entropy
from privaware.descent._layers.rules import stacked
from privaware.descent._precision import matmul_precision
from privaware.descent._rounding import MAX_GROUP_SIZE
from privaware.descent._slot_checks import equal_examples, slot_distance
from research.comparisons.descent import NETWORKS

WIDTHS = (288, 256, 144, 96, 72, 48, 36, 24, 18, 9)
"""Numbers of slots."""


def distances(description: dict[str, object], precision: str, device: str) -> dict[int, float]:
    """Return the distance for each of `WIDTHS`, with initial weights."""
    stack = stacked([models.build(description).to(device)], device=device)
    inputs = models.example(description, 1).to(device)
    targets = torch.zeros(1, dtype=torch.int64, device=device)
    with matmul_precision(precision):
        return {
            width: slot_distance(
                stack,
                cross_entropy,
                equal_examples([inputs], targets, slots=width),
                groups=math.ceil(width / MAX_GROUP_SIZE),
                bf16=precision == "bf16",
            )
            for width in WIDTHS
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    device = parser.parse_args().device
    print("network precision", *WIDTHS)
    for label, name in NETWORKS.items():
        for precision in ("float32", "tf32", "bf16"):
            values = distances(models.named()[name].description, precision, device)
            print(label, precision, *(f"{value:.1e}" for value in values.values()), flush=True)


if __name__ == "__main__":
    main()
