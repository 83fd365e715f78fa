"""The release of a step: the clipped gradient sum with Gaussian noise, one draw whatever the microbatches were."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from privaware.descent._clip import Clip, quantile
from privaware.descent._population import StepSettings
from privaware.noise import Rng

__all__ = ["GaussianRelease"]


@dataclass(frozen=True)
class GaussianRelease:
    """Adds the noise of a step to `exact` sums (models, trainable numbers).

    `norms` are the models' clipping norms, which a quantile moves; `divisor` is the public batch size; `rounding` is
    the sensitivity over the norm (`_rounding.py`).
    """

    clip: Clip
    norms: Tensor
    divisor: float
    rounding: float
    rng: Rng

    def noisy(self, exact: Tensor, settings: StepSettings, norm: float) -> tuple[Tensor, Any]:
        """The noisy sums, and the deviation of the noise in each; `norm` is that of a population of one."""
        if isinstance(self.clip, quantile):
            return self._with_count(self.clip, exact, settings)
        sensitivity: Any = (norm if isinstance(settings.noise, float) else self.norms[:, None]) * self.rounding
        noisy = self.rng.gaussian(exact, noise=settings.noise, sensitivity=sensitivity)
        return noisy, settings.noise * sensitivity

    def _with_count(self, clip: quantile, exact: Tensor, settings: StepSettings) -> tuple[Tensor, Any]:
        """Sum and count as one vector: the count is scaled to the sum's noise; the pair costs what `noise` says."""
        norms = self.norms[:, None]
        deviation = settings.gradient_noise * norms * self.rounding
        scale = deviation / clip.count_noise
        exact[:, -1:] *= scale
        noise = settings.noise if isinstance(settings.noise, Tensor) else torch.full_like(norms, settings.noise)
        noisy = self.rng.gaussian(exact, noise=noise, sensitivity=deviation / noise)
        fraction = noisy[:, -1:] / scale / self.divisor + 0.5
        self.norms.copy_(clip.updated(norms, fraction)[:, 0])
        return noisy, deviation
