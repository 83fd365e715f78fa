"""A network learns on shadow models to tell members by their sorted posteriors and by whether the label is predicted.

Three perceptrons: one reads the posteriors, one the correctness, the third both of their outputs. Settings are those
of DPMLBench (Adam, rate 1e-5, batches of 64, 50 epochs), which stop long before the network has learnt all it can, and
probabilities near 1 look alike to it. `reads="odds"` with `lr=1e-3` is the stronger attack on the same queries: log
odds of all classes, sorted, and those of the label. Unlike the public codes it reads no logits, clears gradients
between steps and takes one softmax in the loss.

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
"""What is read off the posteriors: themselves, or their log odds."""
TENS = 10.0
"""Log odds are counted in tens, so that those of a confident model suit the network."""


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
    """`lr`, `batch` and `epochs` of the attack's network; it `reads` "posteriors" or "odds".

    `reuse` keeps the network for the next target of the same attacker.
    """
    import torch

    from privaware.attacks._attack_network import PosteriorNetwork, scores_by_network

    expect_one_of("black_box", READINGS, reads=reads)
    read = posteriors_and_correctness if reads == "posteriors" else odds_of_classes_and_label

    def inputs(model: Model, rows: Data) -> tuple[Any, ...]:
        return tuple(torch.from_numpy(part).float().to(game.device) for part in read(model, rows, game.device))

    classes = len(game.model.schema.classes)
    return scores_by_network(
        game, rng, partial(PosteriorNetwork, classes), inputs, settings=(lr, batch, epochs), reuse=reuse, reads=reads
    )


def posteriors_and_correctness(model: Model, rows: Data, device: str) -> tuple[np.ndarray, np.ndarray]:
    """(rows, classes) probabilities from the largest to the smallest, and (rows, 1) whether the label is predicted."""
    (values,) = outputs([model], rows, device)
    logs = log_posteriors(model, values)
    correct = (logs.argmax(axis=1) == rows.y).astype(float)[:, None]
    return -np.sort(-np.exp(logs), axis=1), correct


def odds_of_classes_and_label(model: Model, rows: Data, device: str) -> tuple[np.ndarray, np.ndarray]:
    """(rows, classes) log odds of the classes from the largest to the smallest, and (rows, 1) those of the label."""
    (values,) = outputs([model], rows, device)
    odds = log_odds(model, values) / TENS
    return -np.sort(-odds, axis=1), odds[np.arange(len(rows)), rows.y][:, None]
