"""The controller of DPNAS: a recurrent network that proposes cells, trained on their scores by REINFORCE.

A proposal has one operation for each edge, in the order of the cell. Each operation is sampled from a softmax over the
state of a two-layer LSTM, which reads the earlier operations. Training increases the log-probability of cells whose
reward is above a moving baseline. An entropy bonus keeps the controller exploring.

Papers: Pham et al. 2018, Efficient Neural Architecture Search, arXiv:1802.03268; Williams 1992. The topology is fixed,
so there is no attention to predecessors: after the edges of a node the LSTM takes one more step, and its next input is
the start symbol again.
Privacy: the controller sees only rewards. If the rewards are noised and charged, controller and proposals are
post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Proposals:
    """Proposed cells as indices of operations (cells, edges).

    `log_probabilities` and `entropies` (cells, edges) are the log-probability of each chosen operation, and the entropy
    of the distribution from which it was chosen.
    """

    cells: Tensor
    log_probabilities: Tensor
    entropies: Tensor


class Controller(nn.Module):
    """A recurrent network (LSTM) that proposes cells: it chooses one operation after another, for each edge of a cell.

    A cell has `nodes` nodes and `nodes * (nodes + 1) / 2` edges. There are `operations` operations. The LSTM has
    `layers` layers of `hidden` units. Unless `clamp` is None, logits are replaced by `clamp * tanh(logits)`.
    """

    def __init__(
        self, nodes: int = 5, operations: int = 10, hidden: int = 100, layers: int = 2, clamp: float | None = None
    ) -> None:
        super().__init__()
        self.nodes, self.operations, self.hidden, self.clamp = nodes, operations, hidden, clamp
        self.embedding = nn.Embedding(operations + 1, hidden)
        self.memory = nn.ModuleList(nn.LSTMCell(hidden, hidden) for _ in range(layers))
        self.head = nn.Linear(hidden, operations)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.1, 0.1)
        nn.init.zeros_(self.head.bias)

    @property
    def edges(self) -> int:
        return self.nodes * (self.nodes + 1) // 2

    def forward(self, count: int, generator: torch.Generator | None = None, cells: Tensor | None = None) -> Proposals:
        """Return `count` cells with the log-probabilities and entropies of their operations.

        The cells are sampled with `generator` (None: torch's global generator). If `cells` (`count`, edges), indices of
        operations, are given, they are returned instead, and nothing is sampled.
        """
        begin = torch.full((count,), self.operations)
        start = self.embedding(begin)
        states = [(torch.zeros(count, self.hidden),) * 2 for _ in self.memory]
        choices: list[Tensor] = []
        logs: list[Tensor] = []
        for node in range(1, self.nodes + 1):
            inputs = start
            for _ in range(node):
                logits = self.head(self._step(inputs, states))
                if self.clamp is not None:
                    logits = self.clamp * torch.tanh(logits)
                logs.append(torch.log_softmax(logits, 1))
                if cells is None:
                    operation = torch.multinomial(logs[-1].detach().exp(), 1, generator=generator)[:, 0]
                else:
                    operation = cells[:, len(choices)]
                choices.append(operation)
                inputs = self.embedding(operation)
            if node < self.nodes:
                self._step(inputs, states)
        chosen, log_softmax = torch.stack(choices, 1), torch.stack(logs, 1)
        log_probabilities = log_softmax.gather(2, chosen[:, :, None])[:, :, 0]
        return Proposals(chosen, log_probabilities, -(log_softmax.exp() * log_softmax).sum(2))

    def _step(self, inputs: Tensor, states: list[tuple[Tensor, Tensor]]) -> Tensor:
        for at, layer in enumerate(self.memory):
            states[at] = layer(inputs, states[at])
            inputs = states[at][0]
        return inputs


class Reinforce:
    """Training of a controller by Adam, with the mean of `-(reward - baseline) * log(p) - entropy * H` as loss.

    `p` is the probability of a cell, and `H` is the mean entropy of its edges. `lr` is the learning rate of Adam, and
    `entropy` the weight of `H`. The baseline is NaN before the first step, which sets it to the mean of its rewards.
    After a step with n rewards it becomes `decay**n * baseline + (1 - decay**n) * mean(rewards)`.
    """

    def __init__(self, controller: Controller, *, lr: float = 3e-4, entropy: float = 0.05, decay: float = 0.99) -> None:
        self.controller, self.entropy, self.decay = controller, entropy, decay
        self.optimizer = torch.optim.Adam(controller.parameters(), lr=lr)
        self.baseline = math.nan

    def step(self, proposals: Proposals, rewards: Tensor) -> None:
        """Take one step towards cells whose reward is above the baseline, then update the baseline.

        `rewards` has one number for each cell of `proposals`, which the controller must have computed with autograd
        enabled.
        """
        mean = float(rewards.mean())
        if math.isnan(self.baseline):
            self.baseline = mean
        self.optimizer.zero_grad()
        self.loss(proposals, rewards).backward()
        self.optimizer.step()
        weight = self.decay ** len(rewards)
        self.baseline = weight * self.baseline + (1 - weight) * mean

    def loss(self, proposals: Proposals, rewards: Tensor) -> Tensor:
        """Return the REINFORCE loss of `proposals` with these `rewards` (cells,), at the current baseline.

        The expected gradient of the loss is minus the gradient of the expected reward with entropy bonus.
        """
        above = (rewards - self.baseline).to(proposals.log_probabilities)
        gain = above * proposals.log_probabilities.sum(1) + self.entropy * proposals.entropies.mean(1)
        return -gain.mean()
