"""The networks of Tramer and Boneh, of DPMLBench and of DPNAS, and a wide residual network."""

from __future__ import annotations

from typing import Any

__all__ = ["ROWS"]

Row = tuple[str, int, str, dict[str, Any], str]

MNIST, GREY, COLOUR = [1, 28, 28], [1, 32, 32], [3, 32, 32]
SCATTER_MNIST, SCATTER_CIFAR = [81, 7, 7], [243, 8, 8]


def tramer(inputs: list[int], layers: list[list[Any]], *hidden: int) -> dict[str, Any]:
    given = {"inputs": inputs, "layers": layers, "hidden": list(hidden), "outputs": 10}
    return {"name": "tramer_boneh", **given}


def threes(*filters: int | str) -> list[list[Any]]:
    """3 x 3 convolutions, with "M" for a pool that halves."""
    return [["pool", 2, 2] if f == "M" else [f, 3, 1, 1] for f in filters]


TRAMER: list[Row] = [
    (
        "cnn.mnist",
        26_010,
        "Table 6 (Fashion-MNIST too)",
        tramer(MNIST, [[16, 8, 2, 2], ["pool", 2, 1], [32, 4, 2, 0], ["pool", 2, 1]], 32),
        "",
    ),
    ("cnn.cifar10", 550_570, "Table 7", tramer(COLOUR, threes(32, 32, "M", 64, 64, "M", 128, 128, "M"), 128), ""),
    ("cnn.cifar10", 167_642, "Table 20 (small)", tramer(COLOUR, threes(16, 16, "M", 32, 32, "M", 64, "M"), 128), ""),
    (
        "scatter_cnn.mnist",
        33_066,
        "Table 8 (Fashion-MNIST too)",
        tramer(SCATTER_MNIST, [[16, 3, 2, 1], [32, 3, 1, 1]], 32),
        "Without the two pools that the table prints: with them 20,778, but Table 4 says 33K.",
    ),
    (
        "scatter_cnn.cifar10",
        187_210,
        "Table 9",
        tramer(SCATTER_CIFAR, threes(64, "M", 64)),
        "Without the second pool that the table prints: with it 179,530, but Table 4 says 187K.",
    ),
    (
        "scatter_cnn.cifar10",
        56_346,
        "Table 9 (small)",
        tramer(SCATTER_CIFAR, threes(16, 16, "M", 32, 32)),
        "The paper gives its filters only, no count; the pool's place and the head are inferred.",
    ),
    ("linear.mnist", 39_700, "Table 4", tramer(SCATTER_MNIST, []), "Scattering features; bias."),
    ("linear.cifar10", 155_530, "Table 4", tramer(SCATTER_CIFAR, []), "Scattering features; bias."),
]


def image(name: str, data: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "inputs": GREY if data == "grey" else COLOUR, "outputs": 10, **more}


MISSING = "The paper's table of it is missing: structure of the authors' code."
AS_CODE = "The paper counts 1.97M; this is the authors' code, the printed table would give 1,460,506."
VGG11 = "Called VGG16 in the paper; its layers are those of VGG-11."


def dpmlbench(data: str, simple: int, resnet: int, inception: int, vgg: int) -> list[Row]:
    normed = image("simple_cnn", data, groups=4)
    return [
        (f"simple_cnn.{data}", simple, "Table 2", image("simple_cnn", data), MISSING),
        (f"simple_cnn_group_norm.{data}", simple, "Figure 4", normed, f"{MISSING} No weights in the norm."),
        (f"resnet20.{data}", resnet, "Tables 2 and 14", image("resnet", data), MISSING),
        (f"inception.{data}", inception, "Tables 15 and 17", image("inception", data), AS_CODE),
        (f"vgg.{data}", vgg, "Tables 2 and 16", image("vgg", data), VGG11),
    ]


DEPTHS = {32: 461_882, 44: 655_418, 56: 848_954, 74: 1_139_258, 110: 1_719_866}

DPMLBENCH: list[Row] = [
    *dpmlbench("grey", 170_958, 268_058, 1_609_114, 128_806_154),
    *dpmlbench("colour", 171_246, 268_346, 1_609_690, 128_807_306),
    *(
        (
            f"resnet{depth}.colour",
            parameters,
            "Figure 9",
            image("resnet", "colour", depth=depth),
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

CELLS = {
    "cifar10": [5, 1, 5, 6, 1, 0, 5, 0, 0, 3, 5, 5, 6, 1, 6],
    "mnist": [5, 6, 3, 0, 5, 4, 0, 6, 0, 3, 1, 0, 1, 1, 4],
    "fashion_mnist": [3, 0, 5, 4, 5, 3, 0, 0, 6, 3, 5, 6, 1, 4, 1],
}
"""The cells that the authors found, as numbers of operations."""


def dpnas(data: str, **more: Any) -> dict[str, Any]:
    inputs = COLOUR if data == "cifar10" else MNIST
    return {"name": "dpnas", "inputs": inputs, "outputs": 10, "cell": CELLS[data], **more}


DEPTHWISE = "Cell of the authors' code; depth-wise convolutions are inferred from the size."
SMALL = (
    "The paper says only that convolutions have fewer channels and that the size is 0.03M: half the channels in the"
    " cells and 16 before the dense layer are our choice."
)
LARGE = dpnas("cifar10", channels=[48, 96, 192], activation="selu")

DPNAS: list[Row] = [
    ("cifar10", 529_434, "Table 1 (0.53M)", LARGE, DEPTHWISE),
    ("mnist", 213_418, "Table 1 (0.21M)", dpnas("mnist"), DEPTHWISE),
    ("fashion_mnist", 214_570, "Table 1 (0.21M)", dpnas("fashion_mnist"), DEPTHWISE),
    *(
        (f"small.{data}", parameters, "Table 1 (DPNASNet-S)", dpnas(data, channels=[16, 16, 32], squeeze=16), SMALL)
        for data, parameters in {"mnist": 30_106, "fashion_mnist": 30_682}.items()
    ),
]

WRN: list[Row] = [
    (
        "16_4.colour",
        2_751_146,
        "WRN-16-4 with group norm and weight standardisation",
        image("wrn", "colour"),
        "In none of the four papers; convolutions have biases, the weight standardisation no gains.",
    )
]

ROWS: list[Row] = [
    (f"{paper}.{name}", parameters, f"{author}{source}", description, note)
    for paper, author, rows in (
        ("tramer_boneh", "Tramer and Boneh, ", TRAMER),
        ("dpmlbench", "DPMLBench, ", DPMLBENCH),
        ("dpnas", "Cheng et al., ", DPNAS),
        ("wrn", "", WRN),
    )
    for name, parameters, source, description, note in rows
]
