"""Items of Bao et al. about feature selection: published numbers, full and quick runs (docs/results/features.md)."""

from __future__ import annotations

from typing import Any

from privaware.papers import Item, grid
from privaware.papers import _bao_features as runs
from privaware.papers import _bao_features_descent as descent
from privaware.papers._bao_features import CROSSING, FIGURE3, FIGURE4, NONE, SIX, TABLE10, TABLE16

__all__ = ["FEATURES", "METHODS", "PUBLISHED5", "PUBLISHED10", "PUBLISHED16", "SOFTMAX"]

METHODS = ("All", "PAFS", "CFS-Greedy", "CFS-GA", "Random")
PUBLISHED10: dict[float, tuple[float, ...]] = {
    0.01: (50.11, 49.99, 50.30, 50.44, 49.84),
    0.1: (50.98, 52.09, 51.27, 51.72, 51.71),
    0.5: (53.75, 54.92, 54.05, 54.49, 53.34),
    1: (53.85, 55.12, 55.20, 55.38, 54.23),
    1.5: (55.34, 55.78, 55.63, 55.82, 55.35),
    2: (55.43, 56.84, 56.21, 56.47, 55.67),
    5: (56.74, 64.21, 60.23, 62.34, 59.30),
    10: (61.78, 68.75, 67.09, 67.41, 66.87),
    20: (68.13, 71.00, 70.36, 69.53, 70.12),
    25: (69.59, 73.48, 70.59, 69.74, 70.61),
    30: (70.75, 71.52, 70.62, 69.85, 70.67),
    35: (71.45, 71.72, 70.70, 69.92, 70.66),
    40: (72.11, 73.60, 70.71, 69.94, 70.57),
}
PUBLISHED16 = {
    0.1: ((65.93, 5.36), (69.65, 3.33)),
    0.05: ((65.5, 4.73), (66.13, 4.48)),
    0.01: ((64.33, 4.47), (59.03, 9.81)),
    0.001: ((57.86, 16.64), (50.98, 16.06)),
    0.0001: ((50.58, 23.98), (50.07, 17.26)),
    NONE: ((84.44, 0), (84.85, 0)),
}
SOFTMAX: dict[str, dict[Any, dict[int, float]]] = {
    "breast": {
        0.236: {2: 67.37, 10: 65.26, 20: 68.42, 30: 66.31, 40: 66.26, 43: 66.32},
        0.014: {2: 65.26, 10: 64.21, 20: 60.00, 30: 62.11, 40: 59.35, 43: 59.48},
        None: {2: 65.26, 10: 69.47, 20: 72.63, 30: 71.58, 40: 73.68, 43: 73.68},
    },
    "adult": {
        0.0196: {2: 75.90, 28: 80.75, 48: 80.81, 68: 79.24, 88: 78.83, 108: 77.76},
        0.00817: {2: 76.25, 28: 77.10, 48: 77.02, 68: 78.59, 88: 74.44, 108: 71.10},
        None: {2: 75.91, 28: 81.81, 48: 83.33, 68: 85.30, 88: 84.91, 108: 85.21},
    },
}
PUBLISHED5 = {
    "no PCA": {"512-2048-256-10": (64.40, 87.08), "512-64-256-10": (70.38, 86.01)},
    "PCA": {"300-512-128-10": (72.90, 85.32), "300-128-10": (76.10, 84.12)},
}


def feature(name: str, title: str, run: Any, cells: Any, quick: Any = (), **more: Any) -> Item:
    more = {"measured": None, "priced": False, **more}
    return Item(id=f"bao/{name}", title=title, run=run, runs=cells, quick=quick, page="features", **more)


def softmax(name: str, title: str, data: str) -> Item:
    published = SOFTMAX[data]
    cells = [grid(data=data, epsilon=e, columns=tuple(row), repeats=10) for e, row in published.items()]
    return feature(
        name,
        title,
        descent.softmax,
        [cell for part in cells for cell in part],
        grid(data=data, epsilon=0.236, columns=(2, 43), repeats=2) if data == "breast" else (),
        columns=("epsilon", "columns"),
        measured="score",
        priced=True,
        published={f"{e} {size}": value for e, row in published.items() for size, value in row.items()},
    )


def table5_cells() -> list[dict[str, Any]]:
    cells = []
    for inputs in descent.RELEASED:
        for network in PUBLISHED5["no PCA" if inputs == "no PCA" else "PCA"]:
            for training in ("private", "plain")[: 2 if descent.RELEASED[inputs] is None else 1]:
                cells.append({"inputs": inputs, "network": network, "training": training, "steps": 1000, "repeats": 5})
    return cells


FEATURES = [
    feature(
        "columns",
        "Columns of Breast Cancer and Adult, best first",
        runs.facts,
        grid(data=("breast_cancer", "adult")),
        grid(data="breast_cancer"),
    ),
    feature(
        "table10",
        "Table X: Breast Cancer, the choice itself not charged",
        runs.table10,
        grid(epsilon=(*TABLE10, NONE), repeats=1000),
        grid(epsilon=(1, 10), repeats=50, searches=1),
        columns=("epsilon",),
        measured=None,
        published={f"{e:g}": dict(zip(METHODS, row)) for e, row in PUBLISHED10.items()},
    ),
    feature("table10/splits", "Table X over other splits", runs.splits, grid(repeats=30, seeds=range(100))),
    feature(
        "table10/splits_pafs",
        "Table X over other splits: PAFS",
        runs.splits_pafs,
        grid(epsilon=TABLE10, seeds=range(10)),
        columns=("epsilon",),
        measured="score",
        published={f"{e:g}": row[1] for e, row in PUBLISHED10.items()},
    ),
    feature(
        "table10/charged",
        "Breast Cancer with the choice charged",
        runs.charged,
        grid(epsilon=(1.0, 5.0, 10.0, 20.0, 40.0), selector=tuple(runs.SELECTORS), repeats=200),
    ),
    feature("table10/prices", "What the choice of columns costs", runs.selection_prices, grid(delta="as the paper")),
    feature(
        "figure4",
        "Figure 4: Breast Cancer, best columns first",
        runs.best_columns,
        [{"columns": n, "epsilons": (*FIGURE4, NONE), "repeats": 1000} for n in range(1, 44)],
        [{"columns": n, "epsilons": (1, 100), "repeats": 50} for n in (1, 11, 43)],
    ),
    feature(
        "figure4/crossing",
        "Where all 43 columns overtake the best one",
        runs.best_columns,
        [{"columns": n, "epsilons": (e,), "repeats": 1000} for e in CROSSING for n in (1, 43)],
        published={"crossing": "between 60 and 70"},
    ),
    feature(
        "table16",
        "Table XVI: Adult, one-hot or drop",
        runs.adult_pair,
        [{"few": "no one-hot", "epsilons": (*TABLE16, NONE), "repeats": 1000}],
        published={f"{e:g}": [few[0], many[0]] for e, (few, many) in PUBLISHED16.items()},
    ),
    feature(
        "figure3/six",
        "The best six columns of Adult against all",
        runs.adult_pair,
        [{"few": "best six", "epsilons": (*FIGURE3, *SIX, NONE), "repeats": 1000}],
        published={"crossing": "between 10 and 20"},
    ),
    feature(
        "figure3",
        "Figure 3: Adult, best columns first",
        runs.figure3,
        [{"columns": n, "epsilons": (*FIGURE3, NONE), "repeats": 1000} for n in range(1, 109)],
        published={"0.1, five columns": 78.58, "0.1, all columns": 70.86},
    ),
    softmax("table2", "Table II: columns of Breast Cancer by DP-SGD (captions are swapped in the paper)", "breast"),
    softmax("table18", "Table XVIII: columns of Adult by DP-SGD (captions are swapped in the paper)", "adult"),
    feature(
        "table5",
        "Table V: grey SVHN, fully connected networks, 300 principal components or none",
        descent.table5,
        table5_cells(),
        priced=True,
        columns=("inputs", "network", "training"),
        published={
            f"{inputs} {network} {way}": value
            for inputs in descent.RELEASED
            for network, pair in PUBLISHED5["no PCA" if inputs == "no PCA" else "PCA"].items()
            for way, value in zip(("private", "plain"), pair)
        },
    ),
    feature("table5/prices", "Table V: noise multipliers and prices", descent.table5_prices, grid(steps=1000)),
    feature(
        "selector_seconds",
        "Seconds of the selectors on Breast Cancer",
        runs.seconds,
        grid(work=(*runs.TIMED, runs.REPEATED), repeats=4),
        grid(work="cfs_greedy", repeats=1),
        columns=("work",),
        measured="wall",
        published={"cfs_greedy": 3.8, "cfs_ga, 5,000 x 10": 57.6, "pafs, 600 x 10": "about 9 hours"},
    ),
]
