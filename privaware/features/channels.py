"""Maps of every channel as channels of one image, so that a convolutional network can read them.

Scattering gives each channel of an image several maps: (rows, channels, maps, height, width) becomes (rows, channels x
maps, height, width). The numbers do not change.

Privacy: no privacy cost (data-independent): each row keeps its own numbers.
Use when: a network other than a linear one learns from scattering (`hand_dp`).

>>> Channels()(np.ones((2, 3, 81, 8, 8), np.float32)).shape
(2, 243, 8, 8)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privaware.errors import WrongInput
from privaware.schema import Schema

__all__ = ["Channels"]


@dataclass(frozen=True, kw_only=True)
class Channels:
    """Merge all axes between the first (rows) and the last two (height, width) into one axis; there are no settings."""

    def __call__(self, x: np.ndarray, schema: Schema | None = None) -> np.ndarray:
        """Merge all axes between the first and the last two; raise `WrongInput` if `x` has fewer than four axes."""
        if x.ndim < 4:
            raise WrongInput(f"channels: expected maps of several channels, got rows of shape {x.shape[1:]}")
        return x.reshape(len(x), math.prod(x.shape[1:-2]), *x.shape[-2:])
