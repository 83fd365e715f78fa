"""LiRA: the likelihood of a row's confidence under shadow models that saw the row, against those that did not.

The confidence of a row (the log odds of its label; in a regression minus its squared error) is assumed to be normal
among shadow models. Online, some shadow models saw the row and some did not, and the score is the log-likelihood ratio
of the two normal distributions. Offline, no shadow model saw the row, and the score is the log probability that a
confidence drawn from the normal distribution of the shadow models is at most the row's confidence under the attacked
model.

Paper: Carlini, Chien, Nasr, Song, Terzis and Tramer 2022, Membership Inference Attacks From First Principles.
Privacy: an attack; its scores of private rows are for the data owner only.
Use when: true positive rates at low false positive rates matter, and dozens of shadow models can be trained.

>>> from privaware.testing import check_attack
>>> check_attack(lira)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privaware.attacks._game import Game, Needs, needing
from privaware.attacks._posteriors import confidence, outputs
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.model import Model
from privaware.noise import Rng

__all__ = ["lira"]

FEW_SHADOWS = 64
"""With fewer shadow models than this, all rows share one variance of confidences, as in the code of the paper."""

LEAST_DEVIATION = 1e-6
"""Smallest standard deviation of confidences, which avoids a division by zero."""


@needing(Needs(shadows=2))
def lira(
    game: Game, rng: Rng, offline: bool | None = None, pooled: bool | None = None, mirrored: bool = False
) -> np.ndarray:
    """Score candidate rows by the likelihood of their confidence among shadow models.

    Parameters
    ----------
    game
        The membership game, with at least two shadow models.
    rng
        The random generator; it is not used.
    offline
        Use only shadow models that did not see a row. Default: whether no shadow model saw a candidate row.
    pooled
        Share one variance among all rows. Default: whether there are fewer than 64 shadow models.
    mirrored
        Query each image a second time, mirrored left to right; other rows raise `WrongInput`.

    Returns
    -------
    numpy.ndarray
        One score for each candidate row; higher means more likely a member. Too few shadow models raise `WrongInput`.
    """
    if len(game.shadows) < 2:
        raise WrongInput(f"lira: expected at least two shadow models, got {len(game.shadows)}; pass a ShadowPlan")
    offline = not game.online if offline is None else offline
    pooled = len(game.shadows) < FEW_SHADOWS if pooled is None else pooled
    observed, *shadows = _confidences([game.model, *(shadow.model for shadow in game.shadows)], game, mirrored)
    return likelihoods(observed, np.array(shadows), game.inside, offline=offline, pooled=pooled)


def likelihoods(
    observed: np.ndarray, shadows: np.ndarray, inside: np.ndarray, *, offline: bool, pooled: bool
) -> np.ndarray:
    """Return the score of each row (rows) from confidences, as the sum over queries of one term.

    If `offline`, the term is the log probability, under the normal distribution of the shadow models that did not see
    the row, of a confidence up to the observed one. Otherwise it is the log-likelihood ratio of the normal
    distributions of the shadow models that saw the row and of those that did not. With `pooled` all rows share one
    variance.

    `observed` (rows, queries) are confidences under the attacked model, and `shadows` (models, rows, queries) those
    under each shadow model. `inside` has shape (models, rows) and says which shadow model saw which row.
    """
    from scipy.stats import norm

    mean, deviation = _normal(shadows, ~inside, pooled, "did not see")
    if offline:
        return np.asarray(norm.logcdf(observed, mean, deviation).sum(axis=1))
    mean_in, deviation_in = _normal(shadows, inside, pooled, "saw")
    ratios = norm.logpdf(observed, mean_in, deviation_in) - norm.logpdf(observed, mean, deviation)
    return np.asarray(ratios.sum(axis=1))


def _normal(shadows: np.ndarray, mask: np.ndarray, pooled: bool, what: str) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of each row's confidences over the shadow models in `mask`.

    `shadows` are the confidences, with shape (models, rows, queries), and `mask` has shape (models, rows). The mean has
    shape (rows, queries), and so has the deviation; with `pooled` all rows share one deviation, of shape (1, queries).
    Raise `WrongInput` if a row has no such shadow model, or without `pooled` fewer than two; `what` says for the
    message what they did with the row ("saw" or "did not see").
    """
    counts = mask.sum(axis=0)
    if counts.min() < (1 if pooled else 2):
        raise WrongInput(
            f"lira: expected every row to have {'a shadow model' if pooled else 'two shadow models'} that {what} it, "
            "got fewer; train more of them, or set offline or pooled"
        )
    weights = mask[:, :, None].astype(float)
    mean = (weights * shadows).sum(axis=0) / counts[:, None]
    squares = (weights * (shadows - mean) ** 2).sum(axis=0)
    if pooled:
        freedom = max(int(counts.sum()) - len(counts), 1)
        deviation = np.sqrt(squares.sum(axis=0, keepdims=True) / freedom)
    else:
        deviation = np.sqrt(squares / (counts[:, None] - 1))
    return mean, np.maximum(deviation, LEAST_DEVIATION)


def _confidences(models: Sequence[Model], game: Game, mirrored: bool) -> list[np.ndarray]:
    """Return the confidences of each model on the candidate rows of `game`, an array (rows, queries) for each model.

    With `mirrored` there is a second query, for the mirrored image; rows that are no images raise `WrongInput`.
    """
    queries = [game.rows]
    if mirrored:
        if game.rows.schema.form != "image":
            raise WrongInput(f"lira: expected images for mirrored=True, got a {game.rows.schema.form}")
        queries.append(Data(schema=game.rows.schema, x=game.rows.x[..., ::-1], y=game.rows.y))
    values = [
        [confidence(model, of_model, rows) for model, of_model in zip(models, outputs(models, rows, game.device))]
        for rows in queries
    ]
    return [np.stack(of_model, axis=1) for of_model in zip(*values, strict=True)]
