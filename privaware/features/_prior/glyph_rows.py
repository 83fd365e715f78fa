"""Feature rows of the network for glyphs and of the small network, for use next to the features of other networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.nn import functional

from privaware.features._prior.maps import pooled_maps
from privaware.features._prior.shipped import (
    SHIPPED_GLYPHS,
    SHIPPED_SMALL,
    stored_student,
    stored_weights,
    stored_whitening,
)

__all__ = ["glyph_rows", "small_rows"]

DEPTHS = POOLS = (2,)
"""The output of residual block 2 (the last, counted from 0) is averaged to 2 x 2."""
WHITEN = 0.3
"""Exponent of the whitening."""


def glyph_rows(device: Any) -> Callable[[Tensor], Tensor]:
    """Return the function from images of `preprocess` to whitened rows (rows, GLYPH_COLUMNS) of norm 1, on `device`."""
    file = str(SHIPPED_GLYPHS)
    network = stored_weights(file, str(device)).network
    whitening = stored_whitening(file, DEPTHS, POOLS, WHITEN, str(device))

    def rows(inputs: Tensor) -> Tensor:
        maps = pooled_maps(network, inputs, DEPTHS, POOLS, mirror=False, normed=False)
        return functional.normalize(whitening(maps), dim=1)

    return rows


def small_rows(device: Any) -> Callable[[Tensor], Tensor]:
    """Return the function from images of `preprocess` to rows of the small network, of norm 1, on `device`."""
    network = stored_student(str(SHIPPED_SMALL), str(device))
    return lambda inputs: functional.normalize(network.features(inputs), dim=1)
