"""Private gradient descent whose clipping norm follows a quantile of the gradients' norms.

Each step also releases how many rows of the batch have a gradient within the norm; the norm then moves towards the
quantile `target`. Sum and count are one Gaussian release at the cost of one step.

Paper: Andrew et al. 2021, Differentially Private Learning with Adaptive Clipping, arXiv:1905.03871; algorithm AdpClip
of DPMLBench (target 0.7, clip_lr 0.1, norms from 0.05 to 10, count_noise of a twentieth of the batch).
Privacy: (epsilon, delta) for one row added or removed. A row adds +1/2 or -1/2 to the count, which is divided by the
public batch size, never by the true one; the noise of both parts is such that together they cost one step.
Use when: no good clipping norm is known; it saves a search for one.

>>> from privaware.testing import rows_for
>>> from privaware.schema import Column, Schema
>>> from privaware.noise import Rng
>>> schema = Schema(columns=(Column(name="c", low=-1, high=1),), classes=("n", "y"), rows=200)
>>> model = QuantileClip(steps=3).run(rows_for(schema, 200), noise=0.5, rng=Rng(seed=1))
>>> model.architecture["name"]
'fcn'
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from privaware._validate import expect_between, expect_in
from privaware.learners._networks.training import COUNT_NOISE, MomentumNetwork

__all__ = ["QuantileClip"]


@dataclass(frozen=True, kw_only=True)
class QuantileClip(MomentumNetwork):
    """`dpsgd` whose clipping norm begins at `norm` and moves in steps of `clip_lr`, from `least` to `most`.

    `count_noise` is the standard deviation of the noise on the count. Left out, it is ten times the noise multiplier.
    """

    clip: str = "quantile"
    target: float = 0.5
    clip_lr: float = 0.2
    count_noise: float | None = None
    least: float = 1e-6
    most: float = 1e6

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_in("quantile_clip", "(0, 1)", target=self.target)
        expect_between("quantile_clip", 1e-6, 10, clip_lr=self.clip_lr)
        expect_between("quantile_clip", 1e-9, 1e9, least=self.least)
        expect_between("quantile_clip", self.least, 1e9, most=self.most)
        if self.count_noise is not None:
            expect_between("quantile_clip", 1e-6, 1e9, count_noise=self.count_noise)

    def _clip(self, noise: float) -> Any:
        from privaware import descent

        count_noise = self.count_noise or COUNT_NOISE * noise
        steps = {"target": self.target, "lr": self.clip_lr, "low": self.least, "high": self.most}
        return descent.quantile(norm=self.norm, count_noise=count_noise, **steps)
