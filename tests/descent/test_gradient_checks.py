"""The probe finds rules that are wrong in the precision of the run."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from privaware.descent import _gradient_checks, clipped_sum, cross_entropy, low_rank
from privaware.descent._layers.convolution import ConvolutionGradient
from privaware.descent._precision import matmul_precision, tf32_allowed
from privaware.descent._probe import MAX_DRAWS, needs_materialising
from privaware.errors import Refused
from tests.descent.small_training import examples, recipe, train


@pytest.mark.parametrize("precision", ["float32", "tf32"])
def test_a_rule_wrong_in_the_precision_of_the_run_is_not_used(monkeypatch, precision):
    """TF32 kernels are probed too: with norms that are too small no gradient would be clipped enough."""
    exact = ConvolutionGradient.squared_norms

    def halved(self):
        return exact(self) / (4 if tf32_allowed() else 1)

    monkeypatch.setattr(ConvolutionGradient, "squared_norms", halved)
    module = nn.Sequential(nn.Conv2d(1, 2, 6), nn.Flatten())
    x, y = torch.rand(5, 1, 6, 6), torch.zeros(5, dtype=torch.long)
    with matmul_precision(precision):
        assert needs_materialising(module, cross_entropy, [x], y, "cpu") == (precision == "tf32")


def failing(monkeypatch, wrong, tf32):
    """`wrong` draws of synthetic examples fail in TF32 or in float32, for the fallback too."""
    plain, draws = _gradient_checks._agrees, []

    def agrees(case, *rest, **more):
        inputs = case.inputs[0]
        if tf32_allowed() != tf32:
            return plain(case, *rest, **more)
        if not any(torch.equal(inputs, other) for other in draws):
            draws.append(inputs)
        return not any(torch.equal(inputs, other) for other in draws[:wrong])

    monkeypatch.setattr(_gradient_checks, "_agrees", agrees)
    module, x, y = nn.Linear(4, 2), torch.zeros(5, 4), torch.zeros(5, dtype=torch.long)
    return draws, (module, cross_entropy, (x,), y, "cpu")


@pytest.mark.parametrize(("wrong", "refused"), [(1, False), (MAX_DRAWS, True)])
def test_one_draw_off_by_tf32_rounding_is_not_a_wrong_rule(monkeypatch, wrong, refused):
    draws, arguments = failing(monkeypatch, wrong, tf32=True)
    with matmul_precision("tf32"):
        if refused:
            with pytest.raises(Refused, match=r"TF32 products .* use precision='float32'"):
                needs_materialising(*arguments)
        else:
            assert needs_materialising(*arguments) is False
    assert len(draws) == (MAX_DRAWS if refused else 2)


@pytest.mark.parametrize(("wrong", "refused"), [(0, False), (1, False), (2, True)])
def test_in_float32_all_other_draws_must_agree(monkeypatch, wrong, refused):
    draws, arguments = failing(monkeypatch, wrong, tf32=False)
    if refused:
        with pytest.raises(Refused, match="cannot be computed; build"):
            needs_materialising(*arguments)
    else:
        assert needs_materialising(*arguments) is False
    assert len(draws) == (MAX_DRAWS if wrong == 1 else wrong + (not refused))


class Tempered(nn.Module):
    """A linear layer whose outputs are divided by a temperature, a trainable number without dimensions."""

    def __init__(self):
        super().__init__()
        self.inner, self.temperature = nn.Linear(4, 3), nn.Parameter(torch.tensor(2.0))

    def forward(self, inputs):
        return self.inner(inputs) / self.temperature


def test_parameters_without_dimensions_get_their_gradients():
    x, y = examples(6)
    module = Tempered()
    total, _ = clipped_sum(module, cross_entropy, x, y, 100.0)
    wanted = torch.autograd.grad(cross_entropy(module(x), y).sum(), list(module.parameters()))
    for name, gradient in zip(dict(module.named_parameters()), wanted, strict=True):
        torch.testing.assert_close(total[name], gradient, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("projection", [None, low_rank(rank=1)])
def test_parameters_without_dimensions_are_trained(projection):
    module = Tempered()
    after = train(recipe(projection=projection), module=module)
    assert after.temperature != module.temperature
