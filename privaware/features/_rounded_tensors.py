"""Tensors of weights files rounded to eight bits: integers from -127 to 127, times one scale for each channel.

`research/pretraining/weights_files.py` rounds and writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

from privaware.errors import WrongInput

SCALE = ".scale_of_int8"
"""Suffix of the name under which the scales of a rounded tensor are stored."""
DIAGONAL = ".diagonal"
"""Suffix of the name under which the diagonal of a rounded symmetric matrix is stored."""


def restored(stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors by name from `stored`, the tensors of a weights file.

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


def restored_symmetric(name: str, stored: Mapping[str, Tensor]) -> Tensor:
    """Return the matrix called `name` in float32 from `stored`, which has its rounded tensors."""
    scale = stored[name + SCALE]
    at = torch.triu_indices(len(scale), len(scale), offset=1)
    upper = torch.zeros(len(scale), len(scale))
    upper[at[0], at[1]] = stored[name].float() * common_scales(scale, at)
    return upper + upper.T + torch.diag(stored[name + DIAGONAL].float())


def common_scales(scale: Tensor, at: Tensor) -> Tensor:
    """Return min(scale[i], scale[j]) for entries (i, j) of a symmetric matrix; `at` is (2, entries): all i, all j."""
    return torch.minimum(scale[at[0]], scale[at[1]])
