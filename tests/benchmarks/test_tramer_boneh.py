"""The stacked linear models of the benchmark are the engine's, and its normalisation is the library's."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from benchmarks._stacked import MARGIN, Stacked, accuracies, poisson, shuffled
from privaware.data import Data
from privaware.descent import Descent, FullBatch, flat, momentum
from privaware.noise import Rng
from privaware.schema import Schema

PRICES = Path(__file__).parents[2] / "benchmarks" / "tramer_boneh_prices.json"


def rows(count: int = 40, kinds: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    made = torch.Generator().manual_seed(3)
    x = torch.randn(kinds, count, 6, generator=made)
    return x, torch.randint(3, (count,), generator=made)


def every_row(count: int):
    while True:
        yield torch.arange(count)


def test_each_model_of_a_stack_is_the_engines() -> None:
    x, y = rows()
    net = nn.Linear(6, 3)
    steps, rates = (3, 3, 7), [[0.5, 2.0, 1.0], [1.0, 0.25, 4.0]]
    stack = Stacked(steps=steps, lr=torch.tensor(rates), noise=torch.zeros(2, 3), divisor=40.0, norm=0.4, classes=3)
    start = (net.weight.detach(), net.bias.detach())
    weights, biases = stack.run(x, y, every_row(40), Rng(seed=1), start)
    for kind in range(2):
        for member in range(3):
            engine = Descent(
                steps=steps[member],
                sampler=FullBatch(),
                clip=flat(0.4 * MARGIN),
                update=momentum(rates[kind][member], 0.9),
            )
            wanted = engine.run(net, x[kind], y, noise=0.0, rows=40, rng=Rng(seed=1))
            torch.testing.assert_close(weights[kind, member], wanted.weight.detach())
            torch.testing.assert_close(biases[kind, member], wanted.bias.detach())
            with torch.no_grad():
                score = (wanted(x[kind]).argmax(1) == y).float().mean()
            assert accuracies(weights, biases, x, y)[kind, member] == score


def test_noise_of_a_stack_has_each_models_own_scale() -> None:
    x = torch.zeros(1, 4, 5000)
    stack = Stacked(steps=(1, 1), lr=torch.ones(1, 2), noise=torch.tensor([[2.0, 6.0]]), divisor=8.0, bound=0.1)
    start = (torch.zeros(10, 5000), torch.zeros(10))
    y = torch.zeros(4, dtype=torch.int64)
    weights, _ = stack.run(x, y, every_row(4), Rng(seed=2), start)
    assert weights.std(dim=(0, 2, 3)).tolist() == pytest.approx([0.025, 0.075], rel=0.02)


def test_samples_have_their_law() -> None:
    drawn = poisson(1000, 0.1, Rng(seed=4), "cpu")
    sizes = [len(next(drawn)) for _ in range(200)]
    assert np.mean(sizes) == pytest.approx(100, rel=0.03)
    assert np.std(sizes) == pytest.approx(np.sqrt(90), rel=0.2)
    epoch = shuffled(10, 4, Rng(seed=4), "cpu")
    assert len(set(torch.cat([next(epoch), next(epoch)]).tolist())) == 8


def test_private_statistics_are_those_of_normalise() -> None:
    from benchmarks._tramer_boneh_features import statistics
    from privaware.selectors.normalise import Normalise

    made = np.random.default_rng(5).random((50, 3, 4, 4), np.float32)
    schema = Schema(classes=("a", "b"), rows=50, form="image", shape=(3, 4, 4))
    data = Data(schema=schema, x=made, y=np.zeros(50, np.int64))
    wanted = Normalise(means=0.5, squares=0.3).run(data, noise=2.0, rng=Rng(seed=6))
    mean, variance, level = statistics(torch.from_numpy(made), (0.5, 0.3), 2.0, Rng(seed=6))
    deviation = variance.clamp_min(level).sqrt()
    assert mean[:, 0, 0].tolist() == pytest.approx(wanted.mean, rel=1e-5)
    assert deviation[:, 0, 0].tolist() == pytest.approx(wanted.deviation, rel=1e-5)
    assert level == pytest.approx(2.0 * 0.3 / 50)


def test_stored_noise_costs_what_the_paper_says() -> None:
    from benchmarks.tramer_boneh_prices import classic

    stored = json.loads(PRICES.read_text())
    assert len(stored["grid"]) == 108
    for key in ("60000 4096 40 8", "60000 512 15 0", "50000 8192 60 8", "50000 16384 120 6"):
        count, batch, epochs, norm = map(int, key.split())
        facts = {"rate": batch / count, "steps": epochs * (count // batch), "norm": norm}
        price = classic(stored["grid"][key], **facts)
        assert 2.99 <= price <= 3
