"""Items of Bao et al. that train networks: published numbers, full runs and quick ones (docs/results/studies.md)."""

from __future__ import annotations

from typing import Any

from privaware.papers import Item
from privaware.papers import _bao_figures as figures
from privaware.papers import _bao_small as small
from privaware.papers import _bao_tables as tables
from privaware.papers._bao_settings import PLAIN_CNN_RATES, PLAIN_RATES, RATES

__all__ = ["STUDIES"]

DP_SGD = "published DP-SGD / SGD"
TABLE1 = {
    ("FCN", "mnist"): ("93.10 / 97.54", "94.94 / 96.34"),
    ("FCN", "fashion_mnist"): ("85.00 / 89.62", "86.74 / 87.70"),
    ("FCN", "svhn"): ("72.90 / 85.32", "76.10 / 84.12"),
    ("FCN", "cifar10"): ("40.12 / 57.14", "43.66 / 45.36"),
    ("CNN", "mnist"): ("96.88 / 99.42", "97.86 / 99.38"),
    ("CNN", "svhn"): ("82.72 / 91.68", "84.72 / 90.90"),
    ("CNN", "cifar10"): ("47.76 / 67.54", "50.22 / 61.46"),
}
TABLE4 = {
    "4.39": ("96.88 / 99.42", "97.86 / 99.38", "96.30 / 99.48"),
    "2.98": ("96.61 / 99.34", "97.40 / 99.28", "95.90 / 99.36"),
    "1.09": ("93.92 / 99.34", "96.08 / 99.28", "94.30 / 99.36"),
    "1.05": ("94.92 / 99.38", "94.96 / 99.12", "94.72 / 99.32"),
}
TABLE6 = {
    "FCN 2.106 normal": "90.06",
    "FCN 2.106 last two layers": "84.32",
    "FCN 0.3411 normal": "51.34",
    "FCN 0.3411 last two layers": "73.06",
    "CNN 5.924 normal": "97.34",
    "CNN 5.924 last two layers": "96.33",
    "CNN 5.924 convolutions only": "(their count of 19,328)",
    "CNN 0.3411 normal": "91.20",
    "CNN 0.3411 last two layers": "95.20",
    "CNN 0.3411 convolutions only": "(their count of 19,328)",
}
TABLE9 = {
    "674,762 (658,314) 2.106": "92.04 / 97.97",
    "9,610 (9,610) 2.106": "95.18 / 96.84",
    "674,762 (658,314) 0.3411": "72.28 / 97.97",
    "76,810 (10,250) 0.3411": "91.61 / 92.70",
}
TABLES14_15 = {
    "XIV 2": ("0.123", "0.124", "0.132", "0.151"),
    "XIV 6": ("0.098", "0.109", "0.133", "0.333"),
    "XIV 12": ("0.139", "0.103", "0.136", "0.721"),
    "XV 2": ("0.080", "0.074", "0.070", "0.068"),
    "XV 6": ("0.074", "0.068", "0.064", "0.063"),
    "XV 12": ("0.154", "0.073", "0.063", "0.067"),
}
SMALL = ("mnist", "fashion_mnist")
"""Data sets whose networks train quickly on two cores."""
WIDTHS, DEPTHS = (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048), (1, 2, 3, 4, 6, 8, 10, 12)


def study(
    name: str, title: str, run: Any, full: dict[str, Any], quick: dict[str, Any] | None = None, **more: Any
) -> Item:
    """An item of one cell that holds a whole section; `quick` is what differs from the full settings."""
    small_settings = () if quick is None else ({**full, **quick},)
    return Item(id=f"bao/{name}", title=title, run=run, runs=(full,), quick=small_settings, page="studies", **more)


def table1(kind: str, data: str) -> Item:
    full = {"network": kind, "data": data, "epochs": 40, "rates": RATES, "plain_rates": PLAIN_RATES, "seeds": 5}
    if kind == "CNN":
        full |= {"epochs": 20, "plain_rates": PLAIN_CNN_RATES}
    few = {"epochs": 1, "rates": (2.0,), "plain_rates": (0.2,), "seeds": 2}
    quick = few if kind == "FCN" and data in SMALL else None
    return study(
        f"table1/{kind.lower()}/{data}",
        f"Table I: {kind} on {data}",
        tables.table1,
        full,
        quick,
        columns=("workflow",),
        measured="DP-SGD",
        published=dict(zip(("STW", "PAW"), TABLE1[kind, data])),
        published_as="published DP-SGD / SGD, best runs",
    )


def figure7(data: str) -> Item:
    epsilons = (0.1, 0.3, 1.0, 3.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6)
    full = {"data": data, "epsilons": epsilons, "epochs": 20, "parts": 60, "rates": (0.25, 1.0, 3.0, 8.0), "seeds": 5}
    few = {"epsilons": (0.3, 1e3), "epochs": 1, "parts": 30, "rates": (2.0,), "seeds": 2}
    quick = few if data in SMALL else None
    title = f"Figure 7: crossover on {data}"
    return study(f"figure7/{data}", title, figures.figure7, full, quick, published={"crossover": "about 1e4"})


def sizes(name: str, title: str, data: str, depths: tuple[int, ...]) -> Item:
    full = {"figure": name, "data": data, "widths": WIDTHS, "depths": depths, "epochs": 15, "seeds": 5}
    quick = {"widths": (4, 64), "epochs": 1, "seeds": 2} if data in SMALL else None
    return study(name, title, figures.sizes, full, quick)


def rnn(name: str, title: str, epsilon: float, rates: tuple[float, ...], published: tuple[str, str]) -> Item:
    full = {"epsilon": epsilon, "steps": 200, "rates": rates, "seeds": 5}
    return study(
        name,
        title,
        small.rnn,
        full,
        columns=("trained",),
        published=dict(zip(("normal", "last two layers"), published)),
    )


STUDIES = [
    study(
        "lemma",
        "Lemma 1 and Corollary 1",
        small.lemma,
        {"draws": 20_000},
        {"draws": 2_000},
        columns=("epsilon",),
        priced=False,
    ),
    study(
        "table3",
        "Table III and Figure 5: noise against input size",
        small.table3,
        {"inputs": (10, 50, 100, 500, 1000), "rates": (0.3,), "seeds": 10},
        {"inputs": (10, 100), "seeds": 2},
        priced=False,
        columns=("inputs",),
        published={"1000": "59.75", "500": "67.20", "100": "84.45", "50": "84.85", "10": "85.80"},
        published_as="published DP-SGD",
    ),
    study(
        "tables14_15",
        "Tables XIV and XV: regression on Medical Cost",
        small.tables14_15,
        {"layers": (2, 6, 12), "units": (10, 30, 60, 120), "seeds": 5},
        {"layers": (2,), "units": (10, 60), "seeds": 1},
        columns=("layers",),
        published=TABLES14_15,
    ),
    *(table1("FCN", data) for data in ("mnist", "fashion_mnist", "svhn", "cifar10")),
    *(table1("CNN", data) for data in ("mnist", "svhn", "cifar10")),
    study(
        "standard_cnn",
        "The standard CNN against the aware FCN at 2.11",
        tables.standard_cnn,
        {"cnn_epochs": 20, "fcn_epochs": 40, "seeds": 5},
        columns=("model",),
        measured="ours",
        published={"standard CNN": "93.92", "aware FCN": "94.94"},
    ),
    study(
        "table9",
        "Table IX: architectures with frozen layers",
        tables.table9,
        {"epochs": 20, "seeds": 5},
        columns=("parameters (trained)", "epsilon"),
        measured="DP-SGD",
        published=TABLE9,
        published_as=DP_SGD,
    ),
    study(
        "table7",
        "Table VII: complex and simple by random weights training",
        tables.table7,
        {"epochs": 20, "seeds": 5},
        columns=("model",),
        published={"complex, normal": "49.90", "complex, last two layers": "75.18", "simple, normal": "73.04"},
    ),
    *(figure7(data) for data in ("mnist", "fashion_mnist", "svhn", "cifar10")),
    study(
        "figure8",
        "Figure 8: logistic regression, FCN and CNN",
        figures.figure8,
        {
            "epsilons": (0.01, 0.03, 0.1, 0.25, 0.5, 1.0, 2.0),
            "models": ("logistic regression", "FCN", "CNN"),
            "epochs": 10,
            "seeds": 5,
        },
        {"epsilons": (0.01, 0.2), "models": ("logistic regression", "FCN"), "epochs": 1, "seeds": 1},
        published={"CNN": "from 0.25 to 0.5"},
    ),
    sizes("figure1", "Figure 1: accuracy by parameters", "mnist", ()),
    sizes("figure12", "Figure 12: width and depth", "svhn", DEPTHS),
    study(
        "clipping",
        "Appendix E: clipping without noise",
        tables.clipping,
        {"epochs": 20, "rates": (0.02, 0.1, 0.5, 2.0, 8.0), "seeds": 5},
        {"epochs": 1, "rates": (0.1, 2.0), "seeds": 1},
        published={"SGD": "45.36", "SGD with clipping": "about 50"},
    ),
    study(
        "figure6",
        "Figure 6: the sample-size law",
        figures.figure6,
        {
            "sizes": (10_000, 20_000, 40_000, 100_000, 300_000, 1_000_000),
            "models": ("simple (128)", "complex (2048, 256, 64)"),
            "seeds": 10,
        },
        {"sizes": (10_000, 20_000), "models": ("simple (128)",), "seeds": 2},
        published={"alpha": 1.1, "beta": 8922.4},
    ),
    study(
        "table6",
        "Table VI: random weights training, FCN and CNN",
        tables.table6,
        {"epochs": 20, "seeds": 5},
        columns=("network", "epsilon", "trained"),
        measured="ours",
        published=TABLE6,
    ),
    study(
        "table4",
        "Table IV: LeNet-5 against both workflows",
        tables.table4,
        {"epochs": 20, "seeds": 5},
        columns=("epsilon", "model"),
        measured="DP-SGD",
        published={f"{e} {name}": v for e, row in TABLE4.items() for name, v in zip(("ST", "PAW", "LeNet"), row)},
        published_as=DP_SGD,
    ),
    study(
        "figure10",
        "Figure 10: crossover of random weights training",
        figures.figure10,
        {"epsilons": (0.1, 0.2, 0.4, 0.8, 1.5, 4.0), "epochs": {"FCN": 15, "CNN": 10}, "seeds": 5},
        published={"FCN": "about 1.4", "CNN": "about 0.6"},
    ),
    study(
        "figure9",
        "Figure 9: sensitivity to the learning rate",
        figures.figure9,
        {"rates": (0.03, 0.1, 0.3, 1.0, 3.0, 10.0), "epochs": 10, "seeds": 5},
    ),
    study(
        "table13",
        "Table XIII: RNNs on SMS spam",
        small.table13,
        {"models": ("simple (PAW)", "complex (STW)"), "steps": 300, "seeds": 5},
        columns=("model",),
        published={"simple (PAW)": "93.42 / 98.68", "complex (STW)": "86.00 / 98.80"},
        published_as=DP_SGD,
    ),
    rnn("table6/rnn", "Table VI: random weights training of the RNN", 0.391, (0.1, 0.5), ("79.80", "87.00")),
    rnn("table6/rnn_without_noise", "Table VI: the same without noise", 1.47e11, (2.0, 8.0), ("88.64", "87.84")),
]
