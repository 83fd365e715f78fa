"""Gradient matching: the distance, and synthetic examples that follow the gradients they are shown."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from privaware import models
from privaware.descent._precision import matmul_precision, repeatable_convolutions
from privaware.learners._networks import condensation
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

    def query(network: nn.Module | None = None) -> dict[str, Tensor]:
        if network is None:
            asked.append(asked[-1])
        else:
            asked.append(torch.cat([value.detach().flatten() for value in network.parameters()]))
        return {"weight": torch.ones(2, 3), "bias": torch.ones(2)}

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

    def query(module: nn.Module | None = None) -> dict[str, Tensor]:
        return {"weight": shown, "bias": torch.zeros(2)}

    examples = plan.run(query, lambda: network, labels, (6,), np.random.default_rng(0))
    initial = torch.from_numpy(np.random.default_rng(0).standard_normal((2, 6)).astype(np.float32))

    def distance(rows: Tensor) -> float:
        loss = functional.cross_entropy(network(rows), labels)
        return float(matching_loss(torch.autograd.grad(loss, [network.weight]), [shown]))

    assert distance(examples) < 0.2 * distance(initial)


CONVOLUTIONS = {"name": "simple_cnn", "filters": [8, 8], "hidden": [], "groups": 8, "pooling": "average"}
PLAN = Condensation(networks=2, rounds=3, queries=2, inner=2, lr=0.1, momentum=0.5, network_lr=0.1)


def random_network(generator: np.random.Generator) -> nn.Module:
    network: nn.Module = models.build({**CONVOLUTIONS, "inputs": [1, 9, 9], "outputs": 2}, generator)
    return network


class Answers:
    """A query with other gradients at each call, which depend on the network."""

    network: nn.Module
    calls = 0

    def __call__(self, network: nn.Module | None = None) -> dict[str, Tensor]:
        self.network = network or self.network
        self.calls += 1
        named = self.network.named_parameters()
        return {name: torch.cos(5 * self.calls * value.detach()) for name, value in named}


def condensed(device: str = "cpu") -> Tensor:
    generator = np.random.default_rng(1)
    labels = torch.tensor([0, 0, 1, 1], device=device)
    with repeatable_convolutions(), matmul_precision("float32"):
        return PLAN.run(Answers(), lambda: random_network(generator).to(device), labels, (1, 9, 9), generator).cpu()


def reference() -> Tensor:
    """The same with optimisers of PyTorch, step by step."""
    generator, query, labels = np.random.default_rng(1), Answers(), torch.tensor([0, 0, 1, 1])
    examples = torch.from_numpy(generator.standard_normal((4, 1, 9, 9)).astype(np.float32)).requires_grad_()
    optimiser = torch.optim.SGD([examples], lr=PLAN.lr, momentum=PLAN.momentum)
    for _ in range(PLAN.networks):
        network = random_network(generator)
        weights = {name: value for name, value in network.named_parameters() if value.ndim > 1}
        for turn in range(PLAN.rounds):
            for _ in range(PLAN.queries):
                private = query(network)
                loss = functional.cross_entropy(network(examples), labels)
                own = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
                distance = matching_loss(own, [private[name] for name in weights])
                (examples.grad,) = torch.autograd.grad(distance, [examples])
                optimiser.step()
            taught = torch.optim.SGD(network.parameters(), lr=PLAN.network_lr)
            for _ in range(PLAN.inner if turn + 1 < PLAN.rounds else 0):
                order = torch.arange(4)
                if condensation.NETWORK_BATCH < 4:
                    order = torch.from_numpy(generator.permutation(4))
                for batch in order.split(condensation.NETWORK_BATCH):
                    taught.zero_grad()
                    functional.cross_entropy(network(examples.detach()[batch]), labels[batch]).backward()
                    taught.step()
    return examples.detach()


@pytest.mark.parametrize("batch", [256, 3])
def test_condensation_is_descent_by_optimisers(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(condensation, "NETWORK_BATCH", batch)
    torch.testing.assert_close(condensed(), reference(), rtol=1e-4, atol=1e-4)


@pytest.mark.cuda
@pytest.mark.parametrize("batch", [256, 3])
def test_captured_steps_are_eager_steps(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(condensation, "NETWORK_BATCH", batch)
    captured = condensed("cuda")
    assert torch.equal(condensed("cuda"), captured)
    monkeypatch.setattr(condensation, "captured", lambda step, changed, generator: step)
    torch.testing.assert_close(condensed("cuda"), captured, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(condensed(), captured, rtol=1e-2, atol=1e-2)
