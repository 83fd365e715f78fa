"""The cell of DPNAS: nodes are sums of operations on earlier nodes; the output concatenates all nodes but node 0.

On a GPU each operation is one kernel that accumulates into its node inside the output tensor, so neither the sums nor
the concatenation need a separate pass. On other devices, and if an operation has no kernel, the layers run one by one.
Under autograd they also run one by one, unless a training engine replaces `CellGraph.node_outputs` and calls
`run_kernels_backward`, which computes the gradients without autograd.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from privaware.kernels import dpnas_cell as kernels
from privaware.models._dpnas import edge_ends

Edge = tuple[int, int, nn.Module]
"""An edge of a cell: start node, end node and the operation that is applied to the start node."""
KINDS: dict[type[nn.Module], str] = {
    nn.ReLU: "relu",
    nn.SELU: "selu",
    nn.Tanh: "tanh",
    nn.Hardtanh: "hardtanh",
    nn.Sigmoid: "sigmoid",
}
"""Name in `kernels.ACTIVATIONS` for each type of activation layer."""
WINDOW = (3, 1, 1)
"""Side of the window, stride and padding of the pools for which there is a GPU kernel."""


class CellGraph(nn.Module):
    """Base of cells: graphs of nodes, where node 0 is the output of the layer `entry`.

    `nodes` is the number of nodes after node 0; the method `node_outputs` computes them. Subclasses define `forward`. A
    training engine may replace `node_outputs`.

    With `bf16` the GPU kernels store nodes as BF16 if `torch.backends.cuda.matmul.allow_tf32` is set, because memory
    bandwidth limits the kernels. The next layer must accept BF16, as `MaxPool2x2` does.
    """

    def __init__(self, entry: nn.Module, nodes: int, bf16: bool = False) -> None:
        super().__init__()
        self.entry, self.nodes, self.bf16 = entry, nodes, bf16

    @property
    def node_dtype(self) -> torch.dtype:
        """The dtype of nodes stored by the GPU kernels: BF16 if `bf16` and TF32 products are allowed, else float32."""
        return torch.bfloat16 if self.bf16 and torch.backends.cuda.matmul.allow_tf32 else torch.float32

    def node_outputs(self, first: Tensor, edges: Sequence[Edge]) -> Tensor:
        """Return nodes 1 to `self.nodes`, concatenated along the channels.

        `first`, the output of the entry, is node 0. An edge is (start node, end node, operation), and `edges` are in
        the order of their end nodes. A later node is the sum of the operations on the edges that end in it. GPU kernels
        compute the nodes if autograd is off and every operation has a kernel; otherwise the layers do.
        """
        if not torch.is_grad_enabled():
            calls = kernel_calls(first, edges)
            if calls is not None:
                weights = [call.conv.weight[None] for call in calls if call.conv is not None]
                return run_kernels(first, calls, self.nodes, weights, self.node_dtype, keep=False)[0]
        return run_layers(first, edges, self.nodes)


class Cell(CellGraph):
    """A directed graph of nodes; `forward` returns nodes 1 to `nodes`, concatenated along the channels.

    An edge is (start node, end node, module), where node 0 is the output of the layer `entry`. A node is the sum of the
    modules of the edges that end in it, each applied to its start node; a node without edges is zero. With `bf16` the
    GPU kernels may store nodes as BF16.
    """

    def __init__(self, entry: nn.Module, edges: Iterable[Edge], nodes: int, bf16: bool = False) -> None:
        super().__init__(entry, nodes, bf16)
        self.edges = nn.ModuleDict({f"edge_{start}_{end}": op for start, end, op in edges})

    def forward(self, x: Tensor) -> Tensor:
        named = ((start, end, f"edge_{start}_{end}") for start, end in edge_ends(self.nodes))
        edges = [(start, end, self.edges[key]) for start, end, key in named if key in self.edges]
        return self.node_outputs(self.entry(x), edges)


class MaxPool2x2(nn.MaxPool2d):
    """Max pooling of 2 x 2 blocks: by a Triton kernel for contiguous images on a GPU, else by PyTorch's layer.

    The kernel saves one byte for each block for the backward pass instead of eight. The output of the kernel is
    float32, also for BF16 inputs.
    """

    def __init__(self) -> None:
        super().__init__(2)

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim != 4 or not kernels.fits(x) or not x.is_contiguous() or min(x.shape[2:]) < 2:
            return super().forward(x)  # type: ignore[no-any-return]
        return BlockMaxima.apply(x)


class BlockMaxima(torch.autograd.Function):
    """The maxima of the 2 x 2 blocks of contiguous images on a GPU, in float32; the gradient has the inputs' dtype."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y, index = kernels.max_pool_2x2(x)
        ctx.save_for_backward(index)
        ctx.shape, ctx.dtype = x.shape, x.dtype
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (index,) = ctx.saved_tensors
        dx = gradient.new_empty(ctx.shape, dtype=ctx.dtype)
        kernels.max_pool_2x2_backward(gradient.contiguous(), index, dx)
        return dx


class PlainGroupNorm(nn.GroupNorm):
    """Group norm without affine parameters.

    Contiguous float32 images on a GPU take one kernel forward and one backward; other inputs use PyTorch's layer.
    """

    def __init__(self, groups: int, channels: int) -> None:
        super().__init__(groups, channels, affine=False)

    def forward(self, x: Tensor) -> Tensor:
        images = x.ndim == 4 and x.dtype == torch.float32 and x.is_contiguous()
        if not (images and kernels.fits(x) and kernels.fits_groups(x, self.num_groups)):
            return super().forward(x)
        return _PlainGroupNorm.apply(x, self.num_groups, self.eps)


class _PlainGroupNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, groups: int, eps: float) -> Tensor:
        y, scales = kernels.group_norm(x, groups, eps)
        ctx.save_for_backward(y, scales)
        return y  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return kernels.group_norm_backward(gradient.contiguous(), *ctx.saved_tensors), None, None


def run_layers(first: Tensor, edges: Sequence[Edge], nodes: int) -> Tensor:
    """Return nodes 1 to `nodes` of a cell, concatenated along the channels; each operation is computed by its layer.

    `first` is node 0. An edge is (start node, end node, operation). A node without edges is zero.
    """
    return torch.cat(node_states([first], edges, nodes)[1:], dim=1)


def node_states(inputs: Sequence[Tensor], edges: Sequence[Edge], nodes: int) -> list[Tensor]:
    """Return all nodes of a cell: the `inputs`, which are the first nodes, and the `nodes` nodes after them.

    An edge is (start node, end node, operation). A node after the inputs is the sum of the operations on the edges that
    end in it. A node without edges is zero.
    """
    states = list(inputs)
    for end in range(len(inputs), len(inputs) + nodes):
        node: Tensor | None = None  # adding to zeros would cost as much as an edge
        for start, where, op in edges:
            if where == end:
                value = op(states[start])
                node = value if node is None else node + value
        states.append(torch.zeros_like(inputs[0]) if node is None else node)
    return states


@dataclass(frozen=True)
class KernelCall:
    """The kernel of the edge from node `start` to node `end`; `kind` is "identity", "max", "average" or "conv".

    `conv`, `groups`, `eps` and `activation` are used by "conv" only: the convolution, the groups and epsilon of the
    group norm after it, and the position of the activation in `kernels.ACTIVATIONS`.
    """

    start: int
    end: int
    kind: str
    conv: nn.Conv2d | None = None
    groups: int = 1
    eps: float = 0.0
    activation: int = 0


def kernel_calls(first: Tensor, edges: Sequence[Edge]) -> list[KernelCall] | None:
    """Return the kernel of each edge, in the order of end nodes.

    Return None if an operation has no kernel, or if the kernels do not support the entry's output `first`.
    """
    if first.ndim != 4 or not kernels.fits(first):
        return None
    calls = [_kernel_call(*edge) for edge in sorted(edges, key=lambda edge: edge[1])]
    if any(call is None or not _fits(first, call) for call in calls):
        return None
    return calls  # type: ignore[return-value]


def _fits(first: Tensor, call: KernelCall) -> bool:
    if call.conv is None:
        return True
    weight = call.conv.weight
    alike = weight.shape == (first.shape[1], 1, 3, 3) and weight.dtype == torch.float32
    return alike and kernels.fits_groups(first, call.groups)


def _kernel_call(start: int, end: int, op: nn.Module) -> KernelCall | None:
    if type(op) is nn.Identity:
        return KernelCall(start, end, "identity")
    if isinstance(op, (nn.MaxPool2d, nn.AvgPool2d)):
        kind = "max" if isinstance(op, nn.MaxPool2d) else "average"
        return KernelCall(start, end, kind) if _is_sliding(op) else None
    parts = list(op.children()) if type(op) is nn.Sequential else []
    if len(parts) not in (2, 3):
        return None
    conv, norm, *after = parts
    activation = KINDS.get(type(after[0])) if after else "linear"
    if after and isinstance(after[0], nn.Hardtanh) and (after[0].min_val, after[0].max_val) != (-1, 1):
        return None
    if activation is None or not _is_depthwise(conv) or type(norm) not in (nn.GroupNorm, PlainGroupNorm) or norm.affine:
        return None
    assert isinstance(conv, nn.Conv2d)
    assert isinstance(norm, nn.GroupNorm)
    number = kernels.ACTIVATIONS.index(activation)
    return KernelCall(start, end, "conv", conv, norm.num_groups, norm.eps, number)


def _is_sliding(pool: nn.MaxPool2d | nn.AvgPool2d) -> bool:
    """Return whether a pool has 3 x 3 windows at stride 1 and padding 1, and an average counts the padding as zeros."""
    if (pool.kernel_size, pool.stride, pool.padding) != WINDOW:
        return False
    if isinstance(pool, nn.MaxPool2d):
        return pool.dilation == 1 and not pool.return_indices
    return pool.count_include_pad and pool.divisor_override is None


def _is_depthwise(conv: nn.Module) -> bool:
    """Return whether `conv` is a depth-wise 3 x 3 convolution without bias that keeps the size of its input."""
    return (
        type(conv) is nn.Conv2d
        and conv.groups == conv.in_channels == conv.out_channels
        and (conv.kernel_size, conv.stride, conv.dilation) == ((3, 3), (1, 1), (1, 1))
        and conv.padding == (1, 1)
        and conv.padding_mode == "zeros"
        and conv.bias is None
    )


def _node(first: Tensor, out: Tensor, at: int) -> Tensor:
    """Return node `at`: `first` for node 0, else a view of its channels in `out`, which has nodes 1, 2, ... in turn."""
    channels = first.shape[1]
    return first if at == 0 else out[:, (at - 1) * channels : at * channels]


def run_kernels(
    first: Tensor, calls: list[KernelCall], nodes: int, weights: Sequence[Tensor], dtype: torch.dtype, keep: bool
) -> tuple[Tensor, list[Tensor]]:
    """Return nodes 1 to `nodes`, concatenated along the channels as `dtype`, and the tensors for the backward pass.

    A node is the sum of the `calls` that end in it; a node without calls is zero. `first` is node 0. Unless `keep` is
    True, the list of tensors for the backward pass is incomplete. `weights` are the filters of the convolutions in the
    order of `calls`, each (models, channels, 1, 3, 3); each model has equally many consecutive examples of `first`.
    """
    out = first.new_empty(len(first), nodes * first.shape[1], *first.shape[2:], dtype=dtype)
    saved: list[Tensor] = []
    next_weight = iter(weights)
    for end in range(1, nodes + 1):
        y, add = _node(first, out, end), False
        for call in calls:
            if call.end != end:
                continue
            x = _node(first, out, call.start)
            if call.kind == "conv":
                settings = (call.groups, call.eps, call.activation, add, keep)
                saved += kernels.conv_norm_activation(x, next(next_weight), y, *settings) or ()
            elif call.kind == "max":
                saved.append(kernels.max_pool_3x3(x, y, add))
            elif call.kind == "average":
                kernels.avg_pool_3x3(x, y if add else None, y)
            else:
                y.add_(x) if add else y.copy_(x)
            add = True
        if not add:
            y.zero_()
    return out, saved


def run_kernels_backward(
    first: Tensor,
    out: Tensor,
    gradient: Tensor,
    calls: list[KernelCall],
    saved: Sequence[Tensor],
    weights: Sequence[Tensor],
) -> tuple[Tensor | None, list[Tensor]]:
    """Return the gradient with respect to `first`, and the per-example gradients of the convolutions' weights.

    `first`, `calls` and `weights` are the arguments of `run_kernels`. `out` and `saved` are what `run_kernels` returned
    with `keep`, and `gradient` is the gradient with respect to `out`. The first result is None if no edge starts at
    node 0. The gradients of the weights are in the order of `weights`, each (rows of `first`, channels, 9).
    """
    nodes = out.shape[1] // first.shape[1]
    by_node: list[Tensor | None] = [None] + [_node(first, gradient, n + 1) for n in range(nodes)]
    left, rest, by_weights = list(weights), list(saved), list[Tensor]()
    for call in reversed(calls):
        g, base = by_node[call.end], by_node[call.start]
        assert g is not None
        if call.kind == "identity" and base is None:
            by_node[call.start] = g
            continue
        dx = torch.empty_like(first, dtype=out.dtype)
        if call.kind == "conv":
            scales, normalised = rest.pop(), rest.pop()
            x, weight = _node(first, out, call.start), left.pop()
            settings = (base, dx, call.groups, call.activation)
            by_weights.append(kernels.conv_norm_activation_backward(x, weight, g, (normalised, scales), *settings))
        elif call.kind == "max":
            kernels.max_pool_3x3_backward(g, rest.pop(), base, dx)
        elif call.kind == "average":
            kernels.avg_pool_3x3(g, base, dx)
        else:
            torch.add(base, g, out=dx)  # type: ignore[arg-type]
        by_node[call.start] = dx
    return by_node[0], by_weights[::-1]
