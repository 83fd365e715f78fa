"""Private gradient descent on a loss that changes from squared error to focal loss.

In early epochs the squared error of the logits and a penalty on pre-activations converge fast and keep gradients small.
In later epochs focal loss gives more weight to hard examples. DPMLBench's algorithm FocalLoss is focal loss alone:
`loss={"name": "focal"}`.

Paper: Shamsabadi and Papernot, Losing Less: A Loss for Differentially Private Deep Learning (2021); algorithm FocalLoss
of DPMLBench. The paper gives neither the weight of the penalty nor the epoch of the change. The defaults `beta` = 10
and `turn` = half of the training are this package's.
Privacy: the same guarantee as `dpsgd`. The loss has one value for each row, which depends on no other row.
Use when: training is long enough for two phases, and rows are unequally hard.

>>> from privaware.testing import rows_for
>>> from privaware.schema import Column, Schema
>>> from privaware.noise import Rng
>>> schema = Schema(columns=(Column(name="c", low=-1, high=1),), classes=("n", "y"), rows=200)
>>> Focal(steps=3).run(rows_for(schema, 200), noise=0.5, rng=Rng(seed=1)).architecture["name"]
'fcn'
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from privaware.learners._networks.training import MomentumNetwork

__all__ = ["Focal"]


@dataclass(frozen=True, kw_only=True)
class Focal(MomentumNetwork):
    """The learner `dpsgd` with focal loss, alone or after squared error.

    Parameters
    ----------
    loss : dict
        A table with the `name` of the loss, "losing_less" (the default) or "focal", and its settings. `gamma` is the
        exponent of the focal loss. "losing_less" changes from squared error with a penalty on pre-activations to focal
        loss after the fraction `turn` of the training; a larger `beta` makes the penalty smaller.

    Notes
    -----
    `MomentumNetwork` explains the other settings.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    phase: ClassVar[str] = "model design"

    loss: dict[str, Any] | None = field(default_factory=lambda: {"name": "losing_less"})
