"""Rank rows by how often their label is still predicted after random changes; only predicted labels are read.

A row far from the decision boundary keeps its label, and training rows are farther from the boundary. Images get noise,
tables get noise in numbers and changed categories, and texts lose words. Every row gets the same changes, so a score
depends on its row only. With `queries = 0` this is the gap attack: whether the label is predicted.

Paper: Choquette-Choo, Tramer, Carlini and Papernot 2021, Label-Only Membership Inference Attacks (robustness to noise).
Privacy: an attack; its scores of private rows are for the data owner only.
Use when: the model shows labels without probabilities.

>>> from privaware.testing import check_attack
>>> check_attack(label_only)
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from privaware._validate import expect_count
from privaware.attacks._game import Game, Needs, needing
from privaware.attacks._posteriors import log_posteriors, outputs
from privaware.data import Data, as_bytes, from_bytes
from privaware.model import Model
from privaware.noise import Rng

__all__ = ["label_only"]

SCALES = (0.02, 0.05, 0.1, 0.2, 0.4)
"""Standard deviations of noise relative to the range; also probabilities of redrawing a category or losing a word."""

WORDS = 4096
"""Number of first words of a text among which words are lost at random; later words are always lost."""


@needing(Needs(classes=True))
def label_only(game: Game, rng: Rng, queries: int = 6) -> np.ndarray:
    """Score candidate rows by the fraction of queries in which the model predicts their label.

    Parameters
    ----------
    game
        The membership game; no shadow models are needed.
    rng
        The random generator.
    queries
        The number of changed copies of a row at each of five scales. The row itself is also queried.

    Returns
    -------
    numpy.ndarray
        One score in [0, 1] for each candidate row; higher means more likely a member. `WrongInput` is raised for a
        model that predicts numbers.
    """
    expect_count("label_only", 0, queries=queries)
    kept = _is_correct(game.model, game.rows, game.device)
    for scale in SCALES:
        for _ in range(queries):
            kept = kept + _is_correct(game.model, changed(game.rows, scale, rng.initial), game.device)
    return kept / (1 + len(SCALES) * queries)


def _is_correct(model: Model, rows: Data, device: str) -> np.ndarray:
    (values,) = outputs([model], rows, device)
    return (log_posteriors(model, values).argmax(axis=1) == rows.y).astype(float)


def changed(rows: Data, scale: float, generator: np.random.Generator) -> Data:
    """Return a copy of `rows` with the same random change in every row, within the declared ranges.

    `scale` is the standard deviation of the change of a number, as a fraction of its range, and the probability that a
    category is redrawn or a word is lost. `generator` draws the change. An image gets noise with this standard
    deviation in every pixel. A number without declared bounds stays as it is.
    """
    shape = rows.schema.shape
    if rows.schema.form == "image":
        noise = scale * generator.standard_normal(shape)
        return replace(rows, x=np.clip(rows.x + noise, 0, 1).astype(rows.x.dtype))
    if rows.schema.form == "text":
        return replace(rows, x=_shortened(rows.x, scale, generator))
    x = rows.x.copy()
    for at, column in enumerate(rows.schema.used):
        draw, other = generator.standard_normal(), generator.random()
        if column.kind == "image":
            noise = scale * generator.standard_normal(shape)
            x[:, at] = as_bytes(np.clip(from_bytes(x[:, at], shape) + noise, 0, 1))
        elif column.is_whole_text:
            x[:, at] = _shortened(x[:, at], scale, generator)
        elif column.kind == "category":
            count = max(len(column.categories), 1)
            x[:, at] = np.where(other < scale, (x[:, at] + 1 + generator.integers(count)) % count, x[:, at])
        elif column.low is not None and column.high is not None:
            moved = x[:, at].astype(float) + scale * draw * (column.high - column.low)
            x[:, at] = np.clip(moved, column.low, column.high)
    return replace(rows, x=x)


def _shortened(texts: np.ndarray, scale: float, generator: np.random.Generator) -> np.ndarray:
    """Return the texts without the words at some positions, the same for every text, joined by single spaces.

    Each of the first `WORDS` positions is lost with probability `scale`, by `generator`; all later ones are lost.
    """
    lost = generator.random(WORDS) < scale
    return np.array([_without(text, lost) for text in texts] or [""], dtype=object)[: len(texts)]


def _without(text: str, lost: np.ndarray) -> str:
    return " ".join(word for word, gone in zip(text.split(), lost) if not gone)
