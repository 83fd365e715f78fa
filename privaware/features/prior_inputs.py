"""Images of any size, grey or in colour, as 3 x `side` x `side` numbers in [-1, 1]: inputs of the feature `prior`.

Privacy: no privacy cost (data-independent): each row is transformed by itself.
Use when: a network that was pretrained on such inputs is trained or applied, as in `finetune`.

>>> PriorInputs(side=4)(np.ones((2, 1, 8, 8), np.float32)).shape
(2, 3, 4, 4)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privaware._validate import expect_count
from privaware.errors import WrongInput
from privaware.schema import Schema

__all__ = ["PriorInputs"]

MICROBATCH = 1024
"""Number of images resized at a time."""


@dataclass(frozen=True, kw_only=True)
class PriorInputs:
    """Images as float32 (rows, 3, side, side) in [-1, 1], for the network of the feature `prior`.

    Pixels are first clipped to [0, 1]; NaN becomes 0. Images must be (rows, 1 or 3, height, width), else raise
    `WrongInput`.

    Parameters
    ----------
    side : int
        Side of the resized images, in pixels.
    """

    side: int = 32

    def __post_init__(self) -> None:
        expect_count("prior_inputs", side=self.side)

    def __call__(self, x: np.ndarray, schema: Schema | None = None) -> np.ndarray:
        import torch

        from privaware.features._prior.maps import preprocess

        if x.ndim != 4 or x.shape[1] not in (1, 3) or not all(x.shape[2:]):
            raise WrongInput(
                f"prior_inputs: expected images of shape (rows, 1 or 3, height, width), got {tuple(x.shape)}"
            )
        resized = np.empty((len(x), 3, self.side, self.side), np.float32)
        for at in range(0, len(x), MICROBATCH):
            images = torch.from_numpy(np.ascontiguousarray(x[at : at + MICROBATCH], dtype=np.float32))
            resized[at : at + MICROBATCH] = preprocess(images, self.side).numpy()
        return resized

    def width(self, schema: Schema | None = None) -> int:
        """Return the number of entries of a row."""
        return 3 * self.side**2
