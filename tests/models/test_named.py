"""The papers' networks: exact numbers of parameters, and no layer that mixes rows."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

from privaware import models
from privaware.models import build, count, example, named, parse

TABLE = named()
LARGE = 5_000_000
"""Larger networks, and several deep ones, are built on the device "meta" only."""

PRINTED = """
246554 1820330 89828 903524 19914 636938 61706 56970 496978 50994 1362122 122442
197130 1817930 600522 221066 39818 1577738 435402 674762 76810 9610 38410 66762
40741 26010 33066 550570 167642 187210 56346 39700 155530
171246 268346 1609690 128807306 529434 213418 214570
"""

BUILT = [
    name
    for name, network in TABLE.items()
    if network.parameters < LARGE
    and not name.startswith(("dpmlbench.resnet1", "bao.fcn.medical", "dpnas.nasnet", "dpnas.amoebanet", "dpnas.darts."))
]


def module_and_rows(name: str, rows: int = 3) -> tuple[nn.Module, torch.Tensor]:
    rng = torch.Generator().manual_seed(3)
    description = TABLE[name].description
    module = build(description, rng)
    for layer in module.modules():
        if isinstance(layer, nn.Dropout):
            layer.p = 0.0
    return module, example(description, rows, rng)


def test_table_holds_every_printed_number_of_parameters() -> None:
    sizes = {network.parameters for network in TABLE.values()}
    assert {int(size) for size in PRINTED.split()} <= sizes


@pytest.mark.parametrize("name", TABLE)
def test_number_of_parameters_is_the_published_one(name: str) -> None:
    assert count(TABLE[name].description) == TABLE[name].parameters
    assert name.endswith(f".{TABLE[name].parameters}")


@pytest.mark.parametrize("name", TABLE)
def test_description_round_trips_through_json(name: str) -> None:
    first = parse(TABLE[name].description)
    again = parse(json.loads(json.dumps(first.describe())))
    assert again == first
    assert again.describe() == first.describe()
    assert hash(again) == hash(first)


@pytest.mark.parametrize("name", [name for name in TABLE if name not in BUILT])
def test_large_networks_run_on_the_meta_device(name: str) -> None:
    description = TABLE[name].description
    rows = example(description, 2).to("meta")
    assert build(description, device="meta")(rows).shape == (2, description["outputs"])


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", BUILT)
def test_output_of_a_row_does_not_depend_on_other_rows(name: str, training: bool) -> None:
    module, rows = module_and_rows(name)
    module.train(training)
    with torch.no_grad():
        before = module(rows)
        other = rows.clone()
        other[1] = other[1].flip(-1) if other.dtype == torch.long else 100 * other[1] + 1
        after = module(other)
        alone = module(rows[:1])
    assert before.shape == (3, TABLE[name].description["outputs"])
    assert before.isfinite().all()
    torch.testing.assert_close(after[[0, 2]], before[[0, 2]])
    torch.testing.assert_close(alone, before[:1], rtol=1e-4, atol=1e-5)
    assert not torch.equal(after[1], before[1])


@pytest.mark.parametrize("name", TABLE)
def test_every_parameter_is_in_a_leaf_module_without_buffers(name: str) -> None:
    module = build(TABLE[name].description, device="meta")
    for layer in module.modules():
        parameters = list(layer.parameters(recurse=False))
        assert not (parameters and list(layer.children())), layer
        assert not isinstance(layer, nn.modules.batchnorm._BatchNorm)
        assert not list(layer.buffers(recurse=False)), "state outside the parameters would leak rows"


def test_last_two_layers_have_the_printed_number_of_parameters() -> None:
    def last_two(name: str) -> int:
        owners = [
            layer
            for layer in build(TABLE[name].description, device="meta").modules()
            if list(layer.parameters(recurse=False))
        ]
        return sum(p.numel() for layer in owners[-2:] for p in layer.parameters())

    assert last_two("bao.fcn.mnist.1362122") == 33_482
    assert last_two("bao.lstm.sms.496978") == 132_610
    assert last_two("bao.cnn.mnist.122442") == 103_114


def test_printed_pools_contradict_the_printed_parameter_count() -> None:
    mnist = dict(TABLE["tramer_boneh.scatter_cnn.mnist.33066"].description)
    mnist["layers"] = [[16, 3, 2, 1], ["pool", 2, 1], [32, 3, 1, 1], ["pool", 2, 1]]
    assert count(mnist) == 20_778
    cifar = dict(TABLE["tramer_boneh.scatter_cnn.cifar10.187210"].description)
    cifar["layers"] = [*cifar["layers"], ["pool", 2, 2]]
    assert count(cifar) == 179_530


def test_inception_blocks_have_the_hand_counted_parameters() -> None:
    module = build(TABLE["dpmlbench.inception.colour.1609690"].description, device="meta")
    sizes = {name: sum(p.numel() for p in part.parameters()) for name, part in module.named_children()}
    blocks = [sizes[f"block{letter}"] for letter in "ABCDE"]
    assert sizes["conv1"] + sizes["conv2"] == 10_208
    assert blocks == [57_552, 149_696, 391_584, 604_512, 392_928]
    assert sizes["output"] == 3_210


@pytest.mark.parametrize(
    ("name", "millions"),
    [
        *(("nasnet_a", 3.3), ("amoebanet_a", 3.1), ("darts", 3.3), ("efficientnet", 3.6)),
        *(("nasnet_a_small", 0.6), ("amoebanet_a_small", 0.5), ("darts_small", 0.6), ("efficientnet_small", 0.6)),
    ],
)
def test_networks_of_other_searches_have_the_printed_size(name: str, millions: float) -> None:
    [network] = [network for key, network in TABLE.items() if key.startswith(f"dpnas.{name}.cifar10.")]
    assert round(network.parameters / 1e6, 1) == millions  # the paper prints 3.2M for AmoebaNet


@pytest.mark.parametrize("depth", [16, 28])
@pytest.mark.parametrize("width", [1, 4])
def test_number_of_wrn_parameters_is_the_sum_over_layers(depth: int, width: int) -> None:
    def conv(channels: int, filters: int, size: int) -> int:
        return filters * (channels * size * size + 1)

    total, channels = conv(3, 16, 3), 16
    for stage in (16, 32, 64):
        filters = stage * width
        for block in range((depth - 4) // 6):
            total += 2 * channels + conv(channels, filters, 3)
            total += 2 * filters + conv(filters, filters, 3)
            if not block and (channels != filters or stage > 16):
                total += conv(channels, filters, 1)
            channels = filters
    total += 2 * channels + 10 * (channels + 1)
    description = {"name": "wrn", "inputs": [3, 32, 32], "outputs": 10}
    assert count({**description, "depth": depth, "width": width}) == total


def test_table_is_not_changed_through_a_returned_description() -> None:
    name = "bao.fcn.cifar10.19914"
    named()[name].description["hidden"].append(7)
    assert models.named()[name] == TABLE[name]
