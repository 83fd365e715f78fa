"""Private gradient descent on networks with a bounded activation: tempered sigmoids, tanh among them.

Every activation of the network becomes s / (1 + exp(-t x)) - o with `tempered` = (s, t, o); (2, 2, 1) is tanh. Bounded
activations keep gradients small, so less of them is clipped away.

Paper: Papernot et al. 2021, Tempered Sigmoid Activations for Deep Learning with Differential Privacy,
arXiv:2007.14191; algorithm TanhAct of DPMLBench.
Privacy: the same guarantee as `dpsgd`. The choice of the architecture does not depend on rows.
Use when: a network with ReLU loses much of its gradients to clipping. With group norm it may hurt at large epsilon.

>>> from privaware.testing import rows_for
>>> from privaware.schema import Schema
>>> from privaware.noise import Rng
>>> schema = Schema(form="image", shape=(1, 8, 8), classes=("n", "y"), rows=200)
>>> learner = Tanh(steps=2, architecture={"name": "simple_cnn", "filters": [4], "hidden": [8], "activation": "relu"})
>>> learner.run(rows_for(schema, 100), noise=0.5, rng=Rng(seed=1)).architecture["activation"]
'tanh'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from privaware import models
from privaware.errors import WrongInput
from privaware.learners._networks.training import MomentumNetwork
from privaware.schema import Schema

__all__ = ["Tanh"]

TANH = (2.0, 2.0, 1.0)
"""Scale, temperature and offset of the tempered sigmoid that equals the hyperbolic tangent."""


@dataclass(frozen=True, kw_only=True)
class Tanh(MomentumNetwork):
    """The learner `dpsgd` on a network whose activations are tempered sigmoids.

    Parameters
    ----------
    tempered : sequence of float
        Scale s, temperature t and offset o of the activation `s / (1 + exp(-t * x)) - o`; the default is tanh.

    Notes
    -----
    `MomentumNetwork` explains the other settings.
    """

    phase: ClassVar[str] = "model design"

    tempered: Sequence[float] = TANH

    def _architecture(self, schema: Schema) -> dict[str, Any]:
        described = super()._architecture(schema)
        if "activation" not in described:
            raise WrongInput(
                f"tanh: expected an architecture with an activation, such as fcn, got {described['name']!r}"
            )
        described.pop("tempered", None)
        bounded = tuple(self.tempered)
        chosen = {"activation": "tanh"} if bounded == TANH else {"activation": "tempered", "tempered": bounded}
        return models.parse(described | chosen).describe()
