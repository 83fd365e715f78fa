"""Materialise per-example gradients for some examples at a time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from torch import Tensor

from privaware.descent._example_sums import materialised_limit
from privaware.descent._layers.convolution import ConvolutionGradient
from privaware.descent._per_example import OuterProduct, PerExampleGradient

FLOATS_AT_ONCE = 2**22
"""Number of floats of per-example gradients that a CPU materialises at once."""


def example_slices(use: PerExampleGradient, models: int, examples: int) -> Iterator[tuple[int, slice, Tensor]]:
    """Yield the per-example gradients `use` of one parameter in slices of examples.

    Each item is (model number, slice, gradients). The slice counts from the model's first example, and the gradients
    are (examples of the slice, *shape of the parameter). `examples` is the number of examples of all `models`. If the
    gradients are not in memory already, they are materialised for one slice at a time.
    """
    each = examples // models
    complete, size = None, _at_once(use)
    if size is None:
        complete, size = use.materialise(), each
    for model, start in itertools.product(range(models), range(0, each, max(size, 1))):
        part = slice(start, min(start + size, each))
        among_all = slice(model * each + part.start, model * each + part.stop)
        yield model, part, _some(use, among_all) if complete is None else complete[among_all]


def _at_once(use: PerExampleGradient) -> int | None:
    """Return how many examples of `use` to materialise at once, or None if all gradients are in memory already."""
    if isinstance(use, ConvolutionGradient) and use.materialised is None:
        numbers = use.weight[0].numel()
    elif isinstance(use, OuterProduct) and use.materialised is None:
        numbers = use.inputs.shape[-1] * use.gradients.shape[-1]
    else:
        return None
    device = use.inputs.device
    return max(1, (FLOATS_AT_ONCE if device.type == "cpu" else materialised_limit(device)) // numbers)


def _some(use: PerExampleGradient, part: slice) -> Tensor:
    if isinstance(use, ConvolutionGradient):
        return use.chunk(part).materialise()
    assert isinstance(use, OuterProduct)
    return OuterProduct(use.inputs[part], use.gradients[part]).materialise()
