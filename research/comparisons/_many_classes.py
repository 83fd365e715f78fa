"""Tables with five or more classes for the study of `auto`, without the tables that `unseen_tables` measures.

The tables are: digits of scikit-learn, means over 4 x 4 pixels of built-in images, integer statistics of drawn letters,
and three tables inside PyPI packages that were examined before (`_carried_tables.py`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from research.comparisons._carried_tables import frames
from research.comparisons._development_tables import Split, split
from research.comparisons._image_sets import SCRIPTS, letters

__all__ = ["CARRIED", "TABLES", "load"]

CARRIED = ("penbased", "satimage", "marketing")
IMAGES = {"mnist means": "mnist", "clothes means": "fashion_mnist"}
TABLES = ("digits", *IMAGES, "letters", *CARRIED)
ROWS = 6_250
DISTORTION = 0.5
CELLS = 15


def load(name: str, seed: int, packages: Path | None) -> Split:
    """Load one table, split by the seed."""
    import pandas

    if name in CARRIED:
        if packages is None:
            raise SystemExit(f"expected --packages FOLDER for {name}, see research/comparisons/_carried_tables.py")
        train, held_out, target = frames(name, packages)
        frame = pandas.concat([train, held_out])
        y = frame.pop(target)
    else:
        x, y = _digits() if name == "digits" else _means(IMAGES[name]) if name in IMAGES else _letters()
        frame = pandas.DataFrame(x, columns=[f"v{at}" for at in range(x.shape[1])])
    order = np.random.default_rng(seed).permutation(len(frame))
    return split(frame.iloc[order].reset_index(drop=True), np.asarray(y)[order], "classification")


def _digits() -> tuple[Any, Any]:
    from sklearn.datasets import load_digits

    return load_digits(return_X_y=True)


def _means(name: str) -> tuple[Any, Any]:
    """Return means over 4 x 4 pixels of some training images."""
    from privaware import datasets

    train = datasets.load(name).train
    chosen = np.random.default_rng(5).permutation(len(train))[:ROWS]
    means = (train.x[chosen, 0] * 255).reshape(ROWS, 7, 4, 7, 4).mean(axis=(2, 4))
    return np.round(means).reshape(ROWS, 49), train.y[chosen]


def _letters() -> tuple[Any, Any]:
    """Return sixteen integer statistics of drawn Armenian letters: position, width and roughness of ink."""
    first, count, _ = SCRIPTS["armenian"]
    images, y = letters(first, count, DISTORTION, ROWS)
    ink = images[:, 0] / 255.0
    rows, columns = np.mgrid[: ink.shape[1], : ink.shape[2]]
    total = ink.sum(axis=(1, 2)) + 1e-6

    def mean(values: Any) -> Any:
        return (ink * values).sum(axis=(1, 2)) / total

    middle = [mean(columns), mean(rows)]
    across, down = columns - middle[0][:, None, None], rows - middle[1][:, None, None]
    powers = ((2, 0), (0, 2), (1, 1), (2, 1), (1, 2), (3, 0), (0, 3))
    moments = [mean(across**a * down**b) for a, b in powers]
    sizes = [(ink > 0.4).any(axis=axis).sum(axis=1) for axis in (1, 2)]
    edges = [np.abs(np.diff(ink, axis=axis)) for axis in (1, 2)]
    rough = [edge.sum(axis=(1, 2)) for edge in edges]
    where = [(edges[0] * columns[1:]).sum(axis=(1, 2)) / rough[0], (edges[1] * rows[:, 1:]).sum(axis=(1, 2)) / rough[1]]
    every = np.stack([*middle, *sizes, total, *moments, *rough, *where], axis=1)
    low, high = np.quantile(every, (0.005, 0.995), axis=0)
    return np.clip(np.round((every - low) / (high - low) * CELLS), 0, CELLS), y
