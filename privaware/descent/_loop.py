"""Clipped noisy gradient descent: sample, clip, sum, noise, divide by a public number, update."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from privaware.descent._clip import Clip, quantile
from privaware.descent._gradient import Loss
from privaware.descent._losses import cross_entropy
from privaware.descent._sampling import Sampler
from privaware.descent._schedule import Schedule, constant
from privaware.descent._update import Average, Update
from privaware.errors import WrongInput
from privaware.events import NOTHING, Event, Gaussian
from privaware.noise import Rng

__all__ = ["Descent"]

Progress = Callable[[int, int, float], None]


@dataclass(frozen=True, kw_only=True)
class Descent:
    """A recipe for private training. Fields are public; rows come only to `run`.

    Privacy: each step releases one Gaussian sum of clipped per-row gradients on the sampler's rows; everything else is
    post-processing. Sums are divided by rate x declared rows, never by the realised batch size.

    >>> from privaware.descent import Descent, Poisson, flat, sgd
    >>> descent = Descent(steps=100, sampler=Poisson(rate=0.01), clip=flat(1.0), update=sgd(0.1))
    >>> descent.cost(noise=1.1)
    Repeated(event=Sampled(event=Gaussian(noise=1.1), rate=0.01), count=100)
    """

    steps: int
    sampler: Sampler
    clip: Clip
    update: Update
    average: Average | None = None
    loss: Loss = cross_entropy
    lr_schedule: Schedule = constant()  # noqa: RUF009  (frozen)
    noise_schedule: Schedule = constant()  # noqa: RUF009  (frozen)
    physical: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.steps, bool) or not isinstance(self.steps, int) or self.steps < 0:
            raise WrongInput(f"Descent: expected steps as a whole number >= 0, got {self.steps!r}")
        if self.physical is not None and self.physical < 1:
            raise WrongInput(f"Descent: expected physical >= 1, got {self.physical!r}")

    def noise_at(self, noise: float, step: int) -> float:
        """The noise of one step: the knob times the schedule, for the price and for the run alike."""
        return noise * self.noise_schedule.at(step, self.steps)

    def cost(self, noise: float) -> Event:
        """What `run` with this noise reveals."""
        if isinstance(self.clip, quantile):
            for step in range(self.steps):
                self.clip.gradient_noise(self.noise_at(noise, step))
        levels = Counter(self.noise_at(noise, step) for step in range(self.steps))
        event = NOTHING
        for level, count in levels.items():
            event = event + count * self.sampler.event(Gaussian(noise=level))
        return event

    def run(
        self,
        module: nn.Module | Callable[[], nn.Module],
        inputs: Any,
        targets: Any,
        *,
        noise: float,
        rows: int,
        rng: Rng,
        device: str = "cpu",
        progress: Progress | None = None,
    ) -> nn.Module:
        """A trained copy of `module`. `rows` is the declared number of rows, which sets the divisor."""
        return self.run_population(
            [module],
            inputs,
            targets,
            noise=[noise],
            rows=rows,
            rng=rng,
            device=device,
            progress=progress,
        )[0]

    def run_population(
        self,
        modules: Sequence[nn.Module | Callable[[], nn.Module]],
        inputs: Any,
        targets: Any,
        *,
        noise: Sequence[float],
        rows: int,
        rng: Rng,
        lr: Sequence[float] | None = None,
        norm: Sequence[float] | None = None,
        device: str = "cpu",
        progress: Progress | None = None,
    ) -> list[nn.Module]:
        """Trained copies of models of one architecture, stepped together, each with its own samples and noise."""
        from privaware.descent._run import Run

        with _seeded(rng, device):
            built = [one if isinstance(one, nn.Module) else one() for one in modules]
            run = Run(
                self,
                built,
                inputs,
                targets,
                noise=noise,
                rows=rows,
                rng=rng,
                lr=lr,
                norm=norm,
                device=device,
            )
            return run.to_end(progress)


@contextlib.contextmanager
def _seeded(rng: Rng, device: str) -> Iterator[None]:
    """Torch's own generators for the module's randomness (initial weights, dropout), put back afterwards."""
    place = torch.device(device)
    devices = [place] if place.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(int(rng.initial.integers(2**63)))
        yield
