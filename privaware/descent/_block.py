"""A convolution, the activation after it and a pool after that as one step on a GPU, where their products are short.

Alone each of them reads what the one before wrote, and cuDNN turns images for its tensor cores and back. As one step an
image is turned by whoever writes it, what is pooled is not written before, and the gradient by a pool is multiplied by
the slope while it is spread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge

from privaware.descent._convolution import Convolved, Geometry, sum_copies
from privaware.descent._pooling import halves
from privaware.descent._shares import Rows
from privaware.kernels import conv_block
from privaware.kernels import convolution as convolution_kernels

if TYPE_CHECKING:
    from privaware.descent._stack import Stack

__all__ = ["join"]

KINDS: dict[type[nn.Module], str] = {nn.Tanh: "tanh", nn.ReLU: "relu"}

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")

SIDE = torch.channels_last
"""The channels of a place side by side in memory."""


def join(stack: Stack, watch: Sequence[str]) -> None:
    """Makes one step of each convolution and what follows it in a sequence, if nobody else looks at what is between."""
    uses = Counter(id(part) for _, part in stack.module.named_modules(remove_duplicate=False))

    def own(layer: nn.Module) -> bool:
        hooked = any(getattr(layer, name) for name in HOOKS)
        return uses[id(layer)] == 1 and not hooked and type(layer).__name__ not in watch

    for sequence in stack.module.modules():
        layers = list(sequence) if type(sequence) is nn.Sequential else []
        for at, (conv, activation) in enumerate(pairwise(layers)):
            if type(conv) is not nn.Conv2d or type(activation) not in KINDS:
                continue
            after = layers[at + 2 : at + 3]
            parts = [conv, activation, *filter(halves, after)]
            if all(map(own, parts)):
                follower = layers[at + len(parts) : at + len(parts) + 1]
                last = any(type(layer) is nn.Conv2d for layer in follower)
                conv.forward = _block(stack, parts, last)  # type: ignore[method-assign, assignment]
                for part in parts[1:]:
                    part.forward = _as_it_is  # type: ignore[method-assign]


def _as_it_is(values: Tensor) -> Tensor:
    return values


class _How(NamedTuple):
    """What is fixed about a block: how it slides, what comes after, and whether another convolution follows."""

    geometry: Geometry
    kind: str
    pool: bool
    last: bool


def _block(stack: Stack, parts: list[Any], last: bool) -> Callable[[Tensor], Tensor]:
    plain = [part.forward for part in parts]
    layer, activation, *pools = parts
    how = _How(Geometry(layer), KINDS[type(activation)], bool(pools), last)
    (weight_name, weight), (bias_name, bias) = stack.of(layer.weight), stack.of(layer.bias)
    assert weight is not None

    def forward(inputs: Tensor) -> Tensor:
        from privaware.descent._layers import rows_first, unchanged

        if not (torch.is_grad_enabled() and _fits(stack, inputs, weight, how.geometry)):
            for step in plain:
                inputs = step(inputs)
            return inputs
        rows, version = stack.rows, inputs._version
        if weight_name is not None or bias_name is not None:
            rows_first(inputs, rows)
        seen = getattr(inputs, "one_after_the_other", inputs.detach())
        high, wide = how.geometry.places(inputs)

        def share(gradient: Tensor) -> Any:
            unchanged(inputs, version)
            return Convolved(seen, gradient, how.geometry, weight, rows, stack.wash(seen))

        shape = (len(inputs), weight.shape[1])
        by_weight = _leaf(stack, weight_name, (*shape, high, wide), share)
        by_bias = _leaf(stack, bias_name, shape, lambda sums: Rows(sum_copies(sums, rows)))
        given = (weight[0], None if bias is None else bias[0], how)
        made, turned = _Joined.apply(inputs, by_weight, by_bias, *given)
        if turned is not None:
            made.one_after_the_other = turned
        out: Tensor = made
        return out

    return forward


def _leaf(stack: Stack, name: str | None, shape: tuple[int, ...], share: Callable[[Tensor], Any]) -> Tensor | None:
    """Something (that takes no memory) whose gradient becomes the share of a parameter, if that is trained."""
    if name is None:
        return None
    leaf = stack.token.detach().expand(shape).requires_grad_()
    stack.tape.edges.append(get_gradient_edge(leaf))
    stack.tape.makes.append(lambda gradient: [(name, share(gradient))])
    return leaf


def _fits(stack: Stack, inputs: Tensor, weight: Tensor, geometry: Geometry) -> bool:
    """One model in singles with short products on a GPU."""
    return (
        stack.models == 1
        and inputs.ndim == 4
        and geometry.groups == 1
        and not geometry.apart
        and weight.shape[1] % 16 == 0
        and convolution_kernels.fits(inputs, inputs, max(1, len(inputs) // max(1, stack.rows)))
    )


class _Joined(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        by_weight: Tensor | None,
        by_bias: Tensor | None,
        weight: Tensor,
        bias: Tensor | None,
        how: _How,
    ) -> tuple[Tensor, Tensor | None]:
        channels = inputs.shape[1]
        side = channels % 4 == 0 or channels < 4  # others are turned faster by cuDNN itself
        form = SIDE if side else torch.contiguous_format
        weight = weight.contiguous(memory_format=form)
        z = how.geometry.apply(inputs, weight, None, 1).contiguous(memory_format=form)
        found = conv_block.activated(z, bias, how.kind, pool=how.pool, last=how.last)
        ctx.how, ctx.size = how, z.shape[2:]
        made = found.last if how.last else found.first
        ctx.save_for_backward(inputs, weight, made, found.index)
        ctx.set_materialize_grads(False)
        if not how.last:
            return made, None
        ctx.mark_non_differentiable(found.first)
        return made, found.first

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Any) -> Any:
        inputs, weight, made, index = ctx.saved_tensors
        form = SIDE if ctx.how.last else torch.contiguous_format
        given = (gradient.contiguous(memory_format=form), made, index, ctx.size, ctx.how.kind)
        needs = dict(zip(("last", "first", "sums"), ctx.needs_input_grad[:3], strict=True))
        turned, by_weight, by_bias = conv_block.activated_back(*given, **needs)
        back = None
        if turned is not None:
            back = ctx.how.geometry.input_gradient(turned, inputs, weight)
        return back, by_weight, by_bias, None, None, None
