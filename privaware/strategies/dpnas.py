"""A cell found by a recurrent controller over shared weights that are trained with clipping and noise.

Candidates share one network. A step samples a cell and makes one step of private descent on its weights, so that cells
which suffer from clipping and noise score badly; the scores of sampled cells on held rows teach the controller. After
warm-up epochs with cells at random the two alternate; in the end the best of several cells that the controller
proposes is taken. The found network is then trained from scratch.

Paper: Cheng et al. 2022, DPNAS: Neural Architecture Search for Deep Learning with Differential Privacy. There neither
steps nor scores are charged, "because the resulted architectures will be trained from scratch"; but the cell itself is
an output of both, so here both are.
Privacy: (epsilon, delta) for one row added or removed. A row is either in the part that trains, where it moves the sum
of a step by at most `norm` and only if it is in the step's Poisson sample, or in the held part, where it moves the m
counts of a score by at most the root of m. Which cell comes next depends on noised values only. On public rows the same
search is free: its scores are exact, and its steps have noise only so that cells which suffer from noise score badly.
Measured (docs/results/dpnas.md): on CIFAR-10 scores with shared weights ordered 20 cells the wrong way round, and the
cells proposed were no better from scratch than cells at random; short trainings from scratch ordered them well.
Use when: rows are images, and there are public ones like them, or many thousand private ones. Compare with `rs` over
the same space, which trains its candidates from scratch.

>>> DpNas(epochs=3, warm_up=1, rate=0.5, updates=2).cost(None, noise=1.0)  # doctest: +ELLIPSIS
Disjoint(events=(Repeated(event=Sampled(event=Gaussian(noise=1.0), rate=0.5), count=6), Repeated(...count=5)))
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import NOTHING, Disjoint, Event, Gaussian
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.strategies._cells import Cell, Found, edges, named, uniform

if TYPE_CHECKING:
    from privaware.models.dpnas import Dpnas
    from privaware.strategies._controller import Controller, Reinforce
    from privaware.strategies._shared import Scorer, Shared

__all__ = ["DpNas", "Found"]

Progress = Callable[[int, int, float], None]
Watch = Callable[[int, "Shared", "Controller"], None]

EVERY = 5
"""Epochs between two checkpoints."""

LEAST = {"epochs": 1, "warm_up": 0, "updates": 0, "cells": 1, "derived": 1, "nodes": 1, "hidden": 1}


@dataclass(frozen=True, kw_only=True)
class DpNas:
    """Every number that the price depends on is here: epochs, rate, updates and the two noises.

    `aware` is the most noise of steps on public rows: with much noise the shared weights do not learn.

    From the paper: `epochs`, `warm_up`, `norm`, `momentum`, `decay`, `entropy`, `nodes`; a `rate` of 0.01 is its batch
    of 300 on CIFAR-10. From the authors' code: `hidden`, `aware`, `baseline`, the cosine to a twentieth of `lr`; its lr
    of 0.02 at norm 1 is the step of `lr` 0.2 at norm 0.1. Ours: a controller update hears `cells` scores at once, of
    held rows sampled at `held_rate`, `updates` times an epoch; `controller_lr` (3e-4 in the paper, for 300 updates an
    epoch); the entropy counts by its mean over the edges; `reward_noise` is the scores' noise over that of the steps,
    at 300 updates about equally dear; `derived` cells are scored at the end. `network` are fields of the model `dpnas`
    other than its cell. `policy` "uniform" leaves the controller out: random search over the same shared weights.
    """

    adaptive: ClassVar[bool] = True
    tasks: ClassVar[tuple[str, ...]] = ("classification",)

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
    physical: int | None = field(default=None, repr=False, compare=False)
    precision: str = field(default="float32", repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise self._wrong(name, f"as a whole number >= {least}")
        if self.nodes > 5:
            raise self._wrong("nodes", "at most 5")
        for name in ("rate", "held_rate"):
            if not 0 < getattr(self, name) <= 1:
                raise self._wrong(name, "in (0, 1]")
        for name in ("norm", "lr", "controller_lr", "reward_noise"):
            if not getattr(self, name) > 0:
                raise self._wrong(name, "> 0")
        for name in ("decay", "aware", "entropy"):
            if not getattr(self, name) >= 0:
                raise self._wrong(name, ">= 0")
        if self.policy not in ("controller", "uniform"):
            raise self._wrong("policy", "as controller or uniform")
        if not math.isfinite(self.norm) and self.aware:
            raise self._wrong("norm", "finite, because noise scales with it, or aware = 0")

    def _wrong(self, name: str, words: str) -> WrongInput:
        return WrongInput(f"dpnas: expected {name} {words}, got {getattr(self, name)!r}")

    @property
    def each(self) -> int:
        """Steps of an epoch."""
        return math.ceil(1 / self.rate)

    @property
    def taught(self) -> int:
        """How many times the controller hears scores, each time paid for."""
        return self.updates * max(0, self.epochs - self.warm_up) * (self.policy == "controller")

    def parts(self, noise: float) -> tuple[Event, Event]:
        """What rows that train pay, and what held rows pay."""
        steps = self.epochs * self.each * Gaussian(noise=noise).sampled(rate=self.rate)
        score = Gaussian(noise=noise * self.reward_noise)
        taught = self.taught * score.sampled(rate=self.held_rate) if self.taught else NOTHING
        if self.held_rate == 1:
            return steps, (self.taught + 1) * score
        return steps, taught + score

    def cost(self, schema: Schema, noise: float, held_out: float = 0.4) -> Event:
        """The steps and the scores see disjoint rows; nothing depends on how many there are."""
        return Disjoint(events=self.parts(noise))

    def find(self, train: Data, held: Data, noise: float, rng: Rng, **aids: Any) -> dict[str, str]:
        """The best cell, as a point of the space `dpnas`; `aids` are those of `search`."""
        return self.search(train, held, noise, rng, **aids).point

    def search(
        self,
        train: Data,
        held: Data,
        noise: float,
        rng: Rng,
        *,
        device: str = "cpu",
        progress: Progress | None = None,
        public: bool = False,
        checkpoint: str | Path | None = None,
        watch: Watch | None = None,
    ) -> Found:
        """The same with the controller, which is made of noised values only; `watch` hears every epoch's end."""
        from privaware.strategies import _resume
        from privaware.strategies._shared import Scorer

        if not public and not noise > 0:
            raise WrongInput(f"dpnas: expected noise > 0 unless the rows are public, got {noise!r}")
        shared = self._shared(train, min(noise, self.aware) if public else noise, rng, device)
        scorer = Scorer(shared, held, 0.0 if public else noise * self.reward_noise, rng)
        learner = self._learner(rng)
        settings = (self, noise, public, train.schema)
        first = 0 if checkpoint is None else _resume.restore(checkpoint, shared, learner, settings)
        began = time.monotonic()
        for epoch in range(first, self.epochs):
            self._epoch(epoch, shared, learner, scorer, rng)
            if progress is not None:
                gone = time.monotonic() - began
                left = gone / (epoch + 1 - first) * (self.epochs - epoch - 1)
                progress(epoch + 1, self.epochs, left)
            if watch is not None:
                watch(epoch, shared, learner.controller)
            if checkpoint is not None and (epoch % EVERY == EVERY - 1 or epoch + 1 == self.epochs):
                _resume.save(checkpoint, epoch + 1, shared, learner, settings)
        return self._derived(learner, scorer, rng)

    def _epoch(self, epoch: int, shared: Shared, learner: Reinforce, scorer: Scorer, rng: Rng) -> None:
        """Steps on the shared weights, then lessons for the controller."""
        teaching = epoch >= self.warm_up and self.policy == "controller"
        for cell in self._proposals(learner, self.each, rng, teaching):
            shared.step(cell)
        for _ in range(self.updates * teaching):
            self._teach(learner, scorer, rng)

    def _shared(self, train: Data, noise: float, rng: Rng, device: str) -> Shared:
        from privaware import descent
        from privaware.models._supernet import shared_network
        from privaware.strategies._shared import Shared, tensors_of

        sampler = descent.Poisson(rate=self.rate)
        recipe = descent.Descent(
            steps=self.epochs * self.each,
            sampler=descent.FullBatch() if self.rate == 1 else sampler,
            clip=descent.flat(self.norm),
            update=Shared.update(self.lr, self.momentum, self.decay),
            lr_schedule=descent.cosine(self.last_lr),
            physical=self.physical,
            precision=self.precision,
        )
        supernet = shared_network(self._description(train.schema), rng)
        inputs, targets = tensors_of(train, device)
        return Shared(supernet, recipe, inputs, targets, noise=noise, rows=train.schema.rows, rng=rng, device=device)

    def _description(self, schema: Schema) -> Dpnas:
        from privaware import models

        if schema.form != "image" or not schema.classes:
            raise WrongInput(
                f"dpnas: expected images with classes, got a {schema.form} for {schema.task}; use another strategy"
            )
        ends = {"inputs": list(schema.shape), "outputs": len(schema.classes)}
        cell = ["linear"] * len(edges(self.nodes))
        given = {"name": "dpnas", "activation": "selu", **ends, **self.network, "cell": cell}
        return models.parse(given)  # type: ignore[return-value]

    def _learner(self, rng: Rng) -> Reinforce:
        from privaware.models._description import seeded
        from privaware.strategies._controller import Controller, Reinforce

        with seeded(rng.initial):
            controller = Controller(nodes=self.nodes, hidden=self.hidden, clamp=self.clamp)
        return Reinforce(controller, lr=self.controller_lr, entropy=self.entropy, keep=self.baseline)

    def _proposals(self, learner: Reinforce, count: int, rng: Rng, controlled: bool) -> list[Cell]:
        """The controller rests during an epoch, so its cells are drawn at once."""
        import torch

        if not controlled:
            return uniform(count, self.nodes, rng.initial)
        with torch.no_grad():
            return named(learner.controller(count, rng.torch("initial")).cells)

    def _teach(self, learner: Reinforce, scorer: Scorer, rng: Rng) -> None:
        import torch

        proposed = learner.controller(self.cells, rng.torch("initial"))
        scores = scorer(named(proposed.cells), self.held_rate)
        learner.tell(proposed, torch.from_numpy(np.clip(scores, 0, 1)))

    def _derived(self, learner: Reinforce, scorer: Scorer, rng: Rng) -> Found:
        cells = self._proposals(learner, self.derived, rng, self.taught > 0)
        scores = scorer(cells)
        best = int(np.argmax(scores))
        return Found(
            cell=cells[best],
            score=float(scores[best]),
            cells=tuple(cells),
            scores=tuple(scores.tolist()),
            controller=learner.controller,
        )
