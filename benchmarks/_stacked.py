"""Softmax regressions in one stack that share their samples: what a grid of linear models costs once.

A model of the stack is what `privaware.descent` trains (Poisson samples, flat clipping, momentum, sums
divided by rate x rows): each by itself has that guarantee. The models of a stack see the same samples,
so that features are read once for all of them; `tests/benchmarks/test_tramer_boneh.py` holds one against the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from privaware.noise import Rng

__all__ = ["Stacked", "accuracies", "poisson", "shuffled"]

MARGIN = 1 - 2.0**-9
"""Rows are clipped a little below the norm, because products may be rounded to ten bits."""


@dataclass(frozen=True, kw_only=True)
class Stacked:
    """Models by kind of features and by member: `lr` and `noise` are (kinds, members), `steps` ascends over members.

    `norm` clips gradients; without it a gradient is as long as its row allows and `bound` says how long.
    """

    steps: tuple[int, ...]
    lr: Tensor
    noise: Tensor
    divisor: float
    norm: float | None = 0.1
    bound: float | Tensor = 0.1
    beta: float = 0.9
    bias: bool = True
    classes: int = 10

    @torch.no_grad()
    def run(
        self,
        rows: Tensor,
        labels: Tensor,
        batches: Iterator[Tensor],
        rng: Rng,
        start: tuple[Tensor, Tensor],
        look: Callable[[int, Tensor, Tensor], None] | None = None,
        every: int = 0,
    ) -> tuple[Tensor, Tensor]:
        """Weights (kinds, members, classes, width) and biases; `rows` is (kinds, rows, width), `start` one model."""
        kinds, members = self.lr.shape
        weights = start[0].expand(kinds, members, -1, -1).clone()
        biases = start[1].expand(kinds, members, -1).clone()
        ended = [weights, biases]
        speed, drift = torch.zeros_like(weights), torch.zeros_like(biases)
        length = (rows.square().sum(2) + self.bias).sqrt()
        target = torch.nn.functional.one_hot(labels, self.classes).to(rows.dtype)
        quiet = not bool(self.noise.any())
        first, done = 0, [torch.empty_like(weights), torch.empty_like(biases)]
        for step in range(self.steps[-1]):
            while self.steps[first] <= step:
                for kept, now in zip(done, ended):
                    kept[:, first] = now[:, 0]
                ended = [weights, biases] = [t[:, 1:].contiguous() for t in ended]
                speed, drift = speed[:, 1:].contiguous(), drift[:, 1:].contiguous()
                first += 1
            places = next(batches)
            sums = self._sums(_taken(rows, places), length[:, places], target[places], weights, biases)
            noisy = sums if quiet else [self._noisy(part, first, rng) for part in sums]
            speed.mul_(self.beta).add_(noisy[0], alpha=1 / self.divisor)
            lr = self.lr[:, first:, None]
            weights.addcmul_(speed, lr[..., None], value=-1)
            if self.bias:
                drift.mul_(self.beta).add_(noisy[1], alpha=1 / self.divisor)
                biases.addcmul_(drift, lr, value=-1)
            if look is not None and (step + 1) % every == 0:
                look(step + 1, weights, biases)
        for kept, now in zip(done, ended):
            kept[:, first:] = now
        return done[0], done[1]

    def _sums(
        self, rows: Tensor, length: Tensor, target: Tensor, weights: Tensor, biases: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The sums of clipped gradients by weights and biases."""
        kinds, members = weights.shape[:2]
        flat = weights.flatten(1, 2)
        logits = torch.baddbmm(biases.flatten(1)[:, None], rows, flat.transpose(1, 2))
        error = torch.softmax(logits.unflatten(2, (members, self.classes)), 3)
        error -= target[:, None]
        if self.norm is not None:
            size = torch.linalg.vector_norm(error, dim=3) * length[:, :, None]
            error *= (MARGIN * self.norm / size.clamp_min(1e-30)).clamp_max_(1)[..., None]
        error = error.flatten(2)
        sums = torch.bmm(error.transpose(1, 2), rows)
        return sums.view_as(weights), error.sum(1).view(kinds, members, -1)

    def _noisy(self, sums: Tensor, first: int, rng: Rng) -> Tensor:
        """Weights and biases are two parts of one vector of bounded length, each with the same noise."""
        scale = (self.noise[:, first:] * self.bound).reshape(-1, 1).to(sums)
        noisy = rng.gaussian(sums.reshape(len(scale), -1), noise=scale, sensitivity=1.0)
        made: Tensor = noisy.view_as(sums)
        return made


def _taken(rows: Tensor, places: Tensor) -> Tensor:
    """The rows at `places` of every kind, one kind after another: together they may have too many entries to count."""
    taken = rows.new_empty(len(rows), len(places), rows.shape[2])
    for kind, out in zip(rows, taken):
        torch.index_select(kind, 0, places, out=out)
    return taken


def poisson(rows: int, rate: float, rng: Rng, device: str) -> Iterator[Tensor]:
    """Places of Poisson samples, drawn on the device."""
    generator = rng.torch("sampling", device)
    while True:
        drawn = torch.rand(rows, generator=generator, device=device, dtype=torch.float64)
        yield torch.nonzero(drawn < rate)[:, 0]


def shuffled(rows: int, batch: int, rng: Rng, device: str) -> Iterator[Tensor]:
    """Places of batches of a shuffled order, a new one each epoch; what is left over is dropped."""
    generator = rng.torch("sampling", device)
    while True:
        order = torch.randperm(rows, generator=generator, device=device)
        yield from order[: rows // batch * batch].split(batch)


@torch.no_grad()
def accuracies(weights: Tensor, biases: Tensor, rows: Tensor, labels: Tensor) -> Tensor:
    """(kinds, members) shares of right answers; `rows` is (kinds, rows, width)."""
    members = weights.shape[1]
    right = torch.zeros(weights.shape[:2], device=rows.device)
    for at in range(0, len(labels), 2000):
        some = rows[:, at : at + 2000]
        logits = torch.baddbmm(biases.flatten(1)[:, None], some, weights.flatten(1, 2).transpose(1, 2))
        best = logits.unflatten(2, (members, -1)).argmax(3)
        right += (best == labels[at : at + 2000, None]).sum(1)
    return right / len(labels)
