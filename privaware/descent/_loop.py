"""Clipped noisy gradient descent: sample, clip, sum, noise, divide by a public number, update."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from privaware.descent._checkpoint import Checkpoint
from privaware.descent._clip import Clip, quantile
from privaware.descent._gradient import Loss
from privaware.descent._losses import cross_entropy
from privaware.descent._sampling import Sampler
from privaware.descent._schedule import Schedule, constant
from privaware.descent._update import Average, Update
from privaware.errors import WrongInput
from privaware.events import NOTHING, Approximate, Event, Gaussian
from privaware.noise import Rng

__all__ = ["Descent"]

PRECISIONS = ("float32", "tf32", "bf16")

Progress = Callable[[int, int, float], None]


@dataclass(frozen=True, kw_only=True)
class Descent:
    """A recipe for private training. Fields are public; rows come only to `run`.

    `physical` rows are computed at once (from the free memory unless given): the update is the same for any number.
    `copies` of each row are augmented and their mean gradient is clipped. `overflow` is a chance, charged to delta,
    that lets CUDA draw samples into batches of fixed shape. A lower `precision` ("tf32" rounds factors of products,
    "bf16" what layers give too; with both, cells of `dpnas` store bf16) clips a little below `norm`, because it rounds.

    Privacy: each step releases one Gaussian sum of clipped per-row gradients on the sampler's rows; everything else is
    post-processing. Sums are divided by rate x declared rows, never by the realised batch size.
    Dropout masks are drawn for each row without looking at any and are never released: neighbours may be given the
    same masks on their common rows, so under each choice of masks the sums differ by one clipped gradient, and a
    mixture of releases of one price is no dearer than each. The same holds for what `augment` draws; it must not change
    an image by others or by the place at which the image stands.

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
    copies: int = 1
    augment: Callable[[Tensor, torch.Generator], Tensor] | None = None
    precision: str = "float32"
    overflow: float = 0.0

    def __post_init__(self) -> None:
        if isinstance(self.steps, bool) or not isinstance(self.steps, int) or self.steps < 0:
            raise WrongInput(f"Descent: expected steps as a whole number >= 0, got {self.steps!r}")
        if (self.physical is not None and self.physical < 1) or self.copies < 1:
            raise WrongInput(f"Descent: expected physical and copies >= 1, got {self.physical!r} and {self.copies!r}")
        if self.precision not in PRECISIONS:
            raise WrongInput(f"Descent: expected precision among {', '.join(PRECISIONS)}, got {self.precision!r}")
        if not 0 <= self.overflow < 1:
            raise WrongInput(f"Descent: expected overflow in [0, 1), got {self.overflow!r}")

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
        if self.overflow and self.sampler.rate < 1:
            event = event + Approximate(epsilon=0.0, delta=self.overflow)
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
        checkpoint: Checkpoint | str | None = None,
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
            checkpoint=checkpoint,
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
        checkpoint: Checkpoint | str | None = None,
    ) -> list[nn.Module]:
        """Trained copies of models stepped together, each with its own samples, noise, lr and norm.

        Each model is a release of its own: what the population costs is what all of them cost together.
        """
        from privaware.descent._probe import mantissas, refuse_kinds
        from privaware.descent._widths import together

        settings = _Settings(rows, rng, device)
        given = [list(noise), lr and list(lr), norm and list(norm)]
        with _seeded(rng, device), mantissas(self.precision):
            built = [one if isinstance(one, nn.Module) else one() for one in modules]
            for module in built:
                refuse_kinds(module)
            out: dict[int, nn.Module] = {}
            groups = together(built, device, by_layer=hasattr(self.clip, "shares"))
            for turn, group in enumerate(groups):
                picked = [values and [values[at] for at in group] for values in given]
                heard = _part_of(progress, turn, len(groups))
                path = _own_path(checkpoint, turn, len(groups))
                own = [built[at] for at in group]
                trained = self._run_stack(own, inputs, targets, picked, settings, heard, path)
                out |= dict(zip(group, trained, strict=True))
        return [out[at] for at in range(len(built))]

    def _run_stack(
        self,
        modules: list[nn.Module],
        inputs: Any,
        targets: Any,
        picked: list[Any],
        settings: _Settings,
        progress: Progress | None,
        checkpoint: Checkpoint | None,
    ) -> list[nn.Module]:
        """Models that fit one stack, from start to end."""
        from privaware.descent._run import Run
        from privaware.descent._widths import Widened

        wide = Widened(modules)
        run = Run(
            self,
            wide.modules,
            inputs,
            targets,
            noise=picked[0],
            rows=settings.rows,
            rng=settings.rng,
            lr=picked[1],
            norm=picked[2],
            device=settings.device,
            mask=wide.mask,
        )
        return wide.narrowed(run.to_end(progress, checkpoint))


@dataclass(frozen=True)
class _Settings:
    """What all models of a call share."""

    rows: int
    rng: Rng
    device: str


def _part_of(progress: Progress | None, turn: int, turns: int) -> Progress | None:
    """Progress over several stacks, one after another."""
    if progress is None or turns == 1:
        return progress
    return lambda step, steps, left: progress(turn * steps + step, turns * steps, left * (turns - turn))


def _own_path(checkpoint: Checkpoint | str | None, turn: int, turns: int) -> Checkpoint | None:
    """Each stack has a file of its own."""
    if checkpoint is None:
        return None
    at = Checkpoint(checkpoint) if isinstance(checkpoint, str) else checkpoint
    return at if turns == 1 else Checkpoint(f"{at.path}.{turn}", at.every)


@contextlib.contextmanager
def _seeded(rng: Rng, device: str) -> Iterator[None]:
    """Torch's own generators for the module's randomness (initial weights, dropout), put back afterwards.

    A GPU is made the current one meanwhile: graphs, events and kernels are of that one.
    """
    place = torch.device(device)
    devices = [place] if place.type == "cuda" else []
    current = torch.cuda.device(place) if devices else contextlib.nullcontext()
    with torch.random.fork_rng(devices=devices), current:
        torch.manual_seed(int(rng.initial.integers(2**63)))
        yield
