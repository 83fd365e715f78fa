"""A network learns on shadow models to recognise members by their sorted posteriors and the correctness of the label.

There are three perceptrons: one reads the posteriors, one reads the correctness, and one reads the outputs of both. The
default settings are from DPMLBench (Adam, learning rate 1e-5, batches of 64, 50 epochs). They stop long before the
network has converged, and the network cannot tell probabilities near 1 apart. `reads="odds"` with `lr=1e-3` is a
stronger attack with the same queries: it reads the sorted log odds of all classes and the log odds of the label. Unlike
the published code, this module reads no logits, clears gradients between steps and applies one softmax in the loss.

Paper: Salem and others 2019, ML-Leaks; Wei and others 2023, DPMLBench, section 5.3.
Privacy: an attack; its scores of private rows are for the data owner only.
Use when: the attacker can query the model, and only one shadow model can be trained.

>>> from privaware.testing import check_attack
>>> check_attack(black_box, epochs=1)
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from privaware._validate import expect_one_of
from privaware.attacks._game import Game, Needs, needing
from privaware.attacks._posteriors import log_odds, log_posteriors, outputs
from privaware.data import Data
from privaware.model import Model
from privaware.noise import Rng

if TYPE_CHECKING:
    from privaware.attacks._attack_network import Reuse

__all__ = ["black_box"]

READINGS = ("posteriors", "odds")
"""What the network reads: posteriors, or their log odds."""
LOG_ODDS_SCALE = 10.0
"""Divisor of log odds, so that the log odds of a confident model have a suitable scale for the network."""


@needing(Needs(shadows=1, classes=True))
def black_box(
    game: Game,
    rng: Rng,
    lr: float = 1e-5,
    batch: int = 64,
    epochs: int = 50,
    reads: str = "posteriors",
    reuse: Reuse | None = None,
) -> np.ndarray:
    """Score candidate rows by a network that was trained on shadow models.

    Parameters
    ----------
    game
        The membership game, with shadow models and auxiliary rows.
    rng
        The random generator.
    lr, batch, epochs
        The learning rate, batch size and number of epochs of the network.
    reads
        What the network reads: "posteriors" (sorted, and whether the label is predicted) or "odds" (sorted log odds of
        the classes, and the log odds of the label).
    reuse
        Holds the trained network, so that games with the same shadow models use it again. Default: the network is not
        kept.

    Returns
    -------
    numpy.ndarray
        One score for each candidate row; higher means more likely a member. `WrongInput` is raised without shadow
        models or auxiliary rows, and for a model that predicts numbers.
    """
    from privaware.attacks._attack_network import PosteriorNetwork, scores_by_network

    expect_one_of("black_box", READINGS, reads=reads)
    inputs = posteriors_and_correctness if reads == "posteriors" else odds_of_classes_and_label
    network = partial(PosteriorNetwork, len(game.model.schema.classes))
    return scores_by_network(game, rng, network, inputs, settings=(lr, batch, epochs), reuse=reuse, reads=reads)


def posteriors_and_correctness(model: Model, rows: Data, device: str) -> tuple[np.ndarray, np.ndarray]:
    """Return two arrays: class probabilities in descending order, and whether the label of the row is predicted.

    Their shapes are (rows, classes) and (rows, 1). The second array has 1 for a label that is predicted, else 0.
    """
    (values,) = outputs([model], rows, device)
    logs = log_posteriors(model, values)
    correct = (logs.argmax(axis=1) == rows.y).astype(float)[:, None]
    return -np.sort(-np.exp(logs), axis=1), correct


def odds_of_classes_and_label(model: Model, rows: Data, device: str) -> tuple[np.ndarray, np.ndarray]:
    """Return descending log odds of the classes, (rows, classes), and the log odds of the label, (rows, 1).

    Both are divided by `LOG_ODDS_SCALE`.
    """
    (values,) = outputs([model], rows, device)
    odds = log_odds(model, values) / LOG_ODDS_SCALE
    return -np.sort(-odds, axis=1), odds[np.arange(len(rows)), rows.y][:, None]
