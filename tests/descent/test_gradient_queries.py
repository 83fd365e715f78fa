"""Gradient queries: clipped means at any network, as many as were priced."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from privaware import accounting
from privaware.descent import Descent, FullBatch, Poisson, flat, gradient_queries, sgd
from privaware.errors import Refused
from privaware.noise import Rng
from privaware.testing import Recorder
from privaware.testing._price import spent

INPUTS = torch.randn(30, 3, generator=torch.Generator().manual_seed(1))
TARGETS = torch.arange(30) % 2
NORM = 0.4


def recipe(steps: int, **more: Any) -> Descent:
    return Descent(**{"steps": steps, "sampler": FullBatch(), "clip": flat(NORM), "update": sgd(1.0), **more})


def network(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))


def clipped_mean(module: nn.Module, norm: float, rows: int) -> list[torch.Tensor]:
    """One example at a time, by autograd."""
    parameters = list(module.parameters())
    sums = [torch.zeros_like(parameter) for parameter in parameters]
    for x, y in zip(INPUTS, TARGETS, strict=True):
        gradients = torch.autograd.grad(nn.functional.cross_entropy(module(x[None]), y[None]), parameters)
        length = float(torch.cat([one.flatten() for one in gradients]).norm())
        for total, one in zip(sums, gradients, strict=True):
            total += one * min(1.0, norm / length)
    return [total / rows for total in sums]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_query_is_clipped_mean_at_its_network_over_public_count(device: str) -> None:
    declared = 40  # of which 30 are there: the divisor is the declared number
    facts: dict[str, Any] = {"noise": 0.0, "rows": declared, "rng": Rng(seed=0), "device": device}
    with gradient_queries(recipe(3), network(0), INPUTS, TARGETS, **facts) as query:
        for seed in (3, 4, 3):
            module = network(seed)
            expected = clipped_mean(module, NORM, declared)
            gradients = query(module)
            for one, (name, _) in zip(expected, module.named_parameters(), strict=True):
                torch.testing.assert_close(gradients[name].cpu(), one, rtol=1e-4, atol=1e-6)


def test_one_query_more_than_was_priced_is_refused() -> None:
    with gradient_queries(recipe(2), network(0), INPUTS, TARGETS, noise=1.0, rows=30, rng=Rng(seed=0)) as query:
        query(network(1))
        query(network(2))
        with pytest.raises(Refused, match="at most 2 gradient queries"):
            query(network(3))


def test_price_is_that_of_the_recorded_releases() -> None:
    recorder = Recorder(seed=1)
    sampled = recipe(5, sampler=Poisson(rate=0.3))
    with gradient_queries(sampled, network(0), INPUTS, TARGETS, noise=2.0, rows=30, rng=recorder) as query:
        for seed in range(5):
            query(network(seed))
    recorded = accounting.epsilon(spent(recorder.calls), 1e-5)
    assert recorded == pytest.approx(accounting.epsilon(sampled.cost(2.0), 1e-5), rel=1e-6)


def test_query_without_a_network_is_at_the_network_before() -> None:
    with gradient_queries(recipe(3), network(0), INPUTS, TARGETS, noise=0.0, rows=30, rng=Rng(seed=0)) as query:
        prepared, module = query(), network(3)
        given = query(module)
        nn.init.zeros_(module[0].weight)  # type: ignore[index, arg-type]
        again = query()
    for one, name in zip(clipped_mean(network(0), NORM, 30), prepared, strict=True):
        torch.testing.assert_close(prepared[name], one, rtol=1e-4, atol=1e-6)
        assert torch.equal(again[name], given[name])
        assert not torch.allclose(given[name], prepared[name])


class Shifted(nn.Module):
    """A layer behind a shift that the caller draws anew."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.shift: torch.Tensor
        self.register_buffer("shift", torch.zeros(3))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.layer(inputs + self.shift)


def test_buffers_of_the_network_are_those_of_the_query() -> None:
    module = Shifted()
    with gradient_queries(recipe(2), module, INPUTS, TARGETS, noise=0.0, rows=30, rng=Rng(seed=0)) as query:
        before = query(module)
        module.shift.fill_(0.7)
        after = query(module)
    for one, (name, _) in zip(clipped_mean(module, NORM, 30), module.named_parameters(), strict=True):
        torch.testing.assert_close(after[name], one, rtol=1e-4, atol=1e-6)
    assert not torch.allclose(before["layer.weight"], after["layer.weight"])


def test_network_that_mixes_rows_is_refused() -> None:
    mixing = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    with (
        pytest.raises(Refused, match="batch norm"),
        gradient_queries(recipe(1), mixing, INPUTS, TARGETS, noise=1.0, rows=30, rng=Rng(seed=0)),
    ):
        pass
