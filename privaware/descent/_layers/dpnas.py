"""The layer rule of a cell, a small graph of layers, of the network DPNAS.

Its layers run as GPU kernels, which compute per-example weight gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from privaware.descent._example_sums import sum_copies
from privaware.descent._per_example import Materialised, PerExampleGradient
from privaware.descent._stack import Stack, check_batch_first
from privaware.models._dpnas import cell_graph as _dpnas_cell


def cell(stack: Stack, graph: _dpnas_cell.CellGraph) -> Callable[[Tensor, Sequence[_dpnas_cell.Edge]], Tensor]:
    """Return the replacement of the method `graph.node_outputs`, which also records per-example gradients.

    The method returns all nodes of a cell, concatenated along channels, from the cell's input `first` and its `edges`.
    If an operation has no GPU kernel for this input, the layers run one by one and follow their own rules.
    """

    def node_outputs(first: Tensor, edges: Sequence[_dpnas_cell.Edge]) -> Tensor:
        calls = _dpnas_cell.kernel_calls(first, edges)
        if calls is None:
            return _dpnas_cell.run_layers(first, edges, graph.nodes)
        check_batch_first(first, stack.examples)
        parameters = [stack.parameter(call.conv.weight) for call in calls if call.conv is not None]
        weights = [weight for _, weight in parameters if weight is not None]
        leaves = [_leaf(stack, name, weight, first) for name, weight in parameters]
        return _CellNodes.apply(first, calls, graph.nodes, weights, graph.node_dtype, *leaves)

    return node_outputs


def _leaf(stack: Stack, name: str | None, weight: Tensor | None, first: Tensor) -> Tensor | None:
    """Record and return a view with one copy of `weight` (models, *shape) for each row of `first`, the cell's input.

    The gradient with respect to a copy is the row's gradient; rows of augmented copies are added up. Return None, and
    record nothing, for a frozen weight or where gradients are switched off.
    """
    assert weight is not None
    if name is None or not torch.is_grad_enabled():
        return None
    each = len(first) // len(weight)
    wide = weight.detach()[:, None].expand(len(weight), each, *weight.shape[1:])
    leaf, examples = wide.requires_grad_(), stack.examples

    def build(gradient: Tensor) -> list[tuple[str, PerExampleGradient]]:
        return [(name, Materialised(sum_copies(gradient.flatten(0, 1), examples)))]

    stack.record_leaf(leaf, build)
    return leaf


class _CellNodes(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        first: Tensor,
        calls: list[_dpnas_cell.KernelCall],
        nodes: int,
        weights: list[Tensor],
        dtype: torch.dtype,
        *leaves: Tensor | None,
    ) -> Tensor:
        output, saved = _dpnas_cell.run_kernels(first, calls, nodes, weights, dtype, keep=True)
        ctx.calls, ctx.weights = calls, weights
        ctx.shapes = [None if leaf is None else leaf.shape for leaf in leaves]
        ctx.save_for_backward(first, output, *saved)
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        first, output, *saved = ctx.saved_tensors
        by_first, by_weights = _dpnas_cell.run_kernels_backward(
            first, output, gradient.contiguous(), ctx.calls, saved, ctx.weights
        )
        pairs = zip(by_weights, ctx.shapes, strict=True)
        by_leaves = (None if shape is None else each.view(shape) for each, shape in pairs)
        by_first = None if by_first is None else by_first.to(first.dtype)
        return by_first, None, None, None, None, *by_leaves
