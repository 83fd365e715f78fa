"""Feature rows of the prior over several views of an image, for use next to the features of other networks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from privaware.features._prior.dictionary import POOL
from privaware.features._prior.scattering import COLUMNS
from privaware.features._prior.shipped import SHIPPED, SHIPPED_VIEWS, stored_weights
from privaware.features._prior.transform import whitened_scattering
from privaware.features._prior.views import stored_statistics, stored_view_whitening, view_parts

__all__ = ["ViewRows"]

WHITEN = 0.3
"""Exponent of the whitening."""


@dataclass(frozen=True, kw_only=True)
class ViewRows:
    """Rows of whitened maps of norm 1, followed by codes of norm `dictionary` and scattering of norm `scatter`.

    A norm of 0 leaves its block out. Maps and codes are averaged over the views of an image (`views`), with `mirror`
    also over the mirror image of each view; scattering is averaged over the image and, with `mirror`, its mirror image.
    `weights` and `statistics` are the files of the network and of its statistics.
    """

    dictionary: float = 1.0
    scatter: float = 0.5
    mirror: bool = True
    weights: str = str(SHIPPED)
    statistics: str = str(SHIPPED_VIEWS)

    def on(self, device: Any) -> Callable[[Tensor], Tensor]:
        """Return the function from images of `preprocess` to rows (rows, `width()`), with all weights on `device`."""
        known = stored_statistics(self.statistics, str(device))
        network = stored_weights(self.weights, str(device)).network
        depths, pools = known.maps.depths, known.maps.pools
        whitening = stored_view_whitening(self.statistics, WHITEN, str(device))
        dictionary = known.dictionary if self.dictionary else None
        scattering = whitened_scattering(self.weights, WHITEN, self.mirror, str(device)) if self.scatter else None

        @torch.no_grad()
        def rows(inputs: Tensor) -> Tensor:
            maps = view_parts(network, inputs, self.mirror, depths, pools, dictionary, known.depth)
            parts = [normalize(whitening(maps[: len(depths)]), dim=1)]
            if dictionary is not None:
                parts.append(self.dictionary * normalize(known.codes(maps[-1]), dim=1))
            if scattering is not None:
                parts.append(self.scatter * normalize(scattering(inputs), dim=1))
            return torch.cat(parts, 1)

        return rows

    def width(self) -> int:
        """Return the number of entries of a row."""
        known = stored_statistics(self.statistics, "cpu")
        maps = sum(len(mean) * pool**2 for mean, pool in zip(known.maps.means, known.maps.pools, strict=True))
        codes = POOL**2 * len(known.dictionary.entries) if self.dictionary else 0
        return maps + codes + (COLUMNS if self.scatter else 0)
