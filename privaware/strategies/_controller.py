"""A recurrent network that proposes cells, and how it learns from their scores.

The proposals are one operation an edge, in the order of the cell; each is drawn from a softmax of what a two-layer LSTM
remembers of those before. It learns by REINFORCE: the log-probability of a cell grows with its reward above a moving
baseline, and a bonus for entropy keeps it curious.

Papers: Pham et al. 2018, Efficient Neural Architecture Search, arXiv:1802.03268; Williams 1992. The topology is fixed,
so predecessors are not attended to: after the edges of a node the LSTM takes one step more and starts anew.
Privacy: it sees rewards only. Where these are noised and paid for, the controller and what it proposes are free.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

__all__ = ["Controller", "Proposed", "Reinforce"]


@dataclass(frozen=True)
class Proposed:
    """Cells as (cells, edges) numbers of operations, the log-probability of each, and the entropy it was drawn at."""

    cells: Tensor
    log_probabilities: Tensor
    entropies: Tensor


class Controller(nn.Module):
    """An LSTM over the edges of a cell with `nodes` nodes; `clamp` t bends the logits to t tanh(logits)."""

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

    def forward(self, count: int, generator: torch.Generator | None = None, given: Tensor | None = None) -> Proposed:
        """`count` cells side by side, drawn by `generator`; or what it thinks of the `given` ones."""
        begin = torch.full((count,), self.operations)
        start = self.embedding(begin)
        states = [(torch.zeros(count, self.hidden),) * 2 for _ in self.memory]
        picked: list[Tensor] = []
        logs: list[Tensor] = []
        for node in range(1, self.nodes + 1):
            inputs = start
            for _ in range(node):
                seen = self._step(inputs, states)
                logits = self.head(seen)
                if self.clamp is not None:
                    logits = self.clamp * torch.tanh(logits)
                logs.append(torch.log_softmax(logits, 1))
                if given is None:
                    drawn = torch.multinomial(logs[-1].detach().exp(), 1, generator=generator)[:, 0]
                else:
                    drawn = given[:, len(picked)]
                picked.append(drawn)
                inputs = self.embedding(drawn)
            if node < self.nodes:
                self._step(inputs, states)
        cells, each = torch.stack(picked, 1), torch.stack(logs, 1)
        own = each.gather(2, cells[:, :, None])[:, :, 0]
        return Proposed(cells, own, -(each.exp() * each).sum(2))

    def _step(self, inputs: Tensor, states: list[tuple[Tensor, Tensor]]) -> Tensor:
        for at, layer in enumerate(self.memory):
            states[at] = layer(inputs, states[at])
            inputs = states[at][0]
        return inputs


class Reinforce:
    """Adam on -(reward - baseline) log p - entropy x (mean entropy of an edge), averaged over the cells told.

    The baseline starts at the first rewards' mean and keeps the share `keep` of itself for every reward it hears.
    """

    def __init__(self, controller: Controller, *, lr: float = 3e-4, entropy: float = 0.05, keep: float = 0.99) -> None:
        self.controller, self.entropy, self.keep = controller, entropy, keep
        self.update = torch.optim.Adam(controller.parameters(), lr=lr)
        self.baseline = math.nan

    def tell(self, proposed: Proposed, rewards: Tensor) -> None:
        """One step towards cells whose reward is above the baseline; then the baseline moves."""
        mean = float(rewards.mean())
        if math.isnan(self.baseline):
            self.baseline = mean
        self.update.zero_grad()
        self.loss(proposed, rewards).backward()
        self.update.step()
        kept = self.keep ** len(rewards)
        self.baseline = kept * self.baseline + (1 - kept) * mean

    def loss(self, proposed: Proposed, rewards: Tensor) -> Tensor:
        """What is descended: its gradient is minus that of the expected reward with the entropy bonus, on average."""
        above = (rewards - self.baseline).to(proposed.log_probabilities)
        gain = above * proposed.log_probabilities.sum(1) + self.entropy * proposed.entropies.mean(1)
        return -gain.mean()
