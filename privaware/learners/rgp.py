"""RGP: private gradient descent on low-rank reparametrised weights.

Each large weight matrix is written as a product of two narrow factors plus a residual. Only the gradients of the
factors are clipped and get noise; they have far fewer entries. The gradient of the matrix itself is computed from them,
and the matrix is trained with momentum. The factors follow the change of the matrix since its initial values. Biases,
norm layers and layers whose factors would not be smaller (small layers, the output) are trained as in `dpsgd`.

Paper: Yu, Zhang, Chen, Yin, Liu 2021, Large Scale Private Learning via Low-rank Reparametrization, arXiv:2106.09352;
`sides` = "left" after the authors' later code. Algorithm RGP of DPMLBench. The code of DPMLBench charges twice for one
release, trains the output a hundred times slower and does not sample as it is accounted for. This implementation does
none of these.
Privacy: (epsilon, delta) for one row added or removed. A row's gradients of all factors and of all other parameters are
clipped as one vector, so a step is one Gaussian release at the cost of a step of `dpsgd`. The factors come from earlier
releases and random numbers: post-processing.
Use when: a network is so wide that noise on all of its weights dominates the gradient. RGP takes no more memory than
`dpsgd`: on a CPU at most 0.7 GiB for a step of ResNet20 with 128 rows, and 7.3 GiB for VGG (129 million parameters)
with 8 rows.

>>> from privaware.testing import rows_for
>>> from privaware.schema import Column, Schema
>>> from privaware.noise import Rng
>>> schema = Schema(columns=(Column(name="c", low=-1, high=1),), classes=("n", "y"), rows=200)
>>> learner = Rgp(steps=3, rank=2, architecture={"name": "fcn", "hidden": [16, 16]})
>>> learner.run(rows_for(schema, 200), noise=0.5, rng=Rng(seed=1)).architecture["hidden"]
[16, 16]
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from privaware._validate import expect_between
from privaware.learners._networks.training import MomentumNetwork
from privaware.schema import Schema

__all__ = ["Rgp"]


@dataclass(frozen=True, kw_only=True)
class Rgp(MomentumNetwork):
    """The learner `dpsgd` with noisy gradients of low-rank factors instead of the weight matrices.

    Parameters
    ----------
    rank : int
        Number of columns of the left factor and of rows of the right factor of a weight matrix.
    sides : str
        The factors whose gradients are released: "both" or "left".
    warm_up : int
        Up to this step the factors approximate the weight matrices themselves; after it, their change since this step.
    decay : float
        Weight decay.

    Notes
    -----
    `MomentumNetwork` explains the other settings.
    """

    rank: int = 16
    sides: str = "both"
    warm_up: int = 0
    decay: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_between("rgp", 0, 1, decay=self.decay)
        self._projection()

    def _projection(self) -> Any:
        from privaware import descent

        return descent.low_rank(self.rank, self.sides, self.warm_up)

    def _update(self) -> Any:
        from privaware import descent

        return descent.momentum(self.lr, self.momentum, self.decay)

    def _descent(self, schema: Schema, noise: float) -> Any:
        return replace(super()._descent(schema, noise), projection=self._projection())
