"""The networks of Bao, Bauer and Bindschaedler. PAW and STW are their privacy-aware and standard workflows."""

from __future__ import annotations

from typing import Any

from privaware.models._named_row import COLOUR, GREY, MNIST, Row

__all__ = ["ROWS"]


def fcn(*widths: int, dropout: float = 0.2) -> dict[str, Any]:
    inputs, *hidden, outputs = widths
    return {"name": "fcn", "inputs": inputs, "hidden": hidden, "outputs": outputs, "dropout": dropout}


def cnn(inputs: list[int], filters: list[int], hidden: list[int], **more: Any) -> dict[str, Any]:
    return {"name": "cnn", "inputs": inputs, "filters": filters, "hidden": hidden, "outputs": 10, **more}


def lstm(units: int, hidden: int, dropout: float = 0.2) -> dict[str, Any]:
    return {"name": "lstm", "units": units, "hidden": [hidden], "outputs": 2, "dropout": dropout}


DERIVED = "Not in the paper's appendix: layers inferred from the number of parameters."
INFERRED = "Not in the paper's appendix: 64 inputs are inferred from the count, the text says 300."
GREY_NOTE = f"{DERIVED} Grey images."
NO_DROPOUT = "No dropout: the paper's table shows none."
RATE = "One bias vector. The rate of its dropout is not stated: 0.2 here."

FCN: list[Row] = [
    ("purchase100", 89_828, "Table XXI (PAW)", fcn(600, 128, 100), ""),
    ("purchase100", 903_524, "Table XXII (STW)", fcn(600, 1024, 256, 100), ""),
    ("cifar10", 19_914, "Table XXIII (PAW)", fcn(300, 64, 10), ""),
    ("cifar10", 636_938, "Table XXIV (STW)", fcn(300, 2048, 10), ""),
    ("svhn", 39_818, "Tables I, V and XVII (PAW)", fcn(300, 128, 10), DERIVED),
    ("svhn", 221_066, "Tables I, V and XVII (STW)", fcn(300, 512, 128, 10), DERIVED),
    (
        "svhn_without_pca",
        1_577_738,
        "Table V (STW without PCA)",
        fcn(512, 2048, 256, 10),
        f"{DERIVED} 512 inputs fit. Its PAW partner of 55,042 fits no network of the stated space;"
        " 512-64-256-10 would have 52,042.",
    ),
    ("mnist", 9_610, "Tables I and IX (PAW; Fashion-MNIST too)", fcn(64, 128, 10), INFERRED),
    ("mnist", 66_762, "Table I (STW)", fcn(64, 512, 64, 10), INFERRED),
    ("fashion_mnist", 38_410, "Table I (STW)", fcn(64, 512, 10), INFERRED),
    (
        "mnist",
        76_810,
        "Table IX (PAW, random weights)",
        fcn(64, 1024, 10),
        f"{INFERRED} 10,250 trainable: the first layer is frozen.",
    ),
    (
        "mnist",
        674_762,
        "Table IX (STW, random weights)",
        fcn(64, 2048, 256, 64, 10),
        f"{INFERRED} 658,314 trainable: the third layer is frozen.",
    ),
    (
        "mnist",
        1_362_122,
        "Tables VI, VII and XXIX (random weights)",
        fcn(784, 1024, 512, 64, 10, dropout=0.0),
        f"33,482 trainable: the last two layers. {NO_DROPOUT}",
    ),
    (
        "mnist",
        435_402,
        "Table VII (simple)",
        fcn(784, 512, 64, 10, dropout=0.0),
        f"{DERIVED} No dropout, as its partner in Table XXIX.",
    ),
]

CNN: list[Row] = [
    ("cifar10", 246_554, "Table XIX (PAW)", cnn(COLOUR, [16, 32, 48], [512]), ""),
    ("cifar10", 1_820_330, "Table XX (STW)", cnn(COLOUR, [48, 96], [512]), ""),
    ("mnist", 56_970, "Table XXVI (PAW)", cnn(MNIST, [16, 32], [64]), ""),
    ("mnist", 197_130, "Tables I and IV (STW)", cnn(MNIST, [48, 96], [64]), DERIVED),
    ("svhn", 1_817_930, "Tables I and XVII (STW)", cnn(GREY, [48, 96], [512]), GREY_NOTE),
    ("svhn", 600_522, "Tables I and XVII (PAW)", cnn(GREY, [16, 32], [512]), GREY_NOTE),
    (
        "mnist",
        61_706,
        "Tables IV and XXV (LeNet-5)",
        cnn(
            MNIST,
            [6, 16],
            [120, 84],
            kernels=[5, 5],
            paddings=[2, 0],
            halve=False,
            pool_last=True,
            pooling="average",
            dropout=0.0,
        ),
        "The table prints 16 maps for the first convolution; its 156 parameters mean 6. The activation is not stated.",
    ),
    (
        "mnist",
        122_442,
        "Tables VI and XXX (random weights)",
        cnn(MNIST, [32, 64], [64], kernels=[5, 3], paddings=[0, 0], halve=False, pool_last=True, dropout=0.0),
        "The paper says 19,328 trainable, which are the two convolutions; the last two layers, which its text"
        f" trains, have 103,114. {NO_DROPOUT}",
    ),
]

LSTM: list[Row] = [
    (
        "sms",
        496_978,
        "Tables XIII, XVII and XXVII (STW)",
        lstm(256, 512),
        f"{RATE} Table XXXI is the same without dropout; there the last two layers, 132,610, are trained.",
    ),
    ("sms", 50_994, "Tables XIII, XVII and XXVIII (PAW)", lstm(4, 16), RATE),
]

REGRESSION = {
    (2, 10): 191,
    (2, 30): 1_171,
    (2, 60): 4_141,
    (2, 120): 15_481,
    (6, 10): 631,
    (6, 30): 4_891,
    (6, 60): 18_781,
    (6, 120): 73_561,
    (12, 10): 1_291,
    (12, 30): 10_471,
    (12, 60): 40_741,
    (12, 120): 160_681,
}
"""Numbers of parameters by (number of hidden layers, units of each layer)."""

MEDICAL: list[Row] = [
    (
        f"medical.{layers}x{units}",
        parameters,
        "Tables XIV and XV",
        fcn(6, *[units] * layers, 1, dropout=0.0),
        "Not in the paper's appendix: 6 inputs (no one-hot) are inferred from the counts 40,741 and 73,561"
        " that the text gives for 12 x 60 and 6 x 120.",
    )
    for (layers, units), parameters in REGRESSION.items()
]

ROWS: list[Row] = [
    (f"bao.{family}.{data}", parameters, f"Bao et al., {source}", description, note)
    for family, rows in (("fcn", [*FCN, *MEDICAL]), ("cnn", CNN), ("lstm", LSTM))
    for data, parameters, source, description, note in rows
]
