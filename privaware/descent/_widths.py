"""Fully connected models of different widths, activations and frozen layers as one stack.

Narrow models get units that stay zero: a padded unit has zero weights in and out and puts out zero, so it changes no
output and its gradients are zero in every norm and sum. Where activations differ, each model picks its own at every
place (`Choice`). What is padding, or frozen in one model though others train it, is masked: no noise and no update
reaches it, and a frozen layer counts in no norm of its model. So each model is trained as if alone.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["Choice", "Widened", "choose", "together"]

WASTE = {"cpu": 1.5, "cuda": 2.0}
"""Padded over real parameters up to which one stack beats several."""
SPARE = 4_000_000
"""So many padded parameters are always worth a stack on a GPU: small models wait for launches, not for arithmetic."""

ACTIVATIONS = (nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.SELU, nn.GELU, nn.Tanh, nn.Hardtanh, nn.Sigmoid)
"""Layers that change each number by itself, whatever the row or unit."""
WIRES = (nn.Dropout, nn.Flatten, nn.Identity)

Shape = tuple[tuple[int, ...], ...]


class Choice(nn.Module):
    """One of several activations, unit by unit; units that chose none are padding and put out zero.

    `chosen` (kinds, units) is a parameter that is never trained, so that a stack holds each model's own.
    """

    def __init__(self, kinds: Sequence[nn.Module], own: int, real: int, units: int) -> None:
        super().__init__()
        self.kinds = nn.ModuleList(kinds)
        chosen = torch.zeros(len(kinds), units)
        chosen[own, :real] = 1
        self.chosen = nn.Parameter(chosen, requires_grad=False)

    def forward(self, inputs: Tensor) -> Tensor:
        return choose(self.kinds, inputs, self.chosen[None])


def choose(kinds: Any, inputs: Tensor, chosen: Tensor) -> Tensor:
    """Model-major rows (models x rows, units) after the activations that `chosen` (models, kinds, units) names.

    What was not chosen is left out by `where`, so that an infinity there spoils nothing.
    """
    rows = inputs.view(len(chosen), -1, inputs.shape[-1])
    made = torch.zeros_like(rows)
    for at, kind in enumerate(kinds):
        made = torch.where(chosen[:, at, None] != 0, kind(rows), made)
    return made.view(inputs.shape)


class Widened:
    """Modules made alike, with the mask of what each trains; those already alike stay as they are."""

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        self.given = list(modules)
        self.modules = self.given
        self.mask: Tensor | None = None
        alike = len({(_nature(module), _shape(module)) for module in self.given}) == 1
        if not alike and len({_chain(module) for module in self.given} | {None}) == 2:
            pairs = [_widen(module, self.given) for module in self.given]
            self.modules = [wide for wide, _ in pairs]
            self.mask = torch.stack([mask for _, mask in pairs])

    def narrowed(self, trained: Sequence[nn.Module]) -> list[nn.Module]:
        """The trained modules in their own widths."""
        if self.mask is None:
            return list(trained)
        out = []
        for module, wide in zip(self.given, trained, strict=True):
            made, values = copy.deepcopy(module), dict(wide.named_parameters())
            with torch.no_grad():
                for name, place in made.named_parameters():
                    if place.requires_grad:
                        place.copy_(values[name][_corner(place)])
            out.append(made)
        return out


def together(modules: Sequence[nn.Module], device: str, by_layer: bool = False) -> list[list[int]]:
    """Which modules are stepped in one stack: alike but for what may be widened, if the padding pays.

    On a CPU activations and frozen layers have to agree: to compute what a model did not choose would cost as much as
    a stack saves. So they have where each layer is clipped `by_layer`: its bound depends on how many are trained.
    """
    slow = str(device).startswith("cpu")
    strict = slow or by_layer
    natures = [_nature(module) for module in modules]
    chains = [_chain(module) for module in modules]
    kinds = [nature if strict or not chain else chain for nature, chain in zip(natures, chains)]
    groups = []
    for kind in dict.fromkeys(kinds):
        own = [at for at, other in enumerate(kinds) if other == kind]
        shapes = {at: _shape(modules[at]) for at in own}
        groups += _by_size(shapes, slow) if chains[own[0]] else _by_shape(shapes)
    return groups


def _by_shape(shapes: dict[int, Shape]) -> list[list[int]]:
    return [[at for at, other in shapes.items() if other == shape] for shape in dict.fromkeys(shapes.values())]


def _by_size(shapes: dict[int, Shape], slow: bool) -> list[list[int]]:
    """From the largest down, each into the stack before it unless too much of that would be padding."""
    groups: list[list[int]] = []
    for at in sorted(shapes, key=lambda at: (-_count(shapes[at]), shapes[at])):
        if groups and _pays([shapes[other] for other in (*groups[-1], at)], slow):
            groups[-1].append(at)
        else:
            groups.append([at])
    return [sorted(group) for group in groups]


def _pays(shapes: list[Shape], slow: bool) -> bool:
    real = sum(map(_count, shapes))
    padded = len(shapes) * _count(_widest(shapes))
    most = WASTE["cpu"] * real if slow else max(WASTE["cuda"] * real, real + SPARE)
    return padded <= most


def _widest(shapes: Sequence[Shape]) -> Shape:
    return tuple(tuple(max(sizes) for sizes in zip(*same, strict=True)) for same in zip(*shapes, strict=True))


def _count(shape: Shape) -> int:
    return sum(map(math.prod, shape))


def _shape(module: nn.Module) -> Shape:
    return tuple(tuple(parameter.shape) for parameter in module.parameters())


def _nature(module: nn.Module) -> tuple[Any, ...]:
    """What a stack takes from its first module, so all have to agree: kinds, settings, buffers, what is frozen."""
    parts = [(type(part), _settings(part)) for part in module.modules()]
    kept = [(name, _bytes(value)) for name, value in module.named_buffers()]
    return tuple(parts), tuple(kept), tuple(p.requires_grad for p in module.parameters())


def _bytes(values: Tensor) -> bytes:
    return values.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes()


def _settings(part: nn.Module) -> tuple[tuple[str, Any], ...]:
    sizes = ("in_features", "out_features") if isinstance(part, nn.Linear) else ()
    plain = {
        name: value
        for name, value in vars(part).items()
        if isinstance(value, (bool, int, float, str, tuple)) and name not in sizes
    }
    return tuple(sorted(plain.items(), key=lambda item: item[0]))


def _chain(module: nn.Module) -> tuple[Any, ...] | None:
    """What may not differ in a widened stack: the order of linear layers, activations and wires, and both ends.

    None where padding would not stay apart: an object in two places, or positions flattened between two layers.
    """
    parts = [part for part in module.modules() if list(part.children())]
    if not parts or any(type(part) is not nn.Sequential for part in parts) or _repeats(module):
        return None
    found: list[Any] = []
    ends: list[int] = []
    for name, leaf in _leaves(module):
        if type(leaf) is nn.Linear:
            if ends and leaf.in_features != ends[-1]:
                return None
            found.append((name, "linear", leaf.bias is None, _frozen_in_part(leaf)))
            ends += [leaf.in_features, leaf.out_features]
        elif type(leaf) in ACTIVATIONS and ends:
            found.append((name, "activation", leaf.training))
        elif type(leaf) in (*ACTIVATIONS, *WIRES):
            found.append((name, type(leaf), _settings(leaf)))
        else:
            return None
    return (*found, ends[0], ends[-1]) if ends else None


def _repeats(module: nn.Module) -> bool:
    """Whether an object stands in two places, so that a copy in each would no longer be one."""
    modules = [id(part) for _, part in module.named_modules(remove_duplicate=False)]
    values = [id(value) for _, value in module.named_parameters(remove_duplicate=False)]
    return any(len(set(all_of)) < len(all_of) for all_of in (modules, values))


def _frozen_in_part(layer: nn.Linear) -> tuple[bool, ...] | None:
    """What is trained of a layer that is neither trained nor frozen whole: a norm counts layers, not parts."""
    flags = tuple(parameter.requires_grad for parameter in layer.parameters())
    return flags if len(set(flags)) > 1 else None


def _leaves(module: nn.Module) -> list[tuple[str, nn.Module]]:
    return [(name, part) for name, part in module.named_modules() if not list(part.children())]


def _widen(module: nn.Module, modules: list[nn.Module]) -> tuple[nn.Module, Tensor]:
    """A copy of `module` as wide as the widest at every place, and the flat mask of what it trains."""
    wide = copy.deepcopy(module)
    everyone = [dict(other.named_modules()) for other in modules]
    masks: list[Tensor] = []
    real = units = narrowest = 0
    for name, leaf in _leaves(module):
        same = [other[name] for other in everyone]
        if isinstance(leaf, nn.Linear):
            grown, own = _grown(leaf, same)
            wide.set_submodule(name, grown)
            masks += own
            real, units = leaf.out_features, grown.out_features
            narrowest = min(other.out_features for other in same)
        elif isinstance(leaf, ACTIVATIONS):
            kinds = {(type(other), _settings(other)): other for other in same}
            lifted = any(float(other(torch.zeros(()))) != 0 for other in same)
            if units and (len(kinds) > 1 or (units > narrowest and lifted)):
                place = list(kinds).index((type(leaf), _settings(leaf)))
                wide.set_submodule(name, Choice([copy.deepcopy(k) for k in kinds.values()], place, real, units))
    return wide, torch.cat(masks)


def _grown(layer: nn.Linear, same: Sequence[Any]) -> tuple[nn.Linear, list[Tensor]]:
    """A linear layer of the widest shape, and the masks of its parameters that some model trains."""
    made, masks = copy.deepcopy(layer), []
    for name, own in layer.named_parameters():
        others = [getattr(other, name) for other in same]
        shape = _widest([(tuple(other.shape),) for other in others])[0]
        values, mask = own.new_zeros(shape), own.new_zeros(shape)
        values[_corner(own)] = own.detach()
        mask[_corner(own)] = float(own.requires_grad)
        trained = any(other.requires_grad for other in others)
        setattr(made, name, nn.Parameter(values, requires_grad=trained))
        if trained:
            masks.append(mask.flatten())
    made.out_features, made.in_features = made.weight.shape
    return made, masks


def _corner(values: Tensor) -> tuple[slice, ...]:
    return tuple(slice(0, size) for size in values.shape)
