"""RGP: private gradient descent on low-rank reparametrised weights.

Each large weight matrix is written as a product of two narrow factors plus the rest; only the gradients by the factors
are clipped and get noise, which are far fewer numbers. From them follows a gradient by the matrix itself, which is
trained with momentum. The factors follow the change of the matrix since its initial values. Layers whose factors would
be no fewer numbers (small ones, the output), biases and norms are trained as in `dpsgd`.

Paper: Yu, Zhang, Chen, Yin, Liu 2021, Large Scale Private Learning via Low-rank Reparametrization, arXiv:2106.09352;
`sides` "left" after the authors' later code. Algorithm RGP of DPMLBench, whose code charges twice for one release,
trains the output a hundred times slower and does not sample as it is priced; ours does none of these.
Privacy: (epsilon, delta) for one row added or removed. A row's gradients by all factors and all other parameters are
clipped as one vector, so a step is one Gaussian release and costs what a step of `dpsgd` costs. The factors come from
earlier releases and random numbers: post-processing.
Use when: a network is so wide that the noise on all of its weights drowns the gradient. It takes no more memory than
`dpsgd`: at its peak on a CPU 0.7 GiB for a step of ResNet20 with 128 rows, and 7.3 GiB for VGG (129 million parameters)
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
    """`rank` of the factors, which `sides` of them are released, and a weight `decay`.

    Up to step `warm_up` the factors are those of the matrices themselves. `dpsgd` has the other settings.
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
