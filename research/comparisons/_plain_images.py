"""Image classifiers without privacy: logistic regression on features, and a small convolutional network."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

STRENGTHS = (10.0, 100.0, 1_000.0)
EPOCHS = 15
"""Number of epochs of the network."""
BATCH = 64
"""Batch size of the network."""
LR = 3e-3
"""Largest learning rate of the network."""
SHIFT = 2
"""Largest shift of a training image in pixels."""


def logistic(rows: np.ndarray, y: np.ndarray, groups: np.ndarray, to_score: np.ndarray) -> np.ndarray:
    """Return predicted classes of a logistic regression.

    The regularisation strength is chosen on a fifth of the groups; the model is then fitted to all rows.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GroupShuffleSplit

    every = np.concatenate([rows, to_score])
    every = _narrowed(every) if every.shape[1] > len(every) else every - every.mean(0)
    known, unknown = every[: len(rows)], every[len(rows) :]
    [(first, second)] = GroupShuffleSplit(1, test_size=0.2, random_state=0).split(known, groups=groups)

    def fitted(strength: float, at: Any) -> Any:
        return LogisticRegression(C=strength, max_iter=100).fit(known[at], y[at])

    scores = [fitted(strength, first).score(known[second], y[second]) for strength in STRENGTHS]
    return np.asarray(fitted(STRENGTHS[int(np.argmax(scores))], slice(None)).predict(unknown))


def _narrowed(rows: np.ndarray) -> np.ndarray:
    """Return centred rows in coordinates of their own span, which preserves inner products and norms."""
    rows = rows.astype(np.float32) - rows.mean(0, dtype=np.float64).astype(np.float32)
    values, vectors = np.linalg.eigh(rows @ rows.T)
    return vectors * np.sqrt(np.maximum(values, 0))


def network(x: np.ndarray, y: np.ndarray, to_score: np.ndarray) -> np.ndarray:
    """Return classes predicted by a network of three convolutions with batch normalisation.

    It trains on images that are shifted by up to `SHIFT` pixels.
    """
    import torch
    from torch import nn
    from torch.nn import functional

    torch.manual_seed(0)
    images, labels = torch.from_numpy(np.asarray(x, np.float32)), torch.from_numpy(np.asarray(y, np.int64))
    sizes = (images.shape[1], 16, 32, 64)
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Dropout(0.3), nn.LazyLinear(int(labels.max()) + 1))
    model(images[:2])
    model, images = (each.to(memory_format=torch.channels_last) for each in (model, images))
    optimiser = torch.optim.AdamW(model.parameters(), weight_decay=0.01)
    steps = EPOCHS * (len(images) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, LR, total_steps=steps)
    for step in range(steps):
        if step % (len(images) // BATCH) == 0:
            order = torch.randperm(len(images))
        at = order[step % (len(images) // BATCH) * BATCH :][:BATCH]
        moved = torch.roll(images[at], tuple(torch.randint(-SHIFT, SHIFT + 1, (2,)).tolist()), (2, 3))
        functional.cross_entropy(model(moved), labels[at]).backward()
        optimiser.step()
        optimiser.zero_grad()
        schedule.step()
    model.eval()
    with torch.no_grad():
        return model(torch.from_numpy(np.asarray(to_score, np.float32))).argmax(1).numpy()
