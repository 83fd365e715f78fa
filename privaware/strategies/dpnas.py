"""DPNAS: a recurrent controller searches cells over shared weights that are trained with clipping and noise.

All candidates share one network. A step samples a cell and takes one step of DP-SGD on its weights, so cells that
suffer from clipping and noise score badly. The scores of sampled cells on validation rows train the controller. After
warm-up epochs with random cells, steps on the weights and updates of the controller alternate. At the end the
controller proposes several cells, and the cell with the best score is chosen. The network of that cell is then trained
from scratch.

Paper: Cheng et al. 2022, DPNAS: Neural Architecture Search for Deep Learning with Differential Privacy. The paper
charges neither steps nor scores, "because the resulted architectures will be trained from scratch". But the cell is an
output of both, so this module charges both.
Privacy: (epsilon, delta) for one row added or removed. A row is either a training row or a validation row. A training
row changes the sum of a step by at most `norm`, and only if it is in the Poisson sample of that step. A validation row
changes the m counts from which m cells are scored by at most `sqrt(m)` in L2 norm. The choice of the next cell depends
on noised values only. On public rows the same search has no privacy cost: scores are exact, and steps have noise only
so that cells that suffer from noise score badly.
Use when: rows are images, and there are public rows like them, or many thousand private rows. Compare with `rs` over
the same space, which trains its candidates from scratch; docs/results/dpnas.md has a comparison.

>>> DpNas(epochs=3, warm_up=1, rate=0.5, updates=2).cost(None, noise=1.0)  # doctest: +ELLIPSIS
Disjoint(events=(Repeated(event=Sampled(event=Gaussian(noise=1.0), rate=0.5), count=6), Repeated(...count=5)))
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from privaware._validate import expect, expect_count, expect_in, expect_nonnegative, expect_one_of, expect_positive
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import NOTHING, Disjoint, Event, Gaussian
from privaware.models._dpnas import edge_ends
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.strategies._dpnas.cells import Cell, CellSearchResult, cells_from_indices, uniform_cells
from privaware.strategies._strategy import Runtime, SearchProcedure

if TYPE_CHECKING:
    from privaware.models.dpnas import Dpnas
    from privaware.strategies._dpnas.controller import Reinforce
    from privaware.strategies._dpnas.weights import CellScorer, SharedWeights

__all__ = ["DpNas"]

CHECKPOINT_EPOCHS = 5
"""Number of epochs between two checkpoints."""

LEAST_COUNTS = {"epochs": 1, "warm_up": 0, "updates": 0, "cells": 1, "derived": 1, "nodes": 1, "hidden": 1}
"""Smallest allowed value of each setting that is a count."""
HERE = Runtime()
"""The default: the CPU, without progress, checkpoints or a call after each epoch."""


@dataclass(frozen=True, kw_only=True)
class DpNas(SearchProcedure):
    """The settings of a DPNAS search, in which all cells share weights that are trained with clipping and noise.

    Parameters
    ----------
    epochs : int
        Number of epochs.
    warm_up : int
        Number of first epochs in which cells are random and the controller does not learn.
    rate : float
        Probability with which a training row is in the batch of a step. An epoch has `ceil(1 / rate)` steps.
    norm : float
        Clipping norm.
    lr : float
        Learning rate of the shared weights.
    last_lr : float
        Last learning rate divided by `lr`. The learning rate falls along a cosine from `lr` to `last_lr * lr`.
    momentum : float
        Momentum coefficient.
    decay : float
        Weight decay.
    aware : float
        Largest noise multiplier of steps on public rows; with more noise the shared weights do not learn.
    updates : int
        Number of controller updates in an epoch.
    cells : int
        Number of cells whose scores an update of the controller uses.
    held_rate : float
        Sampling rate of the validation rows for the scores of an update.
    reward_noise : float
        Noise multiplier of the scores, divided by the noise multiplier of the steps.
    derived : int
        Number of cells that are scored at the end.
    entropy : float
        Weight of the entropy bonus of the controller.
    controller_lr : float
        Learning rate of the controller.
    baseline : float
        Decay of the average reward.
    hidden : int
        Number of units of a layer of the controller.
    clamp : float, optional
        The logits of the controller are replaced by `clamp * tanh(logits)`; by default they are used as they are.
    nodes : int
        Number of nodes of a cell, at most 5.
    policy : str
        "controller", or "uniform": no controller, but random search over the same shared weights.
    network : mapping
        Fields of the model `dpnas` other than its cell.
    microbatch : int, optional
        Number of examples processed at once; it does not change the cost.
    precision : str
        Precision of products on a GPU; it does not change the cost.

    Notes
    -----
    The cost depends on `epochs`, `warm_up`, `rate`, `updates`, `held_rate`, `reward_noise`, `policy` and the noise
    multiplier of the steps.

    These settings are from the paper: `epochs`, `warm_up`, `norm`, `momentum`, `decay`, `entropy` and `nodes`;
    `rate = 0.01` is its batch of 300 on CIFAR-10. These are from the authors' code: `hidden`, `aware`, `baseline`, and
    the cosine schedule down to `lr / 20`; its learning rate of 0.02 at clipping norm 1 is the step of `lr = 0.2` at
    `norm = 0.1`. Two things differ from the paper: `controller_lr` (3e-4 there, for 300 updates in an epoch), and the
    entropy bonus, which is the mean over the edges.
    """

    adaptive: ClassVar[bool] = True

    epochs: int = 100
    warm_up: int = 25
    rate: float = 0.01
    norm: float = 0.1
    lr: float = 0.2
    last_lr: float = 0.05
    momentum: float = 0.9
    decay: float = 2e-4
    aware: float = 0.8
    updates: int = 4
    cells: int = 8
    held_rate: float = 1.0
    reward_noise: float = 16.0
    derived: int = 20
    entropy: float = 0.05
    controller_lr: float = 3.5e-3
    baseline: float = 0.99
    hidden: int = 100
    clamp: float | None = None
    nodes: int = 5
    policy: str = "controller"
    network: dict[str, Any] = field(default_factory=dict)
    microbatch: int | None = field(default=None, repr=False, compare=False)
    precision: str = field(default="float32", repr=False, compare=False)

    def __post_init__(self) -> None:
        settings = vars(self)
        for name, least in LEAST_COUNTS.items():
            expect_count("dpnas", least, **{name: settings[name]})
        expect(self.nodes <= 5, "dpnas", "nodes at most 5", self.nodes)
        expect_in("dpnas", "(0, 1]", rate=self.rate, held_rate=self.held_rate)
        expect_positive("dpnas", lr=self.lr, controller_lr=self.controller_lr, reward_noise=self.reward_noise)
        expect(self.norm > 0, "dpnas", "norm > 0", self.norm)
        expect_nonnegative("dpnas", decay=self.decay, aware=self.aware, entropy=self.entropy)
        expect_one_of("dpnas", ("controller", "uniform"), policy=self.policy)
        clipped = math.isfinite(self.norm) or not self.aware
        expect(clipped, "dpnas", "norm finite, because noise scales with it, or aware = 0", self.norm)

    @property
    def epoch_steps(self) -> int:
        """The number of steps in an epoch, `ceil(1 / rate)`."""
        return math.ceil(1 / self.rate)

    @property
    def controller_updates(self) -> int:
        """The number of charged updates of the controller: `updates` in each epoch after `warm_up`; 0 if "uniform"."""
        return self.updates * max(0, self.epochs - self.warm_up) * (self.policy == "controller")

    def part_costs(self, noise: float) -> tuple[Event, Event]:
        """Return the cost of all steps for the training rows, and the cost of all scores for the validation rows.

        `noise` is the noise multiplier of a step; scores have `reward_noise * noise`.
        """
        steps = self.epochs * self.epoch_steps * Gaussian(noise=noise).sampled(rate=self.rate)
        score, updates = Gaussian(noise=noise * self.reward_noise), self.controller_updates
        if self.held_rate == 1:
            return steps, (updates + 1) * score
        return steps, (updates * score.sampled(rate=self.held_rate) if updates else NOTHING) + score

    def cost(self, schema: Schema, noise: float) -> Event:
        """Return the cost of all steps and scores, which use disjoint rows; `noise` is the noise multiplier of a step.

        The cost does not depend on `schema`.
        """
        return Disjoint(events=self.part_costs(noise))

    def find(
        self, train: Data, validation: Data, noise: float, rng: Rng, *, public: bool = False, runtime: Runtime = HERE
    ) -> dict[str, Any]:
        """Return the best cell as a point of the space `dpnas`: an operation's name for each choice "edge_FROM_TO".

        `train` rows train the shared weights, and `validation` rows score cells. `noise` is the noise multiplier of
        steps. On `public` rows scores are exact. `runtime` does not change the result.
        """
        return self.search(train, validation, noise, rng, public=public, runtime=runtime).point

    def search(
        self, train: Data, validation: Data, noise: float, rng: Rng, *, public: bool = False, runtime: Runtime = HERE
    ) -> CellSearchResult:
        """Return the best of the cells that were scored at the end, with the controller.

        `train` rows train the shared weights, and `validation` rows score cells. `noise` is the noise multiplier of
        steps. On `public` rows steps have noise multiplier `min(noise, aware)`, and scores are exact. On private rows
        the controller and the cells are computed from noised values only; `noise` must be above 0, or `WrongInput` is
        raised. `runtime` does not change the result; `WrongInput` is raised if its checkpoint was saved with other
        settings.
        """
        from privaware.strategies._dpnas.weights import CellScorer, restore, save

        if not public and not noise > 0:
            raise WrongInput(f"dpnas: expected noise > 0 unless the rows are public, got {noise!r}")
        weights = self._shared_weights(train, min(noise, self.aware) if public else noise, rng, runtime.device)
        scorer = CellScorer(weights, validation, 0.0 if public else noise * self.reward_noise, rng)
        reinforce = self._reinforce(rng)
        settings, saved = (self, noise, public, train.schema), runtime.checkpoint
        first = 0 if saved is None else restore(saved, weights, reinforce, settings)
        started = time.monotonic()
        for epoch in range(first, self.epochs):
            self._epoch(epoch, weights, reinforce, scorer, rng)
            if runtime.progress is not None:
                elapsed = time.monotonic() - started
                left = elapsed / (epoch + 1 - first) * (self.epochs - epoch - 1)
                runtime.progress(epoch + 1, self.epochs, left)
            if runtime.on_epoch is not None:
                runtime.on_epoch(epoch, weights, reinforce.controller)
            last = epoch + 1 == self.epochs
            if saved is not None and (last or epoch % CHECKPOINT_EPOCHS == CHECKPOINT_EPOCHS - 1):
                save(saved, epoch + 1, weights, reinforce, settings)
        return self._derived(reinforce, scorer, rng)

    def _epoch(self, epoch: int, weights: SharedWeights, reinforce: Reinforce, scorer: CellScorer, rng: Rng) -> None:
        """Take the steps of one epoch on the shared weights, then update the controller `updates` times.

        `epoch` counts from 0. In the `warm_up` epochs, and with the policy "uniform", cells are random and the
        controller is not updated. Rewards are noisy scores by `scorer`, clipped to [0, 1].
        """
        import torch

        controlled = epoch >= self.warm_up and self.policy == "controller"
        for cell in self._proposals(reinforce, self.epoch_steps, rng, controlled):
            weights.step(cell)
        for _ in range(self.updates * controlled):
            proposals = reinforce.controller(self.cells, rng.torch("initial"))
            scores = scorer(cells_from_indices(proposals.cells), self.held_rate)
            reinforce.step(proposals, torch.from_numpy(np.clip(scores, 0, 1)))

    def _shared_weights(self, train: Data, noise: float, rng: Rng, device: str) -> SharedWeights:
        from privaware import descent
        from privaware.models._dpnas.supernet import shared_network
        from privaware.strategies._dpnas.weights import SharedWeights, tensors_of

        recipe = descent.Descent(
            steps=self.epochs * self.epoch_steps,
            sampler=descent.FullBatch() if self.rate == 1 else descent.Poisson(rate=self.rate),
            clip=descent.flat(self.norm),
            update=SharedWeights.update(self.lr, self.momentum, self.decay),
            lr_schedule=descent.cosine(self.last_lr),
            microbatch=self.microbatch,
            precision=self.precision,
        )
        supernet = shared_network(self._description(train.schema), rng)
        inputs, targets = tensors_of(train, device)
        return SharedWeights(
            supernet, recipe, inputs, targets, noise=noise, rows=train.schema.rows, rng=rng, device=device
        )

    def _description(self, schema: Schema) -> Dpnas:
        from privaware import models

        if schema.form != "image" or not schema.classes:
            raise WrongInput(
                f"dpnas: expected images with classes, got a {schema.form} for {schema.task}; use another strategy"
            )
        ends = {"inputs": list(schema.shape), "outputs": len(schema.classes)}
        cell = ["linear"] * len(edge_ends(self.nodes))
        description = {"name": "dpnas", "activation": "selu", **ends, **self.network, "cell": cell}
        return models.parse(description)  # type: ignore[return-value]

    def _reinforce(self, rng: Rng) -> Reinforce:
        from privaware.models._description import seeded
        from privaware.strategies._dpnas.controller import Controller, Reinforce

        with seeded(rng.initial):
            controller = Controller(nodes=self.nodes, hidden=self.hidden, clamp=self.clamp)
        return Reinforce(controller, lr=self.controller_lr, entropy=self.entropy, decay=self.baseline)

    def _proposals(self, reinforce: Reinforce, count: int, rng: Rng, controlled: bool) -> list[Cell]:
        """Return `count` cells, sampled at once: the controller does not change between the steps of an epoch.

        If `controlled`, the controller of `reinforce` samples the operations. Unless `controlled`, operations are
        uniform.
        """
        import torch

        if not controlled:
            return uniform_cells(count, self.nodes, rng.initial)
        with torch.no_grad():
            return cells_from_indices(reinforce.controller(count, rng.torch("initial")).cells)

    def _derived(self, reinforce: Reinforce, scorer: CellScorer, rng: Rng) -> CellSearchResult:
        cells = self._proposals(reinforce, self.derived, rng, self.controller_updates > 0)
        scores = scorer(cells)
        best = int(np.argmax(scores))
        return CellSearchResult(
            cell=cells[best],
            score=float(scores[best]),
            cells=tuple(cells),
            scores=tuple(scores.tolist()),
            controller=reinforce.controller,
        )
