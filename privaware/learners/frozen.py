"""Random weights training: the first layers keep their random initial weights, and only the last layers are trained.

Noise is added to fewer parameters. At small epsilon, random features therefore lose less accuracy than noisy training
of all layers does. The frozen weights come from public randomness and are released with the model.

Paper: Bao, Bauer and Bindschaedler, random weights training (their networks train the last two layers).
Privacy: (epsilon, delta) for one row added or removed, as for `dpsgd`. A row's clipped gradient with respect to the
trained parameters changes a step's sum by at most `norm`. The frozen parameters do not depend on any row.
Use when: epsilon is very small and the network is convolutional; docs/results/studies.md gives the measured epsilon
below which freezing helps.

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
    """The learner `dpsgd` with all layers but the last ones frozen at their random initial weights.

    Parameters
    ----------
    layers : int
        How many of the last layers are trained; only layers that have parameters count. If the network has fewer, all
        are trained.

    Notes
    -----
    `MomentumNetwork` explains the other settings.
    """

    phase: ClassVar[str] = ""

    layers: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_count("frozen", layers=self.layers)

    def _freeze(self, module: Any) -> None:
        super()._freeze(module)
        for layer in layers_with_parameters(module)[: -self.layers]:
            layer.requires_grad_(False)
