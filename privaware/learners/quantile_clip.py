"""Private gradient descent whose clipping norm follows a quantile of the gradients' norms.

Each step also releases, with noise, how many rows of the batch have a gradient norm of at most the clipping norm. The
clipping norm then moves towards the quantile `target` of the gradient norms. Sum and count are one Gaussian release at
the cost of one step.

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
from privaware.learners._networks.training import COUNT_NOISE, LEAST_NORM, MOST_NORM, MomentumNetwork

__all__ = ["QuantileClip"]


@dataclass(frozen=True, kw_only=True)
class QuantileClip(MomentumNetwork):
    """The learner `dpsgd` with a clipping norm that begins at `norm` and moves towards a quantile of gradient norms.

    The length of an update grows with the clipping norm, so `lr` fits clipping norms near `norm` only. Far above `norm`
    updates grow, gradients grow with them, and the clipping norm follows the gradients. Lower `lr` where `most` is far
    above `norm`. `MomentumNetwork` explains the other settings.

    Parameters
    ----------
    target : float
        The quantile that the clipping norm follows, in (0, 1): the fraction of gradients that should not be clipped.
    clip_lr : float
        Learning rate of the logarithm of the clipping norm.
    count_noise : float, optional
        Standard deviation of the noise on the count of gradients below the clipping norm; by default ten times the
        noise multiplier.
    least, most : float, optional
        Bounds of the clipping norm; by default half of `norm` and four times `norm`.
    """

    clip: str = "quantile"
    target: float = 0.5
    clip_lr: float = 0.2
    count_noise: float | None = None
    least: float | None = None
    most: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_in("quantile_clip", "(0, 1)", target=self.target)
        expect_between("quantile_clip", 1e-6, 10, clip_lr=self.clip_lr)
        least, most = self._bounds()
        expect_between("quantile_clip", 1e-9, 1e9, least=least)
        expect_between("quantile_clip", least, 1e9, most=most)
        expect_between("quantile_clip", 1e-6, 1e9, optional=True, count_noise=self.count_noise)

    def _bounds(self) -> tuple[float, float]:
        """Return the smallest and the largest clipping norm: `least` and `most`, or their defaults if they are None."""
        least = LEAST_NORM * self.norm if self.least is None else self.least
        return least, MOST_NORM * self.norm if self.most is None else self.most

    def _clip(self, noise: float) -> Any:
        from privaware import descent

        count_noise = self.count_noise or COUNT_NOISE * noise
        low, high = self._bounds()
        steps = {"target": self.target, "lr": self.clip_lr, "low": low, "high": high}
        return descent.quantile(norm=self.norm, count_noise=count_noise, **steps)
