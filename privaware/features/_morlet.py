"""The Morlet wavelets of a scattering transform in the Fourier domain, and how they are subsampled.

Conventions are those of kymatio 0.3.0, so that features agree with published ones: images are
mirrored out to a multiple of 2^J, a filter used at a lower resolution first loses the frequencies
that resolution cannot hold, and the outermost output on each side is dropped.
"""

from __future__ import annotations

import numpy as np

PI = 3.1415
"""Kymatio normalises by this value; the true one would move second-order features by 9e-5."""


def padded(size: int, J: int) -> int:
    """The length a side of an image has after mirroring."""
    return ((size + 2**J) // 2**J + 1) * 2**J


def mirror(size: int, J: int) -> np.ndarray:
    """For each place of the padded side, the place in the image that it shows."""
    length, period = padded(size, J), 2 * (size - 1)
    place = (np.arange(length) - (length - size) // 2) % period
    return np.asarray(np.minimum(place, period - place))


def wavelet(shape: tuple[int, int], j: int, angle: int, L: int) -> np.ndarray:
    """The Fourier transform (real) of the Morlet wavelet of scale 2^j at one of L angles."""
    spread, theta = 0.8 * 2**j, (int(L - L / 2 - 1) - angle) * np.pi / L
    wave = _gabor(shape, spread, theta, 0.75 * np.pi / 2**j, 4 / L)
    envelope = _gabor(shape, spread, theta, 0.0, 4 / L)
    morlet = wave - envelope * (wave.sum() / envelope.sum())
    return np.asarray(np.fft.fft2(morlet).real)


def low_pass(size: int, J: int, level: int) -> np.ndarray:
    """Averages one axis of length `size` / 2^level over 2^J places: (outputs, inputs).

    The two-dimensional Gaussian is the product of two of these.
    """
    spread = 0.8 * 2 ** (J - 1)
    places = np.arange(size) + size * np.arange(-2, 3)[:, None]
    bell = np.exp(-(places**2) / (2 * spread**2)).sum(axis=0) / np.sqrt(2 * PI * spread**2)
    spectrum = folded(np.fft.fft(bell).real, level)
    kernel = np.fft.ifft(spectrum).real
    length, stride = size >> level, 2 ** (J - level)
    kept = np.arange(stride, length - stride, stride)
    return np.asarray(kernel[(kept[:, None] - np.arange(length)) % length])


def folded(spectrum: np.ndarray, level: int) -> np.ndarray:
    """A filter at a resolution lower by 2^level, along every axis."""
    for axis, size in enumerate(spectrum.shape):
        kept = np.ones(size)
        kept[size >> (level + 1) : size - (size >> (level + 1))] = 0.0 if level else 1.0
        moved = np.moveaxis(spectrum, axis, -1) * kept
        parts = moved.reshape(*moved.shape[:-1], 2**level, size >> level)
        spectrum = np.moveaxis(parts.sum(axis=-2), -1, axis)
    return spectrum


def _gabor(shape: tuple[int, int], spread: float, theta: float, frequency: float, slant: float) -> np.ndarray:
    """A plane wave under an elongated bell, summed over the neighbouring copies of the torus."""
    made = np.zeros(shape, complex)
    for down in range(-2, 3):
        for right in range(-2, 3):
            x = np.arange(shape[0])[:, None] + down * shape[0]
            y = np.arange(shape[1])[None, :] + right * shape[1]
            along = x * np.cos(theta) + y * np.sin(theta)
            across = y * np.cos(theta) - x * np.sin(theta)
            bell = (along**2 + (slant * across) ** 2) / (2 * spread**2)
            made += np.exp(-bell + 1j * frequency * along)
    return made * (slant / (2 * PI * spread**2))
