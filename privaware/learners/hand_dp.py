"""Private gradient descent on hand-crafted features of images: scattering coefficients, normalised in groups.

A fixed wavelet cascade replaces the first layers, so a linear model or a small network learns well from few noisy
steps. `architecture` describes the network on the features, which is a linear model by default.

Paper: Tramer and Boneh 2021, Differentially Private Learning Needs Better Features (or Much More Data),
arXiv:2011.11660; algorithm Hand-DP of DPMLBench.
Privacy: the same guarantee as `dpsgd`. Fixed filters transform each row independently, at no privacy cost.
Use when: the data are images, rows are few or epsilon is small, and there is no better public extractor.

>>> from privaware.testing import rows_for
>>> from privaware.schema import Schema
>>> from privaware.noise import Rng
>>> schema = Schema(form="image", shape=(1, 16, 16), classes=("n", "y"), rows=200)
>>> HandDp(steps=2).run(rows_for(schema, 60), noise=0.5, rng=Rng(seed=1)).architecture["name"]
'linear'
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from privaware.errors import WrongInput
from privaware.events import Event
from privaware.learners._networks.training import MomentumNetwork
from privaware.schema import Schema

__all__ = ["HandDp"]

FEATURES: tuple[dict[str, Any], ...] = ({"name": "scatter"}, {"name": "group_norm", "groups": 27})
"""Default features: scattering coefficients, normalised in 27 groups of channels."""


@dataclass(frozen=True, kw_only=True)
class HandDp(MomentumNetwork):
    """The learner `dpsgd` with a linear model on scattering features of images.

    Parameters
    ----------
    architecture : dict
        Description of the network on the features; by default a linear model.
    features : list of dict
        Descriptions of the features; by default scattering coefficients, normalised in 27 groups of channels.

    Notes
    -----
    `MomentumNetwork` explains the other settings.
    """

    phase: ClassVar[str] = "data preparation"

    architecture: dict[str, Any] | None = field(default_factory=lambda: {"name": "linear"})
    features: list[dict[str, Any]] | None = field(default_factory=lambda: list(FEATURES))

    def cost(self, schema: Schema, noise: float) -> Event:
        if schema.form != "image":
            raise WrongInput(f"hand_dp: expected images, got a {schema.form}; choose dpsgd or linear")
        return super().cost(schema, noise)
