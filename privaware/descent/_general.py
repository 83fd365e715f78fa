"""The way for any other differentiable layer: each row gets its own view of the parameters.

Parameters are expanded to one (unstored) copy for each row, the layer runs under `torch.func.vmap`, and the gradient by
the expanded parameters is the per-row gradient. It is exact, isolates rows, and materialises per-row gradients.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from privaware.descent._shares import Rows
from privaware.errors import Refused

if TYPE_CHECKING:
    from privaware.descent._stack import Stack

__all__ = ["general"]


def general(stack: Stack, layer: nn.Module) -> Callable[..., Any]:
    """Any module whose forward treats rows alike."""
    from privaware.descent._layers import rows_first

    plain = copy.deepcopy(layer)
    found = {local: stack.of(p) for local, p in layer.named_parameters()}
    names = {local: name for local, (name, _) in found.items()}
    values = {local: value for local, (_, value) in found.items() if value is not None}

    def one(parameters: dict[str, Tensor], given: dict[str, Any], args: tuple[Any, ...]) -> Any:
        rows = {key: _alone(value) for key, value in given.items()}
        full = tuple(rows.get(f"{at}", arg) for at, arg in enumerate(args))
        named = {key[1:]: value for key, value in rows.items() if key.startswith("=")}
        made = torch.func.functional_call(plain, parameters, full, named | fixed[0])
        return torch.utils._pytree.tree_map(lambda t: t.squeeze(0), made)

    fixed: list[dict[str, Any]] = [{}]

    def forward(*args: Any, **named: Any) -> Any:
        rows = stack.rows
        given = {f"{at}": arg for at, arg in enumerate(args) if _is_rows(arg, rows)}
        given |= {f"={key}": arg for key, arg in named.items() if _is_rows(arg, rows)}
        fixed[0] = {key: arg for key, arg in named.items() if f"={key}" not in given}
        if not given:
            raise Refused(f"{type(layer).__name__} is called without a tensor of rows in front")
        lead = len(next(iter(given.values())))
        rows_first(next(iter(given.values())), rows)
        models = stack.models
        leaves = {}
        for local, value in values.items():
            wide = value.expand(models, *value.shape[1:])[:, None]
            leaf = wide.expand(models, lead // models, *wide.shape[2:]).detach()
            leaves[local] = leaf.requires_grad_(names[local] is not None)
        split = {key: arg.view(models, lead // models, *arg.shape[1:]) for key, arg in given.items()}
        run = torch.func.vmap(
            torch.func.vmap(one, in_dims=(0, 0, None), randomness="different"),
            in_dims=(0, 0, None),
            randomness="different",
        )
        made = run(leaves, split, args)
        _record(stack, leaves, names, rows)
        return torch.utils._pytree.tree_map(lambda t: t.flatten(0, 1), made)

    return forward


def _record(stack: Stack, leaves: dict[str, Tensor], names: dict[str, str | None], rows: int) -> None:
    if not torch.is_grad_enabled():
        return
    for local, leaf in leaves.items():
        name = names[local]
        if name is None:
            continue

        def make(gradient: Tensor, name: str = name) -> list[tuple[str, Any]]:
            each = gradient.reshape(rows, -1, *gradient.shape[2:]).sum(1)
            return [(name, Rows(each))]

        stack.tape.edges.append(torch.autograd.graph.get_gradient_edge(leaf))
        stack.tape.makes.append(make)


def _is_rows(value: Any, rows: int) -> bool:
    return isinstance(value, Tensor) and value.ndim > 0 and rows > 0 and len(value) % rows == 0


def _alone(value: Any) -> Any:
    return value.unsqueeze(0) if isinstance(value, Tensor) else value
