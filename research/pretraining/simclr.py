"""Contrastive pretraining (SimCLR) on synthetic images: recognise two views of one image among thousands.

Paper: Chen et al. 2020, A Simple Framework for Contrastive Learning of Visual Representations, arXiv:2002.05709.

A step depends only on the seed, its number and the network before it, so interrupted training resumes exactly.
`progress` runs from 0 to 1 over the schedule and sets the learning rate.
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
from privaware.features._prior.maps import SIDE, backbone, channels_at
from privaware.models import build
from research.pretraining.augmentation import DRAWS, augment
from research.pretraining.glyphs import SyntheticGlyphs
from research.pretraining.images import SyntheticImages, generator_for

__all__ = ["GlyphPretraining", "GlyphRecipe", "Pretraining", "ImageRecipe", "contrastive_loss"]


@dataclass(frozen=True, kw_only=True)
class ImageRecipe:
    """Everything that determines the weights of an image prior, apart from the length of the schedule."""

    seed: int
    images: int = 800_000
    size: int = 48
    generators: int = 64
    each: int = 32
    depth: int = 16
    width: int = 4
    stride: int = 1
    batch: int = 2048
    temperature: float = 0.2
    lr: float = 1.5e-3
    decay: float = 1e-4
    warmup: int = 200

    @property
    def source(self) -> SyntheticImages:
        """The synthetic images."""
        return SyntheticImages(seed=self.seed, size=self.size, generators=self.generators, each=self.each)


@dataclass(frozen=True, kw_only=True)
class GlyphRecipe:
    """Everything that determines the weights of a network that recognises drawings of one glyph.

    `textures` is the number of grounds behind the glyphs.
    """

    seed: int
    textures: int = 40_000
    generators: int = 64
    depth: int = 10
    width: int = 4
    stride: int = 2
    batch: int = 2048
    temperature: float = 0.15
    lr: float = 1.5e-3
    decay: float = 1e-4
    warmup: int = 200

    @property
    def source(self) -> SyntheticGlyphs:
        """The drawings."""
        return SyntheticGlyphs(seed=self.seed, textures=self.textures, generators=self.generators)


def contrastive_loss(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    """Return the cross-entropy of finding each view's partner among all other views.

    `first` and `second` are projections of shape (rows, numbers).
    """
    both = functional.normalize(torch.cat([first, second]).float(), dim=1)
    similarity = both @ both.T / temperature
    similarity = similarity.masked_fill(torch.eye(len(both), dtype=torch.bool, device=both.device), -1e4)
    partner = torch.arange(len(both), device=both.device).roll(len(first))
    return functional.cross_entropy(similarity, partner)


class Pretraining:
    """A network in training on one device; `compiled` is a mode of torch.compile, or empty for none."""

    def __init__(self, recipe: ImageRecipe | GlyphRecipe, device: Any = "cpu", compiled: str = "") -> None:
        self.recipe, self.device = recipe, torch.device(device)
        rng = np.random.default_rng([recipe.seed, 0])
        widest = channels_at(recipe.depth, recipe.width)[-1]
        head = {"name": "fcn", "inputs": widest, "hidden": [512], "outputs": 128}
        self.network = backbone(recipe.depth, recipe.width, rng, stride=recipe.stride).to(self.device)
        self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.head = build({**head, "activation": "relu", "dropout": 0.0}, rng).to(self.device)
        self.modules = nn.ModuleDict({"network": self.network, "head": self.head})
        fused = self.device.type == "cuda"
        self.optimiser = torch.optim.AdamW(
            self.modules.parameters(), lr=recipe.lr, weight_decay=recipe.decay, fused=fused
        )
        self.step_number, self.progress, self.seconds = 0, 0.0, 0.0
        self.note = ""
        self._loss: Callable[..., Tensor] = (
            torch.compile(self._eager_loss, mode=compiled) if compiled else self._eager_loss
        )
        self._images: Tensor | None = None

    def step(self, progress: float) -> Tensor:
        """Take one step at this point of the schedule, and return its loss without synchronising the device."""
        for group in self.optimiser.param_groups:
            group["lr"] = self._lr(progress)
        loss = self._loss_and_gradients(*self.inputs())
        self.optimiser.step()
        self.step_number, self.progress = self.step_number + 1, progress
        return loss.detach()

    def inputs(self) -> tuple[Tensor, ...]:
        """Return the inputs of the views of this step: images, which depend only on the seed, and random draws."""
        assert isinstance(self.recipe, ImageRecipe)
        if self._images is None:
            self._images = self.recipe.source.generate(self.recipe.images, self.device)
        g = generator_for(self.recipe.seed, "step", self.step_number, self.device)
        rows = torch.randint(len(self._images), (self.recipe.batch,), device=self.device, generator=g)
        return self._images[rows], torch.rand(2 * self.recipe.batch, DRAWS, device=self.device, generator=g)

    def views(self, *inputs: Tensor) -> Tensor:
        """Return two views in [-1, 1] of every image: the first views of all images, then the second views."""
        images, draws = inputs
        pixels = images.to(torch.float32) / 255
        return augment(torch.cat([pixels, pixels]), draws, SIDE)

    def _lr(self, progress: float) -> float:
        warm = min(1.0, (self.step_number + 1) / self.recipe.warmup)
        return self.recipe.lr * warm * (0.5 + 0.5 * math.cos(math.pi * min(progress, 1.0)))

    def _loss_and_gradients(self, *inputs: Tensor) -> Tensor:
        """Compute loss and gradients, compiled if requested; if the compiler fails, eagerly from then on."""
        try:
            return self._backward(*inputs)
        except Exception as problem:  # training continues without the compiler, whatever it raises
            if self._loss == self._eager_loss:
                raise
            reason = " ".join(f"{type(problem).__name__}: {problem}".split())
            self.note = f"not compiled, which is slower: {reason:.300}"
            self._loss = self._eager_loss
            return self._backward(*inputs)

    def _backward(self, *inputs: Tensor) -> Tensor:
        self.optimiser.zero_grad()
        loss = self._loss(*inputs)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    def _eager_loss(self, *inputs: Tensor) -> Tensor:
        views = self.views(*inputs).contiguous(memory_format=torch.channels_last)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            projected = self.head(self.network(views))
        first, second = projected.float().chunk(2)
        return contrastive_loss(first, second, self.recipe.temperature)

    def state(self) -> dict[str, Any]:
        """Return everything that is needed to resume."""
        return {
            "recipe": asdict(self.recipe),
            "both": self.modules.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "step": self.step_number,
            "progress": self.progress,
            "seconds": self.seconds,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Resume from `state`; raise if it is of another recipe."""
        if state["recipe"] != asdict(self.recipe):
            raise WrongInput(f"expected a checkpoint of {self.recipe}, got one of {state['recipe']}; name another file")
        self.modules.load_state_dict(state["both"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.step_number, self.progress = state["step"], state["progress"]
        self.seconds = state["seconds"]


class GlyphPretraining(Pretraining):
    """Pretraining whose views are two drawings of one glyph."""

    def inputs(self) -> tuple[Tensor, ...]:
        """Return the drawings of this step."""
        assert isinstance(self.recipe, GlyphRecipe)
        return (self.recipe.source.pairs(self.recipe.batch, self.step_number, self.device),)

    def views(self, *inputs: Tensor) -> Tensor:
        """Return the drawings, scaled to [-1, 1]."""
        return inputs[0] * 2 - 1
