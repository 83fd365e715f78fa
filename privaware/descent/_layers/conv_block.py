"""Fuse a convolution with the activation and the max pool that follow it, on a GPU with TF32 products.

Separate layers read and write each intermediate image, and cuDNN converts images to channels-last for its tensor cores
and back. A fused block writes an image in the layout that its reader needs, and does not write the image before
pooling. Its backward pass multiplies the gradient by the activation's derivative while it spreads the gradient over the
pool.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from privaware.descent._example_sums import sum_copies
from privaware.descent._layers.convolution import ConvolutionGradient
from privaware.descent._layers.geometry import Geometry
from privaware.descent._layers.pooling import is_max_pool_2x2
from privaware.descent._per_example import Materialised, PerExampleGradient
from privaware.descent._stack import Stack, check_batch_first, check_unmodified
from privaware.kernels import conv_block
from privaware.kernels import convolution as convolution_kernels

ACTIVATIONS: dict[type[nn.Module], str] = {nn.Tanh: "tanh", nn.ReLU: "relu"}

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def fuse_conv_blocks(stack: Stack, watch: Sequence[str]) -> None:
    """Fuse each `Conv2d` in an `nn.Sequential` with the tanh or ReLU after it, and a 2 x 2 max pool if it follows.

    Layers are fused only if nothing else reads the values between them. So none of them has a hook, is used twice, or
    has a class name in `watch` (the loss reads the inputs of such layers). A fused block runs its layers one after
    another where the kernels do not apply (`_fits`).
    """
    uses = Counter(id(part) for _, part in stack.module.named_modules(remove_duplicate=False))

    def unobserved(layer: nn.Module) -> bool:
        hooked = any(getattr(layer, name) for name in HOOKS)
        return uses[id(layer)] == 1 and not hooked and type(layer).__name__ not in watch

    for sequence in stack.module.modules():
        layers = list(sequence) if type(sequence) is nn.Sequential else []
        for at, (conv, activation) in enumerate(pairwise(layers)):
            if type(conv) is not nn.Conv2d or type(activation) not in ACTIVATIONS:
                continue
            after = layers[at + 2 : at + 3]
            parts = [conv, activation, *filter(is_max_pool_2x2, after)]
            if all(map(unobserved, parts)):
                follower = layers[at + len(parts) : at + len(parts) + 1]
                before_conv = any(type(layer) is nn.Conv2d for layer in follower)
                conv.forward = _fused(stack, parts, before_conv)  # type: ignore[method-assign, assignment]
                for part in parts[1:]:
                    part.forward = _identity  # type: ignore[method-assign]


def _identity(values: Tensor) -> Tensor:
    return values


class _Block(NamedTuple):
    """The fixed facts of a fused block: a convolution, the activation after it, and perhaps a 2 x 2 max pool (`pool`).

    `geometry` says how the filters slide, and `activation` is "tanh" or "relu". `channels_last` is True if another
    convolution follows; then the output is written in channels-last layout too.
    """

    geometry: Geometry
    activation: str
    pool: bool
    channels_last: bool


def _fused(stack: Stack, parts: list[Any], before_conv: bool) -> Callable[[Tensor], Tensor]:
    separate = [part.forward for part in parts]
    layer, activation, *pools = parts
    block = _Block(Geometry(layer), ACTIVATIONS[type(activation)], bool(pools), before_conv)
    (weight_name, weight), (bias_name, bias) = stack.parameter(layer.weight), stack.parameter(layer.bias)
    assert weight is not None

    def forward(inputs: Tensor) -> Tensor:
        if not (torch.is_grad_enabled() and _fits(stack, inputs, weight, block.geometry)):
            for step in separate:
                inputs = step(inputs)
            return inputs
        examples, version = stack.examples, inputs._version
        if weight_name is not None or bias_name is not None:
            check_batch_first(inputs, examples)
        recorded = getattr(inputs, "channels_first", inputs.detach())
        high, wide = block.geometry.output_size(inputs)

        def by_weight(gradient: Tensor) -> PerExampleGradient:
            check_unmodified(inputs, version)
            return ConvolutionGradient(recorded, gradient, block.geometry, weight, examples, stack.zeroing(recorded))

        def by_bias(sums: Tensor) -> PerExampleGradient:
            return Materialised(sum_copies(sums, examples))

        shape = (len(inputs), weight.shape[1])
        weight_leaf = _leaf(stack, weight_name, (*shape, high, wide), by_weight)
        bias_leaf = _leaf(stack, bias_name, shape, by_bias)
        parameters = (weight[0], None if bias is None else bias[0], block)
        output, channels_first = _FusedBlock.apply(inputs, weight_leaf, bias_leaf, *parameters)
        if channels_first is not None:
            output.channels_first = channels_first
        return output

    return forward


def _leaf(
    stack: Stack, name: str | None, shape: tuple[int, ...], build: Callable[[Tensor], PerExampleGradient]
) -> Tensor | None:
    """Record a leaf tensor, which takes no memory, whose gradient gives the per-example gradients of a parameter.

    `build` turns the gradient, of the given `shape`, into per-example gradients. Return None for a frozen parameter,
    whose `name` is None.
    """
    if name is None:
        return None
    leaf = stack.token.detach().expand(shape).requires_grad_()
    stack.record_leaf(leaf, lambda gradient: [(name, build(gradient))])
    return leaf


def _fits(stack: Stack, inputs: Tensor, weight: Tensor, geometry: Geometry) -> bool:
    """Return whether the fused kernels apply: one model, float32 with TF32 products on a GPU, suitable shapes.

    Suitable are images, a number of filters (second dimension of `weight`) that is a multiple of 16, no groups, and
    padding by equal numbers of zeros on both sides.
    """
    return (
        stack.models == 1
        and inputs.ndim == 4
        and geometry.groups == 1
        and not geometry.pads_separately
        and weight.shape[1] % 16 == 0
        and convolution_kernels.fits(inputs, inputs, max(1, len(inputs) // max(1, stack.examples)))
    )


class _FusedBlock(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        weight_leaf: Tensor | None,
        bias_leaf: Tensor | None,
        weight: Tensor,
        bias: Tensor | None,
        block: _Block,
    ) -> tuple[Tensor, Tensor | None]:
        channels = inputs.shape[1]
        channels_last = channels % 4 == 0 or channels < 4  # cuDNN itself converts others faster
        layout = torch.channels_last if channels_last else torch.contiguous_format
        weight = weight.contiguous(memory_format=layout)
        z = block.geometry.apply(inputs, weight, None, 1).contiguous(memory_format=layout)
        images = conv_block.bias_activation_pool(
            z, bias, block.activation, pool=block.pool, channels_last=block.channels_last
        )
        ctx.block, ctx.size = block, z.shape[2:]
        output = images.channels_last if block.channels_last else images.channels_first
        ctx.save_for_backward(inputs, weight, output, images.argmax)
        ctx.set_materialize_grads(False)
        if not block.channels_last:
            return output, None
        ctx.mark_non_differentiable(images.channels_first)
        return output, images.channels_first

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Any) -> Any:
        inputs, weight, output, argmax = ctx.saved_tensors
        layout = torch.channels_last if ctx.block.channels_last else torch.contiguous_format
        above = conv_block.Above(gradient.contiguous(memory_format=layout), output, argmax)
        needed = dict(zip(("channels_last", "channels_first", "sums"), ctx.needs_input_grad[:3], strict=True))
        by_z, by_weight, by_bias = conv_block.bias_activation_pool_backward(
            above, ctx.size, ctx.block.activation, **needed
        )
        by_inputs = None
        if by_z is not None:
            by_inputs = ctx.block.geometry.input_gradient(by_z, inputs.to(by_z.dtype), weight.to(by_z.dtype))
        return by_inputs, by_weight, by_bias, None, None, None
