"""GEP: private gradient descent in a subspace that the gradients of public rows span, plus the residual.

The gradients of public rows with random labels span a subspace of few directions, which is computed anew every
`refresh` steps. A row's gradient is split into its coordinates in the subspace and its residual. Each part is clipped
on its own, and both sums get noise; together they give the gradient again. The coordinates are few, so their noise is
small; the residual has a small norm, so its clipping norm is smaller. Without the residual (`residual` 0) the gradient
is biased and a step is cheaper.

Paper: Yu, Zhang, Chen, Liu 2021, Do Not Let Privacy Overbill Utility: Gradient Embedding Perturbation for Private
Learning, arXiv:2102.12677. Algorithm GEP of DPMLBench, whose code accounts for two independent samples although both
parts come from one (at epsilon 100 it spends 239), goes through the rows in a fixed order and takes its public rows
from the test set; ours does none of these.
Privacy: (epsilon, delta) for one row added or removed; the public rows are not protected. Coordinates and residual come
from the same sample and are released as one vector. With each part divided by its clipping norm, a row changes the
vector by at most sqrt(2) in L2 norm. The noise multiplier belongs to the whole vector, so each part gets noise of
standard deviation sqrt(2) * noise * its clipping norm. Without the residual, 1 stands in place of sqrt(2).
Use when: some thousand public rows resemble the private ones and the network is not too large for the basis, which
takes 8 bytes for each parameter and direction of its block: 0.7 GB for 268,000 parameters, 1,000 directions and
3 blocks, twice that while it is computed.

>>> from privaware.testing import rows_for
>>> from privaware.schema import Column, Schema
>>> from privaware.noise import Rng
>>> schema = Schema(columns=(Column(name="c", low=-1, high=1),), classes=("n", "y"), rows=200)
>>> learner = Gep(steps=3, directions=8, public=rows_for(schema, 20, seed=2))
>>> learner.run(rows_for(schema, 200), noise=0.5, rng=Rng(seed=1)).architecture["name"]
'fcn'
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from privaware import features, models
from privaware._validate import expect_between
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import Event
from privaware.learners._networks.training import MomentumNetwork
from privaware.schema import Schema

__all__ = ["Gep"]

MOST_NUMBERS = {"cpu": 2**30, "cuda": 2**32}
"""Largest number of entries of a basis on each kind of device; an entry takes 8 bytes."""


@dataclass(frozen=True, kw_only=True)
class Gep(MomentumNetwork):
    """The learner `dpsgd` with gradients in a subspace that public gradients span, plus their residuals.

    A row's coordinates in the subspace are clipped to `norm`. `MomentumNetwork` explains the other settings.

    Parameters
    ----------
    directions : int
        Approximate number of directions of the subspaces of all blocks together.
    blocks : int
        Number of blocks into which the parameters are cut; each block has a subspace of its own.
    residual : float
        Residuals (a gradient minus its projection on the subspace) are clipped to `residual * norm`; 0 drops them.
    anchors : int
        Number of public rows, the first ones, whose gradients span the subspace; all of them if there are fewer.
    power : int
        Number of power iterations that compute a subspace.
    refresh : int
        Number of steps for which a subspace is kept.
    decay : float
        Weight decay.
    public : Data, optional
        The public rows. Training without them raises `WrongInput`.
    """

    needs_public: ClassVar[bool] = True

    directions: int = 1000
    blocks: int = 3
    residual: float = 0.4
    anchors: int = 2000
    power: int = 1
    refresh: int = 10
    decay: float = 0.0
    public: Data | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_between("gep", 0, 1, decay=self.decay)
        expect_between("gep", 1, 1e9, anchors=self.anchors)
        if self.public is not None and not len(self.public):
            raise WrongInput("gep: expected at least one public row, got none; give a file with public rows")
        self._projection(None)

    def cost(self, schema: Schema, noise: float) -> Event:
        from privaware import descent

        module = models.build(self._architecture(schema), device="meta")
        self._freeze(module)
        shapes = [tuple(parameter.shape) for parameter in module.parameters() if parameter.requires_grad]
        numbers = descent.basis_numbers(shapes, self.directions, self.blocks, self.anchors)
        most = MOST_NUMBERS["cpu" if self.device.startswith("cpu") else "cuda"]
        if numbers > most:
            raise WrongInput(
                f"gep: expected a basis of at most {most:.2g} numbers on {self.device}, got {numbers:.2g}; lower "
                "directions, or cut the network into more blocks"
            )
        return super().cost(schema, noise)

    def _projection(self, schema: Schema | None) -> Any:
        from privaware import descent

        return descent.anchored(
            inputs=lambda: self._anchor_rows(schema),
            classes=0 if schema is None else len(schema.classes),
            directions=self.directions,
            blocks=self.blocks,
            residual=self.residual or None,
            power=self.power,
            refresh=self.refresh,
        )

    def _anchor_rows(self, schema: Schema | None) -> Any:
        import torch

        if self.public is None or schema is None:
            raise WrongInput("gep: expected public rows to span a subspace, got none; give them with --public FILE")
        rows = features.apply(self._features(schema), self.public.x[: self.anchors], schema, self.device)
        return torch.from_numpy(np.ascontiguousarray(rows))

    def _update(self) -> Any:
        from privaware import descent

        return descent.momentum(self.lr, self.momentum, self.decay)

    def _descent(self, schema: Schema, noise: float) -> Any:
        return replace(super()._descent(schema, noise), projection=self._projection(schema))
