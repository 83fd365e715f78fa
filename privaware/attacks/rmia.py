"""RMIA: compare how much likelier a row is under the released model than under shadow models, with other rows.

For a row x the ratio is `p(x | model) / p(x)`, and the score is the fraction of the attacker's rows z with
`ratio(x) >= gamma * ratio(z)`. p(x) is the mean of two averages of `p(x | shadow)`: over shadow models that saw x, and
over shadow models that did not. In an offline game, and for a row that no shadow model saw, the first average is
estimated as `slope * p + 1 - slope`, where p is the average over shadow models that did not see x. Rows z that all
shadow models saw are left out.

Paper: Zarifzadeh, Liu and Shokri 2024, Low-Cost High-Power Membership Inference Attacks.
Privacy: an attack; its scores of private rows are for the data owner only.
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

MIN_PROBABILITY = 1e-300
"""Smallest probability whose logarithm is taken."""


@needing(Needs(shadows=1, classes=True))
def rmia(game: Game, rng: Rng, gamma: float = 1.0, slope: float = 0.3) -> np.ndarray:
    """Score candidate rows by how many of the attacker's rows have a smaller likelihood ratio.

    Parameters
    ----------
    game
        The membership game, with at least one shadow model and auxiliary rows.
    rng
        The random generator; it is not used.
    gamma
        The ratio of a row counts as larger if it is at least `gamma` times the ratio of another row.
    slope
        The parameter `a` of the paper, which estimates the average over shadow models that saw a row.

    Returns
    -------
    numpy.ndarray
        One score in [0, 1] for each candidate row; higher means more likely a member. `WrongInput` is raised without
        shadow models or auxiliary rows, and for a candidate row that all shadow models saw.
    """
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
    """Return `ln p(x | model) - ln p(x)` for each row; NaN for a row that all shadow models saw.

    p(x | model) is the probability that `game.model` gives to the label of the row.

    `inside` (models, rows) says which shadow model saw which row. `slope` is as in `marginals`, which computes p(x).
    """
    models = [game.model, *(shadow.model for shadow in game.shadows)]
    of_models = zip(models, outputs(models, rows, game.device), strict=True)
    observed, *shadows = (true_posteriors(model, values, rows) for model, values in of_models)
    mean = marginals(np.array(shadows), inside, online=game.online, slope=slope)
    return np.log(np.maximum(observed, MIN_PROBABILITY)) - np.log(np.maximum(mean, MIN_PROBABILITY))


def marginals(shadows: np.ndarray, inside: np.ndarray, *, online: bool, slope: float) -> np.ndarray:
    """Return p(x) of each row from `shadows`, the probability of its label under each shadow model (models, rows).

    It is the mean of two averages: over the models that were trained on the row (`inside`), and over the other models.
    Unless `online`, and for a row that no model was trained on, the average over models that were trained on it is
    estimated as `slope * p + 1 - slope`, where p is the average over the other models. The result is NaN for a row that
    all models were trained on.
    """
    counts = (~inside).sum(axis=0)
    outside = np.where(counts > 0, (shadows * ~inside).sum(axis=0) / np.maximum(counts, 1), np.nan)
    seen = inside.sum(axis=0)
    guessed = slope * outside + 1 - slope
    within = (shadows * inside).sum(axis=0) / np.maximum(seen, 1)
    return np.asarray((np.where(online & (seen > 0), within, guessed) + outside) / 2)
