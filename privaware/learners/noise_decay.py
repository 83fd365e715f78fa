"""Private gradient descent with more noise in early steps than in late steps, at one total cost.

The noise multiplier follows `noise_schedule`, a table whose lengths count epochs: {"name": "exponential", "factor":
0.99}, {"name": "time_decay", "decay": 0.05}, {"name": "exponential", "factor": 0.6, "every": 10} (constant for ten
epochs at a time) or {"name": "polynomial", "power": 3, "end": 0.3}. The schedule determines both the noise of each step
and its cost.

Paper: Yu et al. 2019, Differentially Private Model Publishing for Deep Learning, arXiv:1904.02200; algorithm AdpAlloc
of DPMLBench (exponential, 0.01 an epoch).
Privacy: (epsilon, delta) for one row added or removed: the composition of all steps, each at its own noise multiplier.
Use when: late steps need precision more than early ones. Compare with `dpsgd` and a decreasing learning rate first.

>>> from privaware.learners.dpsgd import DpSgd
>>> from privaware.schema import Column, Schema
>>> schema = Schema(columns=(Column(name="c", low=-1, high=1),), classes=("n", "y"), rows=512)
>>> learner = NoiseDecay(batch=256, epochs=2, noise_schedule={"name": "exponential", "factor": 0.5})
>>> learner.cost(schema, noise=2.0) == DpSgd(batch=256, epochs=1).cost(schema, 2.0) + DpSgd(batch=256, epochs=1).cost(
...     schema, 1.0
... )
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from privaware.learners._networks.training import MomentumNetwork

__all__ = ["NoiseDecay"]


@dataclass(frozen=True, kw_only=True)
class NoiseDecay(MomentumNetwork):
    """The learner `dpsgd` with a noise multiplier that changes during training.

    Parameters
    ----------
    noise_schedule : dict
        The schedule of the factor by which the noise multiplier is multiplied: a table as in the docstring of this
        module. By default the factor is `exp(-0.01 * epoch)`.

    Notes
    -----
    `MomentumNetwork` explains the other settings.
    """

    noise_schedule: dict[str, Any] | None = field(
        default_factory=lambda: {"name": "exponential", "factor": math.exp(-0.01)}
    )
