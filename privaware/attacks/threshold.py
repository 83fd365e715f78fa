"""Ranks rows by one number of the released model: loss, confidence or entropy.

A model is surer of rows that it was trained on: their loss and entropy are lower, their confidence is higher. With
`reverse` the ranking is turned round, for a model that is less sure of them. It needs no shadow model.

Paper: Yeom, Giacomelli, Fredrikson and Jha 2018, Privacy Risk in Machine Learning: Analyzing the Connection to
Overfitting; Salem and others 2019, ML-Leaks.
Privacy: an attack; what it scores on private rows is for the owner's eyes.
Use when: a first look at a model, or no shadow model can be trained.

>>> from privaware.testing import check_attack
>>> check_attack(threshold)
"""

from __future__ import annotations

import numpy as np

from privaware._validate import expect_one_of
from privaware.attacks._game import Game
from privaware.attacks._posteriors import log_posteriors, losses, outputs
from privaware.noise import Rng

__all__ = ["threshold"]

STATISTICS = ("loss", "confidence", "entropy")


def threshold(game: Game, rng: Rng, statistic: str = "loss", reverse: bool = False) -> np.ndarray:
    """`statistic` is among loss, confidence (of the predicted class) and entropy."""
    expect_one_of("threshold", STATISTICS, statistic=statistic)
    (values,) = outputs([game.model], game.rows, game.device)
    if statistic == "loss":
        scores = -losses(game.model, values, game.rows)
    else:
        logs = log_posteriors(game.model, values)
        scores = logs.max(axis=1) if statistic == "confidence" else (np.exp(logs) * logs).sum(axis=1)
    return -scores if reverse else scores
