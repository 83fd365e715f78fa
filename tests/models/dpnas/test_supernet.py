"""The supernet of DPNAS: a sampled cell is its stand-alone network, and only it is computed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from privaware.descent import clipped_sum, cross_entropy, flat
from privaware.descent._accumulate import Batch, accumulate
from privaware.descent._layers.rules import stacked
from privaware.models import build
from privaware.models._description import seeded
from privaware.models._dpnas.supernet import Supernet
from privaware.models.dpnas import OPERATIONS, Dpnas

MACRO = Dpnas(inputs=(1, 8, 8), outputs=3, cell=("zero",) * 6, channels=(8, 16), squeeze=8, hidden=4)


def random_cell(seed: int, edges: int = 6) -> tuple[str, ...]:
    return tuple(np.random.default_rng(seed).choice(OPERATIONS, edges).tolist())


@pytest.fixture(scope="module")
def supernet() -> Supernet:
    with seeded(np.random.default_rng(5)):
        return Supernet(MACRO)


@pytest.fixture(scope="module")
def rows() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(7, 1, 8, 8, generator=generator), torch.arange(7) % 3


@pytest.mark.parametrize("seed", range(6))
def test_sampled_cell_equals_the_stand_alone_network(
    supernet: Supernet, rows: tuple[Tensor, Tensor], seed: int
) -> None:
    cell = random_cell(seed)
    supernet.cell = cell
    shared = supernet.network(cell)
    plain = build({**MACRO.describe(), "cell": list(cell)})
    plain.load_state_dict(shared.state_dict())
    torch.testing.assert_close(supernet(rows[0]), plain(rows[0]))


def test_only_operations_of_the_cell_run(supernet: Supernet, rows: tuple[Tensor, Tensor]) -> None:
    cell, ran = random_cell(1), []
    hooks = [
        layer.register_forward_pre_hook(lambda module, _: ran.append(id(module)))
        for layer in supernet.modules()
        if isinstance(layer, nn.Conv2d)
    ]
    supernet.cell = cell
    supernet(rows[0])
    for hook in hooks:
        hook.remove()
    expected = {id(m) for m in supernet.network(cell).modules() if isinstance(m, nn.Conv2d)}
    assert set(ran) == expected
    assert len(ran) == len(expected)


def reference(module: nn.Module, rows: tuple[Tensor, Tensor], norm: float) -> dict[str, Tensor]:
    """The sum of gradients by autograd, one example at a time, each clipped to `norm`."""
    named = dict(module.named_parameters())
    total = {name: torch.zeros_like(p) for name, p in named.items()}
    for x, y in zip(*rows, strict=True):
        loss = cross_entropy(module(x[None]), y[None])[0]
        gradients = torch.autograd.grad(loss, list(named.values()), materialize_grads=True)
        size = torch.sqrt(sum(g.square().sum() for g in gradients))
        for name, g in zip(named, gradients, strict=True):
            total[name] += g * min(1.0, norm / float(size))
    return total


@pytest.mark.parametrize("seed", [1, 4])
def test_clipped_sum_of_shared_weights_agrees_with_autograd(
    supernet: Supernet, rows: tuple[Tensor, Tensor], seed: int
) -> None:
    shared = supernet.network(random_cell(seed))
    sums, norms = clipped_sum(shared, cross_entropy, *rows, clipping_norm=0.7)
    assert float(norms.max()) > 0.7  # something is clipped
    for name, expected in reference(shared, rows, 0.7).items():
        torch.testing.assert_close(sums[name], expected, rtol=1e-4, atol=1e-5)


def test_operations_outside_the_cell_have_no_gradient(supernet: Supernet, rows: tuple[Tensor, Tensor]) -> None:
    cell = random_cell(2)
    stack = stacked([supernet])
    stack.module.cell = cell
    total = torch.zeros_like(stack.theta)
    squares = accumulate(stack, cross_entropy, Batch((rows[0],), rows[1], 7), flat(0.5), 0.5, total)
    sums, norms = clipped_sum(supernet.network(cell), cross_entropy, *rows, clipping_norm=0.5)
    torch.testing.assert_close(squares[:, 0].sqrt(), norms)
    summed = {segment.name: stack.view(total, segment)[0] for segment in stack.segments}
    inside = {name for name, edge in supernet.parameter_edges().items() if edge is None or cell[edge[0]] == edge[1]}
    assert all(bool((summed[name] == 0).all()) for name in summed.keys() - inside)
    sizes = sorted(float(summed[name].norm()) for name in inside)
    np.testing.assert_allclose(sizes, sorted(float(s.norm()) for s in sums.values()), rtol=1e-4)
