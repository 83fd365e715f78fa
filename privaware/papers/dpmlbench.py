"""Wei, Zhao, Zhang and others, "DPMLBench: holistic evaluation of differentially private machine learning" (2023):
twelve algorithms, four networks and four data sets, utility loss and membership inference.

Most of its algorithms are not in the package yet, so most items are open; vanilla DP-SGD on its SimpleCNN can be run.
Utility loss is 1 - accuracy / accuracy without privacy, in per cent.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from privaware import datasets
from privaware.papers import Item, Result, Settings, open_items
from privaware.papers._published import tables
from privaware.papers._runner import Bench
from privaware.papers._training import NO_ROWS, network, plain, swept
from privaware.studies import Rows, Setting
from privaware.studies._trials import Trial

__all__ = ["ITEMS"]

EPSILONS = (0.2, 1.0, 4.0, 100.0, 1000.0)
NETWORKS = ("simple_cnn", "resnet", "vgg")
TABLE3 = tables("dpmlbench")["table3"]


def published(data: str, algorithm: str) -> dict[str, float]:
    """By network and epsilon; what the paper leaves out is left out."""
    parts = zip(NETWORKS, TABLE3[data][algorithm].split(" | "))
    known = [(name, e, value) for name, part in parts for e, value in zip(EPSILONS, part.split())]
    return {f"{name} {e:g}": float(value) for name, e, value in known if value != "-"}


@cache
def target_rows(data: str) -> Rows:
    """Half of the training rows and half of the test rows, images zero-padded to 32 x 32 and scaled to [-1, 1]."""
    halves = datasets.halves(datasets.load(data))

    def inputs(x: np.ndarray) -> np.ndarray:
        margin = (32 - x.shape[-1]) // 2
        padded = np.pad(x.astype(np.float32), ((0, 0), (0, 0), (margin, margin), (margin, margin)))
        return (padded - np.float32(0.5)) / np.float32(0.5)

    x, x_test = inputs(halves.train.x), inputs(halves.test.x)
    return Rows(name=f"{data}, DPMLBench", x=x, y=halves.train.y, x_test=x_test, y_test=halves.test.y, public=True)


def dp_sgd(bench: Bench, settings: Settings) -> Result:
    """Vanilla DP-SGD with the paper's batch, rate, clipping norm and epochs, and plain SGD with the same."""
    data, batch, count = settings["data"], 256, 25_000 if settings["data"] == "cifar10" else 30_000
    steps = max(1, round(settings["epochs"] * count / batch))
    noise = bench.prices.noise(batch / count, steps, settings["epsilon"])
    colour = "colour.171246" if data == "cifar10" else "grey.170958"
    private = Setting(
        architecture=network(f"dpmlbench.simple_cnn.{colour}"), batch=batch, steps=steps, lr=0.01, noise=noise, norm=4.0
    )
    rows = NO_ROWS.test if bench.dry else target_rows(data)
    accuracies = []
    for setting in (private, plain(private)):
        trials = [Trial(curve="simple_cnn", x=settings["epsilon"], seed=settings["seed"], setting=setting)]
        accuracies.append(swept(bench, trials, rows)[0].score)
    loss = 1 - accuracies[0] / accuracies[1]
    return {"accuracy": accuracies[0], "accuracy without privacy": accuracies[1], "utility loss": 100 * loss}


def vanilla(data: str, epochs: int) -> Item:
    base = {"data": data, "network": "simple_cnn"}
    runs = [{**base, "epsilon": e, "epochs": epochs, "seed": seed} for e in EPSILONS for seed in range(3)]
    return Item(
        id=f"dpmlbench/table3/{data}/dp-sgd",
        title=f"Table 3: utility loss of vanilla DP-SGD on {data}",
        run=dp_sgd,
        runs=runs,
        quick=[{**base, "epsilon": 1000.0, "epochs": 0.1, "seed": 0}],
        columns=("network", "epsilon"),
        measured="utility loss",
        published=published(data, "DP-SGD"),
        note="only SimpleCNN is entered as runs; the paper does not state its optimizer's momentum",
    )


MISSING = "the algorithm, or its place in this grid, is not in the package yet"
ITEMS = [
    vanilla("mnist", 60),
    vanilla("cifar10", 90),
    *(
        Item(
            id=f"dpmlbench/table3/{data}/{algorithm.lower()}",
            title=f"Table 3: utility loss of {algorithm} on {data}",
            published=published(data, algorithm),
            note=MISSING,
        )
        for data, rows in TABLE3.items()
        for algorithm in rows
        if algorithm != "DP-SGD"
    ),
    *open_items("dpmlbench", tables("dpmlbench")["missing"], MISSING),
]
