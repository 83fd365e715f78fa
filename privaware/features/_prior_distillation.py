"""Distillation of the prior into a small network, on synthetic images alone.

The student's pooled feature maps must predict, through one linear layer that is then discarded, the whitened features
that the teacher averages over a view and its mirror image.

Paper: Hinton, Vinyals and Dean 2015, Distilling the Knowledge in a Neural Network, arXiv:1503.02531, for the idea.

As in pretraining, a step depends only on the seed, its number and the student before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from privaware.errors import WrongInput
from privaware.features._prior_augmentation import DRAWS, augment
from privaware.features._prior_images import SyntheticImages, generator_for
from privaware.features._prior_maps import SIDE, backbone, channels_at, pooled_maps

__all__ = ["Distillation", "DistillationRecipe"]

Teacher = Callable[[Tensor], Tensor]
"""From views in [-1, 1] to features (rows, columns), not normalised."""


@dataclass(frozen=True, kw_only=True)
class DistillationRecipe:
    """Everything that determines the student, apart from its teacher and the length of the schedule."""

    seed: int
    images: int = 400_000
    size: int = 48
    generators: int = 64
    each: int = 32
    depth: int = 10
    width: int = 4
    stride: int = 2
    depths: tuple[int, ...] = (0, 1, 2)
    pools: tuple[int, ...] = (4, 4, 2)
    batch: int = 2048
    lr: float = 2e-3
    decay: float = 1e-4
    warmup: int = 200

    def __post_init__(self) -> None:
        for name in ("depths", "pools"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

    @property
    def source(self) -> SyntheticImages:
        """The synthetic images."""
        return SyntheticImages(seed=self.seed, size=self.size, generators=self.generators, each=self.each)


class Distillation:
    """A student in training on one device; `compiled` is a mode of torch.compile, or empty for none."""

    def __init__(
        self, recipe: DistillationRecipe, teacher: Teacher, columns: int, device: Any = "cpu", compiled: str = ""
    ) -> None:
        self.recipe, self.device = recipe, torch.device(device)
        rng = np.random.default_rng([recipe.seed, 1])
        self.network = backbone(recipe.depth, recipe.width, rng, stride=recipe.stride).to(self.device)
        self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        channels = channels_at(recipe.depth, recipe.width)
        width = sum(channels[at] * pool**2 for at, pool in zip(recipe.depths, recipe.pools, strict=True))
        self.head = nn.Linear(width, columns, device=self.device)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        self.modules = nn.ModuleDict({"network": self.network, "head": self.head})
        fused = self.device.type == "cuda"
        self.optimiser = torch.optim.AdamW(
            self.modules.parameters(), lr=recipe.lr, weight_decay=recipe.decay, fused=fused
        )
        self.step_number = 0
        self._teacher, self._loss = teacher, self._student_loss
        if compiled:
            self._teacher = torch.compile(teacher, mode=compiled)
            self._loss = torch.compile(self._student_loss, mode=compiled)
        self._images: Tensor | None = None

    def step(self, progress: float) -> Tensor:
        """One update at this point of the schedule, from 0 to 1; its loss, without synchronising the device."""
        views = self.views()
        return self.learn(views, self.targets(views), progress)

    def views(self) -> Tensor:
        """The augmented images of this step."""
        if self._images is None:
            self._images = self.recipe.source.generate(self.recipe.images, self.device)
        g = generator_for(self.recipe.seed, "distil", self.step_number, self.device)
        rows = torch.randint(len(self._images), (self.recipe.batch,), device=self.device, generator=g)
        draws = torch.rand(self.recipe.batch, DRAWS, device=self.device, generator=g)
        views = augment(self._images[rows].to(torch.float32) / 255, draws, SIDE)
        return views.contiguous(memory_format=torch.channels_last)

    @torch.no_grad()
    def targets(self, views: Tensor) -> Tensor:
        """The teacher's features, scaled to one as their mean square."""
        with self._autocast():
            features = self._teacher(views).float()
        return functional.normalize(features, dim=1) * math.sqrt(features.shape[1])

    def learn(self, views: Tensor, targets: Tensor, progress: float) -> Tensor:
        """One update towards these targets; the mean squared error, 1 for a prediction of zero."""
        for group in self.optimiser.param_groups:
            warm = min(1.0, (self.step_number + 1) / self.recipe.warmup)
            group["lr"] = self.recipe.lr * warm * (0.5 + 0.5 * math.cos(math.pi * min(progress, 1.0)))
        self.optimiser.zero_grad()
        loss = self._loss(views, targets)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        self.step_number += 1
        return loss.detach()

    def _student_loss(self, views: Tensor, targets: Tensor) -> Tensor:
        recipe = self.recipe
        with self._autocast():
            maps = pooled_maps(self.network, views, recipe.depths, recipe.pools, mirror=False, normed=False)
            predicted = self.head(torch.cat([m.flatten(1) for m in maps], 1))
        return functional.mse_loss(predicted.float(), targets)

    def _autocast(self) -> Any:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda")

    def state(self) -> dict[str, Any]:
        """All that is needed to resume."""
        return {
            "recipe": asdict(self.recipe),
            "both": self.modules.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "step": self.step_number,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Resumes from `state`; one of another recipe is refused."""
        if state["recipe"] != asdict(self.recipe):
            raise WrongInput(f"expected a checkpoint of {self.recipe}, got one of {state['recipe']}; name another file")
        self.modules.load_state_dict(state["both"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.step_number = state["step"]
