"""The networks that the papers print, with their exact numbers of parameters.

>>> network = named()["bao.fcn.cifar10.19914"]
>>> network.parameters, network.source
(19914, 'Bao et al., Table XXIII (PAW)')
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

Row = tuple[str, int, str, dict[str, Any], str]
"""Name, number of parameters, where the network is printed, description, and a note."""
MNIST = [1, 28, 28]
"""Input shape of MNIST."""
GREY = [1, 32, 32]
"""Input shape of grey images of 32 x 32 pixels."""
COLOUR = [3, 32, 32]
"""Input shape of colour images of 32 x 32 pixels."""


@dataclass(frozen=True, kw_only=True)
class NamedNetwork:
    """A network of a paper: its description, its number of parameters, where it is printed (`source`), and a note."""

    description: dict[str, Any]
    parameters: int
    source: str
    note: str = ""


def named() -> dict[str, NamedNetwork]:
    """Return a new dictionary of all published networks, by names such as "bao.fcn.cifar10.19914".

    A name begins with the paper (or "wrn") and ends with the number of parameters. Between them stand the family, the
    size or variant, and the data, as far as they are needed.
    """
    papers = {
        "bao.fcn": ("Bao et al., ", [*BAO_FCN, *BAO_MEDICAL]),
        "bao.cnn": ("Bao et al., ", BAO_CNN),
        "bao.lstm": ("Bao et al., ", BAO_LSTM),
        "tramer_boneh": ("Tramer and Boneh, ", TRAMER_BONEH),
        "dpmlbench": ("DPMLBench, ", DPMLBENCH),
        "dpnas": ("Cheng et al., ", DPNAS),
        "wrn": ("", WRN),
    }
    return {
        f"{paper}.{name}.{parameters}": NamedNetwork(
            description=copy.deepcopy(description), parameters=parameters, source=authors + source, note=note
        )
        for paper, (authors, rows) in papers.items()
        for name, parameters, source, description, note in rows
    }


# Bao, Bauer and Bindschaedler. PAW and STW are their privacy-aware and standard workflows.


def _fcn(*widths: int, dropout: float = 0.2) -> dict[str, Any]:
    inputs, *hidden, outputs = widths
    return {"name": "fcn", "inputs": inputs, "hidden": hidden, "outputs": outputs, "dropout": dropout}


def _cnn(inputs: list[int], filters: list[int], hidden: list[int], **more: Any) -> dict[str, Any]:
    return {"name": "cnn", "inputs": inputs, "filters": filters, "hidden": hidden, "outputs": 10, **more}


def _lstm(units: int, hidden: int) -> dict[str, Any]:
    return {"name": "lstm", "units": units, "hidden": [hidden], "outputs": 2, "dropout": 0.2}


DERIVED = "Not in the paper's appendix: layers inferred from the number of parameters."
INFERRED = "Not in the paper's appendix: 64 inputs are inferred from the count, the text says 300."
FIRST_FROZEN = "10,250 trainable: the first layer is frozen."
GREY_NOTE = f"{DERIVED} Grey images."
NO_DROPOUT = "No dropout: the paper's table shows none."
RATE = "One bias vector. The rate of its dropout is not stated: 0.2 here."

BAO_FCN: list[Row] = [
    ("purchase100", 89_828, "Table XXI (PAW)", _fcn(600, 128, 100), ""),
    ("purchase100", 903_524, "Table XXII (STW)", _fcn(600, 1024, 256, 100), ""),
    ("cifar10", 19_914, "Table XXIII (PAW)", _fcn(300, 64, 10), ""),
    ("cifar10", 636_938, "Table XXIV (STW)", _fcn(300, 2048, 10), ""),
    ("svhn", 39_818, "Tables I, V and XVII (PAW)", _fcn(300, 128, 10), DERIVED),
    ("svhn", 221_066, "Tables I, V and XVII (STW)", _fcn(300, 512, 128, 10), DERIVED),
    (
        "svhn_without_pca",
        1_577_738,
        "Table V (STW without PCA)",
        _fcn(512, 2048, 256, 10),
        f"{DERIVED} 512 inputs fit. Its PAW partner of 55,042 fits no network of the stated space;"
        " 512-64-256-10 would have 52,042.",
    ),
    ("mnist", 9_610, "Tables I and IX (PAW; Fashion-MNIST too)", _fcn(64, 128, 10), INFERRED),
    ("mnist", 66_762, "Table I (STW)", _fcn(64, 512, 64, 10), INFERRED),
    ("fashion_mnist", 38_410, "Table I (STW)", _fcn(64, 512, 10), INFERRED),
    ("mnist", 76_810, "Table IX (PAW, random weights)", _fcn(64, 1024, 10), f"{INFERRED} {FIRST_FROZEN}"),
    (
        "mnist",
        674_762,
        "Table IX (STW, random weights)",
        _fcn(64, 2048, 256, 64, 10),
        f"{INFERRED} 658,314 trainable: the third layer is frozen.",
    ),
    (
        "mnist",
        1_362_122,
        "Tables VI, VII and XXIX (random weights)",
        _fcn(784, 1024, 512, 64, 10, dropout=0.0),
        f"33,482 trainable: the last two layers. {NO_DROPOUT}",
    ),
    (
        "mnist",
        435_402,
        "Table VII (simple)",
        _fcn(784, 512, 64, 10, dropout=0.0),
        f"{DERIVED} No dropout, as its partner in Table XXIX.",
    ),
]

BAO_CNN: list[Row] = [
    ("cifar10", 246_554, "Table XIX (PAW)", _cnn(COLOUR, [16, 32, 48], [512]), ""),
    ("cifar10", 1_820_330, "Table XX (STW)", _cnn(COLOUR, [48, 96], [512]), ""),
    ("mnist", 56_970, "Table XXVI (PAW)", _cnn(MNIST, [16, 32], [64]), ""),
    ("mnist", 197_130, "Tables I and IV (STW)", _cnn(MNIST, [48, 96], [64]), DERIVED),
    ("svhn", 1_817_930, "Tables I and XVII (STW)", _cnn(GREY, [48, 96], [512]), GREY_NOTE),
    ("svhn", 600_522, "Tables I and XVII (PAW)", _cnn(GREY, [16, 32], [512]), GREY_NOTE),
    (
        "mnist",
        61_706,
        "Tables IV and XXV (LeNet-5)",
        _cnn(
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
        _cnn(MNIST, [32, 64], [64], kernels=[5, 3], paddings=[0, 0], halve=False, pool_last=True, dropout=0.0),
        "The paper says 19,328 trainable, which are the two convolutions; the last two layers, which its text"
        f" trains, have 103,114. {NO_DROPOUT}",
    ),
]

BAO_LSTM: list[Row] = [
    (
        "sms",
        496_978,
        "Tables XIII, XVII and XXVII (STW)",
        _lstm(256, 512),
        f"{RATE} Table XXXI is the same without dropout; there the last two layers, 132,610, are trained.",
    ),
    ("sms", 50_994, "Tables XIII, XVII and XXVIII (PAW)", _lstm(4, 16), RATE),
]

MEDICAL_UNITS = (10, 30, 60, 120)
"""Units of each hidden layer of the networks for the medical table."""
MEDICAL_SIZES = {2: (191, 1_171, 4_141, 15_481), 6: (631, 4_891, 18_781, 73_561), 12: (1_291, 10_471, 40_741, 160_681)}
"""Numbers of parameters for each of `MEDICAL_UNITS`, by number of hidden layers."""

BAO_MEDICAL: list[Row] = [
    (
        f"medical.{layers}x{units}",
        parameters,
        "Tables XIV and XV",
        _fcn(6, *[units] * layers, 1, dropout=0.0),
        "Not in the paper's appendix: 6 inputs (no one-hot) are inferred from the counts 40,741 and 73,561"
        " that the text gives for 12 x 60 and 6 x 120.",
    )
    for layers, sizes in MEDICAL_SIZES.items()
    for units, parameters in zip(MEDICAL_UNITS, sizes, strict=True)
]

# Tramer and Boneh, from pixels and on scattering features.

SCATTER_MNIST = [81, 7, 7]
"""Shape of the scattering features of MNIST."""

SCATTER_CIFAR = [243, 8, 8]
"""Shape of the scattering features of CIFAR-10."""


def _stack(inputs: list[int], layers: list[list[Any]], *hidden: int) -> dict[str, Any]:
    return {"name": "tramer_boneh", "inputs": inputs, "layers": layers, "hidden": list(hidden), "outputs": 10}


def _conv3x3(*filters: int | str) -> list[list[Any]]:
    """Return the field `layers` of `tramer_boneh` for 3 x 3 convolutions with the given numbers of filters.

    Convolutions have stride 1 and padding 1. "M" stands for a 2 x 2 pool of stride 2.
    """
    return [["pool", 2, 2] if f == "M" else [f, 3, 1, 1] for f in filters]


TRAMER_BONEH: list[Row] = [
    (
        "cnn.mnist",
        26_010,
        "Table 6 (Fashion-MNIST too)",
        _stack(MNIST, [[16, 8, 2, 2], ["pool", 2, 1], [32, 4, 2, 0], ["pool", 2, 1]], 32),
        "",
    ),
    ("cnn.cifar10", 550_570, "Table 7", _stack(COLOUR, _conv3x3(32, 32, "M", 64, 64, "M", 128, 128, "M"), 128), ""),
    ("cnn.cifar10", 167_642, "Table 20 (small)", _stack(COLOUR, _conv3x3(16, 16, "M", 32, 32, "M", 64, "M"), 128), ""),
    (
        "scatter_cnn.mnist",
        33_066,
        "Table 8 (Fashion-MNIST too)",
        _stack(SCATTER_MNIST, [[16, 3, 2, 1], [32, 3, 1, 1]], 32),
        "Without the two pools that the table prints: with them 20,778, but Table 4 says 33K.",
    ),
    (
        "scatter_cnn.cifar10",
        187_210,
        "Table 9",
        _stack(SCATTER_CIFAR, _conv3x3(64, "M", 64)),
        "Without the second pool that the table prints: with it 179,530, but Table 4 says 187K.",
    ),
    (
        "scatter_cnn.cifar10",
        56_346,
        "Table 9 (small)",
        _stack(SCATTER_CIFAR, _conv3x3(16, 16, "M", 32, 32)),
        "The paper gives its filters only, no count; the pool's place and the head are inferred.",
    ),
    ("linear.mnist", 39_700, "Table 4", _stack(SCATTER_MNIST, []), "Scattering features; bias."),
    ("linear.cifar10", 155_530, "Table 4", _stack(SCATTER_CIFAR, []), "Scattering features; bias."),
]

# DPMLBench.


def _image(name: str, data: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "inputs": GREY if data == "grey" else COLOUR, "outputs": 10, **more}


NO_TABLE = "The paper's table of it is missing: structure of the authors' code."
AS_CODE = "The paper counts 1.97M; this is the authors' code, the printed table would give 1,460,506."
VGG11 = "Called VGG16 in the paper; it has the layers of VGG-11."


def _dpmlbench(data: str, simple: int, resnet: int, inception: int, vgg: int) -> list[Row]:
    normed = _image("simple_cnn", data, groups=4)
    return [
        (f"simple_cnn.{data}", simple, "Table 2", _image("simple_cnn", data), NO_TABLE),
        (f"simple_cnn_group_norm.{data}", simple, "Figure 4", normed, f"{NO_TABLE} No weights in the norm."),
        (f"resnet20.{data}", resnet, "Tables 2 and 14", _image("resnet", data), NO_TABLE),
        (f"inception.{data}", inception, "Tables 15 and 17", _image("inception", data), AS_CODE),
        (f"vgg.{data}", vgg, "Tables 2 and 16", _image("vgg", data), VGG11),
    ]


DEPTHS = {32: 461_882, 44: 655_418, 56: 848_954, 74: 1_139_258, 110: 1_719_866}
"""Number of parameters of a residual network by its depth."""

DPMLBENCH: list[Row] = [
    *_dpmlbench("grey", 170_958, 268_058, 1_609_114, 128_806_154),
    *_dpmlbench("colour", 171_246, 268_346, 1_609_690, 128_807_306),
    *(
        (
            f"resnet{depth}.colour",
            parameters,
            "Figure 9",
            _image("resnet", "colour", depth=depth),
            "The paper shows several sizes without their depths: depths of the authors' code.",
        )
        for depth, parameters in DEPTHS.items()
    ),
    (
        "scatter_mlp.cifar10",
        2_488_330,
        "Table 7 (MLP)",
        {"name": "linear", "inputs": [243, 32, 32], "outputs": 10, "groups": 81},
        "The paper gives no layers: in the authors' code it is one linear layer behind a group norm, on scattering"
        " features of images enlarged to 128 x 128.",
    ),
]

# DPNAS, with the cells of the authors' code.

CELLS = {
    "cifar10": [5, 1, 5, 6, 1, 0, 5, 0, 0, 3, 5, 5, 6, 1, 6],
    "mnist": [5, 6, 3, 0, 5, 4, 0, 6, 0, 3, 1, 0, 1, 1, 4],
    "fashion_mnist": [3, 0, 5, 4, 5, 3, 0, 0, 6, 3, 5, 6, 1, 4, 1],
}
"""The cells that the authors found: the operation of each edge as an index into `privaware.models.dpnas.OPERATIONS`."""


def _dpnas(data: str, **more: Any) -> dict[str, Any]:
    inputs = COLOUR if data == "cifar10" else MNIST
    return {"name": "dpnas", "inputs": inputs, "outputs": 10, "cell": CELLS[data], **more}


DEPTHWISE = "Cell of the authors' code; depth-wise convolutions are inferred from the size."
SMALL = (
    "The paper says only that convolutions have fewer channels and that the size is 0.03M: half the channels in the"
    " cells and 16 before the dense layer are our choice."
)
DPNAS_CIFAR10 = _dpnas("cifar10", channels=[48, 96, 192], activation="selu")

CELLS_GUESSED = "The paper prints the size only; 20 cells with the layers of DARTS around them are our choice."
AMOEBANET = "The printed size is 0.1M larger."
BLOCKS_GUESSED = "The paper prints the size only; a stem of stride 1 and no 1 x 1 convolution before the pool fit it."
NARROWER = "The paper says only that convolutions have fewer channels; the number of channels is our choice."


def _nas_cells(cells: str, channels: int) -> dict[str, Any]:
    return {"name": "nas_cells", "inputs": COLOUR, "outputs": 10, "cells": cells, "channels": channels}


EFFICIENTNET_SMALL = _image("efficientnet", "colour", filters=[12, 8, 8, 16, 32, 44, 76, 128])

DPNAS: list[Row] = [
    ("cifar10", 529_434, "Table 1 (0.53M)", DPNAS_CIFAR10, DEPTHWISE),
    ("mnist", 213_418, "Table 1 (0.21M)", _dpnas("mnist"), DEPTHWISE),
    ("fashion_mnist", 214_570, "Table 1 (0.21M)", _dpnas("fashion_mnist"), DEPTHWISE),
    *(
        (f"small.{data}", parameters, "Table 1 (DPNASNet-S)", _dpnas(data, channels=[16, 16, 32], squeeze=16), SMALL)
        for data, parameters in {"mnist": 30_106, "fashion_mnist": 30_682}.items()
    ),
    ("nasnet_a.cifar10", 3_328_234, "Table 2 (3.3M)", _nas_cells("nasnet_a", 32), CELLS_GUESSED),
    ("nasnet_a_small.cifar10", 625_180, "Table 2 (0.6M)", _nas_cells("nasnet_a", 13), NARROWER),
    ("amoebanet_a.cifar10", 3_145_078, "Table 2 (3.2M)", _nas_cells("amoebanet_a", 36), f"{CELLS_GUESSED} {AMOEBANET}"),
    ("amoebanet_a_small.cifar10", 535_020, "Table 2 (0.5M)", _nas_cells("amoebanet_a", 14), NARROWER),
    ("darts.cifar10", 3_349_342, "Table 2 (3.3M)", _nas_cells("darts", 36), CELLS_GUESSED),
    ("darts_small.cifar10", 553_780, "Table 2 (0.6M)", _nas_cells("darts", 14), NARROWER),
    ("efficientnet.cifar10", 3_598_598, "Table 2 (3.6M)", _image("efficientnet", "colour"), BLOCKS_GUESSED),
    ("efficientnet_small.cifar10", 619_564, "Table 2 (0.6M)", EFFICIENTNET_SMALL, NARROWER),
]

# The wide residual network of De et al. and of the prior features.

WRN: list[Row] = [
    (
        "16_4.colour",
        2_751_146,
        "WRN-16-4 with group norm and weight standardisation",
        {"name": "wrn", "inputs": COLOUR, "outputs": 10},
        "Its size is printed in no paper; convolutions have biases, the weight standardisation no gains.",
    )
]
