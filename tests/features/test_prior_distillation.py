"""Distillation: the student learns its teacher's features, and an interrupted run resumes exactly."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from privaware.errors import WrongInput
from privaware.features._prior_distillation import Distillation, DistillationRecipe

TINY = {"images": 16, "size": 24, "generators": 1, "each": 4, "width": 1, "stride": 8, "pools": (2, 1, 1)}
RECIPE = DistillationRecipe(seed=1, batch=8, lr=0.02, warmup=1, **TINY)  # type: ignore[arg-type]


def teacher(views: torch.Tensor) -> torch.Tensor:
    """Twelve numbers of a view: its quarters in each colour."""
    return functional.adaptive_avg_pool2d(views, 2).flatten(1)


def student() -> Distillation:
    return Distillation(RECIPE, teacher, 12)


def test_student_learns_the_features_of_its_teacher() -> None:
    training = student()
    losses = [float(training.step(step / 40)) for step in range(40)]
    assert losses[0] == pytest.approx(1.0, abs=1e-4)  # a prediction of zero
    assert sum(losses[-5:]) / 5 < 0.7


def test_interrupted_distillation_resumes_exactly() -> None:
    first, through = student(), student()
    for step in range(2):
        first.step(step / 4)
    resumed = student()
    resumed.load(first.state())
    for step in range(4):
        through.step(step / 4)
        if step >= 2:
            resumed.step(step / 4)
    states = through.modules.state_dict(), resumed.modules.state_dict()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_checkpoint_of_another_recipe_is_refused() -> None:
    state = student().state() | {"recipe": {"seed": 7}}
    with pytest.raises(WrongInput, match="expected a checkpoint of"):
        student().load(state)
