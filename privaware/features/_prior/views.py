"""Several views of an image, the features of a pretrained network over them, and statistics over synthetic images.

Views are the image, shifts by two pixels along both diagonals, and two enlargements of its middle. With `mirror`
each view also has its mirror image. Feature maps and codes are averaged over views. The average is a function of one
image alone.

Codes compare the positions of one feature map with a dictionary of typical positions. The vector of a map at one
position (its channels) is centred, whitened and scaled to norm 1. Its code for an entry of the dictionary is
relu(similarity - THRESHOLD), averaged over the quarters of the image. Entries are the centres of spherical k-means over
positions of synthetic images. Codes are whitened by their covariance over synthetic images: the directions of largest
variance are kept, and all other directions share one scale. `research/pretraining/prior_views.py` computed dictionary
and whitening.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from privaware.errors import WrongInput
from privaware.features._prior.maps import SIDE, feature_maps
from privaware.features._prior.whitening import Statistics, Whitening
from privaware.features._rounded_tensors import read_rounded

SHIFT = 2
"""Number of pixels by which a shifted view is moved, down or up and right or left."""
MARGINS = (2, 4)
"""Numbers of pixels that are cut off on each side of an image for its two enlarged views."""
THRESHOLD = 0.2
"""Cosine similarity of a position with a dictionary entry up to which the code of the entry is 0."""
POOL = 2
"""Number of cells on a side of the grid that divides an image; codes are averaged over each cell."""


def views(images: Tensor, mirror: bool) -> Iterator[Tensor]:
    """Yield seven views of images (rows, 3, 32, 32), each followed by its mirror image if `mirror`.

    The views are the images, four shifts and two enlargements; a view has the shape of `images`.
    """
    for view in _upright(images):
        yield view.contiguous(memory_format=torch.channels_last)
        if mirror:
            yield view.flip(3).contiguous(memory_format=torch.channels_last)


def _upright(images: Tensor) -> Iterator[Tensor]:
    yield images
    padded = functional.pad(images, (SHIFT,) * 4, mode="reflect")
    for down in (0, 2 * SHIFT):
        for right in (0, 2 * SHIFT):
            yield padded[:, :, down : down + SIDE, right : right + SIDE]
    for margin in MARGINS:
        middle = images[:, :, margin:-margin, margin:-margin]
        yield functional.interpolate(middle, size=(SIDE, SIDE), mode="bilinear", align_corners=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class Dictionary:
    """A dictionary of typical positions of one feature map of the network.

    The vector of a position holds the channels of the map there. It is centred by `mean` (channels,) and multiplied by
    the whitening matrix `white` (channels, channels). `entries` (count, channels) are typical vectors after this, each
    of norm 1.
    """

    mean: Tensor
    white: Tensor
    entries: Tensor

    def to(self, device: Any) -> Dictionary:
        """Return the same dictionary on another device."""
        return Dictionary(mean=self.mean.to(device), white=self.white.to(device), entries=self.entries.to(device))

    @classmethod
    def read(cls, tensors: Mapping[str, Tensor]) -> Dictionary:
        """Return the dictionary from `tensors` as `restored` returns them; raise `KeyError` if one is missing."""
        return cls(**{name: tensors[f"dictionary.{name}"].float() for name in ("mean", "white", "entries")})

    def codes(self, maps: Tensor) -> Tensor:
        """Return the codes (rows, entries, POOL, POOL) of maps (rows, channels, height, width).

        The code of a position for an entry is max(0, cosine similarity - THRESHOLD). Codes are averaged over each cell
        of a POOL x POOL grid.
        """
        positions = maps.movedim(1, 3) - self.mean
        unit = functional.normalize(positions @ self.white, dim=3)
        codes = functional.relu(unit @ self.entries.T - THRESHOLD)
        return functional.adaptive_avg_pool2d(codes.movedim(3, 1), POOL)


@dataclass(frozen=True, kw_only=True, eq=False)
class CodeWhitening:
    """The whitening of codes, which are the similarities of positions of a map with the entries of a `Dictionary`.

    It applies to the codes of each quarter of the image: with `z = (codes - mean) / scale`, the result is
    `rest * z + directions @ (factors * (directions.T @ z))`. `mean` and `scale` are (entries,), `directions` is
    (entries, rank), and `factors` is (rank,).
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


@dataclass(frozen=True, kw_only=True, eq=False)
class ViewStatistics:
    """Statistics over synthetic images: pooled maps of all views, and a dictionary at one `depth` with its codes.

    `maps` holds means and covariances of maps averaged over views. `depth` is the number of the residual block whose
    positions `dictionary` describes, and `codes` whitens its codes. `metadata` is the text stored in the file.
    """

    maps: Statistics
    dictionary: Dictionary
    codes: CodeWhitening
    depth: int
    metadata: Mapping[str, str]


def view_parts(
    network: nn.Module,
    images: Tensor,
    mirror: bool,
    depths: Sequence[int],
    pools: Sequence[int],
    dictionary: Dictionary | None,
    depth: int,
) -> list[Tensor]:
    """Return the maps at all `depths`, each averaged over `views(images, mirror)` and pooled to a square.

    `network` is a `backbone`. There are seven views, or fourteen with `mirror`. `pools` holds the side of the square
    for each of `depths`. With a `dictionary`, its codes of the maps at `depth`, averaged over the views, come last;
    `depth` must then be one of `depths`. Without a dictionary `depth` is not used.
    """

    total: list[Tensor] = []
    count = 0
    for view in views(images, mirror):
        maps = feature_maps(network, view, depths, False)
        parts = [functional.adaptive_avg_pool2d(each, pool) for each, pool in zip(maps, pools, strict=True)]
        if dictionary is not None:
            parts.append(dictionary.codes(maps[list(depths).index(depth)]))
        total = [a + b for a, b in zip(total, parts, strict=True)] if count else parts
        count += 1
    return [value / count for value in total]


@lru_cache(maxsize=4)
def stored_view_whitening(file: str, power: float, device: str) -> Whitening:
    """Return the whitening, on `device`, of the maps at all depths whose statistics are in `file`.

    Maps are centred, scaled and multiplied by `(covariance + ridge) ** -power`: a power of 0.5 is full whitening. The
    result is cached: it takes seconds to compute, and a model asks for it with every few thousand rows.
    """
    maps = stored_statistics(file, device).maps
    return maps.whitening(maps.depths, maps.pools, power).to(device)


@lru_cache(maxsize=4)
def stored_statistics(file: str, device: str) -> ViewStatistics:
    """Return the statistics in the weights file `file`, with dictionary and codes on `device`.

    The result is cached and shared. Raise `WrongInput` if `file` is missing or cannot be read as such statistics.
    """
    if not Path(file).is_file():
        raise WrongInput(
            f"prior_views: its statistics {Path(file).name!r} are missing; install a release of privaware that ships "
            "them, or write them with `privaware reproduce ours/prior/views` and name the file as statistics"
        )
    with read_rounded(file, "prior_views", "ours/prior/views") as (tensors, metadata):
        maps = Statistics.read(tensors, metadata)
        dictionary, codes = Dictionary.read(tensors), CodeWhitening.read(tensors)
        depth = int(json.loads(metadata["dictionary_depth"]))
    return ViewStatistics(
        maps=maps, dictionary=dictionary.to(device), codes=codes.to(device), depth=depth, metadata=metadata
    )
