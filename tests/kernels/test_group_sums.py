"""Kernels that add sums of groups have the bits of the obvious operations in float64."""

from __future__ import annotations

import pytest
import torch

from privaware.descent._exact_sum import LATTICE_OFFSET, ExactSum, lattice_step
from privaware.descent._layers.weight_standardisation import _through_standardisation
from privaware.kernels import elementwise, group_sums

pytestmark = pytest.mark.cuda


@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("groups", [1, 2, 19])
def test_sums_on_a_gpu_are_those_on_a_cpu(groups: int, counts: bool) -> None:
    generator, width = torch.Generator().manual_seed(groups), 3001
    sums = torch.randn(3, groups, width + counts, generator=generator)
    sums[:, :, -1] = torch.randint(-9, 9, sums.shape[:2], generator=generator) / 2
    norms = torch.tensor([0.1, 1.0, 30.0])
    totals = [ExactSum(norms.to(device), width, counts=counts) for device in ("cpu", "cuda")]
    assert elementwise.fits(sums.cuda())
    for total in totals:
        total.start()
        for _ in range(2):
            total.add(sums.to(total.total.device))
    assert torch.equal(totals[0].value(), totals[1].value().cpu())


def test_halfway_sums_are_rounded_as_on_a_cpu() -> None:
    step = float(lattice_step(torch.ones(1), 4))
    halves = torch.tensor([[[0.5, 1.5, 2.5, -0.5], [0.5, -1.5, 3.5, 1e6 + 0.5]]]) * step
    total = torch.zeros(1, 4, dtype=torch.float64, device="cuda")
    offset = torch.full((1, 1), LATTICE_OFFSET * step, dtype=torch.float64, device="cuda")
    group_sums.add_on_lattice(halves.cuda(), total, offset, 4)
    assert torch.equal(total.cpu(), (halves.double() / step).round().sum(1) * step)


@pytest.mark.parametrize("shape", [(16, 3, 3, 3), (7, 130, 3, 3), (5, 1, 1, 1)])
@pytest.mark.parametrize("models", [1, 2])
def test_standardised_sums_are_those_of_the_slow_operations(models: int, shape: tuple[int, ...]) -> None:
    generator = torch.Generator("cuda").manual_seed(0)
    weight = torch.randn(models, *shape, generator=generator, device="cuda")
    centred = weight - weight.mean((2, 3, 4), keepdim=True)
    size = centred.square().sum((2, 3, 4), keepdim=True).sqrt() + 0.1
    gradients = torch.randn(3 * models, *shape, generator=generator, device="cuda") * 100
    memory = torch.ones(3 * models, gradients[0].numel() + 5, device="cuda")
    out = memory[:, 2:-3].view_as(gradients)
    group_sums.add_standardised(gradients, centred.contiguous(), size.flatten(), out)
    by_model = gradients.double().view(models, 3, *shape)
    expected = 1 + _through_standardisation(by_model, centred.double(), size.double()).view_as(gradients)
    torch.testing.assert_close(out.double(), expected, rtol=1e-6, atol=1e-6)
    assert (memory[:, :2] == 1).all()
    assert (memory[:, -3:] == 1).all()
