"""Data-set condensation: a few synthetic examples whose gradients match noisy gradients of the rows.

This module does not read private rows. Networks and synthetic examples are functions of public randomness and of the
noisy gradients that a query returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from privaware.learners._networks.journal import ReleaseJournal
from privaware.learners._networks.plain_descent import Progress, paced

MIN_NORM_PRODUCT = 1e-6
"""Number that is added to the product of two gradient norms, to avoid division by zero."""

NETWORK_BATCH = 256
"""Batch size at which a network learns from synthetic examples."""


def _state(networks: int, examples: Tensor, optimiser: Any) -> dict[str, np.ndarray]:
    """Return the state of a condensation after `networks` networks, as arrays for a journal.

    The keys are "networks" (the number), "examples" and "momentum". The momentum of the synthetic `examples` is read
    from `optimiser`; it is zeros if there is none. All values are functions of noisy gradients.
    """
    momentum = optimiser.state[examples].get("momentum_buffer")
    kept = {"examples": examples.detach(), "momentum": torch.zeros_like(examples) if momentum is None else momentum}
    return {"networks": np.array(networks), **{name: value.detach().cpu().numpy() for name, value in kept.items()}}


def matching_loss(synthetic: Iterable[Tensor], private: Iterable[Tensor]) -> Tensor:
    """Return the sum, over all output units of all weights, of 1 minus the cosine similarity of two gradients.

    `synthetic` and `private` hold gradients of the same parameters, in the same order. An output unit is one index of
    the first axis of a weight. Gradients of fewer than two dimensions (biases, norm scales) do not count.

    >>> weight = [torch.tensor([[3.0, 4.0], [0.0, 1.0]]), torch.ones(2)]
    >>> opposite = [-one for one in weight]
    >>> round(float(matching_loss(weight, weight)), 4), round(float(matching_loss(weight, opposite)), 4)
    (0.0, 4.0)
    """
    total = torch.zeros(())
    for one, two in zip(synthetic, private, strict=True):
        if one.ndim < 2:
            continue
        one, two = one.flatten(1), two.flatten(1)
        lengths = one.norm(dim=1) * two.norm(dim=1) + MIN_NORM_PRODUCT
        total = total.to(one) + (1 - (one * two).sum(1) / lengths).sum()
    return total


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
        query: Callable[[nn.Module], dict[str, Tensor]],
        build: Callable[[], nn.Module],
        labels: Tensor,
        shape: tuple[int, ...],
        generator: np.random.Generator,
        progress: Progress | None = None,
        journal: ReleaseJournal | None = None,
    ) -> Tensor:
        """Return synthetic examples (labels, *shape), one for each class code in `labels`, that match noisy gradients.

        The examples start as standard normal noise. `query(network)` returns the noisy gradients of the private rows,
        by name of the parameter, and `build()` returns a random network. `generator` draws the initial examples and
        their order in batches. After each query `progress` is called with the number of finished queries, the number
        of all queries, the seconds left and "gradient queries". After each network the examples are saved in `journal`,
        if there is one; an interrupted run resumes from it.
        """
        initial = generator.standard_normal((len(labels), *shape)).astype(np.float32)
        known = None if journal is None else journal.load("examples")
        matched = 0 if known is None else int(known["networks"])
        examples = torch.from_numpy(initial if known is None else known["examples"]).to(labels.device).requires_grad_()
        optimiser = torch.optim.SGD([examples], lr=self.lr, momentum=self.momentum)
        if known is not None and self.momentum:
            optimiser.state[examples]["momentum_buffer"] = torch.from_numpy(known["momentum"]).to(labels.device)
        step = matched * self.rounds * self.queries
        report = paced(progress, self.steps, "gradient queries", before=step)
        for number in range(matched + 1, self.networks + 1):
            network = build()
            for turn in range(self.rounds):
                for _ in range(self.queries):
                    self._match(query(network), network, examples, labels, optimiser)
                    step += 1
                    report(step)
                if turn + 1 < self.rounds:
                    self._teach(network, examples.detach(), labels, generator)
            if journal is not None:
                journal.save("examples", _state(number, examples, optimiser))
        return examples.detach()

    def _match(
        self, private: dict[str, Tensor], network: nn.Module, examples: Tensor, labels: Tensor, optimiser: Any
    ) -> None:
        """Move `examples` in place, so that their mean gradient turns towards the noisy gradient of the private rows.

        This is one step of `optimiser` on `matching_loss`. `private` holds the noisy gradient of each parameter of
        `network` by name, and `labels` the class codes of the examples.
        """
        weights = {name: value for name, value in network.named_parameters() if value.ndim > 1}
        loss = functional.cross_entropy(network(examples), labels)
        synthetic = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
        distance = matching_loss(synthetic, [private[name] for name in weights])
        (examples.grad,) = torch.autograd.grad(distance, [examples])
        optimiser.step()

    def _teach(self, network: nn.Module, examples: Tensor, labels: Tensor, generator: np.random.Generator) -> None:
        """Train `network` in place for `inner` epochs on the synthetic examples, each in a new order by `generator`."""
        optimiser = torch.optim.SGD(network.parameters(), lr=self.network_lr)
        for _ in range(self.inner):
            order = torch.from_numpy(generator.permutation(len(labels))).to(labels.device)
            for batch in order.split(NETWORK_BATCH):
                optimiser.zero_grad()
                functional.cross_entropy(network(examples[batch]), labels[batch]).backward()
                optimiser.step()
