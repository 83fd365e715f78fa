"""Second moments of bounded rows, and their release with symmetric noise."""

from __future__ import annotations

import math

import numpy as np

from privaware.noise import Rng

MICROBATCH = 4096
"""Rows of one matrix product."""


def clipped(rows: np.ndarray, norm: float) -> np.ndarray:
    """Each row clipped to `norm`; values that are not finite count as 0."""
    flat = rows.reshape(len(rows), math.prod(rows.shape[1:])).astype(float)
    rows = np.nan_to_num(flat, posinf=0.0, neginf=0.0)
    largest = np.maximum(np.abs(rows).max(axis=1, keepdims=True, initial=0.0), 1e-300)
    length = largest * np.sqrt(((rows / largest) ** 2).sum(axis=1, keepdims=True))
    return np.asarray(rows * np.minimum(1.0, norm / np.maximum(length, 1e-300)))


def second_moments(rows: np.ndarray, others: np.ndarray | None = None) -> np.ndarray:
    """The sum of a a' over the rows (or of a b'), some rows at a time."""
    others = rows if others is None else others
    exact = np.zeros((rows.shape[1], others.shape[1]))
    for at in range(0, len(rows), MICROBATCH):
        exact += rows[at : at + MICROBATCH].T @ others[at : at + MICROBATCH]
    return exact


def folded(square: np.ndarray) -> np.ndarray:
    """A symmetric matrix as a vector of the same L2 norm: off-diagonal entries once, times root 2."""
    above = np.triu_indices(len(square), 1)
    return np.concatenate([np.diagonal(square), math.sqrt(2) * square[above]])


def unfolded(vector: np.ndarray, size: int) -> np.ndarray:
    """The symmetric matrix back. Noise of deviation s on the vector is s on the diagonal, s / root 2 off it."""
    upper = np.diag(vector[:size] / 2)
    upper[np.triu_indices(size, 1)] = vector[size:] / math.sqrt(2)
    return np.asarray(upper + upper.T)


def release(exact: np.ndarray, noise: float, sensitivity: float, rng: Rng) -> np.ndarray:
    """A symmetric matrix with noise; `sensitivity` is in Frobenius norm."""
    noisy = rng.gaussian(folded(exact), noise=noise, sensitivity=sensitivity)
    return unfolded(noisy, len(exact))
