"""Gradient matching: the distance, and synthetic examples that follow the gradients they are shown."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from privaware.learners._networks.condensation import Condensation, matching_loss

SHAPES = [(4, 3, 3, 3), (4,), (2, 8), (2,)]
ROWS = 4 + 2  # output units of the two weights


def gradients(seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator) for shape in SHAPES]


def test_distance_counts_output_units_from_0_to_2_each() -> None:
    one = gradients(1)
    assert float(matching_loss(one, one)) == pytest.approx(0, abs=1e-4)
    assert float(matching_loss(one, [-part for part in one])) == pytest.approx(2 * ROWS, abs=1e-4)


def test_distance_ignores_scale_and_biases() -> None:
    one, two = gradients(1), gradients(2)
    scaled = [1e3 * part for part in two]
    assert float(matching_loss(one, scaled)) == pytest.approx(float(matching_loss(one, two)), rel=1e-4)
    moved = [part + (part.ndim == 1) for part in two]
    assert float(matching_loss(one, moved)) == float(matching_loss(one, two))


def test_distance_has_a_finite_gradient_where_a_unit_has_none() -> None:
    one, two = gradients(1), gradients(2)
    for side in (one, two):
        side[0][1] = 0.0
    one = [part.requires_grad_() for part in one]
    moves = torch.autograd.grad(matching_loss(one, two), one[::2])
    assert all(bool(torch.isfinite(move).all()) for move in moves)


def test_condensation_asks_for_its_stated_number_of_gradients() -> None:
    plan = Condensation(networks=3, rounds=2, queries=4, inner=5, lr=0.1, momentum=0.5, network_lr=0.1)
    asked: list[Tensor] = []

    def query(network: nn.Module) -> dict[str, Tensor]:
        asked.append(torch.cat([value.detach().flatten() for value in network.parameters()]))
        return {name: torch.ones_like(value) for name, value in network.named_parameters()}

    torch.manual_seed(0)
    labels = torch.tensor([0, 0, 1, 1])
    plan.run(query, lambda: nn.Linear(3, 2), labels, (3,), np.random.default_rng(0))
    assert len(asked) == plan.steps == 24
    changes = [at for at in range(1, 24) if not torch.equal(asked[at], asked[at - 1])]
    assert changes == [4, 8, 12, 16, 20]  # after each round: taught, new, taught, ...


def test_synthetic_examples_approach_the_shown_gradient() -> None:
    torch.manual_seed(0)
    network, labels = nn.Linear(6, 2), torch.tensor([0, 1])
    shown = torch.randn(1, 6) * torch.tensor([[1.0], [-1.0]])  # as two classes have it
    plan = Condensation(networks=1, rounds=1, queries=200, inner=1, lr=0.5, momentum=0.5, network_lr=0.1)

    def query(module: nn.Module) -> dict[str, Tensor]:
        return {"weight": shown, "bias": torch.zeros(2)}

    examples = plan.run(query, lambda: network, labels, (6,), np.random.default_rng(0))
    initial = torch.from_numpy(np.random.default_rng(0).standard_normal((2, 6)).astype(np.float32))

    def distance(rows: Tensor) -> float:
        loss = functional.cross_entropy(network(rows), labels)
        return float(matching_loss(torch.autograd.grad(loss, [network.weight]), [shown]))

    assert distance(examples) < 0.2 * distance(initial)
