"""Data-set condensation: a few synthetic examples whose gradients match noisy gradients of the rows.

This module does not read private rows. Networks and synthetic examples are functions of public randomness and of the
noisy gradients that a query returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from privaware.learners._networks.double_backward import speed_up_double_backward
from privaware.learners._networks.journal import ReleaseJournal
from privaware.learners._networks.plain_descent import Progress, captured, paced

MIN_NORM_PRODUCT = 1e-6
"""Number that is added to the product of two gradient norms, to avoid division by zero."""

NETWORK_BATCH = 256
"""Batch size at which a network learns from synthetic examples."""


def matching_loss(synthetic: Iterable[Tensor], private: Iterable[Tensor]) -> Tensor:
    """Return the sum, over all output units of all weights, of 1 minus the cosine similarity of two gradients.

    `synthetic` and `private` hold gradients of the same parameters, in the same order. An output unit is one index of
    the first axis of a weight. Gradients of fewer than two dimensions (biases, norm scales) do not count.

    >>> weight = [torch.tensor([[3.0, 4.0], [0.0, 1.0]]), torch.ones(2)]
    >>> opposite = [-one for one in weight]
    >>> round(float(matching_loss(weight, weight)), 4), round(float(matching_loss(weight, opposite)), 4)
    (0.0, 4.0)
    """
    distances = []
    for one, two in zip(synthetic, private, strict=True):
        if one.ndim > 1:
            one, two = one.flatten(1), two.flatten(1)
            lengths = one.norm(dim=1) * two.norm(dim=1) + MIN_NORM_PRODUCT
            distances.append((1 - (one * two).sum(1) / lengths).sum())
    return torch.stack(distances).sum()


@dataclass(frozen=True, kw_only=True)
class Condensation:
    """Settings of the training of synthetic examples.

    `networks` random networks are used one after another. Each is matched in `rounds` rounds of `queries` noisy
    gradients. Between two rounds the network learns from the synthetic examples for `inner` epochs, so gradients are
    matched along the path of its training. `lr` and `momentum` are for the examples, `network_lr` is for the networks.
    """

    networks: int
    rounds: int
    queries: int
    inner: int
    lr: float
    momentum: float
    network_lr: float

    @property
    def steps(self) -> int:
        """The number of noisy gradients; each gradient is charged."""
        return self.networks * self.rounds * self.queries

    def run(
        self,
        query: Callable[..., dict[str, Tensor]],
        build: Callable[[], nn.Module],
        labels: Tensor,
        shape: tuple[int, ...],
        generator: np.random.Generator,
        progress: Progress | None = None,
        journal: ReleaseJournal | None = None,
    ) -> Tensor:
        """Return synthetic examples (labels, *shape), one for each class code in `labels`, that match noisy gradients.

        The examples start as standard normal noise. `query(network)` returns the noisy gradients of the private rows,
        by name of the parameter; `query()` returns others for the same network, which did not change. `build()` returns
        a random network. `generator` draws the initial examples and their order in batches. After each query `progress`
        is called with the number of finished queries, the number of all queries, the seconds left and "gradient
        queries". After each network the examples and their momentum are saved in `journal`, if there is one; an
        interrupted run resumes from it. On a GPU the steps between queries are captured as CUDA graphs.
        """
        initial = generator.standard_normal((len(labels), *shape)).astype(np.float32)
        fresh = {"networks": np.array(0), "examples": initial, "momentum": np.zeros_like(initial)}
        known = (None if journal is None else journal.load("examples")) or fresh
        matched = int(known["networks"])
        examples, velocity = (torch.from_numpy(known[name]).to(labels.device) for name in ("examples", "momentum"))
        done = matched * self.rounds * self.queries
        report = paced(progress, self.steps, "gradient queries", before=done)
        steps = None
        for number in range(matched + 1, self.networks + 1):
            network = build()
            steps = steps or _Steps(self, network, examples, velocity, labels)
            steps.network.load_state_dict(network.state_dict())
            for turn in range(self.rounds):
                for at in range(self.queries):
                    steps.match(query() if at else query(steps.network))
                    done += 1
                    report(done)
                if turn + 1 < self.rounds:
                    steps.teach(generator)
            if journal is not None:
                kept = {"examples": examples.cpu().numpy(), "momentum": velocity.cpu().numpy()}
                journal.save("examples", {"networks": np.array(number), **kept})
        return examples


class _Steps:
    """The steps of a condensation between queries, on tensors that keep their memory.

    `examples`, their momentum `velocity`, and the parameters of `network` are changed in place. `labels` are the class
    codes of the examples. On a GPU the steps are captured as CUDA graphs, which read and write the same memory.
    """

    def __init__(
        self, settings: Condensation, network: nn.Module, examples: Tensor, velocity: Tensor, labels: Tensor
    ) -> None:
        self.settings, self.network = settings, network
        self.examples, self.velocity, self.labels = examples, velocity, labels
        self.parameters = list(network.parameters())
        self.weights = {name: value for name, value in network.named_parameters() if value.ndim > 1}
        self.private = {name: torch.zeros_like(value) for name, value in self.weights.items()}
        self.order = torch.arange(len(labels), device=labels.device)
        self.match_once, self.teach_epoch = self._match_once, self._teach_epoch
        if labels.is_cuda:
            speed_up_double_backward(network)
            changed = [examples, velocity, *self.parameters]
            generator = torch.cuda.default_generators[labels.device.index]
            self.match_once = captured(self._match_once, changed, generator)
            self.teach_epoch = captured(self._teach_epoch, changed, generator)

    def match(self, private: dict[str, Tensor]) -> None:
        """Move the examples so that their mean gradient turns towards `private`, noisy gradients by parameter name."""
        for name, values in self.private.items():
            values.copy_(private[name])
        self.match_once()

    def teach(self, generator: np.random.Generator) -> None:
        """Train the network for `inner` epochs on the examples.

        `generator` draws a new order in each epoch, unless all examples are in one batch.
        """
        for _ in range(self.settings.inner):
            if len(self.labels) > NETWORK_BATCH:
                self.order.copy_(torch.from_numpy(generator.permutation(len(self.labels))))
            self.teach_epoch()

    def _match_once(self) -> None:
        """Take a step of descent with momentum on the `matching_loss` of the examples."""
        examples = self.examples.detach().requires_grad_()
        loss = functional.cross_entropy(self.network(examples), self.labels)
        synthetic = torch.autograd.grad(loss, list(self.weights.values()), create_graph=True)
        (gradient,) = torch.autograd.grad(matching_loss(synthetic, self.private.values()), examples)
        self.velocity.mul_(self.settings.momentum).add_(gradient)
        self.examples.sub_(self.velocity, alpha=self.settings.lr)

    def _teach_epoch(self) -> None:
        for batch in self.order.split(NETWORK_BATCH):
            loss = functional.cross_entropy(self.network(self.examples[batch]), self.labels[batch])
            gradients = torch.autograd.grad(loss, self.parameters)
            with torch.no_grad():
                for values, gradient in zip(self.parameters, gradients, strict=True):
                    values.sub_(gradient, alpha=self.settings.network_lr)
