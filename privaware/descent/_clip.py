"""Bounds on one example's part of a clipped gradient sum. A clip knows its own sensitivity.

Factors are rounded down: a clipped per-example gradient never exceeds the norm by the rounding error of its measured
norm. An example whose gradient is not finite adds nothing.

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

from privaware.errors import WrongInput
from privaware.kernels import elementwise

__all__ = ["Clip", "automatic", "flat", "per_layer", "quantile"]


class Clip(Protocol):
    """How per-example gradients are scaled before they are summed."""

    @property
    def norm(self) -> float: ...

    def sensitivity(self, relation: str = "add_remove") -> float: ...

    def factors(self, squares: Tensor, norm: Any) -> Tensor: ...


def _checked(name: str, norm: Any) -> None:
    if isinstance(norm, bool) or not isinstance(norm, (int, float)) or not norm > 0:
        raise WrongInput(f"{name}: expected norm > 0, got {norm!r}")


def _sensitivity(norm: float, relation: str) -> float:
    """What one example can change: its part when it is added or removed, twice that when it is replaced."""
    if relation not in ("add_remove", "replace_one"):
        raise WrongInput(f"expected relation add_remove or replace_one, got {relation!r}")
    return norm * (2 if relation == "replace_one" else 1)


def _slack(values: Tensor) -> float:
    """A little more than the relative error of a norm computed in this precision."""
    return 1 + 16 * torch.finfo(values.dtype).eps


def _at_most(squares: Tensor, norm: Any) -> Tensor:
    """min(1, norm / root of squares), rounded down; 0 where the square is not finite."""
    aligned = isinstance(norm, float) or norm.shape == squares.shape
    if aligned and squares.shape[1] == 1 and squares.is_contiguous() and elementwise.fits(squares):
        return elementwise.clip_factors(squares, norm, _slack(squares))
    sizes = squares.sqrt().mul_(_slack(squares))
    return (norm / sizes).clamp_max_(1).nan_to_num_(0.0)


def _over_layers(squares: Tensor) -> Tensor:
    """(examples, 1) squared norms over all layers."""
    return squares if squares.shape[1] == 1 else squares.sum(1, keepdim=True)


@dataclass(frozen=True)
class flat:
    """The gradient of an example, over all layers, is scaled to at most `norm`; without noise `norm` may be infinite.

    Paper: Abadi et al. 2016, Deep Learning with Differential Privacy.
    """

    norm: float

    def __post_init__(self) -> None:
        _checked("flat", self.norm)

    def sensitivity(self, relation: str = "add_remove") -> float:
        return _sensitivity(self.norm, relation)

    def factors(self, squares: Tensor, norm: Any) -> Tensor:
        """(examples, 1) factors from (examples, layers) squared norms."""
        return _at_most(_over_layers(squares), norm)


@dataclass(frozen=True)
class per_layer:
    """Each layer's gradient is scaled on its own; the layers' norms are equal and together make `norm`.

    Paper: McMahan et al. 2018, Learning Differentially Private Recurrent Language Models.
    `shares`, if given, are the relative norms of the layers in the order of the module's parameters.
    """

    norm: float
    shares: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        _checked("per_layer", self.norm)
        if self.shares is not None and not all(share > 0 for share in self.shares):
            raise WrongInput(f"per_layer: expected shares > 0, got {self.shares!r}")

    def sensitivity(self, relation: str = "add_remove") -> float:
        return _sensitivity(self.norm, relation)

    def factors(self, squares: Tensor, norm: Any) -> Tensor:
        """(examples, layers) factors; an example that is not finite in one layer adds nothing in any."""
        factors = _at_most(squares, norm * self._layer_norms(squares))
        return torch.where(torch.isfinite(squares).all(1, keepdim=True), factors, 0)

    def _layer_norms(self, squares: Tensor) -> Tensor:
        shares = self.shares or (1.0,) * squares.shape[1]
        if len(shares) != squares.shape[1]:
            raise WrongInput(f"per_layer: expected {squares.shape[1]} shares, one a layer, got {len(shares)}")
        return _layer_norms(shares, squares.dtype, squares.device)


@functools.lru_cache(maxsize=64)
def _layer_norms(shares: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """The layers' parts of the norm: their squares add up to 1. Cached, because a captured graph cannot make it."""
    total = math.sqrt(math.fsum(share * share for share in shares)) * (1 + 1e-6)
    return torch.tensor([share / total for share in shares], dtype=dtype, device=device)


@dataclass(frozen=True)
class automatic:
    """Every gradient is scaled to nearly `norm`, small ones too: norm / (size + gamma).

    Paper: Bu et al. 2023, Automatic Clipping: Differentially Private Deep Learning Made Easier and Stronger.
    """

    norm: float = 1.0
    gamma: float = 0.01

    def __post_init__(self) -> None:
        _checked("automatic", self.norm)
        if not self.gamma >= 1e-9:  # squares of smaller gradients vanish, and their size with them
            raise WrongInput(f"automatic: expected gamma from 1e-9 on, got {self.gamma!r}")

    def sensitivity(self, relation: str = "add_remove") -> float:
        return _sensitivity(self.norm, relation)

    def factors(self, squares: Tensor, norm: Any) -> Tensor:
        """(examples, 1) factors."""
        sizes = (_over_layers(squares).sqrt() + self.gamma).mul_(_slack(squares))
        return (norm / sizes).nan_to_num_(0.0)


@dataclass(frozen=True, kw_only=True)
class quantile:
    """The clipping norm follows a quantile of the per-example gradient norms, beginning at `norm`.

    Each step releases the sum and the count of examples within the norm as one vector with one Gaussian. An example
    adds +1/2 or -1/2 to the count, which is divided by the public batch size; `count_noise` is the deviation of its
    noise.

    Paper: Andrew et al. 2021, Differentially Private Learning with Adaptive Clipping.
    """

    norm: float
    count_noise: float
    target: float = 0.5
    lr: float = 0.2
    low: float = 1e-6
    high: float = 1e6

    def __post_init__(self) -> None:
        _checked("quantile", self.norm)
        if not (math.isfinite(self.norm) and self.count_noise > 0 and 0 < self.target < 1):
            raise WrongInput(
                "quantile: expected a finite norm, count_noise > 0 and target in (0, 1), got "
                f"{self.norm!r}, {self.count_noise!r}, {self.target!r}"
            )

    def sensitivity(self, relation: str = "add_remove") -> float:
        return _sensitivity(self.norm, relation)

    def gradient_noise(self, noise: float) -> float:
        """The noise multiplier of the gradient alone, from the joint `noise` of gradient and count."""
        if noise >= 2 * self.count_noise:
            raise WrongInput(
                f"quantile: expected count_noise above half the noise ({noise / 2:g}), got "
                f"{self.count_noise:g}; raise count_noise"
            )
        if noise == 0:
            return 0.0
        return 1 / math.sqrt(noise**-2 - (2 * self.count_noise) ** -2)

    def factors(self, squares: Tensor, norm: Any) -> Tensor:
        """(examples, 1) factors."""
        return _at_most(_over_layers(squares), norm)

    def within(self, squares: Tensor, norm: Any) -> Tensor:
        """+1/2 for each example within the norm, -1/2 for each beyond."""
        return (squares.sum(1).sqrt() <= norm).to(squares.dtype) - 0.5

    def updated(self, norm: Tensor, fraction: Tensor) -> Tensor:
        """The next norm, from the noisy fraction of examples within this one."""
        step = torch.exp(-self.lr * (fraction.clamp(0, 1) - self.target))
        return (norm * step).clamp(self.low, self.high)
