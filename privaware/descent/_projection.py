"""Releases other than the sum of clipped per-example gradients, from which a gradient follows.

A projection says what of a per-example gradient is clipped and summed, and how a gradient comes back from the noisy
sums. It chooses its coordinates from what was released before and from public rows, so only the sums cost privacy.
"""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

__all__ = ["BoundProjection", "Projection"]


class BoundProjection(Protocol):
    """The projection of one stack.

    `columns` are the numbers that are summed for an example. `parts` is how many vectors of the clipping norm an
    example adds to the release; `cancelling` is the length of what is summed over that of what is released (see
    `_rounding.py`). `tensors` are what a checkpoint holds, `fingerprint` what it has to agree in.
    """

    columns: int
    parts: int
    cancelling: float
    tensors: dict[str, Tensor]
    fingerprint: str

    def refresh(self, loss: Any, step: int) -> None:
        """Chooses the coordinates of a step, in place: no private row is read."""
        ...

    def accumulate(self, gradients: Any, batch: Any, clip: Any, norm: Any, total: Tensor, capturing: bool) -> Tensor:
        """Adds the clipped coordinates of each example to `total`; the squared norms that were clipped by."""
        ...

    def released(self, exact: Tensor) -> Tensor:
        """What the noise is added to, from the exact sums."""
        ...

    def gradient(self, noisy: Tensor) -> Tensor:
        """(models, trainable): the gradient sum that follows from the noisy release."""
        ...


class Projection(Protocol):
    """The public settings of a projection, a field of `Descent`."""

    clips: tuple[str, ...]
    precisions: tuple[str, ...]

    def bind(self, stack: Any, rng: Any) -> BoundProjection:
        """The projection of this stack."""
        ...
