"""Write the weights files that the package ships and reads: networks and statistics, rounded to few bits.

The package reads them by `features/_rounded_tensors.py`, `features/_prior` and `learners/_table_network.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor, nn

from privaware.features._prior.scattering import ScatteringStatistics
from privaware.features._prior.student import Student
from privaware.features._prior.views import ViewStatistics
from privaware.features._prior.whitening import Statistics, powers
from privaware.features._rounded_tensors import DIAGONAL, SCALE, common_scales
from privaware.learners._table_network import TableNetwork

__all__ = [
    "rounded",
    "rounded_symmetric",
    "save_prior",
    "save_student",
    "save_table_network",
    "save_views",
    "statistics_metadata",
    "statistics_tensors",
]

LEVELS = 127
"""Largest absolute value of the integer that replaces an entry."""
FEWEST_ENTRIES = 50_000
"""Tensors with fewer entries are stored in half precision: they are small, and early layers need the precision."""


def rounded(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors to store in place of `tensors`, by name.

    A tensor of at least two axes and `FEWEST_ENTRIES` entries is replaced by integers (int8) and their scales. The
    scales belong to the channels of its first or its second axis, whichever gives the smaller squared error. Other
    tensors are stored in half precision.
    """
    stored: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        value = tensor.detach().cpu()
        if value.ndim < 2 or value.numel() < FEWEST_ENTRIES:
            stored[name] = value.half().contiguous()
        else:
            whole, scale = min((_rounded_along(value.float(), axis) for axis in (0, 1)), key=lambda p: _error(value, p))
            stored |= {name: whole.contiguous(), name + SCALE: scale}
    return stored


def rounded_symmetric(name: str, matrix: Tensor) -> dict[str, Tensor]:
    """Return the tensors, by name, to store in place of the symmetric `matrix` called `name`.

    Entries above the diagonal, row by row, become eight-bit integers. Row i has the scale s[i] = (largest absolute
    entry of the row outside the diagonal) / LEVELS, and the integer of entry (i, j) counts multiples of min(s[i],
    s[j]). The scales and, in half precision, the diagonal are stored beside the integers.
    """
    diagonal = matrix.diagonal()
    scale = _scale((matrix - torch.diag(diagonal)).abs().amax(1))
    at = torch.triu_indices(len(matrix), len(matrix), offset=1)
    whole = (matrix[at[0], at[1]] / common_scales(scale, at)).round().clamp(-LEVELS, LEVELS).to(torch.int8)
    return {name: whole, name + SCALE: scale, name + DIAGONAL: diagonal.half()}


def _scale(largest: Tensor) -> Tensor:
    """Return `largest / LEVELS` for each largest absolute value in `largest`, and 1 where it is 0."""
    scale = largest / LEVELS
    return torch.where(scale > 0, scale, 1.0)


def _rounded_along(tensor: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Return `tensor / scale` rounded to integers (int8), and `scale`, which has one value for each index of `axis`."""
    scale = _scale(tensor.abs().amax([other for other in range(tensor.ndim) if other != axis], keepdim=True))
    return (tensor / scale).round().to(torch.int8), scale


def _error(tensor: Tensor, stored: tuple[Tensor, Tensor]) -> float:
    """Return the sum of squared differences between `tensor` and `stored`, its integers and scales."""
    return float((stored[0] * stored[1] - tensor).square().sum())


def statistics_tensors(statistics: Statistics) -> dict[str, Tensor]:
    """Return the tensors to store for `statistics`, by name.

    They are means and scales in half precision, and the square roots of covariances in eight bits.
    """
    tensors = {}
    for depth, mean, scale in zip(statistics.depths, statistics.means, statistics.scales, strict=True):
        tensors[f"mean.{depth}"], tensors[f"scale.{depth}"] = mean.half(), scale.half()
    for mode, block in enumerate(statistics.covariances):
        tensors |= rounded_symmetric(f"root.{mode}", powers([block], -0.5, share=0.0)[0])
    return tensors


def statistics_metadata(statistics: Statistics) -> dict[str, str]:
    """Return `depths` and `pools` as the metadata to store, each as JSON text."""
    return {"depths": json.dumps(statistics.depths), "pools": json.dumps(statistics.pools)}


def scattering_tensors(statistics: ScatteringStatistics) -> dict[str, Tensor]:
    """Return the tensors to store by name: mean and scale in single precision, the covariance in half precision.

    Of the covariance only the upper triangle is stored. Scales span decades, so they need single precision.
    """
    at = torch.triu_indices(*statistics.covariance.shape)
    return {
        "scatter.mean": statistics.mean,
        "scatter.scale": statistics.scale,
        "scatter.covariance": statistics.covariance[at[0], at[1]].half(),
    }


def save_prior(
    file: Path,
    network: nn.Module,
    statistics: Statistics,
    scattering: ScatteringStatistics | None,
    normed: bool,
    metadata: Mapping[str, str],
) -> None:
    """Write a weights file of the feature `prior`, without pickle, in reduced precision.

    The network and the square roots of covariances are stored in eight bits, most other tensors in float16. Means and
    scales of scattering coefficients stay in single precision. `statistics` are of the feature maps of `network`, and
    `scattering` are of scattering coefficients, or None to leave them out. `normed` tells whether `statistics` are of
    maps after the next group norm. `metadata` is stored as text and must contain "depth" and "width", and "stride"
    unless it is 1, for `load`.
    """
    from safetensors.torch import save_file

    tensors = rounded({f"network.{name}": value for name, value in network.state_dict().items()})
    tensors |= statistics_tensors(statistics) | ({} if scattering is None else scattering_tensors(scattering))
    save_file(tensors, str(file), {**metadata, **statistics_metadata(statistics), "normed": str(int(normed))})


def save_student(file: Path, student: Student, metadata: Mapping[str, str]) -> None:
    """Save a folded student, rounded to eight bits, and `metadata` (how it was computed), without pickle."""
    from safetensors.torch import save_file

    save_file(rounded(student.state_dict()), str(file), {**metadata, "shape": json.dumps(asdict(student.shape))})


def save_views(file: Path, statistics: ViewStatistics, metadata: Mapping[str, str]) -> None:
    """Save the statistics to `file`, without pickle, with the given `metadata` instead of `statistics.metadata`."""
    from safetensors.torch import save_file

    dictionary, codes = statistics.dictionary, statistics.codes
    exact = {f"dictionary.{name}": getattr(dictionary, name) for name in ("mean", "white")}
    exact |= {f"codes.{name}": getattr(codes, name) for name in ("mean", "scale", "factors")}
    exact |= {"codes.rest": torch.tensor([codes.rest])}
    tensors = statistics_tensors(statistics.maps) | {name: value.cpu() for name, value in exact.items()}
    tensors |= rounded({"dictionary.entries": dictionary.entries, "codes.directions": codes.directions})
    facts = {**metadata, **statistics_metadata(statistics.maps), "dictionary_depth": str(statistics.depth)}
    save_file({name: value.contiguous() for name, value in tensors.items()}, str(file), facts)


def save_table_network(file: Path, network: TableNetwork, metadata: Mapping[str, str]) -> None:
    """Write the weights of `network` to `file`, as a safetensors file in half precision.

    `metadata` is text about how the weights were made; "width", "blocks" and "heads" of the network are added to it.
    """
    from safetensors.torch import save_file

    tensors = {name: value.detach().cpu().half().contiguous() for name, value in network.state_dict().items()}
    width, blocks, heads = network.shape
    save_file(tensors, str(file), {**metadata, "width": str(width), "blocks": str(blocks), "heads": str(heads)})
