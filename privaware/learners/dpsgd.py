"""DP-SGD: a network trained by clipped noisy gradient descent with momentum.

Each step samples every row with probability batch / rows, clips its gradient to `norm`, adds Gaussian noise to the sum
and divides by the expected batch size, which is public. Without an `architecture`, tables get one narrow hidden layer
on one-hot rows, images a small convolutional network with group norm and tanh, and texts a narrow hidden layer on
hashed n-grams.

Paper: Abadi et al. 2016, Deep Learning with Differential Privacy, arXiv:1607.00133; tanh after Papernot et al. 2021,
arXiv:2007.14191; small clipping norms with momentum after Tramer and Boneh 2021, arXiv:2011.11660; weight averages and
augmented copies after De et al. 2022, arXiv:2204.13650.
Privacy: (epsilon, delta) for one row added or removed. A row's clipped gradient changes a step's sum by at most `norm`;
the mean gradient over a row's copies is clipped as one vector. Everything after the noisy sum is post-processing.
Use when: there are ten thousand rows or more, or epsilon is large, and a linear model on good features is not enough.

>>> from privaware.testing import rows_for
>>> from privaware.schema import Column, Schema
>>> from privaware.noise import Rng
>>> schema = Schema(columns=(Column(name="c", low=-1, high=1),), classes=("n", "y"), rows=200)
>>> model = DpSgd(steps=3).run(rows_for(schema, 200), noise=0.5, rng=Rng(seed=1))
>>> model.architecture["name"], model.architecture["hidden"]
('fcn', [32])
"""

from __future__ import annotations

from dataclasses import dataclass

from privaware.learners._networks.training import MomentumNetwork

__all__ = ["DpSgd"]


@dataclass(frozen=True, kw_only=True)
class DpSgd(MomentumNetwork):
    """A network trained by clipped noisy gradient descent with momentum; `MomentumNetwork` explains the settings."""
