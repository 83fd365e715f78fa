"""Release the clipped gradient sum of a step with Gaussian noise, drawn once for all its microbatches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from privaware.descent._clip import Clip, quantile
from privaware.descent._population import StepSettings
from privaware.noise import Rng
from privaware.ranks import Ranks


@dataclass(frozen=True)
class GaussianRelease:
    """The release of a step: Gaussian noise is added to the exact sums (models, columns).

    `norms` (models,) are the clipping norms; a `quantile` clip changes them in place. `divisor` is the public batch
    size, `sampling rate * declared rows`. `rounding` is the sensitivity divided by the clipping norm: 1 plus a margin
    for rounding (`_rounding.py`), times the square root of the number of vectors that a projection releases for an
    example. `rng` draws the noise. If `ranks` train together, rank 0 alone draws noise, and all ranks get its noisy
    sums.
    """

    clip: Clip
    norms: Tensor
    divisor: float
    rounding: float
    rng: Rng
    ranks: Ranks | None = None

    def noisy(self, exact: Tensor, settings: StepSettings, norm: float) -> tuple[Tensor, Any]:
        """Return `exact` (models, columns) with noise, and the standard deviation of the noise of each model.

        The standard deviation is `settings.noise * clipping_norm * self.rounding`. If `settings.noise` is a float, as
        for one model outside a CUDA graph, the clipping norm is the argument `norm`, and the result is a float.
        Otherwise the clipping norms are `self.norms`, and the result is (models, 1). With a `quantile` clip it is
        always (models, 1), from `self.norms` and `settings.gradient_noise`. `self.norms` are then updated in place, and
        the count, the last column of `exact`, is scaled in place.
        """
        if isinstance(self.clip, quantile):
            return self._with_count(self.clip, exact, settings)
        sensitivity: Any = (norm if isinstance(settings.noise, float) else self.norms[:, None]) * self.rounding
        noisy = self._gaussian(exact, settings.noise, sensitivity)
        return noisy, settings.noise * sensitivity

    def _with_count(self, clip: quantile, exact: Tensor, settings: StepSettings) -> tuple[Tensor, Any]:
        """Release the gradient sum and the count as one vector, and update the clipping norms by the noisy count.

        `exact` has the count in its last column. The count is scaled, in place, so that both have the same noise. The
        joint noise multiplier is `settings.noise`. Return the noisy vector and the standard deviation of its noise.
        """
        norms = self.norms[:, None]
        deviation = settings.gradient_noise * norms * self.rounding
        scale = deviation / clip.count_noise
        exact[:, -1:] *= scale
        noise = settings.noise if isinstance(settings.noise, Tensor) else torch.full_like(norms, settings.noise)
        noisy = self._gaussian(exact, noise, deviation / noise)
        fraction = noisy[:, -1:] / scale / self.divisor + 0.5
        self.norms.copy_(clip.updated(norms, fraction)[:, 0])
        return noisy, deviation

    def _gaussian(self, exact: Tensor, noise: Any, sensitivity: Any) -> Tensor:
        """Return `exact` plus Gaussian noise of standard deviation `noise * sensitivity`.

        The result is rounded to multiples of a power of two, which depends on this standard deviation only. Both
        factors are floats, or (models, 1) tensors. Only rank 0 draws noise: any other rank returns the result of rank
        0, and its own `exact` is not used.
        """
        if self.ranks is not None and not self.ranks.leads:
            return self.ranks.broadcast(torch.empty_like(exact))
        noisy: Tensor = self.rng.gaussian(exact, noise=noise, sensitivity=sensitivity)
        return noisy if self.ranks is None else self.ranks.broadcast(noisy)
