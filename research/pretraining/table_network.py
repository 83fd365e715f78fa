"""Pretraining of the network of `amortised`, by the loss of its additive models on held-out rows of random tables.

Each step generates tables, computes sums over their training rows, adds noise of random size, and takes a gradient step
on the logistic loss on fresh rows of the same tables. In later rounds, sums of residuals are computed at the model of
the round before. A step depends only on the seed, its number and the network before it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from privaware.errors import WrongInput
from privaware.learners._table_network import MOST_ROUNDS, Residuals, TableFacts, TableNetwork, first_round
from research.pretraining.random_tables import RandomTables, TableShape

__all__ = ["TableRecipe", "TablePretraining"]

HELD_OUT = 1024
"""Number of held-out rows of each random table."""
DECAY_FRACTION = 0.35
"""Last fraction of the schedule, in which the learning rate falls to zero; before, it is constant."""
EARLIER_ROUND_WEIGHT = 0.5
"""Weight of the loss of a round that is not the last one."""


@dataclass(frozen=True, kw_only=True)
class TableRecipe:
    """Everything that determines the weights, apart from the length of the schedule.

    A step has at most `values` numbers and `most_rows` rows in its tables, `tokens` tokens in the network, and `tables`
    tables. Tables have `2**rows[0]` to `2**rows[1]` training rows. The noise, divided by the number of rows, lies
    between `noise[0]` and `noise[1]`.
    """

    seed: int
    width: int = 96
    blocks: int = 4
    heads: int = 4
    values: int = 5_000_000
    most_rows: int = 500_000
    tokens: int = 100_000
    tables: int = 256
    rows: tuple[int, int] = (9, 14)
    columns: tuple[int, int] = (2, 40)
    noise: tuple[float, float] = (3e-5, 0.05)
    lr: float = 8e-4
    decay: float = 1e-2
    warmup: int = 100

    def __post_init__(self) -> None:
        for name in ("rows", "columns", "noise"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

    def shape(self, rng: np.random.Generator) -> tuple[TableShape, int]:
        """Draw a random shape of tables, and the number of rounds."""
        rows = 2 ** int(rng.integers(self.rows[0], self.rows[1] + 1))
        columns = round(float(np.exp(rng.uniform(np.log(self.columns[0]), np.log(self.columns[1])))))
        classes = 2 if rng.random() < 0.75 else int(rng.integers(3, 7))
        cells = int(rng.choice([32, 16, 0], p=[0.65, 0.1, 0.25]))
        shape = TableShape(
            tables=1, rows=rows + HELD_OUT, columns=columns, classes=classes, cells=cells, bins=int(rng.integers(4, 17))
        )
        rounds = int(rng.integers(1, MOST_ROUNDS + 1))
        views = 1 if classes == 2 else classes
        tables = min(
            self.values // (shape.rows * columns * (1 if views == 1 else 2)),
            self.most_rows // shape.rows,
            self.tokens // (views * columns * shape.levels),
            self.tables,
        )
        return replace(shape, tables=max(tables, 1)), rounds


class TablePretraining:
    """A network in training on one device."""

    def __init__(self, recipe: TableRecipe, device: Any = "cpu") -> None:
        self.recipe, self.device = recipe, torch.device(device)
        torch.manual_seed(recipe.seed)
        self.network = TableNetwork(recipe.width, recipe.blocks, recipe.heads).to(self.device)
        self.optimiser = torch.optim.AdamW(
            self.network.parameters(), lr=recipe.lr, weight_decay=recipe.decay, fused=self.device.type == "cuda"
        )
        self.step_number = self.tables = 0

    def step(self, progress: float) -> Tensor:
        """Take one step at this point of the schedule, from 0 to 1; return its loss minus a constant model's loss.

        The device is not synchronised.
        """
        warm = min(1.0, (self.step_number + 1) / self.recipe.warmup)
        for group in self.optimiser.param_groups:
            group["lr"] = self.recipe.lr * warm * min(1.0, max(1 - progress, 0.0) / DECAY_FRACTION)
        losses, constant = self.losses(self.step_number)
        loss = losses[-1].mean() + EARLIER_ROUND_WEIGHT * sum(each.mean() for each in losses[:-1])
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimiser.step()
        self.step_number += 1
        self.tables += len(constant)
        return (losses[-1].detach() - constant).mean()

    def losses(self, number: int, rounds: int | None = None, noise: float | None = None) -> tuple[list[Tensor], Tensor]:
        """Return the loss of each table of a batch after each round, and the loss of the class frequencies.

        `noise` is the noise of all rounds together, divided by the number of rows.
        """
        shape, drawn = self.recipe.shape(np.random.default_rng([self.recipe.seed, number]))
        g = torch.Generator(self.device).manual_seed(self.recipe.seed * 2**32 + number)
        with torch.no_grad():
            batch = _Batch(RandomTables.generate(shape, g), shape, self._noise(shape, noise, g), rounds or drawn, g)
        losses = [batch.held_out_loss(scores, bias) for scores, bias in batch.models(self.network)]
        return losses, batch.constant_loss()

    def _noise(self, shape: TableShape, noise: float | None, g: torch.Generator) -> Tensor:
        low, high = (noise, noise) if noise else self.recipe.noise
        at = torch.rand(shape.tables, generator=g, device=self.device)
        return (shape.rows - HELD_OUT) * torch.exp(math.log(low) + at * (math.log(high) - math.log(low)))

    def state(self) -> dict[str, Any]:
        """Return everything that is needed to resume."""
        return {
            "recipe": asdict(self.recipe),
            "network": self.network.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "step": self.step_number,
            "tables": self.tables,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Resume from `state`; raise if it is of another recipe."""
        if state["recipe"] != asdict(self.recipe):
            raise WrongInput(f"expected a checkpoint of {self.recipe}, got one of {state['recipe']}; name another file")
        self.network.load_state_dict(state["network"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.step_number, self.tables = state["step"], state["tables"]


class _Batch:
    """Tables, their training and held-out rows, and the noise of their releases."""

    def __init__(self, tables: RandomTables, shape: TableShape, noise: Tensor, rounds: int, g: torch.Generator) -> None:
        rows = shape.rows - HELD_OUT
        self.codes, self.test_codes = tables.codes[..., :rows], tables.codes[..., rows:]
        self.classes, self.test_classes = tables.classes[:, :rows], tables.classes[:, rows:]
        self.count, self.rounds, self.g = shape.classes, rounds, g
        at = torch.arange(shape.levels, device=g.device)
        self.facts = TableFacts(
            exists=at < tables.levels[..., None],
            ordered=tables.ordered,
            with_missing=tables.with_missing,
            rows=torch.full((shape.tables,), float(rows), device=g.device),
            scale=noise * math.sqrt(rounds * (shape.columns + 1)),
            classes=shape.classes,
            rounds=rounds,
        )
        self.size = (shape.tables, shape.columns, shape.levels)
        self.cell = self.codes + shape.levels * torch.arange(shape.tables * shape.columns, device=g.device).reshape(
            shape.tables, shape.columns, 1
        )

    @property
    def views(self) -> range:
        return range(1, 2) if self.count == 2 else range(self.count)

    def models(self, network: TableNetwork) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield scores and bias after each round."""
        with torch.no_grad():
            residuals = self._first()
        shape = (self.size[0], len(self.views), *self.size[1:])
        scores, memory = torch.zeros(shape, device=self.g.device), None
        base = torch.logit(residuals.shares) if self.count == 2 else residuals.shares.log()
        for number in range(self.rounds):
            facts = replace(self.facts, round_number=number)
            scores, bias, memory = network(facts, residuals, scores.detach(), memory)
            base = base.detach() + bias
            yield scores, base
            if number + 1 < self.rounds:
                with torch.no_grad():
                    residuals = self._later(residuals, scores, base)

    def held_out_loss(self, scores: Tensor, bias: Tensor) -> Tensor:
        return self._loss(self._logits(scores, bias, self.test_codes), self.test_classes)

    def constant_loss(self) -> Tensor:
        shares = torch.stack([(self.classes == at).float().mean(1) for at in range(self.count)], 1)
        logits = (shares + 1e-3).log()[:, :, None].expand(-1, -1, self.test_classes.shape[1])
        return functional.cross_entropy(logits, self.test_classes, reduction="none").mean(1)

    def _loss(self, logits: Tensor, classes: Tensor) -> Tensor:
        """Return the loss from logits of shape (tables, views, rows); with two classes, logits of the second class."""
        if self.count == 2:
            losses = functional.binary_cross_entropy_with_logits(logits[:, 0], classes.float(), reduction="none")
        else:
            losses = functional.cross_entropy(logits, classes, reduction="none")
        return losses.mean(1)

    @staticmethod
    def _logits(scores: Tensor, bias: Tensor, codes: Tensor) -> Tensor:
        each = [scores[:, view].gather(2, codes).sum(1) for view in range(scores.shape[1])]
        return torch.stack(each, 1) + bias[..., None]

    def _sums(self, weights: Tensor) -> Tensor:
        """Sum weights (tables, rows) by level, with shape (tables, columns, levels)."""
        total = torch.zeros(math.prod(self.size), device=self.g.device)
        total.scatter_add_(0, self.cell.reshape(-1), weights[:, None].expand(self.codes.shape).reshape(-1))
        return total.reshape(self.size)

    def _noisy(self, weights: list[Tensor], spread: float) -> tuple[Tensor, Tensor, Tensor]:
        levels = torch.stack([self._sums(each) for each in weights], 1)
        harmonics = torch.einsum("tvcl,tclw->tvcw", levels, self.facts.harmonics)
        total = torch.stack([each.sum(1) for each in weights], 1)
        scales = (self.facts.bin_scale, self.facts.harmonic_scale, self.facts.scale[:, None])
        noisy = [
            value + spread * scale * torch.randn(value.shape, generator=self.g, device=self.g.device)
            for value, scale in zip((levels, harmonics, total), scales, strict=True)
        ]
        return noisy[0], noisy[1] * self.facts.ordered[:, None, :, None], noisy[2]

    def _first(self) -> Residuals:
        return first_round(self.facts, *self._noisy([(self.classes == at).float() for at in range(self.count)], 1.0))

    def _later(self, residuals: Residuals, scores: Tensor, bias: Tensor) -> Residuals:
        logits = self._logits(scores, bias, self.codes)
        chances = logits.sigmoid() if self.count == 2 else logits.softmax(1)
        gradients = [(self.classes == view).float() - chances[:, at] for at, view in enumerate(self.views)]
        spread = 1.0 if self.count == 2 else math.sqrt(2.0)
        levels, harmonics, total = self._noisy(gradients, spread)
        return residuals.later(levels * self.facts.exists[:, None], harmonics, total, spread)
