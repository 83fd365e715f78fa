"""The Morlet wavelets of a scattering transform in the Fourier domain, and how they are subsampled.

Conventions are those of kymatio 0.3.0, so that features agree with published ones: images are padded by
reflection to a multiple of 2^J, a filter used at a lower resolution is first limited to its band, and the
outermost output on each side is dropped.
"""

from __future__ import annotations

import numpy as np

PI = 3.1415
"""Kymatio normalises by this value; the true one would move second-order features by 9e-5."""


def padded_size(size: int, J: int) -> int:
    """The length of an image's side after padding."""
    return ((size + 2**J) // 2**J + 1) * 2**J


def reflection(size: int, J: int) -> np.ndarray:
    """For each position of the padded side, the position in the image that it repeats."""
    length, period = padded_size(size, J), 2 * (size - 1)
    position = (np.arange(length) - (length - size) // 2) % period
    return np.asarray(np.minimum(position, period - position))


def wavelet(shape: tuple[int, int], j: int, angle: int, L: int) -> np.ndarray:
    """The Fourier transform (real) of the Morlet wavelet of scale 2^j at one of L angles."""
    sigma, theta = 0.8 * 2**j, (int(L - L / 2 - 1) - angle) * np.pi / L
    wave = _gabor(shape, sigma, theta, 0.75 * np.pi / 2**j, 4 / L)
    envelope = _gabor(shape, sigma, theta, 0.0, 4 / L)
    morlet = wave - envelope * (wave.sum() / envelope.sum())
    return np.asarray(np.fft.fft2(morlet).real)


def low_pass(size: int, J: int, log_stride: int) -> np.ndarray:
    """The matrix (outputs, inputs) that averages an axis of length `size` / 2^log_stride over 2^J pixels.

    The two-dimensional Gaussian is the product of two of these.
    """
    sigma = 0.8 * 2 ** (J - 1)
    positions = np.arange(size) + size * np.arange(-2, 3)[:, None]
    gaussian = np.exp(-(positions**2) / (2 * sigma**2)).sum(axis=0) / np.sqrt(2 * PI * sigma**2)
    spectrum = subsampled(np.fft.fft(gaussian).real, log_stride)
    kernel = np.fft.ifft(spectrum).real
    length, stride = size >> log_stride, 2 ** (J - log_stride)
    outputs = np.arange(stride, length - stride, stride)
    return np.asarray(kernel[(outputs[:, None] - np.arange(length)) % length])


def subsampled(spectrum: np.ndarray, log_stride: int) -> np.ndarray:
    """The spectrum of a filter at a resolution lower by 2^log_stride, along every axis."""
    for axis, size in enumerate(spectrum.shape):
        band = np.ones(size)
        band[size >> (log_stride + 1) : size - (size >> (log_stride + 1))] = 0.0 if log_stride else 1.0
        masked = np.moveaxis(spectrum, axis, -1) * band
        aliases = masked.reshape(*masked.shape[:-1], 2**log_stride, size >> log_stride)
        spectrum = np.moveaxis(aliases.sum(axis=-2), -1, axis)
    return spectrum


def _gabor(shape: tuple[int, int], sigma: float, theta: float, frequency: float, slant: float) -> np.ndarray:
    """A plane wave under an elongated Gaussian, periodised by summing the neighbouring periods."""
    gabor = np.zeros(shape, complex)
    for down in range(-2, 3):
        for right in range(-2, 3):
            x = np.arange(shape[0])[:, None] + down * shape[0]
            y = np.arange(shape[1])[None, :] + right * shape[1]
            along = x * np.cos(theta) + y * np.sin(theta)
            across = y * np.cos(theta) - x * np.sin(theta)
            exponent = (along**2 + (slant * across) ** 2) / (2 * sigma**2)
            gabor += np.exp(-exponent + 1j * frequency * along)
    return gabor * (slant / (2 * PI * sigma**2))
