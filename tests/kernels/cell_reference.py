"""The operations of a cell by PyTorch: a reference, and a stand-in for the kernels where there is no GPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from privaware.kernels import dpnas_cell

ACTIVATIONS = [lambda v: v, F.relu, F.selu, torch.tanh, F.hardtanh, torch.sigmoid]


def by_layers(x: Tensor, weight: Tensor, groups: int, eps: float, kind: int) -> Tensor:
    """Convolution, norm and activation by PyTorch, with `weight` (models, channels, 1, 3, 3); model-major."""
    parts = zip(x.chunk(len(weight)), weight, strict=True)
    z = torch.cat([F.conv2d(part, weights, padding=1, groups=x.shape[1]) for part, weights in parts])
    return ACTIVATIONS[kind](F.group_norm(z, groups, eps=eps))


def per_example_gradients_by_autograd(x: Tensor, weight: Tensor, g: Tensor, groups: int, kind: int) -> Any:
    """The gradients by the input and by each example's own weights, by autograd."""
    per_example = weight.repeat_interleave(len(x) // len(weight), 0).requires_grad_()
    x = x.detach().clone().requires_grad_()
    return torch.autograd.grad(by_layers(x, per_example, groups, 1e-5, kind), (x, per_example), g)


class StandIn:
    """The kernels by PyTorch's own operations, for where there is no GPU."""

    ACTIVATIONS = dpnas_cell.ACTIVATIONS

    def __init__(self) -> None:
        self.eps: dict[Any, float] = {}

    def fits(self, *tensors: Tensor) -> bool:
        return True

    def fits_groups(self, images: Tensor, groups: int) -> bool:
        return images.shape[1] % groups == 0

    def conv_norm_activation(self, x, weight, y, groups, eps, kind, add, keep):  # type: ignore[no-untyped-def]
        outputs = by_layers(x.float(), weight, groups, eps, kind)
        y.copy_(y + outputs if add else outputs)
        return (torch.zeros(1), torch.zeros(1)) if keep else None

    def conv_norm_activation_backward(self, x, weight, g, kept, base, dx, groups, kind):  # type: ignore[no-untyped-def]
        with torch.enable_grad():
            back, actual = per_example_gradients_by_autograd(x.float(), weight, g.float(), groups, kind)
        dx.copy_(back if base is None else base + back)
        return actual.flatten(2)

    def max_pool_3x3(self, x, y, add):  # type: ignore[no-untyped-def]
        outputs, index = F.max_pool2d(x, 3, 1, 1, return_indices=True)
        y.copy_(y + outputs if add else outputs)
        return index

    def max_pool_3x3_backward(self, g, index, base, dx):  # type: ignore[no-untyped-def]
        self.max_pool_2x2_backward(g, index, dx)
        dx.add_(0 if base is None else base)

    def max_pool_2x2(self, x):  # type: ignore[no-untyped-def]
        return F.max_pool2d(x.float(), 2, return_indices=True)

    def max_pool_2x2_backward(self, g, index, dx):  # type: ignore[no-untyped-def]
        dx.zero_().flatten(2).scatter_add_(2, index.flatten(2), g.to(dx.dtype).flatten(2))

    def group_norm(self, x, groups, eps):  # type: ignore[no-untyped-def]
        parts = x.unflatten(1, (groups, -1)).flatten(2)
        scales = (parts.var(2, correction=0) + eps).rsqrt()
        return F.group_norm(x, groups, eps=eps), scales

    def group_norm_backward(self, g, y, scales):  # type: ignore[no-untyped-def]
        slope, z = (t.unflatten(1, (scales.shape[1], -1)).flatten(2) for t in (g, y))
        level, tilt = slope.mean(2, keepdim=True), (slope * z).mean(2, keepdim=True)
        return (scales[..., None] * (slope - level - z * tilt)).view_as(y)

    def avg_pool_3x3(self, x, base, y):  # type: ignore[no-untyped-def]
        outputs = F.avg_pool2d(x, 3, 1, 1)
        y.copy_(outputs if base is None else base + outputs)
