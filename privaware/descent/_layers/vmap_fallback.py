"""The fallback for layers without a rule: `torch.func.vmap` over examples.

Each parameter is expanded, without a copy in memory, to one view for each example. The layer runs under
`torch.func.vmap`, and the gradient with respect to the expanded parameters is the per-example gradient. The fallback is
exact and keeps examples separate, but it materialises per-example gradients.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from privaware.descent._per_example import Materialised, PerExampleGradient
from privaware.descent._stack import Stack, check_batch_first
from privaware.errors import Refused


def vmap_fallback(stack: Stack, layer: nn.Module) -> Callable[..., Any]:
    """Return the replacement of the forward function of a module that has no rule, which records per-example gradients.

    The replacement raises `Refused` if it is called without a tensor whose first dimension counts examples.
    """
    plain = copy.deepcopy(layer, {id(buffer): buffer for buffer in layer.buffers()})
    parameters = {local: stack.parameter(p) for local, p in layer.named_parameters()}
    names = {local: name for local, (name, _) in parameters.items()}
    values = {local: value for local, (_, value) in parameters.items() if value is not None}

    def one(parameters: dict[str, Tensor], batched: dict[str, Any], seed: Tensor | None, args: tuple[Any, ...]) -> Any:
        if seed is not None:
            stack.draws = stack.expect_draws().alone(seed)
        alone = {key: value.unsqueeze(0) for key, value in batched.items()}
        full = tuple(alone.get(f"{at}", arg) for at, arg in enumerate(args))
        named = {key[1:]: value for key, value in alone.items() if key.startswith("=")}
        outputs = torch.func.functional_call(plain, parameters, full, named | unbatched[0])
        return torch.utils._pytree.tree_map(lambda t: t.squeeze(0), outputs)

    unbatched: list[dict[str, Any]] = [{}]

    def forward(*args: Any, **named: Any) -> Any:
        examples = stack.examples
        batched = {f"{at}": arg for at, arg in enumerate(args) if _is_batch(arg, examples)}
        batched |= {f"={key}": arg for key, arg in named.items() if _is_batch(arg, examples)}
        unbatched[0] = {key: arg for key, arg in named.items() if f"={key}" not in batched}
        if not batched:
            raise Refused(f"{type(layer).__name__} is called without a tensor whose first dimension counts examples")
        lead = len(next(iter(batched.values())))
        check_batch_first(next(iter(batched.values())), examples)
        models = stack.models
        leaves = {}
        for local, value in values.items():
            wide = value.expand(models, *value.shape[1:])[:, None]
            leaf = wide.expand(models, lead // models, *wide.shape[2:]).detach()
            leaves[local] = leaf.requires_grad_(names[local] is not None)
        split = {key: arg.view(models, lead // models, *arg.shape[1:]) for key, arg in batched.items()}
        draws = stack.draws
        seeds = None if draws is None else draws.of_rows(lead).view(models, -1)
        dims = (0, 0, None if seeds is None else 0, None)
        each = torch.func.vmap(one, in_dims=dims, randomness="different")
        outputs = torch.func.vmap(each, in_dims=dims, randomness="different")(leaves, split, seeds, args)
        stack.draws = draws
        _record(stack, leaves, names, examples)
        return torch.utils._pytree.tree_map(lambda t: t.flatten(0, 1), outputs)

    return forward


def _record(stack: Stack, leaves: dict[str, Tensor], names: dict[str, str | None], examples: int) -> None:
    for local, leaf in leaves.items():
        name = names[local]
        if name is None:
            continue

        def build(gradient: Tensor, name: str = name) -> list[tuple[str, PerExampleGradient]]:
            per_example = gradient.reshape(examples, -1, *gradient.shape[2:]).sum(1)
            return [(name, Materialised(per_example))]

        stack.record_leaf(leaf, build)


def _is_batch(value: Any, examples: int) -> bool:
    return isinstance(value, Tensor) and value.ndim > 0 and examples > 0 and len(value) % examples == 0
