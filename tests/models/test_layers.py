"""The layers that PyTorch lacks agree with slow references."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from privaware.models import LSTM, Constant, StandardisedConv2d, build
from privaware.models._layers import SqueezeExcitation, Tempered

SIZES = st.integers(1, 5)


def normal(*shape: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


@settings(max_examples=30, deadline=None)
@given(rows=SIZES, steps=SIZES, inputs=SIZES, units=SIZES, seed=st.integers(0, 99))
def test_lstm_agrees_with_pytorch_with_one_bias(rows: int, steps: int, inputs: int, units: int, seed: int) -> None:
    ours = LSTM(inputs, units).double()
    theirs = nn.LSTM(inputs, units, batch_first=True).double()
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(ours.weight_ih)
        theirs.weight_hh_l0.copy_(ours.weight_hh)
        theirs.bias_ih_l0.copy_(ours.bias)
        theirs.bias_hh_l0.zero_()
    x = normal(rows, steps, inputs, seed=seed)
    torch.testing.assert_close(ours(x), theirs(x)[0])
    extra = sum(p.numel() for p in theirs.parameters()) - sum(p.numel() for p in ours.parameters())
    assert extra == 4 * units


@settings(max_examples=20, deadline=None)
@given(rows=SIZES, steps=SIZES, inputs=SIZES, units=SIZES, seed=st.integers(0, 99))
def test_lstm_probe_gives_per_example_gradients(rows: int, steps: int, inputs: int, units: int, seed: int) -> None:
    layer = LSTM(inputs, units).double()
    x = normal(rows, steps, inputs, seed=seed)
    weight = normal(rows, steps, units, seed=seed + 1)
    probe = torch.zeros(rows, steps, 4 * units, dtype=torch.float64, requires_grad=True)
    states = layer(x, probe)
    (dz,) = torch.autograd.grad((states * weight).sum(), probe)
    before = functional.pad(states.detach(), (0, 0, 1, 0))[:, :-1]
    rule = {
        "weight_ih": torch.einsum("rtz,rti->rzi", dz, x),
        "weight_hh": torch.einsum("rtz,rtu->rzu", dz, before),
        "bias": dz.sum(1),
    }
    for row in range(rows):
        layer.zero_grad()
        (layer(x[row : row + 1]) * weight[row]).sum().backward()
        for name, parameter in layer.named_parameters():
            assert parameter.grad is not None
            torch.testing.assert_close(rule[name][row], parameter.grad)


@settings(max_examples=20, deadline=None)
@given(channels=st.integers(1, 4), filters=st.integers(1, 4), size=st.integers(1, 3), scale=st.floats(0.5, 20))
def test_standardised_filters_are_invariant_to_scale_and_offset(
    channels: int, filters: int, size: int, scale: float
) -> None:
    layer = StandardisedConv2d(channels, filters, size).double()
    with torch.no_grad():
        layer.weight.copy_(normal(*layer.weight.shape, seed=1) * 1e3)
    used = layer.standardised()
    torch.testing.assert_close(used.mean((1, 2, 3)), torch.zeros(filters).double())
    with torch.no_grad():
        layer.weight.mul_(scale).add_(1.0)
    torch.testing.assert_close(layer.standardised(), used, rtol=1e-5, atol=1e-7)
    fan_in = channels * size * size
    if fan_in > 1:
        expected = torch.full((filters,), (fan_in - 1) / fan_in).double().sqrt()
        torch.testing.assert_close(used.flatten(1).norm(dim=1), expected, rtol=1e-5, atol=1e-7)


def test_standardised_convolution_is_not_a_conv2d() -> None:
    assert not issubclass(StandardisedConv2d, nn.Conv2d)


@pytest.mark.parametrize(("stride", "padding"), [(1, 1), (2, 0), (2, 1)])
def test_standardised_convolution_uses_its_standardised_filters(stride: int, padding: int) -> None:
    layer = StandardisedConv2d(3, 4, 3, stride, padding).double()
    x = normal(2, 3, 7, 6, seed=0)
    expected = functional.conv2d(x, layer.standardised(), layer.bias, stride, padding)
    torch.testing.assert_close(layer(x), expected)


def test_tempered_sigmoid_includes_tanh_and_sigmoid() -> None:
    x = torch.linspace(-8, 8, 101)
    torch.testing.assert_close(Tempered(2, 2, 1)(x), torch.tanh(x), rtol=0, atol=1e-6)
    torch.testing.assert_close(Tempered(1, 1, 0)(x), torch.sigmoid(x))
    description = {"name": "fcn", "inputs": 4, "hidden": [3], "outputs": 2}
    module = build({**description, "activation": "tempered", "tempered": [1.58, 3, 0.71]})
    steepest = torch.zeros(1, requires_grad=True)
    module.dense1_activation(steepest).backward()
    assert steepest.grad is not None
    assert steepest.grad.item() == pytest.approx(1.58 * 3 / 4)


def test_constant_outputs_its_value_and_has_a_gradient() -> None:
    module = Constant(3)
    rows = torch.randn(4, 2)
    assert torch.equal(module(rows), torch.zeros(4, 3))
    (module(rows) * torch.arange(12.0).reshape(4, 3)).sum().backward()
    assert module.value.grad.tolist() == [18.0, 22.0, 26.0]


def test_squeeze_and_excitation_scales_channels_by_their_means() -> None:
    layer, x = SqueezeExcitation(3, 2, nn.SiLU()).double(), normal(2, 3, 4, 5, seed=1)
    squeeze, excite = (part for part in layer.modules() if isinstance(part, nn.Conv2d))
    units = functional.silu(x.mean((2, 3)) @ squeeze.weight[:, :, 0, 0].T + squeeze.bias)
    gates = torch.sigmoid(units @ excite.weight[:, :, 0, 0].T + excite.bias)
    torch.testing.assert_close(layer(x), x * gates[:, :, None, None])
