"""The graph of a cell: nodes that are sums of operations on earlier nodes, its output all nodes side by side.

On a GPU the operations of DPNAS are a kernel each, which adds to its node where that lies in the output: neither sums
nor the output are passes of their own. On other devices, and where an operation has no kernel, they are the plain
layers one after the other. Gradients by these kernels are those of `backward`; autograd is not used inside.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from privaware.kernels import dpnas_cell as kernels

__all__ = ["Cell", "Edge", "Graph", "Halved", "Normed", "Step", "backward", "forward", "separately", "steps"]

Edge = tuple[int, int, nn.Module]
KINDS: dict[type[nn.Module], str] = {
    nn.ReLU: "relu",
    nn.SELU: "selu",
    nn.Tanh: "tanh",
    nn.Hardtanh: "hardtanh",
    nn.Sigmoid: "sigmoid",
}
WINDOW = (3, 1, 1)


class Graph(nn.Module):
    """Nodes behind `entry`; `summed` is what a training engine may replace.

    `short` nodes may be stored as bf16 where products have short mantissas: the kernels mostly wait for memory. What
    stands behind must take them, as `Halved` does.
    """

    def __init__(self, entry: nn.Module, nodes: int, short: bool = False) -> None:
        super().__init__()
        self.entry, self.nodes, self.short = entry, nodes, short

    @property
    def stored(self) -> torch.dtype:
        """What nodes are stored as."""
        short = self.short and torch.backends.cuda.matmul.allow_tf32
        return torch.bfloat16 if short else torch.float32

    def summed(self, first: Tensor, edges: Sequence[Edge]) -> Tensor:
        """The nodes side by side, from what stands at node 0; edges are in the order of their ends."""
        if not torch.is_grad_enabled():
            made = steps(first, edges)
            if made is not None:
                weights = [s.conv.weight[None] for s in made if s.conv is not None]
                return forward(first, made, self.nodes, weights, self.stored, keep=False)[0]
        return separately(first, edges, self.nodes)


class Cell(Graph):
    """A fully connected directed graph; its output is the nodes' channels side by side.

    `edges` maps (from, to), with 0 for the entry, to a module; an edge that is not there carries nothing.
    """

    def __init__(self, entry: nn.Module, edges: Iterable[Edge], nodes: int, short: bool = False) -> None:
        super().__init__(entry, nodes, short)
        self.edges = nn.ModuleDict({f"edge_{start}_{end}": op for start, end, op in edges})

    def forward(self, x: Tensor) -> Tensor:
        ends = ((start, end) for end in range(1, self.nodes + 1) for start in range(end))
        named = ((start, end, f"edge_{start}_{end}") for start, end in ends)
        edges = [(start, end, self.edges[key]) for start, end, key in named if key in self.edges]
        return self.summed(self.entry(x), edges)


class Halved(nn.MaxPool2d):
    """Max pooling of 2 x 2 blocks; on a GPU it keeps a byte for each block instead of eight."""

    def __init__(self) -> None:
        super().__init__(2)

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim != 4 or not kernels.fits(x) or not x.is_contiguous() or min(x.shape[2:]) < 2:
            return super().forward(x)  # type: ignore[no-any-return]
        made: Tensor = _Halved.apply(x)
        return made


class _Halved(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y, index = kernels.halved(x)
        ctx.save_for_backward(index)
        ctx.shape, ctx.stored = x.shape, x.dtype
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (index,) = ctx.saved_tensors
        dx = gradient.new_empty(ctx.shape, dtype=ctx.stored)
        kernels.halved_back(gradient.contiguous(), index, dx)
        return dx


class Normed(nn.GroupNorm):
    """Group norm without parameters; on a GPU it is one kernel each way."""

    def __init__(self, groups: int, channels: int) -> None:
        super().__init__(groups, channels, affine=False)

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim != 4 or x.dtype != torch.float32 or not kernels.fits(x) or not x.is_contiguous():
            return super().forward(x)
        if not kernels.fits_groups(x, self.num_groups):
            return super().forward(x)
        made: Tensor = _Normed.apply(x, self.num_groups, self.eps)
        return made


class _Normed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, groups: int, eps: float) -> Tensor:
        y, scales = kernels.normed(x, groups, eps)
        ctx.save_for_backward(y, scales)
        return y  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return kernels.normed_back(gradient.contiguous(), *ctx.saved_tensors), None, None


def separately(first: Tensor, edges: Sequence[Edge], nodes: int) -> Tensor:
    """Every operation as its layer computes it."""
    states = [first]
    for end in range(1, nodes + 1):
        node: Tensor | None = None  # beginning with zeros would cost as much as an edge
        for start, where, op in edges:
            if where == end:
                value = op(states[start])
                node = value if node is None else node + value
        states.append(torch.zeros_like(first) if node is None else node)
    return torch.cat(states[1:], dim=1)


@dataclass(frozen=True)
class Step:
    """One edge in the form of its kernel; `kind` is "identity", "max", "average" or "conv"."""

    start: int
    end: int
    kind: str
    conv: nn.Conv2d | None = None
    groups: int = 1
    eps: float = 0.0
    activation: int = 0


def steps(first: Tensor, edges: Sequence[Edge]) -> list[Step] | None:
    """The edges in the form of their kernels; None where one of them has none, or does not fit."""
    if first.ndim != 4 or not kernels.fits(first):
        return None
    made = [_step(*edge) for edge in sorted(edges, key=lambda edge: edge[1])]
    if any(one is None or not _fits(first, one) for one in made):
        return None
    return made  # type: ignore[return-value]


def _fits(first: Tensor, step: Step) -> bool:
    if step.conv is None:
        return True
    weight = step.conv.weight
    alike = weight.shape == (first.shape[1], 1, 3, 3) and weight.dtype == torch.float32
    return alike and kernels.fits_groups(first, step.groups)


def _step(start: int, end: int, op: nn.Module) -> Step | None:
    if type(op) is nn.Identity:
        return Step(start, end, "identity")
    if isinstance(op, (nn.MaxPool2d, nn.AvgPool2d)):
        kind = "max" if isinstance(op, nn.MaxPool2d) else "average"
        return Step(start, end, kind) if _slides(op) else None
    parts = list(op.children()) if type(op) is nn.Sequential else []
    if len(parts) not in (2, 3):
        return None
    conv, norm, *after = parts
    activation = KINDS.get(type(after[0])) if after else "linear"
    if after and isinstance(after[0], nn.Hardtanh) and (after[0].min_val, after[0].max_val) != (-1, 1):
        return None
    if activation is None or not _plain(conv) or type(norm) not in (nn.GroupNorm, Normed) or norm.affine:
        return None
    assert isinstance(conv, nn.Conv2d)
    assert isinstance(norm, nn.GroupNorm)
    number = kernels.ACTIVATIONS.index(activation)
    return Step(start, end, "conv", conv, norm.num_groups, norm.eps, number)


def _slides(pool: nn.MaxPool2d | nn.AvgPool2d) -> bool:
    """Whether a pool looks at 3 x 3 windows around every place, and averages count what lies beyond the edges."""
    if (pool.kernel_size, pool.stride, pool.padding) != WINDOW:
        return False
    if isinstance(pool, nn.MaxPool2d):
        return pool.dilation == 1 and not pool.return_indices
    return pool.count_include_pad and pool.divisor_override is None


def _plain(conv: nn.Module) -> bool:
    """Whether every channel has a 3 x 3 convolution of its own that keeps its size."""
    return (
        type(conv) is nn.Conv2d
        and conv.groups == conv.in_channels == conv.out_channels
        and (conv.kernel_size, conv.stride, conv.dilation) == ((3, 3), (1, 1), (1, 1))
        and conv.padding == (1, 1)
        and conv.padding_mode == "zeros"
        and conv.bias is None
    )


def _state(first: Tensor, out: Tensor, at: int) -> Tensor:
    channels = first.shape[1]
    return first if at == 0 else out[:, (at - 1) * channels : at * channels]


def forward(
    first: Tensor, made: list[Step], nodes: int, weights: Sequence[Tensor], stored: torch.dtype, keep: bool
) -> tuple[Tensor, list[Tensor]]:
    """All nodes side by side, and if `keep` what `backward` needs besides; `weights` are (models, ...)."""
    out = first.new_empty(len(first), nodes * first.shape[1], *first.shape[2:], dtype=stored)
    kept: list[Tensor] = []
    given = iter(weights)
    for end in range(1, nodes + 1):
        y, add = _state(first, out, end), False
        for step in made:
            if step.end != end:
                continue
            x = _state(first, out, step.start)
            if step.kind == "conv":
                how = (step.groups, step.eps, step.activation, add, keep)
                kept += kernels.convolved(x, next(given), y, *how) or ()
            elif step.kind == "max":
                kept.append(kernels.maxima(x, y, add))
            elif step.kind == "average":
                kernels.averaged(x, y if add else None, y)
            else:
                y.add_(x) if add else y.copy_(x)
            add = True
        if not add:
            y.zero_()
    return out, kept


def backward(
    first: Tensor, out: Tensor, gradient: Tensor, made: list[Step], kept: Sequence[Tensor], weights: Sequence[Tensor]
) -> tuple[Tensor | None, list[Tensor]]:
    """The gradient by `first`, and each row's gradients by the convolutions' weights."""
    nodes = out.shape[1] // first.shape[1]
    slopes: list[Tensor | None] = [None] + [_state(first, gradient, n + 1) for n in range(nodes)]
    left, rest, found = list(weights), list(kept), list[Tensor]()
    for step in reversed(made):
        g, base = slopes[step.end], slopes[step.start]
        assert g is not None
        if step.kind == "identity" and base is None:
            slopes[step.start] = g
            continue
        dx = torch.empty_like(first, dtype=out.dtype)
        if step.kind == "conv":
            scales, normed = rest.pop(), rest.pop()
            x, weight = _state(first, out, step.start), left.pop()
            how = (base, dx, step.groups, step.activation)
            found.append(kernels.convolved_back(x, weight, g, (normed, scales), *how))
        elif step.kind == "max":
            kernels.maxima_back(g, rest.pop(), base, dx)
        elif step.kind == "average":
            kernels.averaged(g, base, dx)
        else:
            torch.add(base, g, out=dx)  # type: ignore[arg-type]
        slopes[step.start] = dx
    return slopes[0], found[::-1]
