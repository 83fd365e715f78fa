"""LiRA: how likely a row's confidence is among shadow models that saw it, against those that did not.

The confidence of a row (its log odds) is taken to be normal among shadow models. Online, with shadow models that saw
the row and ones that did not, the score is the log likelihood ratio of the two; offline, with the latter alone, the log
of the one-sided probability of a confidence as low as the observed one.

Paper: Carlini, Chien, Nasr, Song, Terzis and Tramer 2022, Membership Inference Attacks From First Principles.
Privacy: an attack; what it scores on private rows is for the owner's eyes.
Use when: rates at few false positives matter, and dozens of shadow models can be trained.

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
"""With fewer shadow models than this one variance is shared by all rows, as in the paper's code."""

LEAST_DEVIATION = 1e-6


@needing(Needs(shadows=2))
def lira(
    game: Game, rng: Rng, offline: bool | None = None, pooled: bool | None = None, mirrored: bool = False
) -> np.ndarray:
    """Left out, `offline` is whether no shadow model saw a candidate, and `pooled` whether they are fewer than 64.

    With `mirrored` each image is queried a second time from left to right.
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
    """Scores from confidences: `observed` (rows, queries), `shadows` (models, rows, queries); `inside` (models, rows)
    says which shadow model saw which row.
    """
    from scipy.stats import norm

    mean, deviation = _normal(shadows, ~inside, pooled, "did not see")
    if offline:
        return np.asarray(norm.logcdf(observed, mean, deviation).sum(axis=1))
    mean_in, deviation_in = _normal(shadows, inside, pooled, "saw")
    ratios = norm.logpdf(observed, mean_in, deviation_in) - norm.logpdf(observed, mean, deviation)
    return np.asarray(ratios.sum(axis=1))


def _normal(shadows: np.ndarray, mask: np.ndarray, pooled: bool, what: str) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of each row's confidences over the shadow models in the mask."""
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
    """(rows, queries) of each model."""
    queries = [game.rows]
    if mirrored:
        if game.rows.schema.form != "image":
            raise WrongInput(f"lira: expected images to query mirrored, got a {game.rows.schema.form}")
        queries.append(Data(schema=game.rows.schema, x=game.rows.x[..., ::-1], y=game.rows.y))
    values = [
        [confidence(model, of_model, rows) for model, of_model in zip(models, outputs(models, rows, game.device))]
        for rows in queries
    ]
    return [np.stack(of_model, axis=1) for of_model in zip(*values, strict=True)]
