"""The cells of DPMLBench: its algorithms with the settings of its Table 6, its networks and its data.

Protocol: images of 32 x 32 pixels, normalised by fixed public constants; half of the training rows, shuffled once in a
fixed public order; clipping norm 4, learning rate 0.01 with momentum 0.9, batches of 256, 60 or 90 epochs. Noise is
that of our own accountants at (epsilon, 1e-5), and the mean of the last quarter of steps is released, which costs
nothing. Hand-DP scatters the 32 x 32 image, so its networks see 8 x 8 maps, which InceptionNet and VGG do not fit.
`ENLARGED` is the authors' chain: the image is enlarged to 128 x 128 pixels first, and nothing is normalised.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial
from typing import Any

from privaware import registry
from privaware.bench import Result, Settings
from privaware.bench._cells import CellOutcome, TrainingPlace, attacked, batches, learner_of, noise_of, train_cells
from privaware.bench._prices import Prices
from privaware.bench._rows import bench_schema
from privaware.errors import WrongInput
from privaware.learners import find_learner
from research.papers._runner import Bench
from research.papers._training import network

__all__ = [
    "ALGORITHMS",
    "DATA",
    "ENLARGED",
    "EPSILONS",
    "NETWORKS",
    "RGP_RATE",
    "RGP_SMALL",
    "SEEDS",
    "cell",
    "cells",
    "further_seeds",
    "networks_of",
    "quick",
    "run_population",
    "runnable",
]

EPSILONS = (1.0, 4.0, 1000.0, 0.2, 100.0)
"""The most informative first."""
SEEDS = (0, 1, 2)
FURTHER_SEEDS = (3, 4)
FIVE_SEEDS = (
    ("quantile_clip", "mnist", 1.0),
    ("focal", "svhn", 0.2),
    ("focal", "svhn", 1.0),
    ("hand_dp", "svhn", 0.2),
    ("hand_dp", "svhn", 1.0),
    ("dpsgd", "fashion_mnist", 0.2),
    ("noise_decay", "fashion_mnist", 0.2),
)
"""Algorithm, data set and epsilon of SimpleCNN cells with five seeds: ours differ widely from seed to seed, or from the
published error."""
EPOCHS = {"cifar10": 90, "fashion_mnist": 60, "mnist": 60, "svhn": 90}
DATA = tuple(EPOCHS)
CONSTANTS: dict[str, tuple[list[float], list[float]]] = {
    "mnist": ([0.1307], [0.3081]),
    "fashion_mnist": ([0.286], [0.320]),
    "cifar10": ([0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616]),
    "svhn": ([0.4377, 0.4438, 0.4728], [0.1980, 0.2010, 0.1970]),
}
"""Mean and deviation of each channel, public constants of the authors' code."""
NAMES = {"simple_cnn": "171246", "resnet20": "268346", "inception": "1609690", "vgg": "128807306"}
NETWORKS = tuple(NAMES)
ALGORITHMS = {
    "dpsgd": "DP-SGD",
    "tanh": "TanhAct",
    "quantile_clip": "AdpClip",
    "noise_decay": "AdpAlloc",
    "focal": "FocalLoss",
    "hand_dp": "Hand-DP",
    "rgp": "RGP",
    "gep": "GEP",
    "private_knn": "Priv-kNN",
    "pate": "PATE",
    "private_set": "PrivSet",
    "dpgen": "DPGEN",
    "label_mst": "LP-MST",
    "alibi": "ALIBI",
}
"""Registry names, most informative first, and what the paper calls them."""
DESCENT = {"batch": 256, "norm": 4.0, "lr": 0.01, "momentum": 0.9}
QUERIES = {"mnist": 700, "fashion_mnist": 1000, "svhn": 3000, "cifar10": 4000}
OWN: dict[str, dict[str, Any]] = {
    "dpsgd": DESCENT,
    "tanh": DESCENT,
    "focal": {**DESCENT, "loss": {"name": "losing_less", "gamma": 5.0}},
    "noise_decay": DESCENT,
    "quantile_clip": {**DESCENT, "target": 0.7, "clip_lr": 0.1, "count_noise": 12.8, "least": 0.05, "most": 10.0},
    "hand_dp": DESCENT,
    "rgp": {**DESCENT, "norm": 1.0, "lr": 0.1, "decay": 1e-4},  # at small epsilons RGP_SMALL
    "gep": {**DESCENT, "norm": 5.0, "lr": 0.1, "decay": 2e-4, "precision": "float32"},
    "pate": {"teachers": 100, "queries": 100, "vote": "lnmax", "batch": 200, "lr": 0.001, "steps": 22_500},
    "private_knn": {"neighbours": 800, "rate": 0.15, "batch": 512, "lr": 0.01, "steps": 8_790},
    "label_mst": {"batch": 256, "lr": 0.01, "epochs": 200.0},
    "alibi": {"batch": 256, "lr": 0.01},
    "private_set": {"networks": 1000, "example_lr": 0.1},
    "dpgen": {"variant": "corrected"},
}
"""Table 6, as far as a learner's own defaults differ; RGP and GEP clip at the norms of their authors. The 500 epochs of
students are passes over 9,000 public rows; ours count passes over those with a label."""
RGP_SMALL, RGP_RATE = 1.0, 0.01
"""Up to this epsilon RGP takes the learning rate of the authors' script: at Table 6's 0.1 it diverges there."""
ENTRIES = ("learner", "network", "architecture", "rows")
SCATTERING = [{"name": "scatter"}, {"name": "group_norm", "groups": 27}, {"name": "channels"}]
ENLARGED = [{"name": "resize", "side": 128}, {"name": "scatter"}, {"name": "channels"}]
"""Features of Hand-DP as the authors' code has them: maps of 32 x 32, which every network fits."""
OWN_EPOCHS = ("private_set", "dpgen", "label_mst", "pate", "private_knn")
"""Algorithms whose epochs do not follow from the data."""
FITS = {"gep": ("simple_cnn", "resnet20"), "hand_dp": ("simple_cnn", "resnet20")}
"""Networks that a method allows, where not all: memory for GEP, the size of the maps for Hand-DP."""


QUICK: dict[str, dict[str, Any]] = {
    "gep": {"directions": 20, "anchors": 50, "refresh": 100},
    "private_knn": {"queries": 50, "neighbours": 20, "stages": 1, "steps": 2},
    "pate": {"teachers": 4, "queries": 50, "teacher_epochs": 1.0, "steps": 2},
    "private_set": {"networks": 1, "rounds": 1, "queries": 2, "per_class": 1},
    "dpgen": {"samples": 100, "draws": 1, "score": {"steps": 2, "levels": 2, "width": 8, "langevin": 1}},
}
"""What makes a quick version of these quick."""


def runnable(algorithm: str) -> bool:
    """Whether the package has the algorithm."""
    return algorithm in registry.names("learners")


def networks_of(algorithm: str) -> tuple[str, ...]:
    return FITS.get(algorithm, NETWORKS)


@cache
def described(name: str) -> dict[str, Any]:
    """A network of the paper without the shapes of its ends, which follow from the data."""
    known = network(f"dpmlbench.{name}.colour.{NAMES[name]}")
    return {key: value for key, value in known.items() if key not in ("inputs", "outputs")}


def cell(algorithm: str, data: str, net: str, epsilon: float | None, seed: int, **changes: Any) -> Settings:
    """The settings of one cell; `changes` replace settings of the learner, or entries of the cell itself."""
    mean, deviation = CONSTANTS[data]
    settings: dict[str, Any] = dict(OWN.get(algorithm, {}))
    if algorithm not in OWN_EPOCHS:
        settings["epochs"] = float(EPOCHS[data])
    if algorithm == "private_knn":
        settings["queries"] = QUERIES[data]
    if algorithm == "rgp" and epsilon is not None and epsilon <= RGP_SMALL:
        settings["lr"] = RGP_RATE
    standardise = [{"name": "standardise", "mean": mean, "deviation": deviation}]
    settings["features"] = SCATTERING if algorithm == "hand_dp" else standardise
    entries: dict[str, Any] = {name: changes.pop(name) for name in ENTRIES if name in changes}
    if "attacks" in changes:
        plain = {**DESCENT, "norm": 1e9, "average": 0.0, "epochs": float(EPOCHS[data]), "features": standardise}
        entries |= {"attacks": changes.pop("attacks"), "shadows": 1, "shadow": plain}
    return {
        "learner": algorithm,
        "algorithm": algorithm,
        "settings": {**settings, **changes},
        "network": net,
        "architecture": None if "architecture" in entries else described(net),
        "data": data,
        "rows": {"dataset": data, "protocol": "dpmlbench"},
        "attacks": [],
        "delta": 1e-5,
        "epsilon": epsilon,
        "seed": seed,
        **entries,
    }


def cells(
    algorithm: str,
    data: str,
    networks: Iterable[str] | None = None,
    epsilons: Sequence[float | None] = EPSILONS,
    **changes: Any,
) -> list[Settings]:
    """Every network, epsilon and seed of one algorithm on one data set."""
    return [
        cell(algorithm, data, net, epsilon, seed, **changes)
        for net in (networks_of(algorithm) if networks is None else networks)
        for epsilon in epsilons
        for seed in SEEDS
    ]


def further_seeds(algorithm: str, data: str) -> list[Settings]:
    """Cells of two more seeds, where `FIVE_SEEDS` asks for them."""
    return [
        cell(algorithm, data, "simple_cnn", epsilon, seed)
        for one, its_data, epsilon in FIVE_SEEDS
        if (one, its_data) == (algorithm, data)
        for seed in FURTHER_SEEDS
    ]


def quick(full: Settings) -> Settings:
    """A small version of a cell: a few hundred rows and steps."""
    small = {**full["rows"], "train": 600, "test": 300}
    settings = {**full["settings"], "epochs": 1.0, **QUICK.get(full["algorithm"], {})}
    shadow = {"shadow": {**full["shadow"], "epochs": 1.0}} if "shadow" in full else {}
    return {**full, **shadow, "rows": small, "settings": settings, "epsilon": full["epsilon"] and 1000.0}


def dry_prices(cells: Sequence[Settings], prices: Prices) -> None:
    """Compute the noise multiplier of every cell that `prices` lacks, and store it there; nothing is trained.

    No row of built-in data is read; the user's own files are read for their schema. Baselines and algorithms without a
    proven guarantee need no stored number. Cells that differ only in seed, network or attacks have the same noise
    multiplier: all but the first of them in this process are skipped.
    """
    for cell in cells:
        asked = {
            name: value for name, value in cell.items() if name not in ("seed", "network", "architecture", "attacks")
        }
        key = json.dumps(asked, sort_keys=True)
        if key in _asked:
            continue
        make = find_learner(cell["algorithm"])
        schema, public = bench_schema(cell["rows"], make)
        learner = learner_of(cell, public=public)
        noise_of(cell, partial(learner.cost, schema), prices)
        _asked.add(key)


_asked: set[str] = set()
"""Keys of the cells whose noise multiplier `dry_prices` computed in this process."""


def measure_cells(place: TrainingPlace, cells: Sequence[Settings]) -> list[CellOutcome] | None:
    """Train the cells of one batch, attack their models, and return an outcome for each cell, in the order of `cells`.

    Each `result` has scores and results of attacks. Only models of cells with attacks are attacked. Return None, and
    train nothing, if the deadline of `place` is over.
    """
    outcomes = train_cells(place, cells)
    if outcomes is None:
        return None
    at = [at for at, outcome in enumerate(outcomes) if outcome.model is not None]
    results = list(attacked(place, [cells[one] for one in at], [outcomes[one].model for one in at]))
    for one, result in zip(at, results, strict=True):
        outcomes[one] = CellOutcome(result={**outcomes[one].result, **result}, seconds=outcomes[one].seconds)
    return outcomes


def run_population(bench: Bench, wanted: Sequence[Settings]) -> Iterator[Result]:
    """The results of cells in their order, a batch at a time; a cell that fails ends the item."""
    if bench.dry:
        dry_prices(wanted, bench.prices)
        return
    place = TrainingPlace(device=bench.device, prices=bench.prices.path, progress=True)
    groups = {at: group for group in batches(wanted, 15) for at in group}
    results: dict[int, Result] = {}
    for at in range(len(wanted)):
        if at not in results:
            outcomes = measure_cells(place, [wanted[one] for one in groups[at]]) or []
            results |= {one: outcome.result for one, outcome in zip(groups[at], outcomes, strict=True)}
        if "failed" in results[at]:
            raise WrongInput(str(results[at]["failed"]))
        if "attack_failures" in results[at]:
            raise WrongInput(f"an attack failed: {results[at]['attack_failures']}")
        yield results[at]
