"""Pretraining of `amortised`: it learns, resumes exactly, and sums as the learner does."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from privaware.errors import WrongInput
from privaware.features._fourier import HARMONIC_WEIGHTS, LEVEL_WEIGHT
from privaware.learners._table_network import TableFacts, first_round
from research.pretraining import table_network
from research.pretraining.random_tables import RandomTables, TableShape
from research.pretraining.table_network import TablePretraining, TableRecipe, _Batch

RECIPE = TableRecipe(
    seed=1,
    width=16,
    blocks=1,
    heads=2,
    values=60_000,
    most_rows=12_000,
    tokens=3_000,
    tables=8,
    rows=(9, 9),
    columns=(2, 3),
    noise=(1e-4, 1e-3),
    lr=0.01,
    warmup=2,
)


def test_loss_falls_below_that_of_the_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_network, "HELD_OUT", 256)
    training = TablePretraining(RECIPE)
    losses = [float(training.step(step / 24)) for step in range(24)]
    assert abs(np.mean(losses[:2])) < 0.02
    assert np.mean(losses[-8:]) < -0.03


def test_interrupted_pretraining_resumes_exactly() -> None:
    first, through = TablePretraining(RECIPE), TablePretraining(RECIPE)
    first.step(0.0)
    resumed = TablePretraining(RECIPE)
    resumed.load(first.state())
    for step in range(2):
        through.step(step / 2)
    resumed.step(0.5)
    states = through.network.state_dict(), resumed.network.state_dict()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert through.tables == resumed.tables


def test_checkpoint_of_another_recipe_is_refused() -> None:
    state = TablePretraining(RECIPE).state() | {"recipe": {"seed": 7}}
    with pytest.raises(WrongInput, match="expected a checkpoint of"):
        TablePretraining(RECIPE).load(state)


def test_noise_of_pretraining_is_that_of_the_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weighted as they are released, all sums have the noise multiplier times the root of one more than the columns."""
    monkeypatch.setattr(table_network, "HELD_OUT", 8)
    shape = TableShape(tables=200, rows=40, columns=3, classes=2)
    g = torch.Generator().manual_seed(0)
    tables = RandomTables.generate(shape, g)
    batch = _Batch(tables, shape, torch.full((200,), 50.0), 2, g)
    noisy = batch._noisy([torch.zeros(200, 32)] * 2, 1.0)
    weights = torch.where(tables.ordered, math.sqrt(LEVEL_WEIGHT), 1.0)[:, None, :, None]
    expected = 50.0 * math.sqrt(2 * (3 + 1))
    assert float((noisy[0] * weights).std()) == pytest.approx(expected, rel=0.03)
    harmonics = noisy[1] * torch.tensor(HARMONIC_WEIGHTS).sqrt()
    assert float(harmonics[tables.ordered[:, None].expand(-1, 2, -1)].std()) == pytest.approx(expected, rel=0.05)
    assert float(noisy[2].std()) == pytest.approx(expected, rel=0.15)


def test_first_round_without_noise_has_the_residuals_of_shares() -> None:
    facts = TableFacts(
        exists=torch.tensor([[[True, True, False], [True, True, True]]]),
        ordered=torch.tensor([[True, False]]),
        with_missing=torch.tensor([[False, True]]),
        rows=torch.tensor([10.0]),
        scale=torch.tensor([1e-6]),
        classes=2,
    )
    counts = torch.tensor([[[[3.0, 1.0, 0.0], [2.0, 1.0, 1.0]], [[1.0, 5.0, 0.0], [2.0, 2.0, 2.0]]]])
    residuals = first_round(facts, counts, torch.zeros(1, 2, 2, 4), torch.tensor([[4.0, 6.0]]))
    assert residuals.shares.tolist() == [[pytest.approx(0.6)]]
    assert residuals.levels[0, 0, 0, :2].tolist() == pytest.approx([1 - 0.6 * 4, 5 - 0.6 * 6], abs=1e-4)
    assert residuals.counts[0, 1].tolist() == [4.0, 3.0, 3.0]
    assert residuals.total.tolist() == [[pytest.approx(0.0, abs=1e-4)]]
    assert facts.is_missing[0].tolist() == [[False] * 3, [False, False, True]]
