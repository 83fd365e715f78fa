"""Initial weights are a function of the generator only."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from privaware.models import build, named
from privaware.noise import Rng

NAMES = [
    "bao.fcn.cifar10.19914",
    "bao.cnn.mnist.56970",
    "bao.lstm.sms.50994",
    "dpmlbench.resnet20.grey.268058",
    "dpnas.small.mnist.30106",
    "wrn.16_4.colour.2751146",
]


def weights(name: str, rng: object = None) -> torch.Tensor:
    module = build(named()[name].description, rng)  # type: ignore[arg-type]
    return torch.cat([p.detach().flatten() for p in module.parameters()])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("make", [np.random.default_rng, lambda seed: torch.Generator().manual_seed(seed), Rng])
def test_weights_are_a_function_of_the_generator_state(name: str, make: object) -> None:
    first, again = make(5), make(5)  # type: ignore[operator]
    initial = weights(name, first)
    assert torch.equal(initial, weights(name, again))
    assert not torch.equal(initial, weights(name, first))
    assert not torch.equal(initial, weights(name, make(6)))  # type: ignore[operator]


def test_global_seed_has_no_effect_without_a_generator() -> None:
    torch.manual_seed(0)
    first = weights(NAMES[0])
    torch.manual_seed(0)
    assert not torch.equal(first, weights(NAMES[0]))


@pytest.mark.parametrize("rng", [None, np.random.default_rng(1)])
def test_building_restores_the_global_generator(rng: np.random.Generator | None) -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    build(named()[NAMES[0]].description, rng)
    assert torch.equal(torch.rand(3), expected)


def test_linear_layers_are_initialised_as_in_pytorch() -> None:
    module = build({"name": "linear", "inputs": 10_000, "outputs": 10}, np.random.default_rng(2))
    weight = dict(module.named_parameters())["output.weight"]
    bound = 10_000**-0.5
    assert weight.abs().max() <= bound
    assert weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.01)


def test_resnet_convolutions_are_initialised_as_by_he() -> None:
    module = build({"name": "resnet", "inputs": [3, 32, 32], "outputs": 10}, Rng(seed=1))
    last = [p for p in module.parameters() if p.dim() == 4][-1]
    assert last.std().item() == pytest.approx((2 / (9 * 64)) ** 0.5, rel=0.02)


@pytest.mark.parametrize(("activation", "gain"), [("relu", 2**0.5), ("tanh", 5 / 3)])
def test_vgg_convolutions_are_initialised_for_their_activation(activation: str, gain: float) -> None:
    """The public code keeps the initial weights of ReLU for tanh."""
    small = {"filters": [[64], [64]], "hidden": [8], "activation": activation}
    module = build({"name": "vgg", "inputs": [3, 32, 32], "outputs": 10, **small}, Rng(seed=1))
    last = [p for p in module.parameters() if p.dim() == 4][-1]
    assert last.std().item() == pytest.approx(gain / (9 * 64) ** 0.5, rel=0.02)
