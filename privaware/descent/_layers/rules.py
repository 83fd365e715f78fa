"""Find the rule of each layer of a module, and build stacks whose layers follow their rules.

A rule takes the stack and one layer, and returns a replacement of the layer's forward function. The replacement
computes each model's outputs with the model's own parameters. It records how to compute per-example gradients from the
gradient with respect to the output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import nn

from privaware import models
from privaware.descent._layers.attention import attention, has_rule
from privaware.descent._layers.conv_block import fuse_conv_blocks
from privaware.descent._layers.convolution import convolution
from privaware.descent._layers.dpnas import cell
from privaware.descent._layers.dropout import dropout_rule, has_dropout
from privaware.descent._layers.linear import embedding, linear
from privaware.descent._layers.normalisation import channel_norm, feature_norm
from privaware.descent._layers.padded_population import PerUnitActivation, per_unit_activation
from privaware.descent._layers.pooling import is_max_pool_2x2, max_pool_2x2
from privaware.descent._layers.recurrent import recurrent, single_bias_lstm
from privaware.descent._layers.vmap_fallback import vmap_fallback
from privaware.descent._layers.weight_standardisation import standardised_convolution
from privaware.descent._stack import Stack
from privaware.models._dpnas.cell_graph import CellGraph

Rule = Callable[[Stack, Any], Callable[..., Any]]
"""A function `(stack, layer) -> forward` that returns a replacement of the layer's forward function."""


def stacked(
    modules: Sequence[nn.Module], *, device: Any = "cpu", materialise: bool = False, watch: Sequence[str] = ()
) -> Stack:
    """Return a stack of `modules`, which have one architecture, on `device`, and install its layer rules.

    A layer rule replaces a layer's forward function by one that also records how to compute per-example gradients.
    Layers without a rule use `torch.func.vmap`, which materialises per-example gradients. With `materialise` it does so
    for all layers, and only dropout layers get their rules. `modules` are not changed. The inputs of modules whose
    class name is in `watch` are recorded for the loss.
    """
    stack = Stack(modules, device=device)
    _install(stack, materialise, watch)
    stack.record_inputs_of(watch)
    return stack


def rules() -> dict[type[nn.Module], Rule]:
    """Return the layer rule of each layer type: the function that makes the replacement of a layer's forward function.

    A subclass of a type has no rule, because it may have another forward function.
    """
    table: dict[type[nn.Module], Rule] = {
        nn.Linear: linear,
        nn.modules.linear.NonDynamicallyQuantizableLinear: linear,
        nn.Embedding: embedding,
        nn.MultiheadAttention: attention,
        models.LSTM: single_bias_lstm,
        models.StandardisedConv2d: standardised_convolution,
        PerUnitActivation: per_unit_activation,
    }
    table |= dict.fromkeys((nn.Conv1d, nn.Conv2d, nn.Conv3d), convolution)
    table |= dict.fromkeys((nn.LayerNorm, nn.RMSNorm), feature_norm)
    table |= dict.fromkeys((nn.LSTM, nn.GRU, nn.RNN), recurrent)
    instance_norms = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)
    return table | dict.fromkeys((nn.GroupNorm, *instance_norms), channel_norm)


def _install(stack: Stack, materialise: bool, watch: Sequence[str]) -> None:
    """Replace the forward functions of layers of `stack.module` by layer rules.

    Each layer whose parameters are trained or differ between models gets its rule. It gets the fallback by
    `torch.func.vmap` if it has no rule, and always with `materialise`. Dropout layers are replaced in any case. Without
    `materialise`, max pools over 2 x 2 blocks are replaced too, and convolutions are fused with what follows
    (`fuse_conv_blocks`, which gets `watch`). No layer computes in place any more.
    """
    known = rules()
    for module in stack.module.modules():
        if getattr(module, "inplace", False) is True:
            module.inplace = False  # type: ignore[assignment]
        stack.has_dropout = stack.has_dropout or has_dropout(module)
        if drop := dropout_rule(stack, module):
            module.forward = drop  # type: ignore[method-assign]
        if not materialise and is_max_pool_2x2(module):
            module.forward = max_pool_2x2  # type: ignore[method-assign]

    def visit(module: nn.Module) -> None:
        if not _has_stacked_parameters(stack, module):
            return
        rule = None if materialise else known.get(type(module))
        if isinstance(module, nn.MultiheadAttention) and not has_rule(module):
            rule = None
        elif rule is None and not materialise and not list(module.parameters(recurse=False)):
            for part in module.children():
                visit(part)
            if isinstance(module, CellGraph):
                module.node_outputs = cell(stack, module)  # type: ignore[method-assign, assignment]
            return
        module.forward = (rule or vmap_fallback)(stack, module)  # type: ignore[method-assign]

    visit(stack.module)
    if not materialise:
        fuse_conv_blocks(stack, watch)


def _has_stacked_parameters(stack: Stack, module: nn.Module) -> bool:
    """Return whether the module or a part of it has parameters that are trained or differ between models."""
    return any(stack.names[id(p)] in stack.tensors for p in module.parameters())
