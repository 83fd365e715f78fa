"""Random weights training: the first layers keep their random initial weights, only the last ones are trained.

Noise is added to fewer parameters, so at small epsilon random features lose less accuracy than noisy training. The
frozen weights come from public randomness and are released with the model.

Paper: Bao, Bauer and Bindschaedler, random weights training (their networks train the last two layers).
Privacy: (epsilon, delta) for one row added or removed, as `dpsgd`: a row's clipped gradient by the trained parameters
moves a step's sum by at most `norm`; the frozen ones never see a row.
Use when: epsilon is very small and the network is convolutional. On MNIST we measured the crossover at epsilon 0.28 (0
to 2.7 at 95% confidence) for the CNN of Bao et al., and none for their fully connected network, which is better with
all layers trained at every epsilon (docs/results/studies.md); they print about 0.6 and 1.4.

>>> from privaware.testing import rows_for
>>> from privaware.schema import Column, Schema
>>> from privaware.noise import Rng
>>> schema = Schema(columns=(Column(name="c", low=-1, high=1),), classes=("n", "y"), rows=200)
>>> deep = {"name": "fcn", "hidden": [8, 8, 8]}
>>> model = Frozen(architecture=deep, layers=1, steps=3).run(rows_for(schema, 200), noise=0.5, rng=Rng(seed=1))
>>> sorted(model.tensors)[-2:]
['output.bias', 'output.weight']
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from privaware._validate import expect_count
from privaware.learners._networks.training import MomentumNetwork, layers_with_parameters

__all__ = ["Frozen"]


@dataclass(frozen=True, kw_only=True)
class Frozen(MomentumNetwork):
    """`dpsgd` that trains only the last `layers` layers with parameters."""

    phase: ClassVar[str] = ""

    layers: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_count("frozen", layers=self.layers)

    def _freeze(self, module: Any) -> None:
        super()._freeze(module)
        for layer in layers_with_parameters(module)[: -self.layers]:
            layer.requires_grad_(False)
