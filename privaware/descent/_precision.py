"""TF32 products: torch's switches for them, and factors that they do not round.

A TF32 product drops the low 13 bits of each factor, by truncation (up to 2^-10 of it) or by rounding (up to 2^-11).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor

__all__ = ["TF32_MARGIN", "matmul_precision", "tf32_allowed", "truncated_to_tf32"]

TF32_MARGIN = 2.0**-8
"""How far below the clipping norm a run with TF32 or BF16 products clips.

Materialised per-example gradients are summed as they were measured, but for two roundings: (1 + 2^-11)^2 at most. A
product of one position alone may have been truncated in the norm and rounded up in the sum:
(1 + 2^-11)^2 / (1 - 2^-10)^2 < 1 / (1 - 2^-8). Products of many positions may cancel, and then their rounding errors
are as large as before they cancelled. So where a sum over positions is computed once more, norm and sum are computed
from factors that no product rounds (`truncated_to_tf32`), and an example's product is multiplied by its factor then.
"""


def tf32_allowed() -> bool:
    """Whether products of this thread may round their factors to TF32."""
    return torch.backends.cuda.matmul.allow_tf32


@contextlib.contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """Sets torch's TF32 switches: off for "float32", on for "tf32" and "bf16"; restored afterwards."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    matmul.allow_tf32 = cudnn.allow_tf32 = precision != "float32"
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32 = before


def truncated_to_tf32(values: Tensor) -> Tensor:
    """`values` with the bits cleared that a TF32 product would drop: the same for a norm and for a sum."""
    if not tf32_allowed() or values.dtype != torch.float32:
        return values
    return (values.contiguous().view(torch.int32) & -(2**13)).view(torch.float32)
