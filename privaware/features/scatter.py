"""Wavelet scattering: averaged moduli of Morlet wavelets, of the image and of the first moduli.

Each channel of an image gives 1 + J L + L^2 J (J - 1) / 2 maps (81 by default), smaller by a factor of 2^J: the average
of the channel, the averaged modulus of each wavelet, and the averaged modulus of each coarser wavelet applied to a
first modulus. Small shifts and deformations of an image hardly change the maps, so a linear model on them needs few
rows. Conventions, and so numbers, agree with kymatio 0.3.0.

Paper: Bruna and Mallat 2013, Invariant Scattering Convolution Networks, arXiv:1203.1513; Oyallon and Mallat 2015,
arXiv:1412.8659; as private features Tramer and Boneh 2021, arXiv:2011.11660.
Privacy: no privacy cost (data-independent): each row is transformed by itself, and nothing is learned.
Use when: the data are images and there is no better public extractor.

>>> Scatter(J=2, L=8)(np.ones((3, 1, 28, 28), np.float32)).shape
(3, 1, 81, 7, 7)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from privaware._validate import expect
from privaware.errors import WrongInput
from privaware.features._scattering import FilterBank, FourierLayers, MatrixLayers, Workspace
from privaware.schema import Schema

if TYPE_CHECKING:
    import torch

__all__ = ["Scatter"]

Images = TypeVar("Images", np.ndarray, "torch.Tensor")
"""An array or a tensor of images."""
MAX_BYTES_PER_THREAD = {"cpu": 2**26, "cuda": 2**31}
"""Memory limit for the maps of a microbatch in each thread, in bytes, by kind of device."""


@dataclass(frozen=True, kw_only=True)
class Scatter:
    """Map each channel of an image to scattering maps, which are smaller than the image by a factor of 2^J.

    They are the average of the channel, the averaged modulus of each wavelet, and the averaged modulus of each coarser
    wavelet applied to a first modulus. Wavelets have the scales 2^0 to 2^(J - 1), each at `L` angles.

    Parameters
    ----------
    J : int
        Binary logarithm of the width, in pixels, over which maps are averaged.
    L : int
        Number of angles.
    """

    takes_tensors: ClassVar[bool] = True

    J: int = 2
    L: int = 8

    def __post_init__(self) -> None:
        for name, most in (("J", 12), ("L", 64)):
            value = getattr(self, name)
            good = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most
            expect(good, "scatter", f"{name} as a whole number from 1 to {most}", value)

    def __call__(self, x: Images, schema: Schema | None = None) -> Images:
        """Transform images (N, C, H, W) to (N, C, maps, H / 2^J, W / 2^J), rounded down, in float32.

        Arrays give arrays, and tensors give tensors on the same device. A pixel that is NaN counts as 0. Raise
        `WrongInput` unless `x` has four axes and images of at least 2^J pixels a side.
        """
        import torch

        if isinstance(x, np.ndarray):
            return self._tensor(torch.from_numpy(x.astype(np.float32))).numpy()
        return self._tensor(x.to(torch.float32))

    @property
    def maps(self) -> int:
        """The number of maps of one channel."""
        return 1 + self.J * self.L + self.L**2 * self.J * (self.J - 1) // 2

    def width(self, schema: Schema) -> int:
        """Return the number of entries of a flattened row."""
        channels, height, width = schema.shape
        return channels * self.maps * (height >> self.J) * (width >> self.J)

    def _tensor(self, x: torch.Tensor) -> torch.Tensor:
        import torch

        if x.ndim != 4 or min(x.shape[2:]) < 2**self.J or not x.shape[1]:
            raise WrongInput(
                f"scatter: expected images (rows, channels, height, width) of at least {2**self.J} "
                f"pixels a side for J={self.J}, got {tuple(x.shape)}; use a smaller J"
            )
        rows, channels, height, width = x.shape
        bank = FilterBank(J=self.J, L=self.L, height=height, width=width)
        layers, size = _layers(bank, str(x.device)), self._microbatch(bank, x.device.type)
        maps = x.new_empty((rows * channels, self.maps, height >> self.J, width >> self.J))
        flat = x.detach().reshape(rows * channels, height, width)

        def compute(starts: list[int]) -> None:
            workspace = Workspace(maps)
            with torch.no_grad():
                for at in starts:
                    images = torch.nan_to_num(flat[at : at + size], posinf=1.0, neginf=0.0)
                    self._write(images, layers, workspace, maps[at : at + size])

        with _full_precision():
            _in_threads(compute, list(range(0, len(flat), size)), x.device.type)
        return maps.reshape(rows, channels, *maps.shape[1:])

    def _write(
        self, images: torch.Tensor, layers: FourierLayers | MatrixLayers, workspace: Workspace, out: torch.Tensor
    ) -> None:
        """Fill `out` (rows, maps, height', width') from `images` (rows, height, width).

        `layers` are those of `_layers` for images of this size, and `workspace` has their buffers.
        """
        J, L, rows, size = self.J, self.L, len(images), out.shape[2:]
        x, device = layers.enter(images), images.device
        out[:, :1] = layers.average(x, -1, workspace)
        start = 1 + J * L
        for at in range(J):
            first = layers.modulus(x, -1, at, workspace)
            one = _positions(layers.order[-1, at], device)
            out[:, 1 + at * L : 1 + (at + 1) * L] = layers.average(first, at, workspace)[:, one]
            coarser = J - 1 - at
            block = out[:, start : start + L * coarser * L].view(rows, L, coarser, L, *size)
            for to in range(at + 1, J):
                second = layers.average(layers.modulus(first, at, to, workspace), to, workspace)
                second = second.reshape(L, rows, L, *size).transpose(0, 1)
                other = _positions(layers.order[at, to], device)
                block[:, :, to - at - 1] = second[:, one[:, None], other]
            start += L * coarser * L

    def _microbatch(self, bank: FilterBank, device: str) -> int:
        """Return how many channels of images of `bank` fit the memory limit of a thread on `device`; at least 1.

        Each channel takes 4 (matrix products) or 8 (FFTs) copies of the widest layer.
        """
        height, width = bank.shape
        widest = 2 * self.L * max(1.0, self.L / 4) * height * width
        copies = 4 if bank.small else 8
        return max(1, int(MAX_BYTES_PER_THREAD.get(device, MAX_BYTES_PER_THREAD["cuda"]) // (4 * copies * widest)))


@lru_cache(maxsize=8)
def _layers(bank: FilterBank, device: str) -> FourierLayers | MatrixLayers:
    """Return the layers for the image size of `bank` on `device`: matrix products for small images, else FFTs.

    The result is cached and shared.
    """
    import torch

    def to_tensor(values: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(values, np.float32)).to(device)

    return MatrixLayers(bank, to_tensor) if bank.small else FourierLayers(bank, to_tensor)


def _in_threads(compute: Callable[[list[int]], None], starts: list[int], device: str) -> None:
    """Call `compute` in each of torch's threads, each time with another part of the list `starts`.

    Call it once, with all `starts`, if `device` is not "cpu", or if there is only one thread or one start. Threads that
    share one small matrix product would mostly wait for each other.
    """
    import torch

    threads = torch.get_num_threads()
    if device != "cpu" or min(threads, len(starts)) < 2:
        return compute(starts)
    shares = [starts[at::threads] for at in range(threads)]
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            list(pool.map(compute, shares))
    finally:
        torch.set_num_threads(threads)
    return None


def _positions(order: list[int], device: Any) -> torch.Tensor:
    """Return, for each angle from 0 on, its position in the list `order` of all angles, as a tensor on `device`."""
    import torch

    return torch.from_numpy(np.argsort(order)).to(device)


@contextmanager
def _full_precision() -> Iterator[None]:
    """Return a context in which torch computes float32 products in full precision, not in TF32.

    So features do not depend on the caller's setting, which is restored afterwards.
    """
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
