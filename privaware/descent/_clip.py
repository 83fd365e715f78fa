"""Clip per-example gradients, so that each adds a vector of bounded norm to the sum. A clip knows its sensitivity.

Clipping factors are rounded down, so the rounding error of a measured norm never makes a clipped per-example gradient
longer than the clipping norm. An example whose gradient is not finite adds nothing.

>>> flat(2.0).sensitivity()
2.0
>>> quantile(norm=1.0, count_noise=12.8).gradient_noise(10.0)  # doctest: +ELLIPSIS
10.863...
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from privaware.errors import Refused, WrongInput
from privaware.kernels import elementwise

SMALLEST_NORM = 1e-9
"""Smallest clipping norm. Squares of much smaller gradients underflow to 0 in float32, so they would not be clipped."""


class Clip(Protocol):
    """The interface of a clip: how per-example gradients are scaled before they are summed.

    `norm` is the clipping norm. `sensitivity(relation)` bounds the change of the gradient sum between neighbouring
    data; `relation` is "add_remove" or "replace_one". `factors(squares, norm)` returns the clipping factors for squared
    gradient norms (examples, layers): (examples, 1), or (examples, layers) for a `per_layer` clip. `factors` clips to
    its argument `norm`, one number or (examples, 1) numbers, instead of the field.
    """

    @property
    def norm(self) -> float: ...

    def sensitivity(self, relation: str = "add_remove") -> float: ...

    def factors(self, squares: Tensor, norm: Any) -> Tensor: ...


def _slack(values: Tensor) -> float:
    """Return 1 plus a bound on the relative error of a norm computed in the precision of `values`."""
    return 1 + 16 * torch.finfo(values.dtype).eps


def _at_most(squares: Tensor, norm: Any) -> Tensor:
    """Return `min(1, norm / sqrt(squares))`, rounded down: 1 for a square of 0, and 0 if a square is not finite."""
    aligned = isinstance(norm, float) or norm.shape == squares.shape
    if aligned and squares.shape[1] == 1 and squares.is_contiguous() and elementwise.fits(squares):
        return elementwise.clip_factors(squares, norm, _slack(squares))
    sizes = squares.sqrt().mul_(_slack(squares))
    return (norm / sizes).clamp_max_(1).nan_to_num_(0.0)


def _over_layers(squares: Tensor) -> Tensor:
    """Return the squared norm of each example over all layers, (examples, 1), from squared norms (examples, layers)."""
    return squares if squares.shape[1] == 1 else squares.sum(1, keepdim=True)


class _ByNorm:
    """Base of all clips: check `norm`, and by default clip gradients over all layers together to `norm`."""

    norm: float

    def __post_init__(self) -> None:
        norm: Any = self.norm
        if isinstance(norm, bool) or not isinstance(norm, (int, float)) or not norm >= SMALLEST_NORM:
            raise WrongInput(f"{type(self).__name__}: expected norm >= {SMALLEST_NORM:g}, got {norm!r}")

    def sensitivity(self, relation: str = "add_remove") -> float:
        """Return `norm` for the relation "add_remove", `2 * norm` for "replace_one"; `WrongInput` for any other."""
        if relation not in ("add_remove", "replace_one"):
            raise WrongInput(f"expected relation add_remove or replace_one, got {relation!r}")
        return self.norm * (2 if relation == "replace_one" else 1)

    def factors(self, squares: Tensor, norm: Any) -> Tensor:
        """Return factors `min(1, norm / |g|)` (examples, 1), rounded down, from squared norms (examples, layers).

        |g| is the norm over all layers. The factor is 0 if |g| is not finite.
        """
        return _at_most(_over_layers(squares), norm)


@dataclass(frozen=True)
class flat(_ByNorm):
    """Clip each per-example gradient, over all layers together, to a norm of at most `norm`.

    Paper: Abadi et al. 2016, Deep Learning with Differential Privacy.

    Parameters
    ----------
    norm : float
        The clipping norm. It may be infinite in a training without noise.
    """

    norm: float


@dataclass(frozen=True)
class per_layer(_ByNorm):
    """Clip each layer's part of a per-example gradient separately; a layer is a module with its own parameters.

    Paper: McMahan et al. 2018, Learning Differentially Private Recurrent Language Models.

    Parameters
    ----------
    norm : float
        The clipping norm of the whole gradient: the root of the sum of the layers' squared clipping norms.
    shares : tuple of float, optional
        Relative clipping norms, above 0, of the layers with trainable parameters, in the order of the module's
        parameters; equal if not given.
    """

    norm: float
    shares: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shares is not None and not all(share > 0 for share in self.shares):
            raise WrongInput(f"per_layer: expected shares > 0, got {self.shares!r}")

    def factors(self, squares: Tensor, norm: Any) -> Tensor:
        """Return factors `min(1, layer's norm / layer's |g|)`, rounded down, from squared norms (examples, layers).

        The factors are (examples, layers). `norm` is the clipping norm of the whole gradient; the layers' norms follow
        from `shares`. All factors of an example whose gradient is not finite in some layer are 0. Raise `WrongInput` if
        the number of `shares` is not the number of layers.
        """
        factors = _at_most(squares, norm * self._layer_norms(squares))
        return torch.where(torch.isfinite(squares).all(1, keepdim=True), factors, 0)

    def _layer_norms(self, squares: Tensor) -> Tensor:
        shares = self.shares or (1.0,) * squares.shape[1]
        if len(shares) != squares.shape[1]:
            raise WrongInput(f"per_layer: expected {squares.shape[1]} shares, one for each layer, got {len(shares)}")
        return _layer_norms(shares, squares.dtype, squares.device)


@functools.lru_cache(maxsize=64)
def _layer_norms(shares: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return the layers' clipping norms, proportional to `shares`, as fractions of the total norm.

    Their squares add up to a little less than 1. The result is cached, because a captured CUDA graph cannot
    copy it from the host.
    """
    total = math.sqrt(math.fsum(share * share for share in shares)) * (1 + 1e-6)
    return torch.tensor([share / total for share in shares], dtype=dtype, device=device)


@dataclass(frozen=True)
class automatic(_ByNorm):
    """Scale every per-example gradient g, small ones too, by `norm / (|g| + gamma)`, so that its norm is below `norm`.

    Paper: Bu et al. 2023, Automatic Clipping: Differentially Private Deep Learning Made Easier and Stronger.

    Parameters
    ----------
    norm : float
        The clipping norm.
    gamma : float
        Added to gradient norms; at least 1e-9.
    """

    norm: float = 1.0
    gamma: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.gamma >= SMALLEST_NORM:
            raise WrongInput(f"automatic: expected gamma >= {SMALLEST_NORM:g}, got {self.gamma!r}")

    def factors(self, squares: Tensor, norm: Any) -> Tensor:
        """Return factors `norm / (|g| + gamma)` (examples, 1), rounded down, from squared norms (examples, layers).

        |g| is the norm over all layers. The factor is 0 if |g| is not finite.
        """
        sizes = (_over_layers(squares).sqrt() + self.gamma).mul_(_slack(squares))
        return (norm / sizes).nan_to_num_(0.0)


@dataclass(frozen=True, kw_only=True)
class quantile(_ByNorm):
    """Clip to a norm that follows a quantile of the per-example gradient norms.

    Each step releases the gradient sum and the count of examples within the clipping norm, as one vector with Gaussian
    noise. An example adds +1/2 or -1/2 to the count. The noisy count is divided by the expected batch size, which is
    public.

    Paper: Andrew et al. 2021, Differentially Private Learning with Adaptive Clipping.

    Parameters
    ----------
    norm : float
        The clipping norm of the first step.
    count_noise : float
        Standard deviation of the noise of the count. It must be above half the noise multiplier of each step.
    target : float
        The quantile, in (0, 1): the fraction of examples whose gradient norm should be within the clipping norm.
    lr : float
        Learning rate of the logarithm of the clipping norm.
    low, high : float
        Bounds of the clipping norm; `low` is at least 1e-9, and `high` at least `low`.
    """

    norm: float
    count_noise: float
    target: float = 0.5
    lr: float = 0.2
    low: float = 1e-6
    high: float = 1e6

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (math.isfinite(self.norm) and self.count_noise > 0 and 0 < self.target < 1):
            raise WrongInput(
                "quantile: expected a finite norm, count_noise > 0 and target in (0, 1), got "
                f"{self.norm!r}, {self.count_noise!r}, {self.target!r}"
            )
        if not SMALLEST_NORM <= self.low <= self.high < math.inf:
            raise WrongInput(f"quantile: expected {SMALLEST_NORM:g} <= low <= high, got {self.low!r}, {self.high!r}")

    def gradient_noise(self, noise: float) -> float:
        """Return the noise multiplier of the gradient sum alone, from the joint `noise` of gradient sum and count.

        It is `1 / sqrt(noise**-2 - (2 * count_noise)**-2)`, or 0 without noise.
        Raise `WrongInput` if `noise >= 2 * count_noise`.
        """
        if noise >= 2 * self.count_noise:
            raise WrongInput(
                f"quantile: expected count_noise above half the noise ({noise / 2:g}), got "
                f"{self.count_noise:g}; raise count_noise"
            )
        if noise == 0:
            return 0.0
        return 1 / math.sqrt(noise**-2 - (2 * self.count_noise) ** -2)

    def within(self, squares: Tensor, norm: Any) -> Tensor:
        """Return a tensor (examples,): +1/2 if the norm of an example's gradient is at most `norm`, else -1/2.

        `squares` are squared norms (examples, layers). `norm` (examples,) has the clipping norm for each example.
        """
        return (squares.sum(1).sqrt() <= norm).to(squares.dtype) - 0.5

    def updated(self, norm: Tensor, fraction: Tensor) -> Tensor:
        """Return the next clipping norm, `norm * exp(-lr * (fraction - target))`, clipped to [low, high].

        `fraction` is the noisy fraction of examples within the present `norm`; it is clipped to [0, 1].
        """
        step = torch.exp(-self.lr * (fraction.clamp(0, 1) - self.target))
        return (norm * step).clamp(self.low, self.high)


def check_clip(clip: Clip) -> None:
    """Raise `Refused` if a clip of the caller does not bound gradients, or scales an example by other examples.

    Its factors are tried on norms from 0 to 1e15. The clips of this module are not tried.
    """
    if type(clip) in (flat, per_layer, automatic, quantile):
        return
    lengths = torch.tensor([0.0, 1e-6, 0.1, 0.5, 1.0, 3.0, 1e3, 1e15, math.inf, math.nan])
    layers = len(clip.shares or (1.0,)) if isinstance(clip, per_layer) else 1
    squares, finite = lengths.square()[:, None].repeat(1, layers), lengths.isfinite()
    for norm in (clip.norm, clip.norm / 2):
        factors = clip.factors(squares.clone(), float(norm))
        alone = torch.cat([clip.factors(square[None].clone(), float(norm)) for square in squares])
        if factors.shape != squares.shape or not torch.equal(factors, alone):
            raise Refused(
                f"{type(clip).__name__} scales the gradient of an example by other examples; return one factor for "
                "each example, which depends on its own norm and on the clipping norm"
            )
        clipped = torch.where(finite, (factors * lengths[:, None]).norm(dim=1), 0.0)
        if not bool((clipped <= norm * (1 + 1e-6)).all()) or bool((factors[~finite] != 0).any()):
            raise Refused(
                f"{type(clip).__name__} does not clip: expected factors that shorten every gradient to at most the "
                "clipping norm, and 0 for a gradient that is not finite; use privaware.descent.flat"
            )
