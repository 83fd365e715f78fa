"""Pad fully connected models of different widths, activations and frozen layers to one shape, so that one stack fits.

1. Narrow models get padded units. A padded unit has zero weights in and out and outputs zero. So it changes no output,
   and its gradients are zero in every norm and sum.
2. If activations differ between models, each model selects its own for every unit (`PerUnitActivation`).
3. A mask keeps noise and updates away from padding, and from parameters that one model freezes and another trains. A
   frozen layer counts in no gradient norm of its model.

So each model is trained as if it were alone.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from privaware.descent._stack import Stack

PADDING_LIMIT = {"cpu": 1.5, "cuda": 2.0}
"""Largest ratio of parameters with padding to parameters without it for which one stack is faster than several."""

PADDING_ALLOWED = 4_000_000
"""Number of padding parameters that a GPU stack may always have, because kernel launches dominate for small models."""

ACTIVATIONS = (nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.SELU, nn.GELU, nn.SiLU, nn.Tanh, nn.Hardtanh, nn.Sigmoid)
"""Layers that act on each number separately."""

SHAPE_LAYERS = (nn.Dropout, nn.Flatten, nn.Identity)
"""Other layers without parameters that a padded model may have."""

Shapes = tuple[tuple[int, ...], ...]


class PerUnitActivation(nn.Module):
    """A layer that applies one of several activations to each unit; a unit without activation is padding (output 0).

    `kinds` are activation layers. The first `real` of `units` units have the activation `kinds[kind]`. `selected`
    (kinds, units) is 1 for the selected activation of a unit. It is a frozen parameter, so a stack holds the selection
    of each model.
    """

    def __init__(self, kinds: Sequence[nn.Module], kind: int, real: int, units: int) -> None:
        super().__init__()
        self.kinds = nn.ModuleList(kinds)
        selected = torch.zeros(len(kinds), units)
        selected[kind, :real] = 1
        self.selected = nn.Parameter(selected, requires_grad=False)

    def forward(self, inputs: Tensor) -> Tensor:
        return _activate(self.kinds, inputs, self.selected[None])


def per_unit_activation(stack: Stack, layer: PerUnitActivation) -> Callable[[Tensor], Tensor]:
    """Return the replacement of the layer's forward function, in which each model uses its own activations.

    It records no gradients, because the layer has no trainable parameters.
    """
    _, selected = stack.parameter(layer.selected)
    assert selected is not None
    return lambda inputs: _activate(layer.kinds, inputs, selected)


def _activate(kinds: Any, inputs: Tensor, selected: Tensor) -> Tensor:
    """Apply to `inputs` (models x examples, units) the activations that `selected` (models, kinds, units) names.

    `torch.where` drops the outputs of activations that were not selected, even if they are infinite.
    """
    by_model = inputs.view(len(selected), -1, inputs.shape[-1])
    outputs = torch.zeros_like(by_model)
    for at, kind in enumerate(kinds):
        outputs = torch.where(selected[:, at, None] != 0, kind(by_model), outputs)
    return outputs.view(inputs.shape)


class PaddedPopulation:
    """Copies of modules padded to one shape (`modules`), and the mask of the parameters that each module trains.

    `mask` (models, trainable) is 1 for parameters that a model trains, and 0 for padding and frozen ones. If modules
    have equal structure and shapes, or cannot be padded to one shape, `modules` are the originals and `mask` is None.
    """

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        self.originals = list(modules)
        self.modules = self.originals
        self.mask: Tensor | None = None
        alike = len({(_structure(module), _shapes(module)) for module in self.originals}) == 1
        chains = {_chain(module) for module in self.originals}
        if not alike and len(chains) == 1 and None not in chains:
            pairs = [_padded(module, self.originals) for module in self.originals]
            self.modules = [wide for wide, _ in pairs]
            self.mask = torch.stack([mask for _, mask in pairs])

    def unpadded(self, trained: Sequence[nn.Module]) -> list[nn.Module]:
        """Return copies of the original modules with the trained values; `trained` are in the order of the originals.

        If nothing was padded, `trained` are returned themselves.
        """
        if self.mask is None:
            return list(trained)
        modules = []
        for module, wide in zip(self.originals, trained, strict=True):
            narrow, values = copy.deepcopy(module), dict(wide.named_parameters())
            with torch.no_grad():
                for name, parameter in narrow.named_parameters():
                    if parameter.requires_grad:
                        parameter.copy_(values[name][_corner(parameter)])
            modules.append(narrow)
        return modules


def stackable_groups(
    modules: Sequence[nn.Module], device: str, per_layer: bool = False, padded: bool = True
) -> list[list[int]]:
    """Return groups of positions in `modules`; the modules of a group are trained in one stack.

    The modules of a group have equal structure and shapes, unless they are fully connected modules that can be padded
    to the same shape (`padded`). Padded modules may differ in widths, if padding is cheaper than another stack. On a
    GPU without `per_layer` clipping they may also differ in activations and frozen layers. On a CPU activations and
    frozen layers must agree, because computing activations that were not selected would cost as much as a stack saves.
    With `per_layer` clipping activations and frozen layers must agree, because a layer's clipping norm depends on how
    many layers are trained. The positions of a group ascend.
    """
    cpu = str(device).startswith("cpu")
    strict = cpu or per_layer or not padded
    structures = [_structure(module) for module in modules]
    chains = [_chain(module) for module in modules]
    kinds = [structure if strict or not chain else chain for structure, chain in zip(structures, chains)]
    groups = []
    for kind in dict.fromkeys(kinds):
        same = [at for at, other in enumerate(kinds) if other == kind]
        shapes = {at: _shapes(modules[at]) for at in same}
        if padded and chains[same[0]]:
            groups += _by_size(shapes, cpu)
        else:
            groups += [[at for at in same if shapes[at] == shape] for shape in dict.fromkeys(shapes.values())]
    return groups


def _by_size(shapes: dict[int, Shapes], cpu: bool) -> list[list[int]]:
    """Return groups of module positions for stacks, filled from the largest module to the smallest.

    `shapes` has the parameter shapes of each module, by its position. A module starts a new group if the last group
    would have too many parameters with it, padding included. On a CPU the limit is `PADDING_LIMIT["cpu"]` times the
    number without padding. On a GPU it is `PADDING_LIMIT["cuda"]` times that number, or `PADDING_ALLOWED` more than
    that number if this is larger.
    """
    groups: list[list[int]] = []
    for at in sorted(shapes, key=lambda at: (-_count(shapes[at]), shapes[at])):
        if groups and _pays([shapes[other] for other in (*groups[-1], at)], cpu):
            groups[-1].append(at)
        else:
            groups.append([at])
    return [sorted(group) for group in groups]


def _pays(shapes: list[Shapes], cpu: bool) -> bool:
    real = sum(map(_count, shapes))
    padded = len(shapes) * _count(_widest(shapes))
    limit = PADDING_LIMIT["cpu"] * real if cpu else max(PADDING_LIMIT["cuda"] * real, real + PADDING_ALLOWED)
    return padded <= limit


def _widest(shapes: Sequence[Shapes]) -> Shapes:
    return tuple(tuple(max(sizes) for sizes in zip(*same, strict=True)) for same in zip(*shapes, strict=True))


def _count(shapes: Shapes) -> int:
    return sum(map(math.prod, shapes))


def _shapes(module: nn.Module) -> Shapes:
    return tuple(tuple(parameter.shape) for parameter in module.parameters())


def _structure(module: nn.Module) -> tuple[Any, ...]:
    """Return the facts in which all modules of a stack must agree: types, settings, buffers and frozen parameters."""
    parts = [(type(part), _settings(part)) for part in module.modules()]
    buffers = [(name, _bytes(value)) for name, value in module.named_buffers()]
    return tuple(parts), tuple(buffers), tuple(p.requires_grad for p in module.parameters())


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
    """Return the facts in which models of a padded stack must agree.

    These are input and output width, and the order of layers with their names, which linear layers have a bias, which
    are frozen in part, and the training modes of activations. Before the first linear layer, and for dropout, flatten
    and identity, types and settings must agree too. Widths between layers and activations after the first linear layer
    may differ. Return None if the module cannot be padded, for example because it uses an object twice, or because a
    linear layer has other inputs than the outputs of the linear layer before it, as after flattening.
    """
    parts = [part for part in module.modules() if list(part.children())]
    if not parts or any(type(part) is not nn.Sequential for part in parts) or _shares_objects(module):
        return None
    chain: list[Any] = []
    widths: list[int] = []
    for name, leaf in _leaves(module):
        if type(leaf) is nn.Linear:
            if widths and leaf.in_features != widths[-1]:
                return None
            chain.append((name, "linear", leaf.bias is None, _frozen_in_part(leaf)))
            widths += [leaf.in_features, leaf.out_features]
        elif type(leaf) in ACTIVATIONS and widths:
            chain.append((name, "activation", leaf.training))
        elif type(leaf) in (*ACTIVATIONS, *SHAPE_LAYERS):
            chain.append((name, type(leaf), _settings(leaf)))
        else:
            return None
    return (*chain, widths[0], widths[-1]) if widths else None


def _shares_objects(module: nn.Module) -> bool:
    """Return whether a module or parameter is used twice; padded copies would no longer share it."""
    modules = [id(part) for _, part in module.named_modules(remove_duplicate=False)]
    values = [id(value) for _, value in module.named_parameters(remove_duplicate=False)]
    return any(len(set(all_of)) < len(all_of) for all_of in (modules, values))


def _frozen_in_part(layer: nn.Linear) -> tuple[bool, ...] | None:
    """Return for each parameter of a partly frozen `layer` whether it is trained; None if all or none are trained.

    All models of a padded stack must agree in this result, because gradient norms are computed for whole layers.
    """
    flags = tuple(parameter.requires_grad for parameter in layer.parameters())
    return flags if len(set(flags)) > 1 else None


def _leaves(module: nn.Module) -> list[tuple[str, nn.Module]]:
    return [(name, part) for name, part in module.named_modules() if not list(part.children())]


def _padded(module: nn.Module, modules: list[nn.Module]) -> tuple[nn.Module, Tensor]:
    """Return a copy of `module` that is as wide at every layer as the widest of `modules`, and its training mask.

    The flat mask is 1 for parameters that `module` trains and 0 for padding and frozen parameters.
    """
    wide = copy.deepcopy(module)
    everyone = [dict(other.named_modules()) for other in modules]
    masks: list[Tensor] = []
    real = units = narrowest = 0
    for name, leaf in _leaves(module):
        same = [other[name] for other in everyone]
        if isinstance(leaf, nn.Linear):
            padded, layer_masks = _padded_linear(leaf, same)
            wide.set_submodule(name, padded)
            masks += layer_masks
            real, units = leaf.out_features, padded.out_features
            narrowest = min(other.out_features for other in same)
        elif isinstance(leaf, ACTIVATIONS):
            kinds = {(type(other), _settings(other)): other for other in same}
            nonzero = any(float(other(torch.zeros(()))) != 0 for other in same)
            if units and (len(kinds) > 1 or (units > narrowest and nonzero)):
                kind = list(kinds).index((type(leaf), _settings(leaf)))
                copies = [copy.deepcopy(other) for other in kinds.values()]
                wide.set_submodule(name, PerUnitActivation(copies, kind, real, units))
    return wide, torch.cat(masks)


def _padded_linear(layer: nn.Linear, same: Sequence[Any]) -> tuple[nn.Linear, list[Tensor]]:
    """Return a copy of `layer` padded with zeros to the largest shape of `same`, and a list of flat masks.

    `same` are the layers of all models at the same place. There is one mask for each parameter (weight, bias) that some
    model trains: 1 for numbers that `layer` trains, and 0 for padding and frozen numbers.
    """
    padded, masks = copy.deepcopy(layer), []
    for name, parameter in layer.named_parameters():
        others = [getattr(other, name) for other in same]
        shape = _widest([(tuple(other.shape),) for other in others])[0]
        values, mask = parameter.new_zeros(shape), parameter.new_zeros(shape)
        values[_corner(parameter)] = parameter.detach()
        mask[_corner(parameter)] = float(parameter.requires_grad)
        trained = any(other.requires_grad for other in others)
        setattr(padded, name, nn.Parameter(values, requires_grad=trained))
        if trained:
            masks.append(mask.flatten())
    padded.out_features, padded.in_features = padded.weight.shape
    return padded, masks


def _corner(values: Tensor) -> tuple[slice, ...]:
    return tuple(slice(0, size) for size in values.shape)
