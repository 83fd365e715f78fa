"""Distillation of the prior into a small network, on synthetic images only.

For a view of an image, the student predicts the principal coordinates of the whitened features that the teacher
averages over the view and its mirror image. A linear model depends only on inner products of its rows, and principal
coordinates preserve inner products, so the prediction of the student is itself a feature. Views and their targets are
computed once.

Paper: Hinton, Vinyals and Dean 2015, Distilling the Knowledge in a Neural Network, arXiv:1503.02531, for the idea.

As in pretraining, a step depends only on the seed, its number and the student before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from privaware.errors import WrongInput
from privaware.features._prior.maps import SIDE
from privaware.features._prior.student import Student, StudentShape
from research.pretraining.augmentation import DRAWS, augment
from research.pretraining.images import SyntheticImages, generator_for

__all__ = ["Distillation", "DistillationRecipe", "folded"]

Teacher = Callable[[Tensor], Tensor]
"""Maps views in [-1, 1] to features of shape (rows, columns), not normalised."""

MICROBATCH = 4096
"""Number of views that the teacher processes at once."""
VIEWS_OF_AN_IMAGE = 2
"""Number of views of each synthetic image."""
MAX_GRADIENT_NORM = 1.0
"""Norm to which the gradients of the student are clipped; without clipping, training can diverge."""


@dataclass(frozen=True, kw_only=True)
class DistillationRecipe:
    """Everything that determines the student, apart from its teacher and the length of the schedule."""

    seed: int
    views: int = 1_000_000
    axes: int = 65_536
    """Number of views whose teacher features determine the principal axes."""
    size: int = 48
    generators: int = 64
    each: int = 32
    shape: StudentShape = field(default_factory=StudentShape)
    batch: int = 1024
    lr: float = 1.5e-3
    decay: float = 0.02
    warmup: int = 300

    @property
    def source(self) -> SyntheticImages:
        """The synthetic images."""
        return SyntheticImages(seed=self.seed, size=self.size, generators=self.generators, each=self.each)


class Distillation:
    """A student in training on one device."""

    def __init__(self, recipe: DistillationRecipe, teacher: Teacher, device: Any = "cpu") -> None:
        self.recipe, self.device = recipe, torch.device(device)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(recipe.seed)
            self.student = Student(recipe.shape, learning=True)
        nn.init.zeros_(self.student.output.weight)
        nn.init.zeros_(self.student.output.bias)
        self.student.to(self.device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        weights = [p for p in self.student.parameters() if p.ndim > 1]
        others = [p for p in self.student.parameters() if p.ndim == 1]
        groups = [{"params": weights, "weight_decay": recipe.decay}, {"params": others, "weight_decay": 0.0}]
        self.optimiser = torch.optim.AdamW(groups, lr=recipe.lr, fused=self.device.type == "cuda")
        self.step_number = 0
        self._teacher = teacher
        self._examples: tuple[Tensor, Tensor] | None = None

    def step(self, progress: float) -> Tensor:
        """Take one step at this point of the schedule, from 0 to 1, and return its loss.

        A zero prediction has loss 1.
        """
        views, targets = self.examples
        g = generator_for(self.recipe.seed, "distil", self.step_number, self.device)
        rows = torch.randint(len(views), (self.recipe.batch,), device=self.device, generator=g)
        mirrored = torch.rand(self.recipe.batch, 1, 1, 1, device=self.device, generator=g) < 0.5
        chosen = _unpacked(views[rows])
        inputs = torch.where(mirrored, chosen.flip(3), chosen)
        for group in self.optimiser.param_groups:
            warm = min(1.0, (self.step_number + 1) / self.recipe.warmup)
            group["lr"] = self.recipe.lr * warm * (0.5 + 0.5 * math.cos(math.pi * min(progress, 1.0)))
        self.optimiser.zero_grad()
        with self._autocast():
            predicted = self.student(inputs)
        loss = (predicted.float() - targets[rows].float()).square().sum(1).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.student.parameters(), MAX_GRADIENT_NORM)
        self.optimiser.step()
        self.step_number += 1
        return loss.detach()

    @property
    def examples(self) -> tuple[Tensor, Tensor]:
        """Views as bytes, and their targets in half precision with mean squared norm 1."""
        if self._examples is None:
            views = self._views()
            features = _Features(self._teacher, self._autocast)
            axes = _principal_axes(features, views[: self.recipe.axes], self.recipe.shape.columns)
            targets = torch.cat([(features(part) @ axes).half() for part in views.split(MICROBATCH)])
            length = targets.float().square().sum(1).mean().sqrt()
            self._examples = views, (targets.float() / length).half()
        return self._examples

    def _views(self) -> Tensor:
        """Return augmented images as bytes, two views of each image."""
        recipe = self.recipe
        images = recipe.source.generate(math.ceil(recipe.views / VIEWS_OF_AN_IMAGE), self.device)
        views = torch.empty(recipe.views, 3, SIDE, SIDE, dtype=torch.uint8, device=self.device)
        for at in range(0, recipe.views, MICROBATCH):
            part = views[at : at + MICROBATCH]
            rows = torch.arange(at, at + len(part), device=self.device) % len(images)
            g = generator_for(recipe.seed, "view", at, self.device)
            draws = torch.rand(len(part), DRAWS, device=self.device, generator=g)
            seen = augment(images[rows].to(torch.float32) / 255, draws, SIDE)
            part.copy_(((seen + 1) * 127.5).round().clamp(0, 255))
        return views

    def _autocast(self) -> Any:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda")

    def state(self) -> dict[str, Any]:
        """Return everything that is needed to resume."""
        return {
            "recipe": asdict(self.recipe),
            "student": self.student.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "step": self.step_number,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Resume from `state`; raise if it is of another recipe."""
        if state["recipe"] != asdict(self.recipe):
            raise WrongInput(f"expected a checkpoint of {self.recipe}, got one of {state['recipe']}; name another file")
        self.student.load_state_dict(state["student"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.step_number = state["step"]


@dataclass(frozen=True)
class _Features:
    """The teacher's features of views, given as bytes; each feature vector has norm 1."""

    teacher: Teacher
    autocast: Callable[[], Any]

    @torch.no_grad()
    def __call__(self, views: Tensor) -> Tensor:
        with self.autocast():
            features = self.teacher(_unpacked(views)).float()
        return functional.normalize(features, dim=1)


def _unpacked(views: Tensor) -> Tensor:
    return (views.float() / 127.5 - 1).contiguous(memory_format=torch.channels_last)


def _principal_axes(features: _Features, views: Tensor, count: int) -> Tensor:
    """Return the `count` directions with the largest second moments, as columns."""
    first = features(views[:MICROBATCH])
    if len(views) < first.shape[1]:  # a quick trial: moments of few views in many columns would take a minute
        return torch.linalg.svd(first, full_matrices=False).Vh[:count].T
    moments = first.T @ first
    for part in views[MICROBATCH:].split(MICROBATCH):
        rows = features(part)
        moments = moments + rows.T @ rows
    _, vectors = torch.linalg.eigh(moments / len(views))
    return vectors[:, -count:].flip(1)


@torch.no_grad()
def folded(student: Student) -> Student:
    """Return a copy of `student`, a network with batch norms, without them, on the CPU and without gradients.

    The copy agrees with `student` in evaluation mode while no activation exceeds `LARGEST_ACTIVATION`.
    """
    plain = Student(student.shape, learning=False)
    for name, part in student.named_modules():
        if isinstance(part, nn.Sequential) and isinstance(part[-1], nn.BatchNorm2d | nn.BatchNorm1d):
            _fold(part[0], part[1], plain.get_submodule(name))
    plain.output.load_state_dict(student.output.state_dict())
    scale, shift = _scale_and_shift(student.norm)
    plain.hidden.bias += plain.hidden.weight @ shift.cpu()  # type: ignore[operator]
    plain.hidden.weight *= scale.cpu()  # type: ignore[operator]
    return plain.eval().requires_grad_(False)


def _scale_and_shift(norm: nn.Module) -> tuple[Tensor, Tensor]:
    """Return the scale and the shift that a batch norm in evaluation mode applies to each column."""
    assert isinstance(norm, nn.BatchNorm2d | nn.BatchNorm1d)
    assert norm.running_var is not None
    assert norm.running_mean is not None
    scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    return scale, norm.bias - norm.running_mean * scale


def _fold(linear: nn.Module, norm: nn.Module, into: nn.Module) -> None:
    """Write to `into`, which has a bias, a layer that equals `linear` and then the batch norm `norm` in evaluation."""
    assert isinstance(linear, nn.Conv2d | nn.Linear)
    assert isinstance(into, nn.Conv2d | nn.Linear)
    assert into.bias is not None
    scale, shift = _scale_and_shift(norm)
    into.weight.copy_(linear.weight * scale.reshape(-1, *[1] * (linear.weight.ndim - 1)))
    into.bias.copy_(shift if linear.bias is None else shift + scale * linear.bias)
