"""Fully connected models of different widths as one stack: the narrow ones get units that stay zero.

A padded unit has zero weights in and out and an activation that maps zero to zero, so it changes no output, its
gradients are zero in every norm and sum, and the mask keeps the noise off it: each model is trained as if alone.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["Widened", "together"]

WASTE = 1.5
"""Padded over real parameters up to which one stack beats several on a CPU."""

PASSES = (
    nn.ReLU,
    nn.ReLU6,
    nn.LeakyReLU,
    nn.ELU,
    nn.SELU,
    nn.GELU,
    nn.Tanh,
    nn.Hardtanh,
    nn.Dropout,
    nn.Flatten,
    nn.Identity,
)
"""Layers that map zero to zero."""


class Widened:
    """Modules made of one width, with the mask of what is real; those already alike stay as they are."""

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        self.given = list(modules)
        self.modules = self.given
        self.mask: Tensor | None = None
        shapes = [[tuple(p.shape) for p in module.parameters()] for module in self.given]
        if any(shape != shapes[0] for shape in shapes[1:]) and _alike(self.given):
            pairs = [_widen(module, self.given) for module in self.given]
            self.modules = [wide for wide, _ in pairs]
            self.mask = torch.stack([mask for _, mask in pairs])

    def narrowed(self, trained: list[nn.Module]) -> list[nn.Module]:
        """The trained modules in their own widths."""
        if self.mask is None:
            return trained
        out = []
        for module, wide in zip(self.given, trained, strict=True):
            made = copy.deepcopy(module)
            with torch.no_grad():
                for place, values in zip(made.parameters(), wide.parameters(), strict=True):
                    place.copy_(values[tuple(slice(0, n) for n in place.shape)])
            out.append(made)
        return out


def together(modules: Sequence[nn.Module], device: str) -> list[list[int]]:
    """Which modules are stepped in one stack: those of one nature and shape, or of several shapes if padding pays.

    On a GPU small models wait for launches, not for arithmetic, so padding is always worth it there.
    """
    natures = [_nature(module) for module in modules]
    groups = []
    for nature in dict.fromkeys(natures):
        own = [at for at, other in enumerate(natures) if other == nature]
        groups += _by_shape(modules, own, device)
    return groups


def _by_shape(modules: Sequence[nn.Module], own: list[int], device: str) -> list[list[int]]:
    shapes = {at: tuple(tuple(p.shape) for p in modules[at].parameters()) for at in own}
    if len(set(shapes.values())) == 1:
        return [own]
    if _alike([modules[at] for at in own]):
        real = sum(math.prod(shape) for them in shapes.values() for shape in them)
        widest = [
            [max(sizes) for sizes in zip(*them, strict=True)]
            for them in zip(*shapes.values(), strict=True)
        ]
        padded = len(own) * sum(math.prod(shape) for shape in widest)
        if not str(device).startswith("cpu") or padded <= WASTE * real:
            return [own]
    return [[at for at in own if shapes[at] == shape] for shape in dict.fromkeys(shapes.values())]


def _nature(module: nn.Module) -> tuple[Any, ...]:
    """What a stack takes from its first module, so all have to agree: kinds, settings, and what is frozen."""
    parts = []
    for part in module.modules():
        sizes = ("in_features", "out_features") if isinstance(part, nn.Linear) else ()
        plain = {
            name: value
            for name, value in vars(part).items()
            if isinstance(value, (bool, int, float, str, tuple)) and name not in sizes
        }
        parts.append((type(part), tuple(sorted(plain.items(), key=lambda item: item[0]))))
    return tuple(parts), tuple(p.requires_grad for p in module.parameters())


def _leaves(module: nn.Module) -> list[nn.Module]:
    return [part for part in module.modules() if not list(part.children())]


def _alike(modules: list[nn.Module]) -> bool:
    """Whether all are the same chain of linear layers, whose first input and last output agree."""
    kinds = {tuple(type(leaf) for leaf in _leaves(module)) for module in modules}
    chains = all(
        isinstance(part, nn.Sequential)
        for module in modules
        for part in module.modules()
        if list(part.children())
    )
    if len(kinds) != 1 or not chains:
        return False
    if not all(issubclass(kind, (nn.Linear, *PASSES)) for kind in next(iter(kinds))):
        return False
    rows = [[leaf for leaf in _leaves(module) if isinstance(leaf, nn.Linear)] for module in modules]
    ends = {(chain[0].in_features, chain[-1].out_features) for chain in rows if chain}
    return len(ends) == 1


def _widen(module: nn.Module, modules: list[nn.Module]) -> tuple[nn.Module, Tensor]:
    wide = copy.deepcopy(module)
    masks = []
    everyone = [list(other.parameters()) for other in modules]
    layers = [leaf for leaf in wide.modules() if isinstance(leaf, nn.Linear)]
    at = 0
    for layer in layers:
        for name in ("weight", "bias"):
            own = getattr(layer, name)
            if own is None:
                continue
            shape = [
                max(sizes) for sizes in zip(*(other[at].shape for other in everyone), strict=True)
            ]
            values, mask = own.new_zeros(shape), own.new_zeros(shape)
            corner = tuple(slice(0, n) for n in own.shape)
            values[corner], mask[corner] = own.detach(), 1
            setattr(layer, name, nn.Parameter(values, requires_grad=own.requires_grad))
            if own.requires_grad:
                masks.append(mask.flatten())
            at += 1
        layer.out_features, layer.in_features = layer.weight.shape
    return wide, torch.cat(masks)
