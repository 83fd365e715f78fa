"""Membership games that attack tests share: small networks on digits, overfitted without privacy, or private."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from privaware import datasets
from privaware.attacks import Challenge, ShadowPlan, membership_game
from privaware.learners.dp_adam import DpAdam
from privaware.noise import Rng

NETWORK = {"name": "fcn", "hidden": [64], "activation": "relu", "dropout": 0.0}
OVERFITTED = DpAdam(architecture=NETWORK, steps=120, batch=64, norm=1e6, lr=0.01, average=0.0)
PRIVATE = replace(OVERFITTED, norm=0.5, lr=0.02, steps=40)
EPSILON_1 = 8.0
"""A noise multiplier that makes `PRIVATE` on 150 rows cost less than epsilon 1 at delta 1e-3; a test says so."""


@cache
def digits_game(*, private: bool = False, online: bool = True, count: int = 8, seed: int = 0) -> Challenge:
    """150 members and 150 others of digits with a tenth of random labels, which only memory can predict."""
    data = datasets.load("digits").train
    data = data.take(np.random.default_rng(seed).permutation(len(data))[:600])
    flipped = np.random.default_rng(1).random(len(data)) < 0.3
    labels = np.where(flipped, np.random.default_rng(2).integers(10, size=len(data)), data.y)
    data = replace(data, y=labels)
    learner, noise = (PRIVATE, EPSILON_1) if private else (OVERFITTED, 0.0)
    plan = ShadowPlan(count=count, online=online)
    return membership_game(learner, data, noise=noise, rng=Rng(seed=seed), shadows=plan)
