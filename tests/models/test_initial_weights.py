"""Initial weights come from the generator that is handed over, and from nothing else."""

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
def test_same_generator_same_weights_and_the_next_draw_differs(name: str, make: object) -> None:
    first, again = make(5), make(5)  # type: ignore[operator]
    drawn = weights(name, first)
    assert torch.equal(drawn, weights(name, again))
    assert not torch.equal(drawn, weights(name, first))
    assert not torch.equal(drawn, weights(name, make(6)))  # type: ignore[operator]


def test_without_a_generator_the_global_seed_decides_nothing() -> None:
    torch.manual_seed(0)
    first = weights(NAMES[0])
    torch.manual_seed(0)
    assert not torch.equal(first, weights(NAMES[0]))


@pytest.mark.parametrize("rng", [None, np.random.default_rng(1)])
def test_building_leaves_the_global_generator_as_it_was(rng: np.random.Generator | None) -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    build(named()[NAMES[0]].description, rng)
    assert torch.equal(torch.rand(3), expected)


def test_linear_layers_begin_by_the_rule_of_pytorch() -> None:
    module = build({"name": "linear", "inputs": 10_000, "outputs": 10}, np.random.default_rng(2))
    weight = dict(module.named_parameters())["output.weight"]
    bound = 10_000**-0.5
    assert weight.abs().max() <= bound
    assert weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.01)


def test_convolutions_of_the_residual_networks_begin_by_the_rule_of_he() -> None:
    module = build({"name": "resnet", "inputs": [3, 32, 32], "outputs": 10}, Rng(seed=1))
    last = [p for p in module.parameters() if p.dim() == 4][-1]
    assert last.std().item() == pytest.approx((2 / (9 * 64)) ** 0.5, rel=0.02)
