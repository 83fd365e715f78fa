"""A network learns on shadow models to tell members by their sorted posteriors and by whether the label is predicted.

Three perceptrons: one reads the posteriors, one the correctness, the third both of their outputs. Settings are those
of DPMLBench (Adam, rate 1e-5, batches of 64, 50 epochs), which stop long before the network has learnt all it can:
`lr=1e-3` is the stronger attack. Unlike the public codes it reads probabilities rather than logits, clears
gradients between steps and takes one softmax in the loss.

Paper: Salem and others 2019, ML-Leaks; Wei and others 2023, DPMLBench, section 5.3.
Privacy: an attack; what it scores on private rows is for the owner's eyes.
Use when: the attacker can query the model, and one shadow model is what one can afford.

>>> from privaware.testing import check_attack
>>> check_attack(black_box, epochs=1)
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from privaware.attacks._game import Game
from privaware.attacks._posteriors import log_posteriors, outputs
from privaware.data import Data
from privaware.model import Model
from privaware.noise import Rng

if TYPE_CHECKING:
    from privaware.attacks._attack_network import Reuse

__all__ = ["black_box"]


def black_box(
    game: Game, rng: Rng, lr: float = 1e-5, batch: int = 64, epochs: int = 50, reuse: Reuse | None = None
) -> np.ndarray:
    """`lr`, `batch` and `epochs` of the attack's network; `reuse` keeps it for the next target of the same attacker."""
    import torch

    from privaware.attacks._attack_network import PosteriorNetwork, scores_by_network

    def inputs(model: Model, rows: Data) -> tuple[Any, ...]:
        parts = posteriors_and_correctness(model, rows, game.device)
        return tuple(torch.from_numpy(part).float().to(game.device) for part in parts)

    classes = len(game.model.schema.classes)
    return scores_by_network(
        game, rng, partial(PosteriorNetwork, classes), inputs, settings=(lr, batch, epochs), reuse=reuse
    )


def posteriors_and_correctness(model: Model, rows: Data, device: str) -> tuple[np.ndarray, np.ndarray]:
    """(rows, classes) probabilities from the largest to the smallest, and (rows, 1) whether the label is predicted."""
    (values,) = outputs([model], rows, device)
    logs = log_posteriors(model, values)
    correct = (logs.argmax(axis=1) == rows.y).astype(float)[:, None]
    return -np.sort(-np.exp(logs), axis=1), correct
