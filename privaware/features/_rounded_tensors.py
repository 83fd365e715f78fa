"""Tensors of weights files rounded to eight bits: integers from -127 to 127, times one scale for each channel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

from privaware.errors import WrongInput

__all__ = ["read_rounded", "restored", "restored_symmetric", "rounded", "rounded_symmetric", "symmetric"]

LEVELS = 127
"""Largest absolute value of the integer that replaces an entry."""
FEWEST_ENTRIES = 50_000
"""Tensors with fewer entries are stored in half precision: they are small, and early layers need the precision."""
SCALE = ".scale_of_int8"
"""Suffix of the name under which the scales of a rounded tensor are stored."""
DIAGONAL = ".diagonal"
"""Suffix of the name under which the diagonal of a rounded symmetric matrix is stored."""


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


def restored(stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors by name from `stored`, a result of `rounded`.

    Tensors that were rounded to eight bits are float32 again; all others stay as they are, in half precision.
    """
    whole = {name for name, value in stored.items() if value.dtype == torch.int8 and value.ndim > 1}
    scales = {name + SCALE for name in whole}
    return {
        name: value.float() * stored[name + SCALE] if name in whole else value
        for name, value in stored.items()
        if name not in scales
    }


@contextmanager
def read_rounded(file: str | Path, feature: str, item: str) -> Iterator[tuple[dict[str, Tensor], dict[str, str]]]:
    """Provide the `restored` tensors of a weights file, and its metadata.

    Raise `WrongInput` if the file cannot be read, or if the `with` block fails on its content: then the file is not as
    `privaware reproduce ITEM` writes it. `feature` is the name of the feature in this message, and `item` is ITEM.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(file), framework="pt") as opened:
            tensors = restored({name: opened.get_tensor(name) for name in opened.keys()})  # noqa: SIM118
            metadata = opened.metadata() or {}
        yield tensors, metadata
    except (SafetensorError, OSError, KeyError, ValueError, TypeError, RuntimeError) as problem:
        reason = " ".join(str(problem).split())
        raise WrongInput(
            f"{feature}: expected {Path(file).name!r} as `privaware reproduce {item}` writes it: {reason:.160}"
        ) from None


def symmetric(upper: Tensor, size: int) -> Tensor:
    """Return the symmetric float32 matrix (size, size) whose upper triangle, row by row, is the vector `upper`.

    The diagonal is part of `upper`, which has size * (size + 1) / 2 entries.
    """
    matrix, at = torch.zeros(size, size), torch.triu_indices(size, size)
    matrix[at[0], at[1]] = upper.float()
    return matrix + matrix.triu(1).T


def rounded_symmetric(name: str, matrix: Tensor) -> dict[str, Tensor]:
    """Return the tensors, by name, to store in place of the symmetric `matrix` called `name`.

    Entries above the diagonal, row by row, become eight-bit integers. Row i has the scale s[i] = (largest absolute
    entry of the row outside the diagonal) / LEVELS, and the integer of entry (i, j) counts multiples of min(s[i],
    s[j]). The scales and, in half precision, the diagonal are stored beside the integers.
    """
    diagonal = matrix.diagonal()
    scale = _scale((matrix - torch.diag(diagonal)).abs().amax(1))
    at = torch.triu_indices(len(matrix), len(matrix), offset=1)
    whole = (matrix[at[0], at[1]] / _common_scales(scale, at)).round().clamp(-LEVELS, LEVELS).to(torch.int8)
    return {name: whole, name + SCALE: scale, name + DIAGONAL: diagonal.half()}


def restored_symmetric(name: str, stored: Mapping[str, Tensor]) -> Tensor:
    """Return the matrix called `name` in float32 from `stored`, which has the tensors of `rounded_symmetric`."""
    scale = stored[name + SCALE]
    at = torch.triu_indices(len(scale), len(scale), offset=1)
    upper = torch.zeros(len(scale), len(scale))
    upper[at[0], at[1]] = stored[name].float() * _common_scales(scale, at)
    return upper + upper.T + torch.diag(stored[name + DIAGONAL].float())


def _common_scales(scale: Tensor, at: Tensor) -> Tensor:
    """Return min(scale[i], scale[j]) for entries (i, j) of a symmetric matrix; `at` is (2, entries): all i, all j."""
    return torch.minimum(scale[at[0]], scale[at[1]])


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
