"""The tables of docs/results/dpnas.md from the store of `benchmarks.dpnas`; what was not run says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._dpnas import CASES

Store = dict[str, dict[str, Any]]

TITLES = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST", "cifar10": "CIFAR-10", "digits": "digits"}
PUBLISHED = {
    "mnist": {"cnn": (89.08, 97.24, 98.10), "small": (92.87, 97.74, 98.35), "found": (97.22, 98.18, 98.57)},
    "fashion_mnist": {"cnn": (73.86, 82.03, 86.25), "small": (78.66, 84.83, 86.73), "found": (82.08, 86.17, 88.09)},
    "cifar10": {"cnn": (38.74, 52.74, 59.07), "found": (52.95, 65.03, 68.33)},
}
TRANSFER = {"mnist": (98.57, 87.92, 67.95), "fashion_mnist": (98.58, 88.09, 68.06), "cifar10": (98.66, 87.94, 68.33)}
ACTIVATIONS = {
    "relu": 51.02,
    "relu6": 53.03,
    "elu": 57.35,
    "selu": 60.16,
    "tanh": 59.21,
    "hardtanh": 58.46,
    "leaky_relu": 59.32,
}
ASKED = {"mnist": 98.5, "fashion_mnist": 87.5, "cifar10": 67.5}
NAMES = {
    "cnn": "CNN-Tanh",
    "small": "found, small form",
    "found": "found",
    "mirrored": "found, trained on each image and its mirror image",
    "paper": "the paper's cell",
}
EPSILONS = (1, 2, 3)
SOURCES = {
    "dp": "20 cells, private search",
    "sgd": "20 cells, search with SGD training",
    "random": "20 cells at random",
}


def page(store: Store, plots: Path | None) -> str:
    """All tables, as Markdown."""
    parts = [searches, derived, table_1, last_models, table_3, table_4, figure_3, frequencies]
    if any("/digits/" in name for name in store):
        parts = [searches, digits]
    if plots is not None:
        figures(store, plots)
    return "\n\n".join("\n".join(part(store)) for part in parts)


def scores(store: Store, data: str, what: str, mark: int = -1, kind: str = "train") -> list[float]:
    """Accuracies in percent of all seeds at one mark."""
    start = f"{kind}/{data}/{what}/"
    return [100 * line["accuracy"][mark] for name, line in store.items() if name.startswith(start)]


def mean(values: list[float]) -> str:
    if not values:
        return "not run"
    if len(values) == 1:
        return f"{values[0]:.2f} (1 seed)"
    return f"{np.mean(values):.2f} ± {np.std(values, ddof=1):.2f} ({len(values)})"


def table(head: list[str], rows: list[list[str]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    yield from ("| " + " | ".join(row) + " |" for row in rows)


def searches(store: Store) -> Iterator[str]:
    yield "### Searches\n"
    rows = []
    for name, line in store.items():
        if name.startswith("search/"):
            last = line["curve"][-1]
            ends = [f"{100 * np.mean(last[key]):.1f}" for key in ("controller", "uniform")]
            entropy = f"{last['entropy']:.1f}"
            rows.append(
                [
                    TITLES[line["data"]],
                    line["variant"],
                    " ".join(line["cell"]),
                    f"{100 * line['score']:.1f}",
                    *ends,
                    entropy,
                    f"{line['seconds']:.0f}",
                ]
            )
    head = [
        "data",
        "search",
        "cell found (edges in order)",
        "its score",
        "10 cells proposed, last epoch",
        "10 cells at random, last epoch",
        "entropy",
        "seconds",
    ]
    yield from table(head, rows or [["not run", *[""] * 7]])


def derived(store: Store) -> Iterator[str]:
    yield "### Derivation: short private trainings of the proposed cells\n"
    rows = []
    for name, line in store.items():
        if name.startswith("derive/"):
            tried = ", ".join(f"{100 * one['score']:.2f} ({one['lr']:g})" for one in line["tried"])
            rows.append([TITLES[line["data"]], tried, " ".join(line["cell"]), f"{line['lr']:g}"])
    each = "held accuracy of each (its rate), best score of the search first"
    head = ["data", each, "cell taken", "rate taken"]
    yield from table(head, rows or [["not run", "", "", ""]])


def last_models(store: Store) -> Iterator[str]:
    yield "### The same trainings without averaging: the last model at the classic epsilon of 3\n"
    rows = []
    for data in PUBLISHED:
        start = f"train/{data}/found/"
        lines = [line for name, line in store.items() if name.startswith(start)]
        if lines:
            last, made = ([100 * line[key][-1] for line in lines] for key in ("last", "accuracy"))
            each = ", ".join(f"{score:.2f}" for score in made)
            rows.append([TITLES[data], f"{lines[0]['lr']:g}", mean(last), mean(made), each])
    yield from table(["data", "learning rate", "last", "averaged", "each seed, averaged"], rows)


def table_1(store: Store) -> Iterator[str]:
    yield "### Table 1: test accuracy at the classic epsilon of 1, 2 and 3\n"
    rows = []
    for data, known in PUBLISHED.items():
        for what in NAMES:
            if what == "mirrored" and not CASES[data].mirrored:
                continue
            line = store.get(f"train/{data}/{what}/0", {})
            size = f"{line['parameters']:,}" if line else ""
            cells = [TITLES[data], NAMES[what], size]
            for at, epsilon in enumerate(EPSILONS):
                printed = known.get(what if what in ("cnn", "small") else "found")
                theirs = f"{printed[at]:.2f}" if printed else "-"
                cells.append(f"{theirs} / {mean(scores(store, data, what, at))}")
                assert epsilon == at + 1
            asked = f"{ASKED[data]}" if what in ("found", "mirrored") else ""
            rows.append([*cells, asked])
    head = ["data", "network", "parameters", *(f"{e}: published / ours" for e in EPSILONS), "asked at 3"]
    yield from table(head, rows)


def table_3(store: Store) -> Iterator[str]:
    yield "### Table 3: cells moved between data sets (rows: searched on; published / ours, epsilon 3)\n"
    rows = []
    for source, known in TRANSFER.items():
        row = [TITLES[source]]
        for at, data in enumerate(TRANSFER):
            what = "found" if data == source else f"from_{source}"
            row.append(f"{known[at]:.2f} / {mean(scores(store, data, what))}")
        rows.append(row)
    yield from table(["", *(TITLES[data] for data in TRANSFER)], rows)


def table_4(store: Store) -> Iterator[str]:
    yield "### Table 4: activations of the hand-made CNN on CIFAR-10, epsilon 3\n"
    rows = []
    for name, known in ACTIVATIONS.items():
        what = "cnn" if name == "tanh" else f"cnn_{name}"
        rows.append([name, f"{known:.2f}", mean(scores(store, "cifar10", what))])
    rows.append(["tanh, average pooling (Figure 5 d)", "-", mean(scores(store, "cifar10", "cnn_average_pool"))])
    yield from table(["activation", "published", "ours"], rows)


def figure_3(store: Store) -> Iterator[str]:
    yield "### Figure 3 (b): cells of other searches on CIFAR-10, all in the small form, epsilon 3\n"
    rows = [["the cell derived", mean(scores(store, "cifar10", "small")), ""]]
    for what, words in SOURCES.items():
        made = list(twenty(store, what).values())
        rows.append([words, mean(made), f"{max(made):.2f}" if made else ""])
    yield from table(["cells", "mean ± deviation (number)", "best"], rows)
    yield from ranks(store)


def twenty(store: Store, what: str) -> dict[int, float]:
    """Accuracies of Figure 3's cells from one source, by their number."""
    each = {at: scores(store, "cifar10", f"{what}_{at:02d}") for at in range(20)}
    return {at: made[0] for at, made in each.items() if made}


def ranks(store: Store) -> Iterator[str]:
    """Whether scores with shared weights, and short trainings, order cells as trainings from scratch do."""
    from scipy.stats import spearmanr

    made = twenty(store, "dp")
    derived, search = store.get("derive/cifar10"), store.get("search/cifar10/dp")
    if len(made) < 20 or derived is None or search is None:
        return
    rate = derived["tried"][0]["lr"]
    short = {tuple(one["cell"]): one["score"] for one in derived["tried"] if one["lr"] == rate}
    tried = [short.get(tuple(cell)) for cell in search["cells"]]
    for words, values in (("scores with shared weights", search["scores"]), ("short trainings", tried)):
        if None not in values:
            found = spearmanr(values, list(made.values()))
            told = f"{found.statistic:.2f} (p = {found.pvalue:.1g})"
            yield f"\nOf the proposed cells, {words} and these accuracies have a rank correlation of {told}."


def frequencies(store: Store) -> Iterator[str]:
    yield "### Figure 5: shares among 1,000 cells that the controller proposes, in percent\n"
    kept = [line for name, line in store.items() if name.endswith("/dp")]
    if not kept:
        yield "Not run."
        return
    ops = [*kept[0]["shares"]["activations"], *kept[0]["shares"]["pools"]]
    rows = []
    for line in kept:
        both = line["shares"]["activations"] | line["shares"]["pools"]
        rows.append([TITLES[line["data"]], *(f"{100 * both[op]:.0f}" for op in ops)])
    yield from table(["searched on", *ops], rows)


def digits(store: Store) -> Iterator[str]:
    yield "### Digits: trained from scratch, test accuracy after each mark\n"
    rows = []
    chance = [f"random_{at:02d}" for at in range(20)]
    groups = {"found": ["found"], "cells at random, one seed each": chance, "hand-made CNN": ["cnn"]}
    for words, names in groups.items():
        each = [[s for name in names for s in scores(store, "digits", name, at)] for at in (0, 1)]
        rows.append([words, *map(mean, each)])
    yield from table(["network", "60 steps", "200 steps"], rows)
    yield "\n### Digits: one budget for everything, test accuracy\n"
    rows = [
        [words, *(mean(scores(store, "digits", f"{what}_{e}", kind="charged")) for e in (4, 8))]
        for what, words in (("search", "search and training"), ("random", "a cell at random"))
    ]
    yield from table(["", "epsilon 4", "epsilon 8"], rows)
    for name, line in store.items():
        if name.startswith("search/"):
            yield f"\nShared weights, {line['variant']} search, mean test accuracy of ten cells:\n"
            some = line["curve"][:: max(1, len(line["curve"]) // 8)]
            steps = [
                [str(seen["epoch"]), *(f"{100 * np.mean(seen[k]):.1f}" for k in ("uniform", "controller"))]
                for seen in some
            ]
            yield from table(["epoch", "at random", "proposed"], steps)


def figures(store: Store, folder: Path) -> None:
    """The points of Figure 3 (b), the curves of Figure 3 (c) and the bars of Figure 5 (a) and (b)."""
    import altair as alt
    import pandas as pd

    folder.mkdir(parents=True, exist_ok=True)
    points = [
        {"cells": words, "accuracy": score / 100}
        for what, words in SOURCES.items()
        for score in twenty(store, what).values()
    ]
    if points:
        across = alt.X("accuracy:Q", scale=alt.Scale(zero=False), axis=alt.Axis(format="%"))
        strip = alt.Chart(pd.DataFrame(points), width=240).mark_tick(thickness=2)
        strip.encode(x=across, y=alt.Y("cells:N", title=None, axis=alt.Axis(labelLimit=0))).save(
            str(folder / "cifar10_figure3b.svg")
        )
    kept = {name: line for name, line in store.items() if name.startswith("search/")}
    for name, line in kept.items():
        file = name.removeprefix("search/").replace("/", "_")
        long = [
            {"epoch": seen["epoch"], "cells": key, "accuracy": float(np.mean(seen[key]))}
            for seen in line["curve"]
            for key in ("controller", "uniform")
        ]
        lines = alt.Chart(pd.DataFrame(long)).mark_line()
        percent = alt.Axis(format="%")
        lines.encode(x="epoch:Q", y=alt.Y("accuracy:Q", axis=percent), color="cells:N").save(
            str(folder / f"{file}_curve.svg")
        )
        bars = [
            {"operation": op, "share": share, "kind": kind}
            for kind in ("activations", "pools")
            for op, share in line["shares"][kind].items()
        ]
        chart = alt.Chart(pd.DataFrame(bars)).mark_bar()
        x = alt.X("operation:N", sort=None, title=None)
        y = alt.Y("share:Q", axis=percent, title=None)
        chart.encode(x=x, y=y).facet("kind:N").resolve_scale(x="independent").save(str(folder / f"{file}_shares.svg"))
