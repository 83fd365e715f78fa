"""RMIA: how many other rows a row beats in how much likelier the released model finds it than shadow models do.

For a row x the ratio is p(x | model) / p(x), where p(x) is the mean over shadow models; the score is the share of the
attacker's own rows z whose ratio is at least `gamma` times smaller. With shadow models that never saw x, p(x) is the
mean of what they give and of what it would be with x inside, taken to be `slope` p + 1 - `slope`.

Paper: Zarifzadeh, Liu and Shokri 2024, Low-Cost High-Power Membership Inference Attacks.
Privacy: an attack; what it scores on private rows is for the owner's eyes.
Use when: few shadow models can be trained (one or two are enough).

>>> from privaware.testing import check_attack
>>> check_attack(rmia)
"""

from __future__ import annotations

import numpy as np

from privaware._validate import expect_fraction, expect_positive
from privaware.attacks._game import Game, Needs, needing
from privaware.attacks._posteriors import outputs, true_posteriors
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.noise import Rng

__all__ = ["rmia"]

LEAST = 1e-300


@needing(Needs(shadows=1, classes=True))
def rmia(game: Game, rng: Rng, gamma: float = 1.0, slope: float = 0.3) -> np.ndarray:
    """`gamma` is the factor by which a row must beat another; `slope` is the `a` of the paper, for offline games."""
    expect_positive("rmia", gamma=gamma)
    expect_fraction("rmia", slope=slope)
    if not game.shadows or game.auxiliary is None or not len(game.auxiliary):
        raise WrongInput("rmia: expected a game with a shadow model and auxiliary rows, got none; pass a ShadowPlan")
    own = np.array([shadow.auxiliary_inside for shadow in game.shadows])
    candidates = _log_ratios(game, game.rows, game.inside, slope)
    references = _log_ratios(game, game.auxiliary, own, slope)
    references = np.sort(references[np.isfinite(references)])
    if not len(references) or not np.isfinite(candidates).all():
        raise WrongInput("rmia: expected every row to have a shadow model that did not see it, got one that has none")
    return np.searchsorted(references, candidates - np.log(gamma), side="right") / len(references)


def _log_ratios(game: Game, rows: Data, inside: np.ndarray, slope: float) -> np.ndarray:
    """ln p(x | model) - ln p(x) for each row; NaN for a row that all shadow models saw."""
    models = [game.model, *(shadow.model for shadow in game.shadows)]
    of_models = zip(models, outputs(models, rows, game.device), strict=True)
    observed, *shadows = (true_posteriors(model, values, rows) for model, values in of_models)
    mean = marginals(np.array(shadows), inside, online=game.online, slope=slope)
    return np.log(np.maximum(observed, LEAST)) - np.log(np.maximum(mean, LEAST))


def marginals(shadows: np.ndarray, inside: np.ndarray, *, online: bool, slope: float) -> np.ndarray:
    """p(x) from probabilities (models, rows): half from models with the row inside, half from those without."""
    counts = (~inside).sum(axis=0)
    outside = np.where(counts > 0, (shadows * ~inside).sum(axis=0) / np.maximum(counts, 1), np.nan)
    seen = inside.sum(axis=0)
    guessed = slope * outside + 1 - slope
    within = (shadows * inside).sum(axis=0) / np.maximum(seen, 1)
    return np.asarray((np.where(online & (seen > 0), within, guessed) + outside) / 2)
