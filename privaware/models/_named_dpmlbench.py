"""The networks of DPMLBench."""

from __future__ import annotations

from typing import Any

from privaware.models._named_row import COLOUR, GREY, Row

__all__ = ["ROWS"]


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
"""Number of parameters of a residual network by its depth."""

NETWORKS: list[Row] = [
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

ROWS: list[Row] = [
    (f"dpmlbench.{name}", parameters, f"DPMLBench, {table}", description, note)
    for name, parameters, table, description, note in NETWORKS
]
