"""The layers of a scattering transform by matrix products or by FFT, with equal results, and their wavelets.

`MatrixLayers` writes the Fourier transform along the width as a small matrix and, for each frequency, the convolution
along the height as another matrix. Two mirrored wavelets share their matrices, because the parts of a wavelet that are
even and odd in height have real and imaginary spectra along the width. The computation is then matrix products and a
modulus, which on small images is several times faster than FFTs of a few dozen points. `FourierLayers` multiplies in
the Fourier domain; its cost hardly grows with the size of the image.

Resolutions are numbered by the binary logarithm of their stride; -1 is the image before padding.

The Morlet wavelets are computed in the Fourier domain. Conventions agree with kymatio 0.3.0, so features agree with
published ones: images are padded by reflection to a multiple of 2^J, a filter used at a lower resolution is first
limited to its band, and the outermost output on each side is dropped.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch

PI = 3.1415
"""The value by which kymatio normalises; the exact value of pi would change second-order features by 9e-5."""

MAX_MATRIX_ENTRIES = 2**25
"""Number of entries of a convolution matrix above which FFTs are faster."""

ToTensor = Callable[[np.ndarray], "torch.Tensor"]
"""A function that copies an array to a tensor on the device of the layers."""


def padded_size(size: int, J: int) -> int:
    """Return the length of an image's side of `size` pixels after padding: `(size // 2**J + 2) * 2**J`."""
    return ((size + 2**J) // 2**J + 1) * 2**J


def reflection(size: int, J: int) -> np.ndarray:
    """Return, for each position of the padded side, the position in the image side of `size` pixels that it repeats.

    The padded side has `padded_size(size, J)` pixels. `size` is at least 2.
    """
    length, period = padded_size(size, J), 2 * (size - 1)
    position = (np.arange(length) - (length - size) // 2) % period
    return np.asarray(np.minimum(position, period - position))


def wavelet(shape: tuple[int, int], j: int, angle: int, L: int) -> np.ndarray:
    """Return the (real) Fourier transform, an array of `shape`, of the Morlet wavelet of scale 2^j.

    `angle` is the number of one of L angles, from 0.
    """
    sigma, theta = 0.8 * 2**j, (int(L - L / 2 - 1) - angle) * np.pi / L
    wave = _gabor(shape, sigma, theta, 0.75 * np.pi / 2**j, 4 / L)
    envelope = _gabor(shape, sigma, theta, 0.0, 4 / L)
    morlet = wave - envelope * (wave.sum() / envelope.sum())
    return np.asarray(np.fft.fft2(morlet).real)


def low_pass(size: int, J: int, log_stride: int) -> np.ndarray:
    """Return the matrix (outputs, inputs) that averages an axis of length `size` / 2^log_stride over 2^J pixels.

    `size` is the length after padding. Outputs are 2^J pixels apart, and the outermost on each side is dropped. The
    two-dimensional Gaussian is the product of two such matrices.
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
    """Return the spectrum of a filter at a resolution lower by a factor of 2^log_stride, along every axis.

    Frequencies that the lower resolution cannot hold are first set to 0. With `log_stride` 0 the spectrum stays the
    same.
    """
    for axis, size in enumerate(spectrum.shape):
        band = np.ones(size)
        band[size >> (log_stride + 1) : size - (size >> (log_stride + 1))] = 0.0 if log_stride else 1.0
        masked = np.moveaxis(spectrum, axis, -1) * band
        aliases = masked.reshape(*masked.shape[:-1], 2**log_stride, size >> log_stride)
        spectrum = np.moveaxis(aliases.sum(axis=-2), -1, axis)
    return spectrum


def _gabor(shape: tuple[int, int], sigma: float, theta: float, frequency: float, slant: float) -> np.ndarray:
    """Return a plane wave times an elongated Gaussian, made periodic by summing the neighbouring periods.

    The wave has `frequency` radians a pixel in the direction `theta`. The Gaussian has standard deviation `sigma` in
    this direction and `sigma / slant` across it.
    """
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


@dataclass(frozen=True, kw_only=True)
class FilterBank:
    """The filters of a scattering transform for images of `height` x `width` pixels.

    The filters are wavelets at the `J` scales 2^0 to 2^(J - 1), each at `L` angles, and one average over 2^J pixels.
    """

    J: int
    L: int
    height: int
    width: int

    @property
    def shape(self) -> tuple[int, int]:
        return padded_size(self.height, self.J), padded_size(self.width, self.J)

    @property
    def small(self) -> bool:
        """Whether a convolution matrix has at most `MAX_MATRIX_ENTRIES` entries, so that it is faster than FFTs."""
        height, width = self.shape
        return 2 * self.L * height * height * width <= MAX_MATRIX_ENTRIES

    def wavelets(self, j: int, resolution: int) -> np.ndarray:
        """Return the wavelets of scale 2^j (L, height, width) in the Fourier domain, for maps of stride 2^resolution.

        For `resolution` -1, the image before padding, they are those of resolution 0.
        """
        angles = range(self.L)
        return np.stack([subsampled(wavelet(self.shape, j, angle, self.L), max(resolution, 0)) for angle in angles])

    def transitions(self) -> list[tuple[int, int]]:
        """Return all pairs of a resolution and the coarser resolution `j` to which a wavelet of scale 2^j leads.

        Resolution -1 is the image before padding.
        """
        return [(at, to) for to in range(self.J) for at in range(-1, to)]

    def averages(self, resolution: int) -> list[np.ndarray]:
        """Return the low-pass matrices (outputs, inputs) along height and width, for maps of stride 2^resolution.

        For `resolution` -1, the image before padding, they include the padding.
        """
        matrices = [low_pass(size, self.J, max(resolution, 0)) for size in self.shape]
        return [m @ pad for m, pad in zip(matrices, self.paddings())] if resolution < 0 else matrices

    def paddings(self) -> list[np.ndarray]:
        """Return the matrices (padded length, length) that pad an image by reflection, for height and width."""
        return [np.eye(size)[reflection(size, self.J)] for size in (self.height, self.width)]


class Workspace:
    """Named tensors that are reused, because allocating new ones takes as long as the arithmetic.

    They have the type and the device of the tensor `like`.
    """

    def __init__(self, like: torch.Tensor) -> None:
        self.like = like
        self.buffers: dict[str, torch.Tensor] = {}

    def take(self, name: str, *shape: int) -> torch.Tensor:
        """Return an uninitialised tensor of the sizes `shape`.

        It may share its memory with a tensor of any shape that was taken earlier under the same `name`.
        """
        size = math.prod(shape)
        if name not in self.buffers or self.buffers[name].numel() < size:
            self.buffers[name] = self.like.new_empty(size)
        return self.buffers[name][:size].view(shape)


class FourierLayers:
    """Wavelet layers computed by FFT; maps are (angles, rows, height, width), and a row is a one-channel image."""

    def __init__(self, bank: FilterBank, to_tensor: ToTensor) -> None:
        import torch

        self.order = {step: list(range(bank.L)) for step in bank.transitions()}
        self.filters = {(at, to): to_tensor(bank.wavelets(to, at)[:, None]) for at, to in bank.transitions()}
        self.low_pass = {at: [to_tensor(m) for m in bank.averages(at)] for at in range(-1, bank.J)}
        sizes = (bank.height, bank.width)
        device = self.low_pass[-1][0].device
        self.padding = [torch.from_numpy(reflection(s, bank.J)).to(device) for s in sizes]

    def enter(self, images: torch.Tensor) -> torch.Tensor:
        return images[None]

    def modulus(self, x: torch.Tensor, at: int, to: int, workspace: Workspace) -> torch.Tensor:
        """Return the moduli at resolution `to`, for each wavelet angle, of maps `x` at resolution `at` (-1: images).

        Maps at resolution r >= 0 have stride 2^r; `at` is -1 for images before padding, which have stride 1. `to` is
        above `at`, and the wavelets have scale 2^to. Maps are (angles, rows, height, width); the result is (wavelet
        angles, angles * rows of `x`, height', width'). `workspace` is not used.
        """
        import torch

        x = x.flatten(0, 1)
        if at < 0:
            x = x[:, self.padding[0][:, None], self.padding[1]]
        spectrum = torch.fft.fft2(x) * self.filters[at, to]
        stride, (*lead, height, width) = 2 ** (to - max(at, 0)), spectrum.shape
        aliases = spectrum.reshape(*lead, stride, height // stride, stride, width // stride)
        return torch.fft.ifft2(aliases.mean(dim=(2, 4))).abs()

    def average(self, x: torch.Tensor, resolution: int, workspace: Workspace) -> torch.Tensor:
        """Return the maps `x`, averaged over 2^J pixels of the image, as (rows, angles, height', width').

        `x` (angles, rows, height, width) has stride 2^resolution, or is the images if `resolution` is -1. `workspace`
        is not used.
        """
        height, width = self.low_pass[resolution]
        return (height @ (x @ width.T)).transpose(0, 1)


class MatrixLayers:
    """Wavelet layers computed by matrix products.

    Maps are (width, angles, height, rows), so every product and sum is contiguous in memory. A row is an image of one
    channel.
    """

    def __init__(self, bank: FilterBank, to_tensor: ToTensor) -> None:
        self.layers, paddings = {}, bank.paddings()
        for at, to in bank.transitions():
            filters, stride = bank.wavelets(to, at), 2 ** (to - max(at, 0))
            self.layers[at, to] = _MatrixLayer(filters, stride, paddings if at < 0 else None, to_tensor)
        self.order = {step: layer.order for step, layer in self.layers.items()}
        self.low_pass = {at: [to_tensor(m) for m in bank.averages(at)] for at in range(-1, bank.J)}

    def enter(self, images: torch.Tensor) -> torch.Tensor:
        return images.permute(2, 1, 0)[:, None].contiguous()

    def modulus(self, x: torch.Tensor, at: int, to: int, workspace: Workspace) -> torch.Tensor:
        """Return the moduli at resolution `to`, for each wavelet angle, of maps `x` at resolution `at` (-1: images).

        Maps at resolution r >= 0 have stride 2^r; `at` is -1 for images before padding, which have stride 1. `to` is
        above `at`, and the wavelets have scale 2^to. Maps are (width, angles, height, rows); the result is (width',
        wavelet angles, height', angles * rows of `x`). The list `self.order[at, to]` has the number of the wavelet
        angle at each place. The result is a buffer, which the next call with the same `workspace`, `at` and `to`
        overwrites.
        """
        return self.layers[at, to](x, workspace, f"maps from {at} to {to}")

    def average(self, x: torch.Tensor, resolution: int, workspace: Workspace) -> torch.Tensor:
        """Return the maps `x`, averaged over 2^J pixels of the image, as (rows, angles, height', width').

        `x` (width, angles, height, rows) has stride 2^resolution, or is the images if `resolution` is -1. A buffer of
        `workspace` holds an intermediate result; the returned tensor is new.
        """
        import torch

        height, width = self.low_pass[resolution]
        narrow = workspace.take("narrow", len(width), *x.shape[1:])
        torch.mm(width, x.flatten(1), out=narrow.flatten(1))
        return (height @ narrow).permute(3, 1, 2, 0)


class _MatrixLayer:
    """The moduli of maps with the wavelets of one scale at all angles, computed by matrix products.

    It maps (width, angles, height, rows) to (width', wavelet angles, height', angles * rows). The list `order` has the
    number of the wavelet angle at each place. The call takes the maps, a `Workspace` and the name of the buffer in it
    for the result. `filters` are the wavelets (angles, height, width) in the Fourier domain. `stride` is the stride of
    the result relative to the maps. `paddings` are two matrices that pad height and width first, or None.
    """

    def __init__(
        self, filters: np.ndarray, stride: int, paddings: list[np.ndarray] | None, to_tensor: ToTensor
    ) -> None:
        _, height, width = filters.shape
        out_width = width // stride
        out_frequencies = np.arange(out_width // 2 + 1)
        frequencies = out_frequencies[:, None] + out_width * np.arange(stride)
        pad_height, pad_width = paddings or (np.eye(height), np.eye(width))
        cosine, sine = _waves(frequencies, width)
        self.forward = to_tensor(np.stack([cosine, -sine], axis=2).reshape(-1, width) @ pad_width)
        weight = np.where((out_frequencies == 0) | (2 * out_frequencies == out_width), 1.0, 2.0)[:, None] / out_width
        cosine, sine = (weight * wave for wave in _waves(out_frequencies, out_width))
        self.inverse_real = to_tensor(np.stack([cosine, -sine], axis=1).reshape(-1, out_width).T)
        self.inverse_imaginary = to_tensor(-np.stack([sine, cosine], axis=1).reshape(-1, out_width).T)
        self.stride, self.out_height = stride, height // stride
        flipped = np.roll(filters[:, ::-1, ::-1], (1, 1), axis=(1, 2))
        even = np.fft.ifft((filters + flipped) / 2, axis=1)
        odd = np.fft.ifft(-0.5j * (filters - flipped), axis=1)
        self.first, self.mirrored, self.symmetric = _mirror_pairs(even, odd)
        self.order = self.first + self.mirrored + self.symmetric
        real, imaginary = self._kernels(even, odd)
        self.real = to_tensor(_convolution(real, stride, frequencies, pad_height).repeat(2, axis=0))
        self.imaginary = to_tensor(_convolution(imaginary, stride, frequencies, pad_height).repeat(2, axis=0))

    def _kernels(self, even: np.ndarray, odd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the real and the imaginary kernels along the height, each (kernels, height, frequencies).

        Frequencies are along the width. `even` and `odd` (angles, height, frequencies) are the parts of the wavelets
        that are even and odd in height. Both kernels hold the even and then the odd parts of the angles `self.first`.
        Parts of the angles `self.symmetric` follow. Their even parts are real. The first of these angles points along
        the height, and its odd part is real; the odd parts of all other symmetric angles are imaginary.
        """
        first, symmetric = self.first, self.symmetric
        real = [even[first].real, odd[first].real, even[symmetric].real, odd[symmetric[:1]].real]
        imaginary = [even[first].imag, odd[first].imag, odd[symmetric[1:]].imag]
        return np.concatenate(real), np.concatenate(imaginary)

    def __call__(self, x: torch.Tensor, workspace: Workspace, name: str) -> torch.Tensor:
        import torch

        width, angles, height, rows = x.shape
        count, depth, columns = len(self.real) // 2, self.stride * height, angles * rows
        waves = workspace.take("waves", count, self.stride, 2, angles, height, rows)
        torch.mm(self.forward, x.reshape(width, -1), out=waves.view(len(self.forward), -1))
        by_frequency = workspace.take("by frequency", count, 2, self.stride, height, angles, rows)
        by_frequency.copy_(waves.permute(0, 2, 1, 4, 3, 5))
        convolved = {}
        for kind in ("real", "imaginary"):
            matrix, inverse = getattr(self, kind), getattr(self, f"inverse_{kind}")
            product = workspace.take("product", 2 * count, matrix.shape[1], columns)
            torch.bmm(matrix, by_frequency.view(2 * count, depth, columns), out=product)
            convolved[kind] = workspace.take(kind, len(inverse), matrix.shape[1], columns)
            torch.mm(inverse, product.flatten(1), out=convolved[kind].flatten(1))
        size = (self.out_height, columns)
        sums = workspace.take("sums", len(self.inverse_real), 2 * len(self.first), *size)
        out = workspace.take(name, len(self.inverse_real), len(self.order), *size)
        real, imaginary = (maps.unflatten(1, (-1, self.out_height)) for maps in convolved.values())
        return self._modulus(real, imaginary, sums, out)

    def _modulus(
        self, real: torch.Tensor, imaginary: torch.Tensor, sums: torch.Tensor, out: torch.Tensor
    ) -> torch.Tensor:
        """Fill `out` with the moduli of all angles, in the order `self.order`, and return it.

        `real` and `imaginary` (width', kernels, height', columns) are the maps convolved with the two results of
        `_kernels`. Where a wavelet has a mirror image among the angles, `real + imaginary` is its convolution, and
        `real - imaginary` the convolution of the mirror image. `sums` is a buffer, which is overwritten.
        """
        import torch

        pairs, symmetric = len(self.first), len(self.symmetric)
        one, other = real[:, : 2 * pairs], imaginary[:, : 2 * pairs]
        for at, sign in enumerate((1, -1) if self.mirrored else (1,)):
            torch.add(one, other, alpha=sign, out=sums).square_()
            torch.add(sums[:, :pairs], sums[:, pairs:], out=out[:, at * pairs : (at + 1) * pairs])
        if symmetric:
            last, rest = out[:, -symmetric:], real[:, 2 * pairs :]
            torch.square(rest[:, :symmetric], out=last)
            last[:, :1].addcmul_(rest[:, symmetric:], rest[:, symmetric:])
            rest = imaginary[:, 2 * pairs :]
            last[:, 1:].addcmul_(rest, rest)
        return out.sqrt_()


def _mirror_pairs(even: np.ndarray, odd: np.ndarray) -> tuple[list[int], list[int], list[int]]:
    """Return three lists of angles: angles with a mirror image among the angles, these images, and symmetric angles.

    `even` and `odd` (angles, height, frequencies) are the even and the odd part of the spectra, transformed back along
    the height. No angle has an exact mirror image in two cases: a filter at a lower resolution keeps only one of its
    two outermost frequencies, and a wavelet as long as the image is truncated. Then all angles are in the first list,
    each is computed by itself, and the two other lists are empty.
    """
    L = len(even)
    middle = int(L - L / 2 - 1)
    image = [(2 * middle - angle) % L for angle in range(L)]
    first = [angle for angle in range(L) if angle < image[angle]]
    mirrored = [image[angle] for angle in first]
    symmetric = sorted((a for a in range(L) if image[a] == a), key=lambda a: a != middle)
    differences = [even[mirrored] - even[first].conj(), even[symmetric].imag]
    differences += [odd[mirrored] + odd[first].conj() * _signs(odd, first, mirrored)]
    differences += [odd[symmetric[:1]].imag, odd[symmetric[1:]].real]
    if not first or max(np.abs(part).max(initial=0.0) for part in differences) > 1e-8:
        return list(range(L)), [], []
    return first, mirrored, symmetric


def _signs(odd: np.ndarray, first: list[int], mirrored: list[int]) -> np.ndarray:
    """Return, for each angle in `first`, the sign (1 or -1) for which `odd[mirrored] = -sign * odd[first].conj()`.

    `mirrored` has the angles of the mirror images, and `odd` the odd parts of all angles (angles, height, frequencies).
    The result is (angles of `first`, 1, 1). The modulus of a convolution does not depend on this sign.
    """
    correlation = (odd[mirrored] * odd[first]).real.sum(axis=(1, 2), keepdims=True)
    return np.where(correlation > 0, -1.0, 1.0)


def _waves(frequencies: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    angle = 2 * np.pi * frequencies[..., None] * np.arange(size) / size
    return np.cos(angle), np.sin(angle)


def _convolution(kernels: np.ndarray, stride: int, frequencies: np.ndarray, pad_height: np.ndarray) -> np.ndarray:
    """Return the matrices (frequencies, kernels x height', aliases x height) that apply every kernel with `stride`.

    `kernels` is (kernels, height, frequencies). Row k of `frequencies` (output frequencies, stride) has the aliases of
    output frequency k: the frequencies along the width that fall on it when the maps are subsampled. `pad_height` is
    the matrix that pads the height first.
    """
    count, height, _ = kernels.shape
    lag = (np.arange(0, height, stride)[:, None] - np.arange(height)) % height
    matrix = np.einsum("koimf,ih->mkofh", kernels[:, lag][..., frequencies], pad_height, optimize=True)
    return np.asarray(matrix.reshape(len(frequencies), count * len(lag), -1) / stride)
