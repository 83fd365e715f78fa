"""A dictionary of typical positions in the feature maps of synthetic images, and the whitening of its codes.

The vector of a map at one position (its channels) is centred, whitened and scaled to length 1; a code is how far its
similarity to an entry of the dictionary exceeds `THRESHOLD`, averaged over the quarters of the image. Entries are the
centres of spherical k-means over positions of synthetic images. Codes are whitened by their covariance over synthetic
images, of which the largest directions are kept: the others have one common scale. Both were computed by
`research/pretraining/prior_views.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from privaware.features._rounded_tensors import rounded

__all__ = ["POOL", "CodeWhitening", "Dictionary"]

THRESHOLD = 0.2
POOL = 2


@dataclass(frozen=True, kw_only=True, eq=False)
class Dictionary:
    """`mean` (channels) and `white` (channels, channels) of positions; `entries` (count, channels) of length 1."""

    mean: Tensor
    white: Tensor
    entries: Tensor

    def to(self, device: Any) -> Dictionary:
        """The same on another device."""
        return Dictionary(mean=self.mean.to(device), white=self.white.to(device), entries=self.entries.to(device))

    def tensors(self) -> dict[str, Tensor]:
        """The tensors to store."""
        named = {"dictionary.mean": self.mean, "dictionary.white": self.white}
        exact = {name: value.cpu().contiguous() for name, value in named.items()}
        return exact | rounded({"dictionary.entries": self.entries})

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
        named = {"mean": self.mean, "scale": self.scale, "factors": self.factors, "rest": torch.tensor([self.rest])}
        exact = {f"codes.{name}": value.cpu().contiguous() for name, value in named.items()}
        return exact | rounded({"codes.directions": self.directions})

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
