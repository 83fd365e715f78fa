"""The rule of a cell's graph where its operations are kernels: they give each row's gradients by their weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.graph import get_gradient_edge

from privaware.descent._convolution import sum_copies
from privaware.descent._shares import Rows
from privaware.models import _dpnas_cell

if TYPE_CHECKING:
    from privaware.descent._stack import Stack

__all__ = ["cell"]


def cell(stack: Stack, graph: _dpnas_cell.CellGraph) -> Callable[[Tensor, Sequence[_dpnas_cell.Edge]], Tensor]:
    """What stands in for `graph.node_outputs`; without kernels the layers follow their own rules."""

    def summed(first: Tensor, edges: Sequence[_dpnas_cell.Edge]) -> Tensor:
        from privaware.descent._layers import rows_first

        made = _dpnas_cell.kernel_calls(first, edges)
        if made is None:
            return _dpnas_cell.run_layers(first, edges, graph.nodes)
        rows_first(first, stack.rows)
        found = [stack.of(step.conv.weight) for step in made if step.conv is not None]
        weights = [weight for _, weight in found if weight is not None]
        leaves = [_leaf(stack, name, weight, first) for name, weight in found]
        out: Tensor = _Summed.apply(first, made, graph.nodes, weights, graph.node_dtype, *leaves)
        return out

    return summed


def _leaf(stack: Stack, name: str | None, weight: Tensor | None, first: Tensor) -> Tensor | None:
    """One (unstored) copy of the weights for each row: the gradient by it is each row's own."""
    assert weight is not None
    if name is None or not torch.is_grad_enabled():
        return None
    each = len(first) // len(weight)
    wide = weight.detach()[:, None].expand(len(weight), each, *weight.shape[1:])
    leaf, rows = wide.requires_grad_(), stack.rows

    def make(gradient: Tensor) -> list[tuple[str, Any]]:
        return [(name, Rows(sum_copies(gradient.flatten(0, 1), rows)))]

    stack.tape.edges.append(get_gradient_edge(leaf))
    stack.tape.makes.append(make)
    return leaf


class _Summed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        first: Tensor,
        made: list[_dpnas_cell.KernelCall],
        nodes: int,
        weights: list[Tensor],
        stored: torch.dtype,
        *leaves: Tensor | None,
    ) -> Tensor:
        out, kept = _dpnas_cell.run_kernels(first, made, nodes, weights, stored, keep=True)
        ctx.made, ctx.weights = made, weights
        ctx.shapes = [None if leaf is None else leaf.shape for leaf in leaves]
        ctx.save_for_backward(first, out, *kept)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        first, out, *kept = ctx.saved_tensors
        given = (first, out, gradient.contiguous(), ctx.made, kept, ctx.weights)
        back, found = _dpnas_cell.run_kernels_backward(*given)
        pairs = zip(found, ctx.shapes, strict=True)
        by_leaves = (None if s is None else w.view(s) for w, s in pairs)
        return None if back is None else back.to(first.dtype), None, None, None, None, *by_leaves
