"""A dictionary of typical positions in the feature maps of synthetic images, and the whitening of its codes.

The vector of a map at one position (its channels) is centred, whitened and scaled to length 1; a code is how far its
similarity to an entry of the dictionary exceeds `THRESHOLD`, averaged over the quarters of the image. Entries are the
centres of spherical k-means over positions of synthetic images. Codes are whitened by their covariance over synthetic
images, of which the `RANK` largest directions are kept: the others have one common scale.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from privaware.features._prior_images import generator_for

__all__ = ["POOL", "CodeMoments", "CodeWhitening", "Dictionary"]

THRESHOLD = 0.2
POOL = 2
ROUNDS = 6
RIDGE_OF_POSITIONS = 0.05
RANK = 256
"""Directions of codes that are whitened by a factor of their own."""

POWER = 0.3
"""The factor of a direction of codes is (eigenvalue + RIDGE)^-POWER."""

RIDGE = 0.01
"""Number that is added to the eigenvalue of a direction of codes."""

SLAB = 2**16
"""Positions compared with the dictionary at once."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Dictionary:
    """`mean` (channels) and `white` (channels, channels) of positions; `entries` (count, channels) of length 1."""

    mean: Tensor
    white: Tensor
    entries: Tensor

    @classmethod
    def of(cls, positions: Tensor, count: int, seed: int) -> Dictionary:
        """The dictionary of so many entries behind positions (number, channels) of synthetic images."""
        mean = positions.mean(0)
        centred = (positions - mean).double()
        values, vectors = torch.linalg.eigh(centred.T @ centred / len(centred))
        scale = (values.clamp(min=0) + RIDGE_OF_POSITIONS * values.mean()).pow(-0.5)
        white = ((vectors * scale) @ vectors.T).float()
        unit = functional.normalize((positions - mean) @ white, dim=1)
        generator = generator_for(seed, "dictionary", 0, positions.device)
        chosen = torch.randperm(len(unit), device=unit.device, generator=generator)[:count]
        entries = unit[chosen]
        for _ in range(ROUNDS):
            nearest = torch.cat([(slab @ entries.T).argmax(1) for slab in unit.split(SLAB)])
            sums = torch.zeros_like(entries).index_add_(0, nearest, unit)
            empty = sums.norm(dim=1, keepdim=True) == 0
            entries = torch.where(empty, entries, functional.normalize(sums, dim=1))
        return cls(mean=mean, white=white, entries=entries.half().float())

    def to(self, device: Any) -> Dictionary:
        """The same on another device."""
        return Dictionary(mean=self.mean.to(device), white=self.white.to(device), entries=self.entries.to(device))

    def tensors(self) -> dict[str, Tensor]:
        """The tensors to store."""
        named = {"mean": self.mean, "white": self.white, "entries": self.entries.half()}
        return {f"dictionary.{name}": value.cpu().contiguous() for name, value in named.items()}

    @classmethod
    def read(cls, tensors: Mapping[str, Tensor]) -> Dictionary:
        """The dictionary behind stored `tensors`."""
        return cls(**{name: tensors[f"dictionary.{name}"].float() for name in ("mean", "white", "entries")})

    def codes(self, maps: Tensor) -> Tensor:
        """Codes (rows, entries, POOL, POOL) of maps (rows, channels, height, width)."""
        positions = maps.movedim(1, 3) - self.mean
        unit = functional.normalize(positions @ self.white, dim=3)
        codes = functional.relu(unit @ self.entries.T - THRESHOLD)
        return functional.adaptive_avg_pool2d(codes.movedim(3, 1), POOL)


class CodeMoments:
    """First and second moments of codes over images and quarters, added up batch by batch."""

    def __init__(self) -> None:
        self.count, self.total, self.square = 0, torch.zeros(()), torch.zeros(())

    def add(self, codes: Tensor) -> None:
        """Adds codes (rows, entries, POOL, POOL)."""
        rows = codes.movedim(1, 3).flatten(0, 2).double()
        self.total = self.total.to(rows) + rows.sum(0)
        self.square = self.square.to(rows) + rows.T @ rows
        self.count += len(rows)

    def whitening(self) -> CodeWhitening:
        """The whitening by the codes so far."""
        mean = self.total / self.count
        covariance = self.square / self.count - mean[:, None] * mean
        scale = covariance.diagonal().clamp(min=1e-12).sqrt()
        values, vectors = torch.linalg.eigh(covariance / (scale[:, None] * scale))
        factors = (values.clamp(min=0) + RIDGE).pow(-POWER)
        rank = min(RANK, len(values) - 1)
        rest = factors[:-rank].median()
        named = {"mean": mean, "scale": scale, "directions": vectors[:, -rank:], "factors": factors[-rank:] - rest}
        return CodeWhitening(rest=float(rest), **{name: value.float() for name, value in named.items()})


@dataclass(frozen=True, kw_only=True, eq=False)
class CodeWhitening:
    """Codes minus `mean` over `scale`, times `rest`, and times `factors` more along `directions` (entries, rank)."""

    mean: Tensor
    scale: Tensor
    directions: Tensor
    factors: Tensor
    rest: float

    def to(self, device: Any) -> CodeWhitening:
        """The same on another device."""
        names = ("mean", "scale", "directions", "factors")
        return CodeWhitening(rest=self.rest, **{name: getattr(self, name).to(device) for name in names})

    def tensors(self) -> dict[str, Tensor]:
        """The tensors to store."""
        named = {"mean": self.mean, "scale": self.scale, "factors": self.factors, "directions": self.directions.half()}
        named["rest"] = torch.tensor([self.rest])
        return {f"codes.{name}": value.cpu().contiguous() for name, value in named.items()}

    @classmethod
    def read(cls, tensors: Mapping[str, Tensor]) -> CodeWhitening:
        """The whitening behind stored `tensors`."""
        names = ("mean", "scale", "directions", "factors")
        named = {name: tensors[f"codes.{name}"].float() for name in names}
        return cls(rest=float(tensors["codes.rest"][0]), **named)

    def __call__(self, codes: Tensor) -> Tensor:
        """Whitened rows of codes (rows, entries, POOL, POOL)."""
        rows = (codes.flatten(2).transpose(1, 2) - self.mean) / self.scale
        large = (rows @ self.directions) * self.factors
        return (self.rest * rows + large @ self.directions.T).flatten(1)
