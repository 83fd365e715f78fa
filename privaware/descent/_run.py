"""One population on its way: the state of a run and its step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from privaware.descent._clip import SHORT, quantile
from privaware.descent._gradient import accumulate, as_inputs, as_target
from privaware.descent._memory import physical_rows
from privaware.descent._probe import proven, refuse_kinds
from privaware.descent._stack import Stack
from privaware.errors import WrongInput
from privaware.noise import Rng

if TYPE_CHECKING:
    from privaware.descent._checkpoint import Checkpoint
    from privaware.descent._loop import Descent

__all__ = ["Now", "Run"]

ROUND = 16
"""Batches are padded to a multiple of this, so that kernels meet few different shapes."""

Batch = tuple[Tensor | slice, Tensor | None]


@dataclass(frozen=True)
class Now:
    """What is public about one step: numbers for one model, (models, 1) tensors for several or in a captured graph."""

    noise: Any
    inner: Any
    lr: Any
    weight: Any
    done: Any


class Run:
    """Everything a step reads and writes."""

    def __init__(
        self,
        descent: Descent,
        modules: Sequence[nn.Module],
        inputs: Any,
        targets: Any,
        *,
        noise: Sequence[float],
        rows: int,
        rng: Rng,
        lr: Sequence[float] | None = None,
        norm: Sequence[float] | None = None,
        device: str = "cpu",
        mask: Tensor | None = None,
    ) -> None:
        self.descent, self.modules, self.rng = descent, list(modules), rng
        self._load(inputs, targets, device)
        self.noise = self._each("noise", noise)
        self.lr = self._each("lr", lr or [descent.update.lr] * self.models)
        self.norm = self._each("norm", norm or [descent.clip.norm] * self.models)
        self.rows = _declared(rows)
        self.divisor = descent.sampler.rate * self.rows
        theta = self.stack.theta
        self.mask = None if mask is None else mask.to(theta)
        if self.mask is not None:
            self.stack.rest(self.mask)
            self.still = theta * (1 - self.mask)
        self.step = 0
        self.state = descent.update.start(theta)
        self.averages = {} if descent.average is None else descent.average.start(theta)
        self.tracking = isinstance(descent.clip, quantile)
        self.bounds = torch.tensor(self.norm, dtype=theta.dtype, device=theta.device)
        self.total = theta.new_zeros(self.models, theta.shape[1] + self.tracking)
        self.stack.finite = descent.augment is None and all(map(_finite, self.inputs))
        self.physical = descent.physical or physical_rows(self)
        self._check_noise()

    def _load(self, inputs: Any, targets: Any, device: str) -> None:
        loss = self.descent.loss
        watch = getattr(loss, "watch", ())
        refuse_kinds(self.modules[0])
        self.stack = Stack(self.modules, device=device, watch=watch)
        self.inputs = as_inputs(inputs, self.stack)
        self.targets = as_target(targets, self.stack)
        if len(self.targets) != len(self.inputs[0]):
            raise WrongInput(f"expected one target a row, got {len(self.targets)} for {len(self.inputs[0])} rows")
        place, first = self.stack.device, self.modules[0]
        if proven(first, loss, self.inputs, self.targets, place, self.models):
            self.stack = Stack(self.modules, device=device, whole=True, watch=watch)

    @property
    def models(self) -> int:
        return len(self.modules)

    def _each(self, name: str, values: Sequence[float]) -> list[float]:
        out = [float(value) for value in values]
        if len(out) != self.models or not all(value >= 0 for value in out):
            raise WrongInput(f"expected {name} >= 0 for each of {self.models} models, got {list(values)!r}")
        return out

    def _check_noise(self) -> None:
        quiet = [value == 0 for value in self.noise]
        if any(quiet) and not all(quiet):
            raise WrongInput("expected noise > 0 for every model, or 0 for all; some are 0")
        if not all(quiet) and not all(np.isfinite(self.norm)):
            raise WrongInput("expected a finite norm, because noise scales with it; got infinity")

    def to_end(
        self, progress: Callable[[int, int, float], None] | None = None, checkpoint: Checkpoint | None = None
    ) -> list[nn.Module]:
        """All remaining steps; the trained copies. `progress` hears steps done, steps in all, seconds left."""
        if checkpoint is not None:
            checkpoint.load(self)
        step = self._stepper() if self.step < self.descent.steps else self.one_step
        began, first = time.monotonic(), self.step
        while self.step < self.descent.steps:
            step()
            if checkpoint is not None:
                checkpoint.maybe(self)
            if progress is not None:
                each = (time.monotonic() - began) / (self.step - first)
                progress(self.step, self.descent.steps, each * (self.descent.steps - self.step))
        return self.released()

    def _stepper(self) -> Callable[[], None]:
        """The step: captured as a graph on CUDA, unless a recorder listens to the generator or there is no row."""
        rows = len(self.inputs[0])
        if self.stack.device.type != "cuda" or type(self.rng) is not Rng or not rows:
            return self.one_step
        from privaware.descent._capture import Captured

        return Captured(self).one_step

    def released(self) -> list[nn.Module]:
        """Copies of the modules with the trained (or averaged) parameters."""
        theta = self.averages.get("average", self.stack.theta) if self.step else self.stack.theta
        return self.stack.released(self.modules, theta)

    def one_step(self) -> None:
        """Sample, clip and sum, noise, divide by a public number, update."""
        available = len(self.inputs[0])
        drawn = [self.descent.sampler.draw(self.rng, available) for _ in self.modules]
        self.body(self.now(), self._batches(drawn))
        self.step += 1

    def body(self, now: Now, batches: Iterable[Batch], branch: bool = True) -> None:
        """One step on given batches."""
        self.total.zero_()
        self.gather(now, batches, branch)
        noisy, spread = self.release(now)
        self.finish(now, noisy, spread)

    def now(self) -> Now:
        """The public numbers of this step."""
        descent, step = self.descent, self.step
        noise = [descent.noise_at(value, step) for value in self.noise]
        inner = [self.inner_noise(value) for value in noise]
        lr = [value * descent.lr_schedule.at(step, descent.steps) for value in self.lr]
        average = descent.average
        weight = 0.0 if average is None else average.weight(step, descent.steps)
        done = step / descent.steps
        if self.models == 1:
            return Now(noise[0], inner[0], lr[0], weight, done)
        table = self.total.new_tensor([noise, inner, lr])[:, :, None]
        return Now(table[0], table[1], table[2], weight, done)

    def inner_noise(self, noise: float) -> float:
        """What is left for the gradient of the noise that prices a step."""
        clip = self.descent.clip
        return clip.gradient_noise(noise) if isinstance(clip, quantile) else noise

    def _batches(self, drawn: list[np.ndarray]) -> Iterator[Batch]:
        """Model-major row positions in physical batches; models with fewer rows are padded."""
        longest = max(len(places) for places in drawn)
        for start in range(0, longest, self.physical):
            parts = [places[start : start + self.physical] for places in drawn]
            width = max(len(part) for part in parts)
            if self.models == 1 and width and parts[0][-1] - parts[0][0] + 1 == width:
                yield slice(int(parts[0][0]), int(parts[0][-1]) + 1), None
                continue
            width = min(self.physical, -(-width // ROUND) * ROUND)
            table = np.zeros((len(parts), width), dtype=np.int64)
            valid = np.zeros((len(parts), width), dtype=np.float32)
            for at, part in enumerate(parts):
                table[at, : len(part)] = part
                valid[at, : len(part)] = 1
            device, kind = self.stack.device, self.stack.dtype
            yield (
                torch.from_numpy(table.reshape(-1)).to(device),
                None if valid.all() else torch.from_numpy(valid.reshape(-1)).to(device, kind),
            )

    def gather(self, now: Now, batches: Iterable[Batch], branch: bool) -> None:
        """Adds the clipped gradients of all batches to `total`."""
        loss = self.descent.loss
        if hasattr(loss, "at"):
            loss = loss.at(now.done)
        margin = 1.0 if self.descent.precision == "float32" else 1 - SHORT
        for places, valid in batches:
            inputs, targets, rows = self._rows(places)
            accumulate(
                self.stack,
                loss,
                inputs,
                targets,
                rows=rows,
                clip=self.descent.clip,
                norm=self._row_norms(rows, margin),
                total=self.total,
                valid=valid,
                branch=branch,
                bf16=self.descent.precision == "bf16",
            )

    def _rows(self, places: Tensor | slice) -> tuple[tuple[Tensor, ...], Tensor, int]:
        """The rows at the given places (a slice is not copied), each as many times as `copies` says, augmented."""
        inputs = tuple(item[places] for item in self.inputs)
        targets = self.targets[places]
        rows, copies, augment = len(targets), self.descent.copies, self.descent.augment
        if copies > 1:
            inputs = tuple(item.repeat_interleave(copies, 0) for item in inputs)
            targets = targets.repeat_interleave(copies, 0)
        if augment is not None:
            generator = self.rng.torch("initial", str(self.stack.device))
            inputs = (augment(inputs[0], generator), *inputs[1:])
        return inputs, targets, rows

    def _row_norms(self, rows: int, margin: float) -> Any:
        if self.models == 1 and not self.tracking:
            return self.norm[0] * margin
        return (self.bounds * margin).repeat_interleave(rows // self.models)[:, None]

    def release(self, now: Now) -> tuple[Tensor, Any]:
        """The noisy sums, and the deviation of the noise in each model's. One draw, whatever the batches were."""
        if self.mask is not None and self.stack.resting:
            # What a model does not train was not clipped, so it must not be released.
            self.total[:, : self.stack.theta.shape[1]] *= self.mask
        if self.noise[0] == 0:
            return self.total, 0.0
        if self.tracking:
            return self._release_both(now)
        bound: Any = self.norm[0] if isinstance(now.noise, float) else self.bounds[:, None]
        noisy = self.rng.gaussian(self.total, noise=now.noise, sensitivity=bound)
        return noisy, now.noise * bound

    def _release_both(self, now: Now) -> tuple[Tensor, Any]:
        """Sum and count as one vector: the count is scaled to the sum's noise; the pair costs what `noise` says."""
        clip = self.descent.clip
        assert isinstance(clip, quantile)
        bounds = self.bounds[:, None]
        spread = now.inner * bounds
        scale = spread / clip.count_noise
        self.total[:, -1:] *= scale
        noise = now.noise if isinstance(now.noise, Tensor) else torch.full_like(bounds, now.noise)
        noisy = self.rng.gaussian(self.total, noise=noise, sensitivity=spread / noise)
        share = noisy[:, -1:] / scale / self.divisor + 0.5
        self.bounds.copy_(clip.moved(bounds, share)[:, 0])
        return noisy, spread

    def finish(self, now: Now, noisy: Tensor, spread: Any) -> None:
        """Divides by a public number and updates; nothing here sees a row."""
        theta = self.stack.theta
        gradient = noisy[:, : theta.shape[1]] / self.divisor
        if self.mask is not None:
            gradient = gradient * self.mask
        self.descent.update.apply(theta, gradient, self.state, now.lr, spread / self.divisor)
        if self.mask is not None:  # a weight decay moves what has no gradient too
            torch.where(self.mask != 0, theta, self.still, out=theta)
        if self.descent.average is not None:
            self.descent.average.see(theta, self.averages, now.weight)


def _finite(values: Tensor) -> bool:
    return not values.is_floating_point() or bool(torch.isfinite(values).all())


def _declared(rows: Any) -> int:
    if isinstance(rows, bool) or not isinstance(rows, (int, np.integer)) or rows < 1:
        raise WrongInput(f"expected the declared number of rows, at least 1, got {rows!r}")
    return int(rows)
