"""What attacks that train a network on shadow models share: its examples, and its training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from privaware._validate import expect_count, expect_positive
from privaware.attacks._game import Game, joined
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.model import Model
from privaware.noise import Rng

__all__ = ["GradientNetwork", "PosteriorNetwork", "scores_by_network"]

Inputs = Callable[[Model, Data], tuple[Tensor, ...]]
"""What an attack reads off a model for rows, as tensors on the device of the game."""

KERNELS = 10
DROPOUT = 0.2


class PosteriorNetwork(nn.Module):
    """Reads sorted posteriors and correctness: 92,482 parameters for ten classes."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.posteriors, self.correctness = _branch(classes), _branch(1)
        self.both = _head(128, 2)

    def forward(self, posteriors: Tensor, correct: Tensor) -> Tensor:
        logits: Tensor = self.both(torch.cat([self.posteriors(posteriors), self.correctness(correct)], 1))
        return logits[:, 1] - logits[:, 0]  # the softmax of two classes depends on this alone


class GradientNetwork(nn.Module):
    """Reads posteriors, loss, label and last-layer gradient: 159,043 parameters for ten classes and 300 units."""

    def __init__(self, classes: int, width: int) -> None:
        super().__init__()
        self.posteriors, self.label = (_branch(classes, dropout=DROPOUT, ends=True) for _ in range(2))
        self.loss = _branch(1, dropout=DROPOUT, ends=True)
        self.kernels = nn.Conv2d(1, KERNELS, (1, width))
        self.gradient = _branch(KERNELS * classes)
        self.all = _head(256, 1)

    def forward(self, posteriors: Tensor, loss: Tensor, label: Tensor, hidden: Tensor) -> Tensor:
        gradient = self.gradient(self.over_gradients(posteriors - label, hidden).relu().flatten(1))
        parts = [self.posteriors(posteriors), self.loss(loss), gradient, self.label(label)]
        logits: Tensor = self.all(torch.cat(parts, 1))
        return logits[:, 0]

    def over_gradients(self, residuals: Tensor, hidden: Tensor) -> Tensor:
        """(rows, kernels, classes): the kernels over the gradient (p - y) h^T, which is not formed."""
        weights, bias = self.kernels.weight.flatten(1), self.kernels.bias
        products = (hidden @ weights.T)[:, :, None] * residuals[:, None, :]
        return products if bias is None else products + bias[:, None]


def _branch(inputs: int, *, dropout: float = 0.0, ends: bool = False) -> nn.Sequential:
    """A perceptron to 128 and 64 units; `ends` puts a ReLU and the dropout after the last one too."""
    layers: list[nn.Module] = [nn.Linear(inputs, 128), nn.ReLU(), nn.Dropout(dropout), nn.Linear(128, 64)]
    return nn.Sequential(*layers, *([nn.ReLU(), nn.Dropout(dropout)] if ends else []))


def _head(inputs: int, outputs: int) -> nn.Sequential:
    wide = [nn.Linear(inputs, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU()]
    return nn.Sequential(*wide, nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, outputs))


def scores_by_network(
    game: Game, rng: Rng, build: Callable[[], nn.Module], inputs: Inputs, *, lr: float, batch: int, epochs: int
) -> np.ndarray:
    """Trains a network to tell members of shadow models from others; its scores of the candidate rows.

    The network's output is one number a row: the log odds of being a member.
    """
    expect_count("attack network", batch=batch, epochs=epochs)
    expect_positive("attack network", lr=lr)
    if not game.model.schema.classes:
        raise WrongInput("expected a model of classes, whose posteriors this attack reads, got one of numbers")
    examples = [_examples(inputs(model, rows), inside, rng) for model, rows, inside in _shadow_rows(game)]
    parts = [torch.cat(part) for part in zip(*examples, strict=True)]
    generator = torch.Generator().manual_seed(int(rng.initial.integers(2**63)))
    devices = [torch.device(game.device)] if game.device != "cpu" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(int(rng.initial.integers(2**63)))
        network = build().to(game.device)
        _fit(network, parts, generator, lr, batch, epochs)
        network.eval()
        with torch.no_grad():
            candidates = inputs(game.model, game.rows)
            chunks = (tuple(part[at : at + 4096] for part in candidates) for at in range(0, len(game.rows), 4096))
            return np.concatenate([network(*chunk).double().cpu().numpy() for chunk in chunks])


def _shadow_rows(game: Game) -> Iterator[tuple[Model, Data, np.ndarray]]:
    """Each shadow model with rows, and which of them it was trained on; candidate rows only where shadows saw some."""
    if not game.shadows or game.auxiliary is None:
        raise WrongInput("expected a game with a shadow model and auxiliary rows, got none; pass a ShadowPlan")
    rows, inside = game.auxiliary, np.array([shadow.auxiliary_inside for shadow in game.shadows])
    if game.online:
        rows, inside = joined(game.rows, rows), np.concatenate([game.inside, inside], axis=1)
        order = _order_of_values(rows, inside)
        rows, inside = rows.take(order), inside[:, order]
    for shadow, mask in zip(game.shadows, inside, strict=True):
        yield shadow.model, rows, mask


def _order_of_values(rows: Data, inside: np.ndarray) -> np.ndarray:
    """Rows sorted by a digest of their values, so that nothing depends on the order of the candidates."""
    values = zip(rows.x, rows.y, inside.T, strict=True)
    keys = [sha256(repr((_plain(x), y, mask.tolist())).encode()).digest() for x, y, mask in values]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__))


def _plain(row: Any) -> Any:
    return row if isinstance(row, str) else np.asarray(row).tobytes()


def _examples(values: tuple[Tensor, ...], inside: np.ndarray, rng: Rng) -> tuple[Tensor, ...]:
    """As many members as others, at random, with 1 for a member behind what is read off them."""
    members, others = np.flatnonzero(inside), np.flatnonzero(~inside)
    size = min(len(members), len(others))
    if not size:
        raise WrongInput("expected rows inside and outside of each shadow model, got one kind only")
    chosen = np.concatenate([rng.initial.permutation(side)[:size] for side in (members, others)])
    index = torch.from_numpy(chosen).to(values[0].device)
    truth = torch.zeros(2 * size, device=values[0].device)
    truth[:size] = 1
    return (*(part[index] for part in values), truth)


def _fit(network: nn.Module, parts: list[Tensor], generator: Any, lr: float, batch: int, epochs: int) -> None:
    """Adam on the cross-entropy, in batches shuffled anew for every epoch."""
    *values, truth = parts
    optimizer = torch.optim.Adam(network.parameters(), lr=lr, fused=True)  # one launch for all parameters
    network.train()
    for _ in range(epochs):
        order = torch.randperm(len(truth), generator=generator).to(truth.device)
        for at in order.split(batch):
            logits = network(*(part[at] for part in values))
            loss = nn.functional.binary_cross_entropy_with_logits(logits, truth[at])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
