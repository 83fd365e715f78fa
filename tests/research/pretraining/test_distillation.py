"""Distillation: the student learns its teacher's features, norms fold away, an interrupted run resumes exactly."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.nn import functional

from privaware.errors import WrongInput
from privaware.features._prior.student import StudentShape, load_student
from research.pretraining.distillation import Distillation, DistillationRecipe, folded
from research.pretraining.weights_files import save_student

SHAPE = StudentShape(widths=(8, 8), blocks=(1, 2), pools=(2, 1), hidden=16, columns=6)
RECIPE = DistillationRecipe(
    seed=1, views=64, axes=64, size=24, generators=1, each=16, batch=16, lr=0.01, warmup=1, shape=SHAPE
)


def teacher(views: torch.Tensor) -> torch.Tensor:
    """Twelve numbers of a view: its quarters in each colour, of which principal axes keep six."""
    return functional.adaptive_avg_pool2d(views, 2).flatten(1)


def trained(steps: int) -> Distillation:
    training = Distillation(RECIPE, teacher)
    for step in range(steps):
        training.step(step / steps)
    return training


def test_student_learns_the_features_of_its_teacher() -> None:
    training = Distillation(RECIPE, teacher)
    losses = [float(training.step(step / 60)) for step in range(60)]
    assert losses[0] == pytest.approx(1.0, abs=0.05)  # a prediction of zero
    assert sum(losses[-5:]) / 5 < 0.6


def test_targets_keep_the_products_of_the_teachers_rows() -> None:
    views, targets = Distillation(RECIPE, teacher).examples
    rows = functional.normalize(teacher(views.float() / 127.5 - 1), dim=1)
    products = targets.float() @ targets.float().T
    assert torch.corrcoef(torch.stack([products.flatten(), (rows @ rows.T).flatten()]))[0, 1] > 0.99


def test_folded_and_stored_student_is_the_same_function(tmp_path: Path) -> None:
    student = trained(5).student.eval()
    images = torch.rand(4, 3, 32, 32) * 2 - 1
    expected = student(images).detach()
    plain = folded(student)
    assert plain(images).numpy() == pytest.approx(expected.numpy(), abs=1e-5)
    assert not any(isinstance(part, torch.nn.BatchNorm2d | torch.nn.BatchNorm1d) for part in plain.modules())
    save_student(tmp_path / "student.safetensors", plain, {})
    stored = load_student(tmp_path / "student.safetensors").features(images)
    assert stored.dtype == torch.float32
    assert stored.numpy() == pytest.approx(expected.numpy(), abs=0.03 * float(expected.abs().max()))


def test_damaged_student_is_refused(tmp_path: Path) -> None:
    broken = tmp_path / "student.safetensors"
    broken.write_bytes(b"nothing")
    with pytest.raises(WrongInput, match="as `privaware reproduce ours/prior/small` writes it"):
        load_student(broken)


def test_interrupted_distillation_resumes_exactly() -> None:
    first, through, resumed = (Distillation(RECIPE, teacher) for _ in range(3))
    for step in range(2):
        first.step(step / 4)
    resumed.load(first.state())
    for step in range(4):
        through.step(step / 4)
        if step >= 2:
            resumed.step(step / 4)
    states = through.student.state_dict(), resumed.student.state_dict()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_checkpoint_of_another_recipe_is_refused() -> None:
    state = trained(0).state() | {"recipe": {"seed": 7}}
    with pytest.raises(WrongInput, match="expected a checkpoint of"):
        trained(0).load(state)
