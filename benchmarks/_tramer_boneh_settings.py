"""What Tramer and Boneh trained on scattering features: the settings of their Tables 10, 12, 13, 15 and 16.

The noise of each comes from `tramer_boneh_prices.json` (made by `benchmarks.tramer_boneh_prices`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PRICES: dict[str, Any] = json.loads(Path(__file__).with_name("tramer_boneh_prices.json").read_text())
NORM = 0.1
SEEDS = range(5)
BATCHES = (512, 1024, 2048, 4096, 8192, 16384)
RATES: dict[str, tuple[float, ...]] = {
    "mnist": (0.25, 0.5, 1, 2),
    "fashion_mnist": (0.25, 0.5, 1, 2),
    "cifar10": (0.125, 0.25, 0.5, 1),
}
EPOCHS = {"mnist": (15, 25, 40), "fashion_mnist": (15, 25, 40), "cifar10": (30, 60, 120)}
KINDS = ("groups 9", "groups 27", "groups 81", "private 6", "private 8")
NETWORKS = {
    ("linear", 81): "tramer_boneh.linear.mnist.39700",
    ("linear", 243): "tramer_boneh.linear.cifar10.155530",
    ("cnn", 81): "tramer_boneh.scatter_cnn.mnist.33066",
    ("cnn", 243): "tramer_boneh.scatter_cnn.cifar10.187210",
}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One model and how it is trained."""

    data: str
    head: str
    batch: int
    base_lr: float
    epochs: int
    kind: str
    noise: float | None = None
    rows: int = 0
    steps: int = 0


BEST = [
    Setting(data="mnist", head="linear", batch=4096, base_lr=1, epochs=40, kind="private 8"),
    Setting(data="fashion_mnist", head="linear", batch=8192, base_lr=1, epochs=40, kind="groups 27"),
    Setting(data="cifar10", head="linear", batch=8192, base_lr=0.25, epochs=60, kind="private 8"),
    Setting(data="mnist", head="cnn", batch=1024, base_lr=0.5, epochs=25, kind="private 8"),
    Setting(data="fashion_mnist", head="cnn", batch=2048, base_lr=1, epochs=40, kind="groups 27"),
    Setting(data="cifar10", head="cnn", batch=8192, base_lr=0.25, epochs=60, kind="private 8"),
]
"""Table 13."""


def noise_of(setting: Setting) -> float:
    """Table 12's noise, for the published number of rows."""
    if setting.noise is not None:
        return setting.noise
    how, _, amount = setting.kind.partition(" ")
    norm = "0" if how in ("groups", "none") else amount
    published = 50_000 if setting.data == "cifar10" else 60_000
    return float(PRICES["grid"][f"{published} {setting.batch} {setting.epochs} {norm}"])
