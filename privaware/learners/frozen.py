"""Random weights training: the first layers stay as they were drawn, only the last ones are trained.

Noise is added to fewer parameters, so at small budgets the random features cost less than training would. The frozen
weights come from public randomness and are released with the model.

Paper: Bao, Bauer and Bindschaedler, random weights training (their networks train the last two layers).
Privacy: (epsilon, delta) for one row added or removed, as `dpsgd`: a row's clipped gradient by the trained parameters
moves a step's sum by at most `norm`; the frozen ones never see a row.
Use when: the network is deep for the budget; Bao et al. measure the crossover on MNIST at epsilon 0.6 for a CNN and
1.4 for a fully connected network.

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
from typing import Any

from privaware.errors import WrongInput
from privaware.learners._networks import Network

__all__ = ["Frozen"]


@dataclass(frozen=True, kw_only=True)
class Frozen(Network):
    """The last `layers` layers with parameters are trained."""

    layers: int = 2
    momentum: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layers < 1:
            raise WrongInput(f"frozen: expected layers >= 1, got {self.layers!r}")
        if not 0 <= self.momentum < 1:
            raise WrongInput(f"frozen: expected momentum in [0, 1), got {self.momentum!r}")

    def _prepare(self, module: Any) -> None:
        super()._prepare(module)
        owners = [part for part in module.modules() if any(True for _ in part.parameters(False))]
        for part in owners[: -self.layers]:
            part.requires_grad_(False)

    def _update(self) -> Any:
        from privaware import descent

        return descent.momentum(self.lr, self.momentum)
