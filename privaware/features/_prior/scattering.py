"""Scattering coefficients whitened by the covariance of synthetic images, as further columns of the feature `prior`.

The 243 coefficients of a colour image at one position (81 for each channel) are whitened together, by the same matrix
at every position, because statistics of synthetic images hardly depend on the position. The matrix is a power of the
coefficients' covariance, which is stored as an upper triangle in half precision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from privaware import features
from privaware.errors import WrongInput
from privaware.features._prior.maps import SIDE
from privaware.features._prior.whitening import powers
from privaware.features._rounded_tensors import symmetric

SETTINGS = {"name": "scatter", "J": 2, "L": 8}
"""Description of the scattering feature."""
CHANNELS = 3 * 81
"""Number of coefficients of a colour image at one position."""
COLUMNS = CHANNELS * (SIDE // 4) ** 2
"""Number of whitened coefficients of an image."""


def scattering(device: Any) -> Callable[[Tensor], Tensor]:
    """Return the map from images (rows, 3, 32, 32) in [0, 1] to coefficients (rows, 243, 8, 8), on one device."""
    scatter = features.build(dict(SETTINGS))

    def run(images: Tensor) -> Tensor:
        return torch.as_tensor(scatter(images), device=device).flatten(1, 2)

    return run


@dataclass(frozen=True, kw_only=True, eq=False)
class ScatteringStatistics:
    """Statistics over images and positions of the 243 scattering coefficients of a colour image (81 for each channel).

    `mean` and `scale`, the standard deviation, are (243,). `covariance` (243, 243) is of coefficients divided by their
    scales.
    """

    mean: Tensor
    scale: Tensor
    covariance: Tensor

    @classmethod
    def read(cls, tensors: Mapping[str, Tensor]) -> ScatteringStatistics:
        """Return the statistics from stored `tensors`; raise `WrongInput` if there are none."""
        if "scatter.mean" not in tensors:
            raise WrongInput(
                "prior: these weights bring no statistics of scattering; "
                "set scatter to 0, or write the file again with `privaware reproduce ours/prior/weights`"
            )
        size = len(tensors["scatter.mean"])
        covariance = symmetric(tensors["scatter.covariance"], size)
        return cls(mean=tensors["scatter.mean"], scale=tensors["scatter.scale"], covariance=covariance)

    def whitening(self, power: float, device: Any) -> Callable[[Tensor], Tensor]:
        """Return the function from coefficients (rows, 243, h, w) to whitened rows (rows, 243 * h * w), on `device`.

        At each position the coefficients are centred, divided by `scale` and multiplied by (covariance +
        ridge)^(-power). The ridge is a fraction (`RIDGE`) of the covariance's mean eigenvalue, times the unit matrix.
        With power 0 coefficients are only centred and scaled.
        """
        matrix = (powers([self.covariance], power)[0] / self.scale).to(device)
        mean = self.mean.to(device)[:, None, None]

        def run(coefficients: Tensor) -> Tensor:
            return torch.einsum("dc,rchw->rdhw", matrix, coefficients - mean).flatten(1)

        return run
