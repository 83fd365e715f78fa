"""The networks that attacks train on shadow models, their training examples, and their training."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from privaware._validate import expect_count, expect_positive
from privaware.attacks._game import Game, joined
from privaware.attacks._posteriors import expect_classes
from privaware.data import Data
from privaware.descent._descent import seeded
from privaware.errors import WrongInput
from privaware.model import Model
from privaware.noise import Rng

Inputs = Callable[[Model, Data, str], tuple[np.ndarray, ...]]
"""Computes the inputs of an attack's network from a model, rows and the device on which the model computes."""

KERNELS = 10
"""Number of convolution kernels over the last-layer gradient."""
DROPOUT = 0.2
"""Dropout probability in the branches of `GradientNetwork` for posteriors, loss and label."""
WARM_UP = 3
"""Number of steps before a step is recorded as a CUDA graph."""


@dataclass
class Reuse:
    """The last network of an attack, which games with the same shadow models and the same settings reuse.

    Shadow models are the same if they are the same objects and saw the same auxiliary rows. The network was trained on
    shadow models only, so it can score every target model of one attacker. Games whose shadow models saw candidate rows
    do not reuse a network.
    """

    shadows: tuple[Any, ...] = ()
    settings: tuple[Any, ...] = ()
    network: Any = field(default=None, repr=False)

    def fits(self, game: Game, settings: tuple[Any, ...]) -> bool:
        """Return whether `network` can score `game`: there is one, from the same shadow models and equal `settings`.

        Return False if shadow models of `game` saw candidate rows.
        """
        same = len(self.shadows) == len(game.shadows) and all(
            one.model is other.model and np.array_equal(one.auxiliary_inside, other.auxiliary_inside)
            for one, other in zip(self.shadows, game.shadows)
        )
        return self.network is not None and same and self.settings == settings and not game.online


class PosteriorNetwork(nn.Module):
    """A network that returns the log odds that each row is a member of the training set.

    `forward` takes sorted posteriors (rows, classes) and 1 where the model predicts the row's label, else 0 (rows, 1).
    It also takes sorted log odds and the log odds of the label in these shapes. The result has the shape (rows,). There
    are 92,482 parameters for ten classes.
    """

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.posteriors, self.correctness = _branch(classes), _branch(1)
        self.both = _head(128, 2)

    def forward(self, posteriors: Tensor, correct: Tensor) -> Tensor:
        logits: Tensor = self.both(torch.cat([self.posteriors(posteriors), self.correctness(correct)], 1))
        return logits[:, 1] - logits[:, 0]  # the softmax of two classes depends only on this difference


class GradientNetwork(nn.Module):
    """A network that returns the log odds that each row is a member of the training set.

    `forward` takes posteriors (rows, classes), losses (rows, 1), one-hot labels (rows, classes) and inputs of the last
    layer (rows, `width`), from which it computes with the gradient of the last layer. The result has the shape (rows,).
    There are 159,043 parameters for ten classes and `width` 300.
    """

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
        """Convolve the kernels with the gradient `(p - y) h^T` without forming it.

        `residuals` are p - y (rows, classes), and `hidden` is h (rows, width). The result is (rows, kernels, classes).
        """
        weights, bias = self.kernels.weight.flatten(1), self.kernels.bias
        products = (hidden @ weights.T)[:, :, None] * residuals[:, None, :]
        return products if bias is None else products + bias[:, None]


def _branch(inputs: int, *, dropout: float = 0.0, ends: bool = False) -> nn.Sequential:
    """Return a perceptron with 128 hidden units, ReLU and dropout (with probability `dropout`), and 64 outputs.

    `inputs` is the number of inputs. `ends` adds ReLU and dropout after the outputs.
    """
    layers: list[nn.Module] = [nn.Linear(inputs, 128), nn.ReLU(), nn.Dropout(dropout), nn.Linear(128, 64)]
    return nn.Sequential(*layers, *([nn.ReLU(), nn.Dropout(dropout)] if ends else []))


def _head(inputs: int, outputs: int) -> nn.Sequential:
    wide = [nn.Linear(inputs, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU()]
    return nn.Sequential(*wide, nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, outputs))


def scores_by_network(
    game: Game,
    rng: Rng,
    build: Callable[[], nn.Module],
    inputs: Inputs,
    *,
    settings: tuple[float, int, int],
    reuse: Reuse | None = None,
    reads: str = "",
) -> np.ndarray:
    """Train a network to tell members of the shadow models of `game` from non-members, and score the candidate rows.

    `build()` returns the untrained network, whose output is the log odds that a row is a member, and `inputs(model,
    rows, device)` returns its arguments as NumPy arrays. `settings` are the learning rate, batch size and epochs of the
    network. `reuse` holds the last network: if it fits the game, it is used and nothing is trained, otherwise it is set
    to the network that is trained here. `reads` is a name for what `inputs` computes; a network fits only games with
    the same `settings` and `reads`. Return one score for each candidate row, the log odds that it is a member. Raise
    `WrongInput` if the attacked model predicts numbers, if a setting is not above 0, and without shadow models or
    auxiliary rows.
    """
    lr, batch, epochs = settings
    expect_count("attack network", batch=batch, epochs=epochs)
    expect_positive("attack network", lr=lr)
    expect_classes(game.model)
    if reuse is not None and reuse.fits(game, (*settings, reads)):
        network = reuse.network
    else:
        network = _trained(game, rng, build, inputs, settings)
        if reuse is not None:
            reuse.shadows, reuse.settings, reuse.network = game.shadows, (*settings, reads), network
    with torch.no_grad():
        candidates = _tensors(inputs, game.model, game.rows, game.device)
        chunks = (tuple(part[at : at + 4096] for part in candidates) for at in range(0, len(game.rows), 4096))
        return np.concatenate([network(*chunk).double().cpu().numpy() for chunk in chunks])


def _tensors(inputs: Inputs, model: Model, rows: Data, device: str) -> tuple[Tensor, ...]:
    return tuple(torch.from_numpy(part).float().to(device) for part in inputs(model, rows, device))


def _trained(
    game: Game, rng: Rng, build: Callable[[], nn.Module], inputs: Inputs, settings: tuple[float, int, int]
) -> nn.Module:
    examples = [
        _examples(_tensors(inputs, model, rows, game.device), inside, rng) for model, rows, inside in _shadow_rows(game)
    ]
    parts = [torch.cat(part) for part in zip(*examples, strict=True)]
    generator = torch.Generator().manual_seed(int(rng.initial.integers(2**63)))
    with seeded(rng, game.device):
        network = build().to(game.device)
        _fit(network, parts, generator, *settings)
    return network.eval()


def _shadow_rows(game: Game) -> Iterator[tuple[Model, Data, np.ndarray]]:
    """Yield each shadow model with the auxiliary rows and a mask of the rows that trained it.

    Candidate rows are included only if shadow models were trained on candidate rows. Raise `WrongInput` if the game has
    no shadow models or no auxiliary rows.
    """
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
    """Return indices that sort the rows by a hash of their values and masks.

    With sorted rows, scores do not depend on the order of rows. `inside` has the masks, with shape (shadow models,
    rows).
    """
    values = zip(rows.x, rows.y, inside.T, strict=True)
    keys = [sha256(repr((_plain(x), y, mask.tolist())).encode()).digest() for x, y, mask in values]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__))


def _plain(row: Any) -> Any:
    return row if isinstance(row, str) else row.tolist() if row.dtype == object else np.asarray(row).tobytes()


def _examples(values: tuple[Tensor, ...], inside: np.ndarray, rng: Rng) -> tuple[Tensor, ...]:
    """Return the entries of `values` for as many members as non-members, drawn at random, members first.

    `values` has a tensor for each argument of the network, and `inside` is the mask of members. A last tensor is added:
    1 for a member and 0 for a non-member. Raise `WrongInput` if there are no members or no non-members.
    """
    members, others = np.flatnonzero(inside), np.flatnonzero(~inside)
    size = min(len(members), len(others))
    if not size:
        raise WrongInput("expected rows that trained each shadow model and rows that did not, got one kind only")
    chosen = np.concatenate([rng.initial.permutation(side)[:size] for side in (members, others)])
    index = torch.from_numpy(chosen).to(values[0].device)
    truth = torch.zeros(2 * size, device=values[0].device)
    truth[:size] = 1
    return (*(part[index] for part in values), truth)


def _fit(network: nn.Module, parts: list[Tensor], generator: Any, lr: float, batch: int, epochs: int) -> None:
    """Train `network` in place: minimise the cross-entropy with Adam, on batches that `generator` shuffles every epoch.

    `parts` are the arguments of `network` and, last, 1 for a member and 0 for a non-member. `lr` is the learning rate.
    """
    steps = _Steps(network.train(), parts, lr, batch)
    for _ in range(epochs):
        order = torch.randperm(len(parts[-1]), generator=generator).to(parts[-1].device)
        for rows in order.split(batch):
            steps.take(rows)


class _Steps:
    """Steps of Adam. On a GPU one step is recorded and replayed, because launching kernels takes longer than they do.

    `take(rows)` does one step on the examples with the indices `rows`. `batch` is the size of a full batch; only steps
    on full batches are recorded. `parts` are the arguments of `network` and, last, 1 for a member and 0 for a
    non-member.
    """

    def __init__(self, network: nn.Module, parts: Sequence[Tensor], lr: float, batch: int) -> None:
        *self.values, self.truth = parts
        self.network, self.batch, self.taken = network, batch, 0
        on_gpu = self.truth.is_cuda
        self.optimizer = torch.optim.Adam(network.parameters(), lr=lr, fused=True, capturable=on_gpu)
        self.graph = torch.cuda.CUDAGraph() if on_gpu else None
        self.rows = torch.zeros(batch, dtype=torch.int64, device=self.truth.device)
        """The row indices of a recorded step."""

    def take(self, rows: Tensor) -> None:
        if self.graph is None or len(rows) < self.batch or self.taken < WARM_UP:
            self._step(rows)
        else:
            self.rows.copy_(rows)
            if self.taken == WARM_UP:
                self._record(self.graph)
            self.graph.replay()
        self.taken += len(rows) == self.batch

    def _step(self, rows: Tensor) -> None:
        logits = self.network(*(part[rows] for part in self.values))
        loss = nn.functional.binary_cross_entropy_with_logits(logits, self.truth[rows])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def _record(self, graph: Any) -> None:
        """Record one step as a CUDA graph; recording does not compute it."""
        self.optimizer.zero_grad()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            self._step(self.rows)
