"""Refuse layers that cannot be trained privately, and replace batch norm by group norm."""

from __future__ import annotations

import copy
from typing import Any

from torch import nn
from torch.jit import ScriptModule
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from privaware._validate import expect_count
from privaware.errors import Refused


def check_layers(module: nn.Module) -> None:
    """Raise `Refused` if a layer of `module` is known to mix or remember examples, or cannot be trained.

    Such layers are batch norm in training mode or without running statistics, instance norm with running statistics,
    embeddings with `max_norm`, `scale_grad_by_freq` or `sparse`, lazy layers before their first call, and scripted
    modules.
    Hooks on the gradient of a parameter are refused too, because they would not run on per-example gradients.
    """
    for name, layer in module.named_modules():
        where = f"layer {name!r}" if name else "the module"
        if isinstance(layer, _InstanceNorm):
            if layer.track_running_stats:
                raise Refused(f"{where} keeps statistics of the examples; use track_running_stats=False")
        elif isinstance(layer, _BatchNorm) and (layer.training or not layer.track_running_stats):
            raise Refused(
                f"{where} is batch norm with statistics of the batch, so no per-example gradient can be bounded; "
                "train the copy that privaware.descent.replace_batch_norm(module) returns"
            )
        if isinstance(layer, (nn.Embedding, nn.EmbeddingBag)) and (layer.max_norm or layer.scale_grad_by_freq):
            raise Refused(f"{where} is an embedding whose entries interact; leave max_norm and scale_grad_by_freq off")
        if isinstance(layer, (nn.Embedding, nn.EmbeddingBag)) and layer.sparse:
            raise Refused(f"{where} is an embedding with sparse gradients, but noise is dense; set sparse=False")
        if isinstance(layer, ScriptModule):
            raise Refused(
                f"{where} is a module of TorchScript, whose per-example gradients cannot be computed; train the module "
                "that it was made from, and script the trained copy"
            )
        if any(p._backward_hooks or p._post_accumulate_grad_hooks for p in layer.parameters(recurse=False)):
            raise Refused(
                f"{where} has a hook on the gradient of a parameter, which would not run on per-example gradients; "
                "remove the hook, and change the gradient in the optimiser"
            )
        if any(nn.parameter.is_lazy(parameter) for parameter in layer.parameters(recurse=False)):
            raise Refused(f"{where} is not initialised yet; call the module once on synthetic examples first")


def replace_batch_norm(module: nn.Module, groups: int = 16) -> nn.Module:
    """Return a copy of a module in which group norm replaces batch norm, so that it no longer mixes examples.

    Parameters
    ----------
    module : nn.Module
        The module; it is not changed.
    groups : int
        Largest number of groups of a layer. The layer has the largest number up to this that divides its number of
        channels.

    Returns
    -------
    nn.Module
        The copy, with the same values of all parameters; running means and variances are dropped.

    Examples
    --------
    >>> replace_batch_norm(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)))[1].num_groups
    8
    """
    expect_count("replace_batch_norm", groups=groups)
    replaced = copy.deepcopy(module)
    if isinstance(replaced, _BatchNorm):
        return _group_norm(replaced, groups)
    for parent in list(replaced.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, _BatchNorm):
                setattr(parent, name, _group_norm(child, groups))
    return replaced


def _group_norm(layer: Any, groups: int) -> nn.GroupNorm:
    count = max(n for n in range(1, groups + 1) if layer.num_features % n == 0)
    norm = nn.GroupNorm(count, layer.num_features, eps=layer.eps, affine=layer.affine)
    if layer.affine:
        norm.weight, norm.bias = layer.weight, layer.bias
    return norm.train(layer.training)
