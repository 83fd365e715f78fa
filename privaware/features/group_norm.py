"""Group normalisation without parameters: each group of channels gets mean 0 and variance 1 in its row.

The channels of a row (for scattering, colours times maps) are split into `groups` of neighbouring channels. Each group
is standardised by its mean and standard deviation over channels and positions.

Paper: Wu and He 2018, Group Normalization, arXiv:1803.08494; on scattering features Tramer and Boneh
2021, arXiv:2011.11660, section 2.2 (9, 27 or 81 groups).
Privacy: no privacy cost (data-independent): its statistics are of one row, never of several.
Use when: features of images have very different scales and no budget should be spent on normalisation.

>>> GroupNorm(groups=1)(np.array([[[[1.0, 3.0]]]], np.float32)).round(2)
array([[[[-1.,  1.]]]], dtype=float32)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privaware._validate import expect_count, expect_in
from privaware.errors import WrongInput
from privaware.schema import Schema

__all__ = ["GroupNorm"]


@dataclass(frozen=True, kw_only=True)
class GroupNorm:
    """Give each group of neighbouring channels of a row mean 0 and variance 1, over its channels and positions.

    Parameters
    ----------
    groups : int
        Number of groups; it must divide the number of channels.
    tiny : float
        Number added to the variance.
    """

    groups: int = 27
    tiny: float = 1e-5

    def __post_init__(self) -> None:
        expect_count("group_norm", groups=self.groups)
        expect_in("group_norm", "(0, 1]", tiny=self.tiny)

    def __call__(self, x: np.ndarray, schema: Schema | None = None) -> np.ndarray:
        """Give each group of channels of each row mean 0 and variance 1, and return float32 rows of the same shape.

        `x` are rows (N, ..., height, width); all axes between the first and the last two are channels. `schema` is not
        used. Raise `WrongInput` unless `groups` divides the number of channels.
        """
        channels = math.prod(x.shape[1:-2])
        if x.ndim < 3 or channels % self.groups:
            raise WrongInput(
                f"group_norm: expected rows of channels x height x width with a number of channels "
                f"that {self.groups} divides, got shape {x.shape}; choose other groups"
            )
        size = math.prod(x.shape[1:]) // self.groups
        parts = x.reshape(len(x), self.groups, size).astype(np.float32)
        parts -= parts.mean(axis=2, keepdims=True)
        variance = np.square(parts).mean(axis=2, keepdims=True)
        parts /= np.sqrt(variance + np.float32(self.tiny))
        return parts.reshape(x.shape)
