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
from privaware.papers._runner import Bench
from privaware.papers._training import NO_ROWS, network, plain, swept
from privaware.studies import Rows, Setting
from privaware.studies._trials import Trial

__all__ = ["ITEMS"]

EPSILONS = (0.2, 1.0, 4.0, 100.0, 1000.0)
NETWORKS = ("simple_cnn", "resnet", "vgg")
TABLE3: dict[str, dict[str, str]] = {
    "mnist": {
        "Hand-DP": "89.19 18.98 8.46 4.19 3.73 | 24.38 11.58 5.73 2.88 2.01 | 88.63 88.89 90.46 7.98 3.80",
        "PrivSet": "77.26 47.54 30.86 19.72 17.58 | 89.70 82.24 57.01 20.83 17.86 | 81.36 58.61 51.32 52.40 66.52",
        "DPGEN": "60.99 88.26 14.95 2.48 2.70 | 70.75 84.07 73.73 3.64 3.79 | 90.08 90.08 58.28 1.76 2.20",
        "TanhAct": "85.19 18.30 3.13 1.74 1.74 | 38.16 18.61 7.05 3.89 3.12 | 90.21 89.59 90.15 6.14 1.91",
        "FocalLoss": "87.99 29.11 7.44 3.32 2.40 | 43.09 10.99 6.32 2.72 1.78 | 82.10 88.16 88.91 11.46 3.66",
        "DP-SGD": "89.61 21.98 7.50 3.58 3.04 | 28.17 11.33 5.38 2.88 2.24 | 88.79 88.74 90.56 13.23 3.55",
        "RGP": "36.65 13.23 10.17 6.72 6.37 | 31.87 21.24 33.03 34.06 37.66 | 90.30 6.59 3.86 6.33 4.78",
        "GEP": "90.30 90.25 14.37 2.67 1.52 | 86.22 17.61 4.36 1.00 0.46 | - - - - -",
        "AdpAlloc": "89.23 18.79 6.57 3.59 3.14 | 24.26 10.04 4.91 3.25 2.48 | 90.24 89.00 89.85 6.44 3.12",
        "AdpClip": "88.17 75.55 7.79 8.00 8.10 | 59.66 7.46 4.85 4.17 4.21 | 88.92 88.13 89.06 14.00 4.78",
        "PATE": "82.83 71.81 33.36 11.89 10.98 | 90.86 85.89 30.74 7.12 10.38 | 84.94 76.17 44.08 32.15 32.66",
        "Priv-kNN": "61.22 34.97 33.13 34.77 33.80 | 25.03 9.70 8.43 9.30 9.91 | 49.05 17.80 17.16 16.29 14.74",
    },
    "cifar10": {
        "Hand-DP": "90.06 86.88 48.67 43.28 44.14 | 84.29 58.34 50.74 41.95 39.29 | 90.03 89.67 89.86 79.74 37.58",
        "PrivSet": "88.85 87.78 86.78 88.83 89.43 | 89.56 89.28 89.45 87.91 85.43 | 89.77 88.14 89.07 90.04 87.64",
        "DPGEN": "90.16 89.86 89.66 69.98 76.98 | 90.00 90.00 90.59 79.51 83.38 | 90.52 89.72 89.47 87.24 88.86",
        "TanhAct": "89.74 69.95 45.39 32.93 32.21 | 82.55 62.11 55.52 48.95 49.28 | 90.22 90.07 90.13 64.46 34.26",
        "FocalLoss": "89.88 88.17 52.42 38.55 38.47 | 84.36 62.12 52.06 40.65 39.00 | 90.17 89.75 89.85 66.36 36.60",
        "DP-SGD": "89.80 89.13 48.79 40.03 40.48 | 81.92 58.32 49.57 41.17 38.66 | 90.20 89.38 89.73 89.81 35.15",
        "RGP": "90.15 61.91 58.52 54.28 54.41 | 74.48 65.24 67.27 66.38 66.56 | 90.16 81.87 53.66 53.49 54.37",
        "GEP": "90.16 90.16 90.16 35.11 31.90 | 88.68 85.19 46.72 30.45 26.64 | - - - - -",
        "AdpAlloc": "90.04 89.89 47.97 38.49 39.16 | 80.04 57.88 48.86 43.83 42.22 | 90.06 89.57 89.99 51.42 35.46",
        "AdpClip": "89.71 89.79 64.50 35.64 34.12 | 86.57 64.08 48.05 37.17 33.55 | 89.70 89.86 90.21 89.69 44.47",
        "PATE": "90.19 91.70 89.25 83.30 83.06 | 88.34 87.60 85.99 82.05 83.50 | 90.05 91.60 91.06 89.92 90.02",
        "Priv-kNN": "89.52 89.38 88.94 90.19 90.29 | 87.77 81.35 77.38 74.96 74.43 | 89.85 87.26 85.42 84.81 84.41",
    },
}
"""Mean utility loss of each algorithm at the epsilons above, for SimpleCNN | ResNet | VGG."""


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
    *open_items(
        "dpmlbench",
        {
            "table2": "Table 2: accuracy and attack AUC of the models without privacy",
            "table4": "Table 4: tailored AUC of black-box membership inference on CIFAR-10",
            "table5": "Table 5: per-example clipping alone, its accuracy and AUC on CIFAR-10",
            "table7": "Table 7: Hand-DP with five networks on CIFAR-10",
            "table8": "Table 8: RGP without privacy against SGD",
            "table9": "Table 9: utility loss on Fashion-MNIST and SVHN",
            "table10": "Table 10: tailored AUC of black-box membership inference on Fashion-MNIST and SVHN",
            "table11": "Table 11: tailored AUC of white-box membership inference",
            "figure3": "Figure 3: accuracy of the algorithms by category",
            "figure4": "Figure 4: SimpleCNN with and without group normalisation, ReLU and tanh",
            "figure5": "Figure 5: privacy leakage of the algorithms by category",
            "figure6": "Figure 6: utility loss and privacy leakage by network",
            "figure7": "Figure 7: utility loss and privacy leakage by data set",
            "figure8": "Figure 8: label-private algorithms against DP-SGD",
            "figure9": "Figure 9: ResNets of several sizes by DP-SGD",
            "figure10": "Figure 10: accuracy on Fashion-MNIST and SVHN",
        },
        MISSING,
    ),
]
