"""Maps of every channel as channels of one image, so that a network of convolutions can read them.

Scattering gives each channel of an image several maps: (rows, channels, maps, height, width) becomes (rows, channels x
maps, height, width). Numbers stay as they are.

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
    """It has no settings."""

    def __call__(self, x: np.ndarray, schema: Schema | None = None) -> np.ndarray:
        """All axes between the rows and the last two become one."""
        if x.ndim < 4:
            raise WrongInput(f"channels: expected maps of several channels, got rows of shape {x.shape[1:]}")
        return x.reshape(len(x), math.prod(x.shape[1:-2]), *x.shape[-2:])
