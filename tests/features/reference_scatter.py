"""Scattering by the definition: wavelets in space, convolutions as sums over pixels, double precision."""

from __future__ import annotations

import itertools

import numpy as np

PI = 3.1415  # the value by which the reference library normalises


def scatter(image: np.ndarray, J: int, L: int) -> np.ndarray:
    """(maps, H // 2^J, W // 2^J) of one channel."""
    x = mirrored(image.astype(float), J)
    shape = x.shape
    psi = {(j, a): morlet(shape, j, a, L) for j in range(J) for a in range(L)}
    phi = bell(shape, 0.8 * 2 ** (J - 1), 0.0, 1.0)

    def average(u: np.ndarray, log_stride: int) -> np.ndarray:
        return convolve(u, subsampled(phi, log_stride), 2 ** (J - log_stride)).real[1:-1, 1:-1]

    zeroth, first, second = [average(x, 0)], [], []
    for j1, a1 in itertools.product(range(J), range(L)):
        u1 = abs(convolve(x, psi[j1, a1], 2**j1))
        first.append(average(u1, j1))
        for j2, a2 in itertools.product(range(j1 + 1, J), range(L)):
            u2 = abs(convolve(u1, subsampled(psi[j2, a2], j1), 2 ** (j2 - j1)))
            second.append(average(u2, j2))
    return np.array(zeroth + first + second)


def mirrored(image: np.ndarray, J: int) -> np.ndarray:
    for axis in (0, 1):
        size = image.shape[axis]
        missing = ((size + 2**J) // 2**J + 1) * 2**J - size
        around = [(0, 0), (0, 0)]
        around[axis] = (missing // 2, missing - missing // 2)
        image = np.pad(image, around, mode="reflect")
    return image


def bell(shape: tuple[int, int], spread: float, theta: float, slant: float, wave: float = 0.0) -> np.ndarray:
    rotation = np.array([[np.cos(theta), np.sin(theta)], [-np.sin(theta), np.cos(theta)]])
    form = rotation.T @ np.diag([1.0, slant**2]) @ rotation
    u = np.stack(np.meshgrid(*(np.arange(-2 * n, 3 * n) for n in shape), indexing="ij"), axis=-1)
    bowl = np.einsum("xyi,ij,xyj->xy", u, form, u) / (2 * spread**2)
    values = np.exp(-bowl + 1j * wave * (u @ rotation[0]))
    copies = values.reshape(5, shape[0], 5, shape[1]).sum(axis=(0, 2))
    return copies * slant / (2 * PI * spread**2)


def morlet(shape: tuple[int, int], j: int, angle: int, L: int) -> np.ndarray:
    theta = (int(L - L / 2 - 1) - angle) * np.pi / L
    wave = bell(shape, 0.8 * 2**j, theta, 4 / L, 0.75 * np.pi / 2**j)
    plain = bell(shape, 0.8 * 2**j, theta, 4 / L)
    return wave - plain * wave.sum() / plain.sum()


def subsampled(kernel: np.ndarray, log_stride: int) -> np.ndarray:
    """The kernel with the frequencies a coarser grid can hold, on that grid."""
    for axis, size in enumerate(kernel.shape):
        short = size >> log_stride
        band = np.arange(-(short // 2), short - short // 2)
        analyse = np.exp(-2j * np.pi * np.outer(band, np.arange(size)) / size)
        build = np.exp(2j * np.pi * np.outer(np.arange(short), band) / short) / short
        kernel = np.moveaxis(np.tensordot(build @ analyse, kernel, (1, axis)), 0, axis)
    return kernel


def convolve(x: np.ndarray, kernel: np.ndarray, stride: int) -> np.ndarray:
    """On the torus, at every stride-th position: each output is a sum over all pixels."""
    lags = [(np.arange(0, n, stride)[:, None] - np.arange(n)) % n for n in x.shape]
    shifted = kernel[lags[0][:, None, :, None], lags[1][None, :, None, :]]
    return np.einsum("abpq,pq->ab", shifted, x)
