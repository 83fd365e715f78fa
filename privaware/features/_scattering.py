"""The layers of a scattering transform, in two ways that give the same numbers.

`Dense` writes the Fourier transform along the width as a small matrix and, for each frequency, the
convolution along the height as another. Two mirrored wavelets share their matrices, because the
halves of a wavelet that are even and odd in height have real and imaginary spectra along the width.
What is left is matrix products and a modulus, which on small images is several times faster than
transforms of a few dozen points. `Fourier` multiplies in the Fourier domain, and its cost hardly
grows with the size of the image.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from privaware.features._morlet import folded as fold
from privaware.features._morlet import low_pass, mirror, padded, wavelet

if TYPE_CHECKING:
    import torch

LARGEST = 2**25
"""Entries of a convolution matrix above which the matrices would not pay."""


@dataclass(frozen=True, kw_only=True)
class Bank:
    """The filters of one image size."""

    J: int
    L: int
    height: int
    width: int

    @property
    def shape(self) -> tuple[int, int]:
        return padded(self.height, self.J), padded(self.width, self.J)

    @property
    def dense(self) -> bool:
        """Whether matrices pay: the image is small."""
        height, width = self.shape
        return 2 * self.L * height * height * width <= LARGEST

    def wavelets(self, j: int, level: int) -> np.ndarray:
        """(L, height, width) in the Fourier domain, at a resolution lower by 2^level."""
        made = [fold(wavelet(self.shape, j, angle, self.L), level) for angle in range(self.L)]
        return np.stack(made)

    def steps(self) -> list[tuple[int, int]]:
        """From which resolution to which: -1 is the image, which is not yet mirrored."""
        return [(at, to) for to in range(self.J) for at in range(-1, to)]

    def averages(self, level: int) -> list[np.ndarray]:
        """The low-pass matrices along the height and the width; -1 is the image."""
        made = [low_pass(size, self.J, max(level, 0)) for size in self.shape]
        return [m @ pad for m, pad in zip(made, self.pads())] if level < 0 else made

    def pads(self) -> list[np.ndarray]:
        """Matrices that mirror an image out to the padded size."""
        return [np.eye(size)[mirror(size, self.J)] for size in (self.height, self.width)]


class Scratch:
    """Memory that is used again: asking the system for it anew costs as much as the arithmetic."""

    def __init__(self, like: torch.Tensor) -> None:
        self.like = like
        self.kept: dict[str, torch.Tensor] = {}

    def take(self, name: str, *shape: int) -> torch.Tensor:
        """Uninitialised numbers; what was taken under this name before is overwritten."""
        size = math.prod(shape)
        if name not in self.kept or self.kept[name].numel() < size:
            self.kept[name] = self.like.new_empty(size)
        return self.kept[name][:size].view(shape)


class Fourier:
    """Maps are (angles, rows, height, width)."""

    def __init__(self, bank: Bank, place: Any) -> None:
        import torch

        self.order = {step: list(range(bank.L)) for step in bank.steps()}
        self.filters = {(at, to): place(bank.wavelets(to, max(at, 0))[:, None]) for at, to in bank.steps()}
        self.low = {at: [place(m) for m in bank.averages(at)] for at in range(-1, bank.J)}
        sizes = (bank.height, bank.width)
        device = self.low[-1][0].device
        self.places = [torch.from_numpy(mirror(s, bank.J)).to(device) for s in sizes]

    def enter(self, images: torch.Tensor) -> torch.Tensor:
        return images[None]

    def modulus(self, x: torch.Tensor, at: int, to: int, scratch: Scratch) -> torch.Tensor:
        """The maps of all angles; angle and row before become the rows."""
        import torch

        x = x.flatten(0, 1)
        if at < 0:
            x = x[:, self.places[0][:, None], self.places[1]]
        spectrum = torch.fft.fft2(x) * self.filters[at, to]
        stride, (*lead, height, width) = 2 ** (to - max(at, 0)), spectrum.shape
        parts = spectrum.reshape(*lead, stride, height // stride, stride, width // stride)
        return torch.fft.ifft2(parts.mean(dim=(2, 4))).abs()

    def average(self, x: torch.Tensor, level: int, scratch: Scratch) -> torch.Tensor:
        """(rows, angles, height', width')."""
        height, width = self.low[level]
        return (height @ (x @ width.T)).transpose(0, 1)


class Dense:
    """Maps are (width, angles, height, rows), so that every product and sum runs along memory."""

    def __init__(self, bank: Bank, place: Any) -> None:
        self.layers, pads = {}, bank.pads()
        for at, to in bank.steps():
            filters, stride = bank.wavelets(to, max(at, 0)), 2 ** (to - max(at, 0))
            self.layers[at, to] = Layer(filters, stride, pads if at < 0 else None, place)
        self.order = {step: layer.order for step, layer in self.layers.items()}
        self.low = {at: [place(m) for m in bank.averages(at)] for at in range(-1, bank.J)}

    def enter(self, images: torch.Tensor) -> torch.Tensor:
        return images.permute(2, 1, 0)[:, None].contiguous()

    def modulus(self, x: torch.Tensor, at: int, to: int, scratch: Scratch) -> torch.Tensor:
        """The maps of all angles; angle and row before become the rows."""
        return self.layers[at, to](x, scratch, f"maps from {at} to {to}")

    def average(self, x: torch.Tensor, level: int, scratch: Scratch) -> torch.Tensor:
        """(rows, angles, height', width')."""
        import torch

        height, width = self.low[level]
        narrow = scratch.take("narrow", len(width), *x.shape[1:])
        torch.mm(width, x.flatten(1), out=narrow.flatten(1))
        return (height @ narrow).permute(3, 1, 2, 0)


class Layer:
    """Wavelets of one scale at all angles, from one resolution to another."""

    def __init__(self, filters: np.ndarray, stride: int, pads: Any, place: Any) -> None:
        _, height, width = filters.shape
        short = width // stride
        kept = np.arange(short // 2 + 1)
        across = kept[:, None] + short * np.arange(stride)
        tall, wide = pads or (np.eye(height), np.eye(width))
        cosine, sine = _waves(across, width)
        self.forth = place(np.stack([cosine, -sine], axis=2).reshape(-1, width) @ wide)
        weight = np.where((kept == 0) | (2 * kept == short), 1.0, 2.0)[:, None] / short
        cosine, sine = (weight * wave for wave in _waves(kept, short))
        self.back_real = place(np.stack([cosine, -sine], axis=1).reshape(-1, short).T)
        self.back_imaginary = place(-np.stack([sine, cosine], axis=1).reshape(-1, short).T)
        self.stride, self.high = stride, height // stride
        turned = np.roll(filters[:, ::-1, ::-1], (1, 1), axis=(1, 2))
        even = np.fft.ifft((filters + turned) / 2, axis=1)
        odd = np.fft.ifft(-0.5j * (filters - turned), axis=1)
        self.first, self.second, self.alone = _mirrored(even, odd)
        self.order = self.first + self.second + self.alone
        real, imaginary = self._kernels(even, odd)
        self.real = place(_convolution(real, stride, across, tall).repeat(2, axis=0))
        self.imaginary = place(_convolution(imaginary, stride, across, tall).repeat(2, axis=0))

    def _kernels(self, even: np.ndarray, odd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The real and the imaginary kernels along the height, for each frequency of the width.

        Both have the even and the odd half of every first angle. A wavelet alone has a real even half;
        the odd half is real for the one along the height, imaginary for the one along the width.
        """
        first, alone = self.first, self.alone
        real = [even[first].real, odd[first].real, even[alone].real, odd[alone[:1]].real]
        imaginary = [even[first].imag, odd[first].imag, odd[alone[1:]].imag]
        return np.concatenate(real), np.concatenate(imaginary)

    def __call__(self, x: torch.Tensor, scratch: Scratch, name: str) -> torch.Tensor:
        import torch

        width, angles, height, rows = x.shape
        kept, deep, across = len(self.real) // 2, self.stride * height, angles * rows
        waves = scratch.take("waves", kept, self.stride, 2, angles, height, rows)
        torch.mm(self.forth, x.reshape(width, -1), out=waves.view(len(self.forth), -1))
        turned = scratch.take("turned", kept, 2, self.stride, height, angles, rows)
        turned.copy_(waves.permute(0, 2, 1, 4, 3, 5))
        made = {}
        for kind in ("real", "imaginary"):
            matrix, back = getattr(self, kind), getattr(self, f"back_{kind}")
            product = scratch.take("product", 2 * kept, matrix.shape[1], across)
            torch.bmm(matrix, turned.view(2 * kept, deep, across), out=product)
            made[kind] = scratch.take(kind, len(back), matrix.shape[1], across)
            torch.mm(back, product.flatten(1), out=made[kind].flatten(1))
        each = (self.high, across)
        both = scratch.take("both", len(self.back_real), 2 * len(self.first), *each)
        out = scratch.take(name, len(self.back_real), len(self.order), *each)
        real, imaginary = (answer.unflatten(1, (-1, self.high)) for answer in made.values())
        return self._modulus(real, imaginary, both, out)

    def _modulus(
        self, real: torch.Tensor, imaginary: torch.Tensor, both: torch.Tensor, out: torch.Tensor
    ) -> torch.Tensor:
        """A wavelet is the sum of its two kinds, its mirror image the difference."""
        import torch

        pairs, alone = len(self.first), len(self.alone)
        one, other = real[:, : 2 * pairs], imaginary[:, : 2 * pairs]
        for at, sign in enumerate((1, -1) if self.second else (1,)):
            torch.add(one, other, alpha=sign, out=both).square_()
            place = out[:, at * pairs : (at + 1) * pairs]
            torch.add(both[:, :pairs], both[:, pairs:], out=place)
        if alone:
            last, rest = out[:, -alone:], real[:, 2 * pairs :]
            torch.square(rest[:, :alone], out=last)
            last[:, :1].addcmul_(rest[:, alone:], rest[:, alone:])
            rest = imaginary[:, 2 * pairs :]
            last[:, 1:].addcmul_(rest, rest)
        return out.sqrt_()


def _mirrored(even: np.ndarray, odd: np.ndarray) -> tuple[list[int], list[int], list[int]]:
    """Angles whose mirror images are there too, those images, and angles that are their own.

    A filter at a lower resolution keeps only one of its two outermost frequencies, and a wavelet as
    long as the image is cut: then no angle has an exact image, and each is computed for itself.
    """
    L = len(even)
    middle = int(L - L / 2 - 1)
    partner = [(2 * middle - angle) % L for angle in range(L)]
    first = [angle for angle in range(L) if angle < partner[angle]]
    second = [partner[angle] for angle in first]
    alone = sorted((a for a in range(L) if partner[a] == a), key=lambda a: a != middle)
    wrong = [even[second] - even[first].conj(), even[alone].imag]
    wrong += [odd[second] + odd[first].conj() * _signs(odd, first, second)]
    wrong += [odd[alone[:1]].imag, odd[alone[1:]].real]
    if not first or max(np.abs(part).max(initial=0.0) for part in wrong) > 1e-8:
        return list(range(L)), [], []
    return first, second, alone


def _signs(odd: np.ndarray, first: list[int], second: list[int]) -> np.ndarray:
    """Whether a mirror image points forwards or backwards, which its modulus does not see."""
    likeness = (odd[second] * odd[first]).real.sum(axis=(1, 2), keepdims=True)
    return np.where(likeness > 0, -1.0, 1.0)


def _waves(frequencies: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    angle = 2 * np.pi * frequencies[..., None] * np.arange(size) / size
    return np.cos(angle), np.sin(angle)


def _convolution(kernels: np.ndarray, stride: int, across: np.ndarray, tall: np.ndarray) -> np.ndarray:
    """(frequencies, kernels x height', folds x height): every kernel at every stride-th place."""
    count, height, _ = kernels.shape
    lag = (np.arange(0, height, stride)[:, None] - np.arange(height)) % height
    matrix = np.einsum("koimf,ih->mkofh", kernels[:, lag][..., across], tall, optimize=True)
    return np.asarray(matrix.reshape(len(across), count * len(lag), -1) / stride)
