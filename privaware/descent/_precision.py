"""Switch TF32 products on and off, truncate factors so that a TF32 product does not round them, and repeat bits.

A TF32 product drops the low 13 mantissa bits of each factor. Truncation changes a factor by up to 2^-10 of its value,
rounding by up to 2^-11.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor

TF32_MARGIN = 2.0**-8
"""Runs with TF32 or BF16 products clip to `norm * (1 - TF32_MARGIN)`.

1. Materialised per-example gradients are summed as they were measured, except for the rounding of two factors, which
   lengthens them by at most (1 + 2^-11)^2.
2. A product of one position may have its factors truncated in the norm and rounded up in the sum. The ratio is at most
   (1 + 2^-11)^2 / (1 - 2^-10)^2 < 1 / (1 - 2^-8).
3. Products of many positions may cancel, while their rounding errors do not. So where a sum over positions is computed
   a second time, norm and sum both use factors that no product rounds (`truncated_to_tf32`), and the clipping factor
   is applied to an example's product afterwards.
"""


def tf32_allowed() -> bool:
    """Return whether torch's matrix products may round their factors to TF32."""
    return torch.backends.cuda.matmul.allow_tf32


@contextlib.contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """Set torch's TF32 switches inside the context: off for "float32", on for "tf32" and "bf16"; then restore them."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    matmul.allow_tf32 = cudnn.allow_tf32 = precision != "float32"
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32 = before


@contextlib.contextmanager
def repeatable_convolutions() -> Iterator[None]:
    """Let cuDNN use only algorithms that give the same bits each time inside the context; then restore its switches."""
    cudnn = torch.backends.cudnn
    before = cudnn.deterministic, cudnn.benchmark
    cudnn.deterministic, cudnn.benchmark = True, False
    try:
        yield
    finally:
        cudnn.deterministic, cudnn.benchmark = before


def truncated_to_tf32(values: Tensor) -> Tensor:
    """Return float32 `values` with the bits cleared that a TF32 product would drop.

    `values` of another type, or if TF32 products are not allowed, are returned unchanged.
    """
    if not tf32_allowed() or values.dtype != torch.float32:
        return values
    return (values.contiguous().view(torch.int32) & -(2**13)).view(torch.float32)
