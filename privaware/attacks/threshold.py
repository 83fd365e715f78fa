"""Rank rows by one statistic of the released model: loss, confidence or entropy. No shadow model is needed.

A model is more certain about its training rows: their loss and entropy are lower, and their confidence is higher. With
`reverse` the ranking is reversed, for a model that is less certain about them.

Paper: Yeom, Giacomelli, Fredrikson and Jha 2018, Privacy Risk in Machine Learning: Analyzing the Connection to
Overfitting; Salem and others 2019, ML-Leaks.
Privacy: an attack; its scores of private rows are for the data owner only.
Use when: you take a first look at a model, or no shadow model can be trained.

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
"""Statistics of a row by which rows can be ranked."""


def threshold(game: Game, rng: Rng, statistic: str = "loss", reverse: bool = False) -> np.ndarray:
    """Score candidate rows by one statistic of the released model.

    Parameters
    ----------
    game
        The membership game.
    rng
        The random generator; it is not used.
    statistic
        "loss", "confidence" (of the predicted class) or "entropy". A regression has only "loss"; its other
        statistics raise `WrongInput`.
    reverse
        Negate the scores, so that a lower loss or entropy, or a higher confidence, gives a lower score.

    Returns
    -------
    numpy.ndarray
        One score for each candidate row: minus the loss, the confidence, or minus the entropy. Without `reverse`,
        higher means more likely a member.
    """
    expect_one_of("threshold", STATISTICS, statistic=statistic)
    (values,) = outputs([game.model], game.rows, game.device)
    if statistic == "loss":
        scores = -losses(game.model, values, game.rows)
    else:
        logs = log_posteriors(game.model, values)
        scores = logs.max(axis=1) if statistic == "confidence" else (np.exp(logs) * logs).sum(axis=1)
    return -scores if reverse else scores
