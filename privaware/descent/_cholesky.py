"""Cholesky QR: make columns orthonormal by products of matrices, which a GPU computes faster than Householder QR.

If Y has the Gram matrix `G = Y^T Y` and R is the Cholesky factor of G, then the columns of `Y R^-1` are orthonormal in
exact arithmetic. Rounding spoils this if the columns of Y are nearly dependent, so the step is repeated on its result.
A shift of G keeps the factorisation from failing; with it, a step divides the ratio of the largest to the smallest
singular value of Y by up to about 10^6, and three steps suffice for float32 data.

Paper: Fukaya, Kannan, Nakatsukasa, Yamamoto, Yanagisawa 2020, Shifted Cholesky QR for Computing the QR Factorization of
Ill-Conditioned Matrices.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def inverse_factor(gram: Tensor, rows: int) -> Tensor:
    """Return `R^-1` for each matrix of `gram`, where R is the upper Cholesky factor of the matrix plus a small shift.

    `gram` (..., columns, columns) holds float64 Gram matrices `Y^T Y` of matrices Y with at most `rows` rows. The
    shift is a little larger than the rounding error of `gram`. No value is read on the host, so a failed factorisation
    goes unnoticed: the caller checks its result where orthonormal columns are required.
    """
    columns = gram.shape[-1]
    error = torch.finfo(gram.dtype).eps * (math.sqrt(rows) + columns)
    shift = (error * torch.linalg.matrix_norm(gram, keepdim=True)).clamp_min(torch.finfo(gram.dtype).tiny)
    unit = torch.eye(columns, dtype=gram.dtype, device=gram.device)
    lower = torch.linalg.cholesky_ex(torch.addcmul(gram, shift, unit)).L
    return torch.linalg.solve_triangular(lower, unit.expand_as(lower), upper=False).mT
