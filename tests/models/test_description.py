"""A description is validated with one sentence and determines the module."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from privaware import registry
from privaware.errors import WrongInput
from privaware.models import ACTIVATIONS, POOLINGS, Description, build, count, parse

CELL = [5, 1, 5, 6, 1, 0, 5, 0, 0, 3, 5, 5, 6, 1, 6]
SMALLEST: dict[str, dict[str, Any]] = {
    "cnn": {"inputs": [1, 16, 16], "outputs": 3, "filters": [4], "hidden": [5]},
    "constant": {"outputs": 3},
    "dpnas": {"inputs": [1, 16, 16], "outputs": 3, "cell": CELL, "channels": [8], "squeeze": 8, "hidden": 4},
    "efficientnet": {"inputs": [1, 20, 20], "outputs": 3, "filters": [4] * 8},
    "fcn": {"inputs": 4, "hidden": [5], "outputs": 3},
    "inception": {"inputs": [1, 12, 12], "outputs": 3},
    "linear": {"inputs": 4, "outputs": 3},
    "lstm": {"words": 9, "length": 4, "embedding": 2, "units": 3, "hidden": [4], "outputs": 2},
    "multi_depth": {"inputs": [1, 8, 8], "outputs": 3, "depth": 10, "width": 1, "depths": [0, 2], "pools": [2, 1]},
    "nas_cells": {"inputs": [1, 8, 8], "outputs": 3, "cells": "darts", "channels": 2, "depth": 3},
    "resnet": {"inputs": [1, 8, 8], "outputs": 3, "depth": 8, "filters": [4, 4, 8]},
    "simple_cnn": {"inputs": [1, 8, 8], "outputs": 3, "filters": [4], "hidden": [5]},
    "tramer_boneh": {"inputs": [1, 8, 8], "outputs": 3, "layers": [[2, 3, 1, 1], ["pool", 2, 2]]},
    "trees": {"levels": [2, 3], "numbers": 1, "outputs": 3, "trees": 2, "depth": 2},
    "vgg": {"inputs": [1, 8, 8], "outputs": 3, "filters": [[2], [3, 3]], "hidden": [4]},
    "wrn": {"inputs": [1, 8, 8], "outputs": 3, "depth": 10, "width": 1},
}
CONVOLUTIONAL = [name for name, fields in SMALLEST.items() if isinstance(fields.get("inputs"), list)]


def smallest(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, **SMALLEST[name], **more}


def test_every_file_of_the_folder_is_a_family() -> None:
    assert sorted(SMALLEST) == registry.names("models")
    for name in SMALLEST:
        family = registry.find("models", name)
        assert issubclass(family, Description)
        assert family.name == name


@pytest.mark.parametrize("name", CONVOLUTIONAL)
def test_convolutional_families_accept_all_activations_and_pools(name: str) -> None:
    expected = {
        "relu": nn.ReLU,
        "relu6": nn.ReLU6,
        "leaky_relu": nn.LeakyReLU,
        "elu": nn.ELU,
        "selu": nn.SELU,
        "tanh": nn.Tanh,
        "hardtanh": nn.Hardtanh,
        "sigmoid": nn.Sigmoid,
        "silu": nn.SiLU,
    }
    rows = torch.randn(2, *SMALLEST[name]["inputs"])
    for activation in ACTIVATIONS:
        module = build(smallest(name, activation=activation), torch.Generator().manual_seed(1))
        kinds = {type(layer) for layer in module.modules()}
        assert expected.get(activation) in kinds or "Tempered" in {kind.__name__ for kind in kinds}
        assert module(rows).isfinite().all()
    if name == "cnn":
        fields = smallest(name, filters=[4, 4])
    else:
        fields = smallest(name)
    outputs = [
        build({**fields, "pooling": pooling}, torch.Generator().manual_seed(1)).eval()(rows) for pooling in POOLINGS
    ]
    assert not torch.equal(*outputs), "the two poolings give the same numbers"


def test_hidden_layers_may_differ_in_activation() -> None:
    module = build(smallest("fcn", hidden=[5, 6], activation=["tanh", "sigmoid"], dropout=0))
    kinds = [type(layer) for layer in module]
    assert kinds == [nn.Flatten, nn.Linear, nn.Tanh, nn.Linear, nn.Sigmoid, nn.Linear]


@pytest.mark.parametrize(
    "fields", [{"name": "linear"}, {"name": "tramer_boneh", "layers": [[4, 3, 1, 1]], "hidden": [3]}]
)
def test_groups_normalise_input_to_mean_zero_and_variance_one(fields: dict[str, Any]) -> None:
    shape = {**fields, "inputs": [6, 4, 4], "outputs": 2}
    plain = build(shape, torch.Generator().manual_seed(1))
    normed = build({**shape, "groups": 3}, torch.Generator().manual_seed(1))
    rows = 5 * torch.randn(3, 6, 4, 4) + 2
    grouped = rows.reshape(3, 3, 32)
    centred = grouped - grouped.mean(2, keepdim=True)
    scaled = centred / (centred.square().mean(2, keepdim=True) + 1e-5).sqrt()
    torch.testing.assert_close(normed(rows), plain(scaled.reshape(rows.shape)))
    assert not torch.allclose(normed(rows), plain(rows))


def test_dropout_is_placed_as_in_the_paper() -> None:
    fcn = build(smallest("fcn", hidden=[5, 6]))
    assert [(type(a), b.p) for a, b in pairwise(fcn) if isinstance(b, nn.Dropout)] == [(nn.ReLU, 0.2), (nn.ReLU, 0.2)]
    cnn = list(build(smallest("cnn")))
    assert isinstance(cnn[-2], nn.Dropout)
    assert cnn[-2].p == 0.3
    assert sum(isinstance(layer, nn.Dropout) for layer in cnn) == 1


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ("fcn", "dictionary"),
        ({}, "dictionary"),
        ({"name": 3}, "dictionary"),
        ({"name": "fnc", **SMALLEST["fcn"]}, "fcn"),
        (smallest("fcn", hiden=[3]), "hidden"),
        ({"name": "fcn", "inputs": 3}, "hidden and outputs"),
        (smallest("fcn", hidden=[0]), "hidden"),
        (smallest("fcn", hidden=5), "hidden"),
        (smallest("fcn", inputs=True), "inputs"),
        (smallest("fcn", inputs=2.5), "inputs"),
        (smallest("fcn", inputs="4"), "inputs"),
        (smallest("fcn", dropout=1.0), "dropout"),
        (smallest("fcn", dropout=float("nan")), "dropout"),
        (smallest("fcn", activation="swish"), "relu"),
        (smallest("fcn", activation=["relu", "relu"]), "1 hidden layers"),
        (smallest("fcn", activation=7), "activation"),
        (smallest("fcn", tempered=[1, 1, 1]), "left out"),
        (smallest("fcn", activation="tempered", tempered=[1, 1]), "scale, temperature"),
        (smallest("cnn", inputs=[1, 28]), "3 whole numbers"),
        (smallest("cnn", pooling="min"), "max, average"),
        (smallest("cnn", filters=[]), "filters"),
        (smallest("cnn", kernels=[5, 5]), "kernels"),
        (smallest("cnn", halve="yes"), "halve"),
        (smallest("cnn", inputs=[1, 4, 4]), "large enough"),
        (smallest("linear", groups=2), "groups"),
        (smallest("linear", inputs=[6, 2, 2], groups=4), "divides"),
        (smallest("simple_cnn", groups=3), "divides"),
        (smallest("simple_cnn", filters=[4] * 4), "large enough"),
        (smallest("resnet", depth=21), "20, 32"),
        (smallest("resnet", filters=[8, 4, 4]), "non-decreasing"),
        (smallest("wrn", depth=17), "16, 22"),
        (smallest("wrn", groups=3), "divides"),
        (smallest("wrn", stride=0), "stride"),
        (smallest("multi_depth", depths=[0, 1]), "end with 2"),
        (smallest("multi_depth", pools=[2]), "2 whole numbers"),
        (smallest("multi_depth", width=0), "width"),
        (smallest("inception", inputs=[1, 9, 9]), "10 x 10"),
        (smallest("vgg", filters=[64, 128]), "stages"),
        (smallest("tramer_boneh", layers=[[2, 3]]), "filters, kernel, stride, padding"),
        (smallest("tramer_boneh", layers=[["pool", 2]]), "pool"),
        (smallest("tramer_boneh", layers=[["pool", 9, 9]]), "large enough"),
        (smallest("dpnas", cell=CELL[:-1]), "15"),
        (smallest("dpnas", cell=[*CELL[:-1], 10]), "max_pool"),
        (smallest("dpnas", cell=[*CELL[:-1], "conv"]), "max_pool"),
        (smallest("dpnas", channels=[8] * 5), "halved"),
        (smallest("dpnas", groups=5), "divides"),
        (smallest("nas_cells", cells="enas"), "nasnet_a"),
        (smallest("nas_cells", inputs=[1, 10, 8]), "multiples of 4"),
        (smallest("nas_cells", inputs=[1, 8, 4]), "multiples of 4 from 8"),
        (smallest("nas_cells", depth=2), "depth"),
        (smallest("efficientnet", inputs=[1, 16, 16]), "two channels in a group"),
        (smallest("efficientnet", filters=[4] * 7), "8 whole numbers"),
        (smallest("lstm", words=0), "words"),
        (smallest("constant", outputs=0), "outputs"),
    ],
)
def test_invalid_description_is_refused_with_one_sentence(description: Any, expected: str) -> None:
    with pytest.raises(WrongInput) as error:
        parse(description)
    message = str(error.value)
    assert expected in message
    assert "\n" not in message
    assert ". " not in message


def test_invalid_generator_is_refused() -> None:
    with pytest.raises(WrongInput, match="numpy Generator"):
        build(smallest("linear"), 7)  # type: ignore[arg-type]


@settings(max_examples=50, deadline=None)
@given(
    inputs=st.integers(1, 50),
    hidden=st.lists(st.integers(1, 40), max_size=4),
    outputs=st.integers(1, 9),
    dropout=st.floats(0, 0.9),
)
def test_number_of_fcn_parameters_is_the_sum_over_layers(
    inputs: int, hidden: list[int], outputs: int, dropout: float
) -> None:
    description = {"name": "fcn", "inputs": inputs, "hidden": hidden, "outputs": outputs}
    widths = [inputs, *hidden, outputs]
    assert count({**description, "dropout": dropout}) == sum((a + 1) * b for a, b in pairwise(widths))


def run_layers(x: torch.Tensor, layers: list[Any]) -> torch.Tensor:
    for layer in layers:
        if layer[0] == "pool":
            x = nn.MaxPool2d(layer[1], layer[2])(x)
        else:
            x = nn.Conv2d(x.shape[1], *layer)(x)
    return x


@settings(max_examples=40, deadline=None)
@given(
    inputs=st.tuples(st.integers(1, 3), st.integers(6, 20), st.integers(6, 20)),
    layers=st.lists(
        st.one_of(
            st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 2), st.integers(0, 2)),
            st.tuples(st.just("pool"), st.integers(1, 3), st.integers(1, 2)),
        ),
        max_size=4,
    ),
    hidden=st.lists(st.integers(1, 6), max_size=2),
)
def test_conv_stack_is_accepted_exactly_if_it_runs(
    inputs: tuple[int, int, int], layers: list[Any], hidden: list[int]
) -> None:
    fields = {"inputs": inputs, "layers": layers, "hidden": hidden, "outputs": 2}
    try:
        model = parse({"name": "tramer_boneh", **fields})
    except WrongInput:
        with pytest.raises(RuntimeError):
            run_layers(torch.zeros(1, *inputs), layers)
        return
    assert parse(json.loads(json.dumps(model.describe()))) == model
    assert model.build()(torch.randn(2, *inputs)).shape == (2, 2)


def test_describing_models_does_not_import_torch() -> None:
    code = (
        "import sys; from privaware import models, registry;"
        "[models.parse(n.description).describe() for n in models.named().values()];"
        "[registry.card('models', name) for name in registry.names('models')];"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", SMALLEST)
def test_every_family_has_a_card(name: str) -> None:
    card = registry.card("models", name)
    assert "Privacy:" in card
    assert "Use when:" in card
    assert inspect.getdoc(registry.find("models", name))
