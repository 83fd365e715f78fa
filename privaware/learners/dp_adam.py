"""DP-Adam: a network trained by Adam on clipped noisy gradients, its second moment corrected for the noise.

Sampling, clipping, noise and default architectures are the same as in `dpsgd`. Only the update from a noisy gradient
differs, and the update is post-processing.

Paper: Tang, Shpilevskiy and Lecuyer 2024, DP-AdamBC: Your DP-Adam Is Actually DP-SGD (Unless You Apply Bias
Correction), arXiv:2312.14334.
Privacy: (epsilon, delta) for one row added or removed, for the same reason as `dpsgd`.
Use when: parameters have very different scales (embeddings, recurrent layers), or the learning rate cannot be tuned.

>>> from privaware.testing import rows_for
>>> from privaware.schema import Column, Schema
>>> from privaware.noise import Rng
>>> schema = Schema(columns=(Column(name="c", low=-1, high=1),), classes=("n", "y"), rows=200)
>>> model = DpAdam(steps=3).run(rows_for(schema, 200), noise=0.5, rng=Rng(seed=1))
>>> sorted(model.tensors)[0]
'dense1.bias'
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from privaware.learners._networks.training import Network

__all__ = ["DpAdam"]


@dataclass(frozen=True, kw_only=True)
class DpAdam(Network):
    """A network trained by Adam on clipped noisy gradients.

    Parameters
    ----------
    norm : float
        The clipping norm.
    lr : float
        The learning rate.
    correct : bool
        Whether the variance of the noise in a gradient is subtracted from Adam's second moment.

    Notes
    -----
    `Network` explains the other settings.
    """

    norm: float = 1.0
    lr: float = 0.01
    correct: bool = True

    def _update(self) -> Any:
        from privaware import descent

        return descent.adam(self.lr, correct=self.correct)
