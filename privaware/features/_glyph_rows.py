"""Rows of the shipped network for glyphs, as `Prior(network="glyphs")` has them, to stand beside those of another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.nn import functional

from privaware.features._prior_maps import pooled_maps
from privaware.features._prior_shipped import SHIPPED_GLYPHS, stored_weights, stored_whitening

__all__ = ["glyph_rows"]

DEPTHS = POOLS = (2,)
WHITEN = 0.3


def glyph_rows(device: Any) -> Callable[[Tensor], Tensor]:
    """From preprocessed images to whitened maps of length 1, with the weights on `device`."""
    file = str(SHIPPED_GLYPHS)
    network = stored_weights(file, str(device)).network
    whitening = stored_whitening(file, DEPTHS, POOLS, WHITEN, str(device))

    def rows(inputs: Tensor) -> Tensor:
        maps = pooled_maps(network, inputs, DEPTHS, POOLS, mirror=False, normed=False)
        return functional.normalize(whitening(maps), dim=1)

    return rows
