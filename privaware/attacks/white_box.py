"""A network learns on shadow models to recognise members by posteriors, loss, last-layer gradient and label.

The gradient of the last layer is `(p - y) h^T` in closed form; ten kernels as wide as h are convolved with it. The
settings of DPMLBench are the defaults (Adam, learning rate 1e-5, batches of 64, 50 epochs). Unlike the published code,
this module clears gradients between steps, and the attacked model is in evaluation mode.

Paper: Nasr, Shokri and Houmansadr 2019, Comprehensive Privacy Analysis of Deep Learning (reduced form); Wei and others
2023, DPMLBench, section 5.3.
Privacy: an attack; its scores of private rows are for the data owner only.
Use when: the attacker holds the parameters of a released network.

>>> from privaware.testing import check_attack
>>> check_attack(white_box, epochs=1)
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from privaware.attacks._game import Game, Needs, needing
from privaware.attacks._posteriors import last_layer, log_posteriors, losses
from privaware.data import Data
from privaware.model import Model
from privaware.noise import Rng

if TYPE_CHECKING:
    from privaware.attacks._attack_network import Reuse

__all__ = ["white_box"]


@needing(Needs(shadows=1, classes=True, last_layer=True))
def white_box(
    game: Game, rng: Rng, lr: float = 1e-5, batch: int = 64, epochs: int = 50, reuse: Reuse | None = None
) -> np.ndarray:
    """Score candidate rows by a network that reads gradients of the last layer.

    Parameters
    ----------
    game
        The membership game, with shadow models and auxiliary rows.
    rng
        The random generator.
    lr, batch, epochs
        The learning rate, batch size and number of epochs of the network.
    reuse
        Holds the trained network, so that games with the same shadow models use it again. Default: the network is not
        kept.

    Returns
    -------
    numpy.ndarray
        One score for each candidate row; higher means more likely a member. `WrongInput` is raised without shadow
        models or auxiliary rows, for a model that predicts numbers, and for a model whose last layer is not linear.
    """
    from privaware.attacks._attack_network import GradientNetwork, scores_by_network

    width = last_layer(game.model, game.rows.take(np.arange(1)), game.device)[1].shape[1]
    network = partial(GradientNetwork, len(game.model.schema.classes), width)
    return scores_by_network(game, rng, network, parts_of, settings=(lr, batch, epochs), reuse=reuse)


def parts_of(model: Model, rows: Data, device: str) -> tuple[np.ndarray, ...]:
    """Return posteriors (rows, classes), losses (rows, 1), one-hot labels (rows, classes), and h (rows, inputs).

    h are the inputs of the last layer. The gradient of the last layer is `(p - y) h^T`. Raise `WrongInput` for a
    regression, and if the last layer of `model` is not linear.
    """
    values, hidden = last_layer(model, rows, device)
    posteriors = np.exp(log_posteriors(model, values))
    label = np.eye(posteriors.shape[1])[rows.y]
    return posteriors, losses(model, values, rows)[:, None], label, hidden
