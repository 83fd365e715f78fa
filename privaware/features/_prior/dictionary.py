"""A dictionary of typical positions in the feature maps of synthetic images, and the whitening of its codes.

The vector of a map at one position (its channels) is centred, whitened and scaled to norm 1. Its code for an entry of
the dictionary is relu(similarity - THRESHOLD), averaged over the quarters of the image. Entries are the centres of
spherical k-means over positions of synthetic images. Codes are whitened by their covariance over synthetic images: the
directions of largest variance are kept, and all other directions share one scale. `research/pretraining/prior_views.py`
computed dictionary and whitening.
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
"""Similarity below which a code is 0."""
POOL = 2
"""Side of the grid over which codes are averaged."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Dictionary:
    """A dictionary of typical positions.

    `mean` (channels) and the whitening matrix `white` (channels, channels) apply to a position. `entries` (count,
    channels) are the typical positions, each of norm 1.
    """

    mean: Tensor
    white: Tensor
    entries: Tensor

    def to(self, device: Any) -> Dictionary:
        """Return the same dictionary on another device."""
        return Dictionary(mean=self.mean.to(device), white=self.white.to(device), entries=self.entries.to(device))

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors to store by name, on the CPU; `entries` are stored as `rounded` returns them."""
        named = {"dictionary.mean": self.mean, "dictionary.white": self.white}
        exact = {name: value.cpu().contiguous() for name, value in named.items()}
        return exact | rounded({"dictionary.entries": self.entries})

    @classmethod
    def read(cls, tensors: Mapping[str, Tensor]) -> Dictionary:
        """Return the dictionary from `tensors` as `restored` returns them; raise `KeyError` if one is missing."""
        return cls(**{name: tensors[f"dictionary.{name}"].float() for name in ("mean", "white", "entries")})

    def codes(self, maps: Tensor) -> Tensor:
        """Return the codes (rows, entries, POOL, POOL) of maps (rows, channels, height, width)."""
        positions = maps.movedim(1, 3) - self.mean
        unit = functional.normalize(positions @ self.white, dim=3)
        codes = functional.relu(unit @ self.entries.T - THRESHOLD)
        return functional.adaptive_avg_pool2d(codes.movedim(3, 1), POOL)


@dataclass(frozen=True, kw_only=True, eq=False)
class CodeWhitening:
    """The whitening of codes.

    It applies to the codes of each quarter of the image: with z = (codes - mean) / scale, the result is rest * z +
    directions @ (factors * (directions.T @ z)). `mean` and `scale` are (entries,), `directions` is (entries, rank),
    `factors` is (rank,).
    """

    mean: Tensor
    scale: Tensor
    directions: Tensor
    factors: Tensor
    rest: float

    def to(self, device: Any) -> CodeWhitening:
        """Return the same whitening on another device."""
        names = ("mean", "scale", "directions", "factors")
        return CodeWhitening(rest=self.rest, **{name: getattr(self, name).to(device) for name in names})

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors to store by name, on the CPU; `directions` are stored as `rounded` returns them."""
        named = {"mean": self.mean, "scale": self.scale, "factors": self.factors, "rest": torch.tensor([self.rest])}
        exact = {f"codes.{name}": value.cpu().contiguous() for name, value in named.items()}
        return exact | rounded({"codes.directions": self.directions})

    @classmethod
    def read(cls, tensors: Mapping[str, Tensor]) -> CodeWhitening:
        """Return the whitening from `tensors` as `restored` returns them; raise `KeyError` if one is missing."""
        names = ("mean", "scale", "directions", "factors")
        named = {name: tensors[f"codes.{name}"].float() for name in names}
        return cls(rest=float(tensors["codes.rest"][0]), **named)

    def __call__(self, codes: Tensor) -> Tensor:
        """Return `codes` (rows, entries, POOL, POOL) whitened, as (rows, POOL * POOL * entries), quarter by quarter."""
        rows = (codes.flatten(2).transpose(1, 2) - self.mean) / self.scale
        large = (rows @ self.directions) * self.factors
        return (self.rest * rows + large @ self.directions.T).flatten(1)
