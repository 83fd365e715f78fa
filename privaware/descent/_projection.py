"""Interfaces of projections, which release sums other than the sum of clipped per-example gradients.

A projection defines what is computed from a per-example gradient, clipped and summed, and how a gradient is rebuilt
from the noisy sums. What it projects on, such as a subspace, comes from earlier releases and public rows only. So only
the sums have a privacy cost.
"""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor


class BoundProjection(Protocol):
    """A projection of one stack (models that are trained together).

    `columns` is how many numbers are summed for an example. `parts` is how many vectors, each clipped to the clipping
    norm, an example adds to the release. `cancelling` is an upper bound on the norm of the summed vector divided by the
    norm of the released vector (see `_rounding.py`). `tensors` are saved in a checkpoint. `fingerprint` identifies the
    settings: a checkpoint with another fingerprint is refused.
    """

    columns: int
    parts: int
    cancelling: float
    tensors: dict[str, Tensor]
    fingerprint: str

    def refresh(self, loss: Any, step: int) -> None:
        """Choose what gradients are projected on at step number `step` (from 0), in place, without a private row.

        `loss` is the loss of this step, for gradients on public rows.
        """
        ...

    def accumulate(self, gradients: Any, batch: Any, clip: Any, norm: Any, total: Tensor, capturing: bool) -> Tensor:
        """Add the projected and clipped gradient of each example to `total`; return the squared norms before clipping.

        `gradients` are the per-example gradients of `batch` by parameter name. The other arguments are as in
        `accumulate` of `_accumulate.py`.
        """
        ...

    def released(self, exact: Tensor) -> Tensor:
        """Return the vectors to which noise is added, computed from the sums `exact` that `accumulate` filled."""
        ...

    def gradient(self, noisy: Tensor) -> Tensor:
        """Return the gradient sum (models, trainable) rebuilt from the `noisy` release."""
        ...


class Projection(Protocol):
    """The interface of the public settings of a projection, as in the field `Descent.projection`.

    `clips` and `precisions` name the clips and precisions that the projection supports. `bind(stack, rng)` returns the
    projection of one stack.
    """

    clips: tuple[str, ...]
    precisions: tuple[str, ...]

    def bind(self, stack: Any, rng: Any) -> BoundProjection:
        """Return the projection of `stack`. `rng` draws its random numbers, which do not protect rows."""
        ...
