"""Models of one population trained on parts of the examples: as each alone on its own part."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from privaware.descent import Descent, FullBatch, Member, Poisson, flat, sgd
from privaware.descent._subsets import Subsets
from privaware.errors import WrongInput
from privaware.noise import Rng

EXAMPLES = 40


def examples() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(EXAMPLES, 3, generator=generator)
    return x, (x[:, 0] > 0).long()


def net() -> nn.Module:
    torch.manual_seed(1)
    return nn.Linear(3, 2)


def parts() -> list[np.ndarray]:
    rng = np.random.default_rng(2)
    return [rng.permutation(EXAMPLES)[:20], rng.permutation(EXAMPLES)[:13], np.array([], dtype=np.int64)]


def test_each_model_is_trained_on_its_own_subset() -> None:
    """Full batches without noise: exactly what the model alone does with its own examples."""
    x, y = examples()
    descent = Descent(steps=3, sampler=FullBatch(), clip=flat(0.5), update=sgd(0.3))
    population = [Member(net(), 0.0, subset=part) for part in parts()]
    together = descent.run_population(population, x, y, rows=20, rng=Rng(0))
    for part, model in zip(parts(), together, strict=True):
        alone = descent.run(net(), x[part], y[part], noise=0.0, rows=20, rng=Rng(1))
        assert torch.allclose(model.weight, alone.weight, atol=1e-6)  # type: ignore[arg-type]


def test_sampled_examples_come_from_the_subset_at_the_rate() -> None:
    """An example outside has a gradient in a coordinate of its own, which no other model may move."""
    x = torch.eye(EXAMPLES)
    y = torch.zeros(EXAMPLES, dtype=torch.long)
    subsets = [np.arange(0, EXAMPLES, 2), np.arange(5)]
    descent = Descent(steps=200, sampler=Poisson(rate=0.3), clip=flat(1e-3), update=sgd(1.0))
    torch.manual_seed(0)
    zero = nn.Linear(EXAMPLES, 2, bias=False)
    nn.init.zeros_(zero.weight)
    trained = descent.run_population([Member(zero, 0.0, subset=part) for part in subsets], x, y, rows=20, rng=Rng(3))
    for part, model in zip(subsets, trained, strict=True):
        moved = model.weight.detach().abs().sum(0).numpy()  # type: ignore[operator]
        assert set(np.flatnonzero(moved)) == set(part)
        visits = moved[part] / (np.sqrt(2) * 1e-3 / 6)
        assert visits.min() > 40
        assert visits.max() < 80


def test_places_beyond_a_models_own_subset_are_not_valid() -> None:
    subsets = Subsets.of([np.array([4, 7, 9]), np.array([2])], examples=10)
    assert subsets is not None
    index, valid = subsets.within(np.array([[0, 2], [0, 1]]), np.array([[True, True], [True, True]]))
    assert index[valid].tolist() == [4, 9, 2]
    assert valid.tolist() == [[True, True], [True, False]]


@pytest.mark.parametrize("wrong", [[0, 0], [0, EXAMPLES], [-1]])
def test_subset_of_repeated_or_unknown_examples_is_refused(wrong: list[int]) -> None:
    with pytest.raises(WrongInput, match="distinct positions of 40 examples"):
        Subsets.of([np.array(wrong)], EXAMPLES)


@pytest.mark.cuda
@pytest.mark.parametrize("overflow", [0.0, 1e-10])
def test_captured_steps_sample_from_the_subset(overflow: float) -> None:
    x = torch.eye(EXAMPLES)
    y = torch.zeros(EXAMPLES, dtype=torch.long)
    subsets = [np.arange(0, EXAMPLES, 2), np.arange(5)]
    descent = Descent(steps=50, sampler=Poisson(rate=0.3), clip=flat(1e-3), update=sgd(1.0), overflow=overflow)
    population = [Member(nn.Linear(EXAMPLES, 2, bias=False), 0.0, subset=part) for part in subsets]
    before = [member.module.weight.detach().clone() for member in population]  # type: ignore[union-attr, operator]
    trained = descent.run_population(population, x, y, rows=20, rng=Rng(3), device="cuda")
    for part, model, start in zip(subsets, trained, before, strict=True):
        moved = (model.weight.detach().cpu() - start).abs().sum(0).numpy()  # type: ignore[operator]
        assert set(np.flatnonzero(moved > 1e-6)) == set(part)
