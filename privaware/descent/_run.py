"""One population on its way: the state of a run and its step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from privaware.descent._clip import quantile
from privaware.descent._gradient import accumulate, as_inputs, as_target
from privaware.descent._probe import proven
from privaware.descent._stack import Stack
from privaware.errors import WrongInput
from privaware.noise import Rng

if TYPE_CHECKING:
    from privaware.descent._loop import Descent

__all__ = ["Run"]

ROUND = 16
"""Batches are padded to a multiple of this, so that kernels meet few different shapes."""


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
    ) -> None:
        self.descent, self.modules, self.rng = descent, list(modules), rng
        watch = getattr(descent.loss, "watch", ())
        self.stack = Stack(self.modules, device=device, watch=watch)
        self.inputs = as_inputs(inputs, self.stack)
        self.targets = as_target(targets, self.stack)
        if len(self.targets) != len(self.inputs[0]):
            raise WrongInput(
                f"expected one target a row, got {len(self.targets)} for {len(self.inputs[0])} rows"
            )
        if proven(self.modules[0], descent.loss, self.inputs, self.targets, self.stack.device):
            self.stack = Stack(self.modules, device=device, whole=True, watch=watch)
        self.noise = self._each("noise", noise, low=0.0)
        self.lr = self._each("lr", lr or [descent.update.lr] * self.models, low=0.0)
        self.norm = self._each("norm", norm or [descent.clip.norm] * self.models, low=0.0)
        self.divisor = descent.sampler.rate * _declared(rows)
        self.step = 0
        theta = self.stack.theta
        self.state = descent.update.start(theta)
        self.averages = {} if descent.average is None else descent.average.start(theta)
        self.tracking = isinstance(descent.clip, quantile)
        self.bounds = torch.tensor(self.norm, dtype=theta.dtype, device=theta.device)
        self.total = theta.new_zeros(self.models, theta.shape[1] + self.tracking)
        self._check_noise()

    @property
    def models(self) -> int:
        return len(self.modules)

    def _each(self, name: str, values: Sequence[float], low: float) -> list[float]:
        out = [float(value) for value in values]
        if len(out) != self.models or not all(value >= low for value in out):
            raise WrongInput(
                f"expected {name} >= {low:g} for each of {self.models} models, got {list(values)!r}"
            )
        return out

    def _check_noise(self) -> None:
        quiet = [value == 0 for value in self.noise]
        if any(quiet) and not all(quiet):
            raise WrongInput("expected noise > 0 for every model, or 0 for all; some are 0")
        if not all(quiet) and not all(np.isfinite(self.norm)):
            raise WrongInput(
                "expected a finite norm: noise scales with it; only noise 0 goes without"
            )

    def to_end(self, progress: Callable[[int, int, float], None] | None = None) -> list[nn.Module]:
        """All remaining steps; the trained copies."""
        began, first = time.monotonic(), self.step
        while self.step < self.descent.steps:
            self.one_step()
            if progress is not None:
                each = (time.monotonic() - began) / (self.step - first)
                progress(self.step, self.descent.steps, each * (self.descent.steps - self.step))
        return self.released()

    def released(self) -> list[nn.Module]:
        """Copies of the modules with the trained (or averaged) parameters."""
        theta = self.averages.get("average", self.stack.theta) if self.step else self.stack.theta
        return self.stack.released(self.modules, theta)

    def one_step(self) -> None:
        """Sample, clip and sum, noise, divide by a public number, update."""
        available = len(self.inputs[0])
        drawn = [self.descent.sampler.draw(self.rng, available) for _ in self.modules]
        self.total.zero_()
        loss = self.descent.loss
        if hasattr(loss, "at"):
            loss = loss.at(self.step / self.descent.steps)
        for places, valid in self._batches(drawn):
            self._accumulate(loss, places, valid)
        self.finish(*self._release())

    def _batches(self, drawn: list[np.ndarray]) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Model-major row positions in physical batches; models with fewer rows are padded."""
        longest = max(len(places) for places in drawn)
        physical = self.descent.physical or max(longest, 1)
        for start in range(0, longest, physical):
            parts = [places[start : start + physical] for places in drawn]
            width = max(len(part) for part in parts)
            width = min(physical, -(-width // ROUND) * ROUND)
            table = np.zeros((len(parts), width), dtype=np.int64)
            valid = np.zeros((len(parts), width), dtype=np.float32)
            for at, part in enumerate(parts):
                table[at, : len(part)] = part
                valid[at, : len(part)] = 1
            full = bool(valid.all())
            device = self.stack.device
            yield (
                torch.from_numpy(table.reshape(-1)).to(device),
                None if full else torch.from_numpy(valid.reshape(-1)).to(device, self.stack.dtype),
            )

    def _accumulate(self, loss: Any, places: Tensor, valid: Tensor | None) -> None:
        accumulate(
            self.stack,
            loss,
            tuple(item[places] for item in self.inputs),
            self.targets[places],
            rows=len(places),
            clip=self.descent.clip,
            norm=self._row_norms(len(places)),
            total=self.total,
            valid=valid,
        )

    def _row_norms(self, rows: int) -> Any:
        if self.models == 1 and not self.tracking:
            return self.norm[0]
        return self.bounds.repeat_interleave(rows // self.models)[:, None]

    def _release(self) -> tuple[Tensor, Any]:
        """The noisy sums, and the deviation of the noise in each model's."""
        noise = [self.descent.noise_at(value, self.step) for value in self.noise]
        if noise[0] == 0:
            return self.total, 0.0
        if self.tracking:
            return self._release_both(noise)
        if self.models == 1:
            noisy = self.rng.gaussian(self.total, noise=noise[0], sensitivity=self.norm[0])
            return noisy, noise[0] * self.norm[0]
        levels, bounds = self.total.new_tensor(noise)[:, None], self.bounds[:, None]
        return self.rng.gaussian(self.total, noise=levels, sensitivity=bounds), levels * bounds

    def _release_both(self, noise: list[float]) -> tuple[Tensor, Tensor]:
        """Sum and count as one vector: the count is scaled to the sum's noise, and the pair costs what `noise` says."""
        clip = self.descent.clip
        assert isinstance(clip, quantile)
        inner = self.total.new_tensor([clip.gradient_noise(value) for value in noise])
        levels = self.total.new_tensor(noise)
        spread = inner * self.bounds
        scale = spread / clip.count_noise
        self.total[:, -1] *= scale
        noisy = self.rng.gaussian(
            self.total, noise=levels[:, None], sensitivity=(spread / levels)[:, None]
        )
        self.bounds = clip.moved(self.bounds, noisy[:, -1] / scale / self.divisor + 0.5)
        return noisy, spread[:, None]

    def finish(self, noisy: Tensor, spread: Any) -> None:
        """Divides by a public number and updates; nothing here sees a row."""
        descent, theta = self.descent, self.stack.theta
        factor = descent.lr_schedule.at(self.step, descent.steps)
        lr: Any = self.lr[0] * factor
        if self.models > 1:
            lr = theta.new_tensor(self.lr)[:, None] * factor
        gradient = noisy[:, : theta.shape[1]] / self.divisor
        descent.update.apply(theta, gradient, self.state, lr, spread / self.divisor)
        if descent.average is not None:
            descent.average.see(
                theta, self.averages, descent.average.weight(self.step, descent.steps)
            )
        self.step += 1


def _declared(rows: Any) -> int:
    if isinstance(rows, bool) or not isinstance(rows, (int, np.integer)) or rows < 1:
        raise WrongInput(f"expected the declared number of rows, at least 1, got {rows!r}")
    return int(rows)
