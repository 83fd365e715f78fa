"""Feature rows of the shipped networks, which the features `prior`, `prior_views` and `extractor` put side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from privaware.errors import WrongInput
from privaware.features._prior.maps import pooled_maps
from privaware.features._prior.scattering import COLUMNS, scattering
from privaware.features._prior.shipped import (
    SHIPPED,
    SHIPPED_GLYPHS,
    SHIPPED_SMALL,
    SHIPPED_VIEWS,
    scattering_whitening,
    stored_student,
    stored_weights,
    stored_whitening,
)
from privaware.features._prior.views import POOL, stored_statistics, stored_view_whitening, view_parts

WHITEN = 0.3
"""Exponent of the whitening."""
GLYPH_DEPTHS = GLYPH_POOLS = (2,)
"""The output of residual block 2 (the last, counted from 0) of the network for glyphs is averaged to 2 x 2."""


def in_microbatches(
    name: str,
    x: Any,
    transform_on: Callable[[Any], Callable[[Tensor], Tensor]],
    width: int,
    microbatch: Mapping[str, int],
) -> Any:
    """Return rows (rows, width) for the images `x`, an array or a tensor (rows, 1 or 3, height, width).

    `transform_on(device)` returns the function that maps one microbatch of images on `device` to its rows. A tensor
    gives a tensor on its device. An array gives an array, computed on a GPU if there is one. `microbatch` has the
    number of images at a time for the device types "cpu" and "cuda". `name` is the feature's name in errors. Raise
    `WrongInput` for `x` of another shape.
    """
    if x.ndim != 4 or x.shape[1] not in (1, 3) or not all(x.shape[2:]):
        raise WrongInput(f"{name}: expected images of shape (rows, 1 or 3, height, width), got {tuple(x.shape)}")
    tensor = isinstance(x, Tensor)
    device = x.device if tensor else ("cuda" if torch.cuda.is_available() else "cpu")
    transform = transform_on(device)
    size = microbatch.get(torch.device(device).type, microbatch["cpu"])
    out = torch.empty(len(x), width, device=device if tensor else "cpu")
    for at in range(0, len(x), size):
        out[at : at + size] = transform(torch.as_tensor(x[at : at + size]).to(device, torch.float32))
    return out if tensor else out.numpy()


def whitened_scattering(file: str, power: float, mirror: bool, device: str) -> Callable[[Tensor], Tensor]:
    """Return the function from preprocessed images to whitened scattering coefficients, as rows (rows, COLUMNS).

    Images are (rows, 3, 32, 32) in [-1, 1], as `preprocess` returns them. The statistics for whitening are in `file`,
    and `power` is its exponent. With `mirror` coefficients are averaged over an image and its mirror image. Inputs and
    results are on `device`.
    """
    scatter, whitening = scattering(device), scattering_whitening(file, power, device)

    def transform(inputs: Tensor) -> Tensor:
        images = (inputs + 1) / 2
        coefficients = scatter(images)
        return whitening((coefficients + scatter(images.flip(3))) / 2 if mirror else coefficients)

    return transform


def glyph_rows(device: Any) -> Callable[[Tensor], Tensor]:
    """Return the function from preprocessed images to rows (rows, GLYPH_COLUMNS) of norm 1 of the network for glyphs.

    Rows are its whitened feature maps. Images are (rows, 3, 32, 32) in [-1, 1] on `device`, as `preprocess` returns
    them.
    """
    file = str(SHIPPED_GLYPHS)
    network = stored_weights(file, str(device)).network
    whitening = stored_whitening(file, GLYPH_DEPTHS, GLYPH_POOLS, WHITEN, str(device))

    def rows(inputs: Tensor) -> Tensor:
        maps = pooled_maps(network, inputs, GLYPH_DEPTHS, GLYPH_POOLS, mirror=False, normed=False)
        return normalize(whitening(maps), dim=1)

    return rows


def small_rows(device: Any) -> Callable[[Tensor], Tensor]:
    """Return the function from preprocessed images to rows (rows, SMALL_COLUMNS) of norm 1 of the small network.

    Images are (rows, 3, 32, 32) in [-1, 1] on `device`, as `preprocess` returns them.
    """
    network = stored_student(str(SHIPPED_SMALL), str(device))
    return lambda inputs: normalize(network.features(inputs), dim=1)


@dataclass(frozen=True, kw_only=True)
class ViewRows:
    """Rows of three blocks: whitened feature maps, codes of a dictionary, and scattering coefficients.

    The blocks have the L2 norms 1, `dictionary` and `scatter`; a norm of 0 leaves its block out. Codes are the
    similarities of a map's positions with a dictionary of typical positions (`Dictionary`). Maps and codes are averaged
    over seven views of an image (itself, shifts, enlargements), and with `mirror` also over the mirror image of each
    view. Scattering is averaged over the image and, with `mirror`, its mirror image. `weights` and `statistics` are the
    files of the network and of its statistics.
    """

    dictionary: float = 1.0
    scatter: float = 0.5
    mirror: bool = True
    weights: str = str(SHIPPED)
    statistics: str = str(SHIPPED_VIEWS)

    def on(self, device: Any) -> Callable[[Tensor], Tensor]:
        """Return the function from preprocessed images to rows (rows, `width()`), with all weights on `device`.

        Images are (rows, 3, 32, 32) in [-1, 1] on `device`, as `preprocess` returns them.
        """
        known = stored_statistics(self.statistics, str(device))
        network = stored_weights(self.weights, str(device)).network
        depths, pools = known.maps.depths, known.maps.pools
        whitening = stored_view_whitening(self.statistics, WHITEN, str(device))
        dictionary = known.dictionary if self.dictionary else None
        scatter = whitened_scattering(self.weights, WHITEN, self.mirror, str(device)) if self.scatter else None

        @torch.no_grad()
        def rows(inputs: Tensor) -> Tensor:
            maps = view_parts(network, inputs, self.mirror, depths, pools, dictionary, known.depth)
            parts = [normalize(whitening(maps[: len(depths)]), dim=1)]
            if dictionary is not None:
                parts.append(self.dictionary * normalize(known.codes(maps[-1]), dim=1))
            if scatter is not None:
                parts.append(self.scatter * normalize(scatter(inputs), dim=1))
            return torch.cat(parts, 1)

        return rows

    def width(self) -> int:
        """Return the number of entries of a row."""
        known = stored_statistics(self.statistics, "cpu")
        maps = sum(len(mean) * pool**2 for mean, pool in zip(known.maps.means, known.maps.pools, strict=True))
        codes = POOL**2 * len(known.dictionary.entries) if self.dictionary else 0
        return maps + codes + (COLUMNS if self.scatter else 0)
