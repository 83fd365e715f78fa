"""The populations of a sweep: which trials train together, with which descent, and on which device."""

from __future__ import annotations

import copy
import json
from collections import OrderedDict
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from privaware import models
from privaware.errors import WrongInput
from research.studies._trials import Rows, Setting, Trial

__all__ = ["descent_for", "module", "on_device", "populations"]

KEPT = 6
"""Number of arrays that stay on a device from one population to the next."""


def populations(todo: dict[str, Trial], device: str) -> Iterator[list[str]]:
    """Yield the keys of trials that train together: they have the same recipe and networks that fit one stack."""
    recipes: dict[tuple[Any, ...], list[str]] = {}
    for key, trial in todo.items():
        recipes.setdefault(trial.setting.recipe, []).append(key)
    built: dict[str, Any] = {}
    for keys in recipes.values():
        kinds = [_kind(todo[key]) for key in keys]
        for kind, key in zip(kinds, keys, strict=True):
            if kind not in built:  # only shapes matter, so one network of a kind is enough
                built[kind] = module(todo[key])
        for stack in _stacks([built[kind] for kind in kinds], device):
            yield [keys[at] for at in stack]


def _stacks(modules: list[Any], device: str) -> Iterator[list[int]]:
    """Split until no part splits further, because scores are computed for one stack."""
    from privaware.descent._layers.padded_population import stackable_groups

    parts = stackable_groups(modules, device)
    if len(parts) == 1:
        yield list(range(len(modules)))
        return
    for part in parts:
        for inner in _stacks([modules[at] for at in part], device):
            yield [part[at] for at in inner]


def _kind(trial: Trial) -> str:
    """Return a key of the networks that differ only in the values of their parameters."""
    return json.dumps([trial.setting.architecture, trial.setting.trainable], sort_keys=True)


def descent_for(first: Setting, rows: Rows, device: str) -> Any:
    """Return the descent that all trials of a population share."""
    from privaware import descent

    rate = min(1.0, first.batch / len(rows.x))
    sgd = descent.momentum(first.lr, first.momentum) if first.momentum else descent.sgd(first.lr)
    return descent.Descent(
        steps=first.steps,
        sampler=descent.FullBatch() if rate == 1 else descent.Poisson(rate=rate),
        clip=descent.flat(1.0),
        update=sgd,
        average=descent.tail(first.average) if first.average else None,
        loss=descent.cross_entropy if rows.classes else descent.squared,
        precision=first.precision,
        overflow=1e-10 if device != "cpu" and rate < 1 else 0.0,
    )


_on_device: OrderedDict[tuple[int, str], tuple[np.ndarray, Any]] = OrderedDict()


def on_device(values: np.ndarray, device: str) -> Any:
    """Return the array as a tensor on the device; the last `KEPT` arrays stay there, because sweeps reuse rows."""
    if device == "cpu":
        return _tensor(values)
    key = (id(values), device)
    if key not in _on_device:  # the array is kept as well, so that its id is not reused
        _on_device[key] = (values, _tensor(values).to(device))
    _on_device.move_to_end(key)
    while len(_on_device) > KEPT:
        _on_device.popitem(last=False)
    return _on_device[key][1]


def module(trial: Trial) -> Any:
    """Return the network with its initial weights, with the layers that are not trained frozen."""
    described = json.dumps(trial.setting.architecture)
    network = copy.deepcopy(_initialised(described, trial.seed, trial.setting.initial))
    flags = trial.setting.trainable
    if flags is None:
        return network
    owners = [part for part in network.modules() if any(True for _ in part.parameters(False))]
    if len(flags) != len(owners) or not any(flags):
        raise WrongInput(
            f"expected {len(owners)} flags, one for each layer with parameters and one of them true, got {flags!r}"
        )
    for part, flag in zip(owners, flags, strict=True):
        part.requires_grad_(flag)
    return network


@lru_cache(maxsize=64)
def _initialised(described: str, seed: int, initial: str) -> Any:
    """Return a network with its initial weights; settings that differ elsewhere start from the same weights."""
    network = models.build(json.loads(described), np.random.default_rng(seed))
    if initial == "glorot":
        _initialise_as_keras(network, seed)
    return network


def _initialise_as_keras(module: Any, seed: int) -> None:
    """Initialise dense layers and convolutions as Keras does: Glorot uniform weights, zero biases."""
    import torch
    from torch import nn

    generator = torch.Generator().manual_seed(seed)
    for part in module.modules():
        if isinstance(part, (nn.Linear, nn.Conv2d)):
            nn.init.xavier_uniform_(part.weight, generator=generator)
            if part.bias is not None:
                nn.init.zeros_(part.bias)


def _tensor(values: np.ndarray) -> Any:
    import torch

    tensor = torch.from_numpy(np.ascontiguousarray(values))
    return tensor if values.dtype.kind in "iu" else tensor.float()
