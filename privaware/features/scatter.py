"""Wavelet scattering: averaged moduli of Morlet wavelets, of the image and of the first moduli.

Each channel of an image gives 1 + J L + L^2 J (J - 1) / 2 maps (81 by default), smaller by 2^J:
the average, the averaged modulus of each wavelet, and the averaged modulus of each wavelet of a
coarser scale applied to it. Small shifts and deformations hardly change them, so that a linear model
on them needs few rows. Conventions, and so numbers, are those of kymatio 0.3.0.

Paper: Bruna and Mallat 2013, Invariant Scattering Convolution Networks, arXiv:1203.1513; Oyallon and
Mallat 2015, arXiv:1412.8659; as private features Tramer and Boneh 2021, arXiv:2011.11660.
Privacy: free. It uses one row at a time and nothing that was learned.
Use when: the data are images and there is no better public extractor.

>>> Scatter(J=2, L=8)(np.ones((3, 1, 28, 28), np.float32)).shape
(3, 1, 81, 7, 7)
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from privaware.errors import WrongInput
from privaware.features._scattering import Bank, Dense, Fourier, Scratch
from privaware.schema import Schema

if TYPE_CHECKING:
    import torch

__all__ = ["Scatter"]

Images = TypeVar("Images", np.ndarray, "torch.Tensor")
MEMORY = {"cpu": 2**26, "cuda": 2**31}
"""Bytes that the maps of the images at work may take, for each thread."""


@dataclass(frozen=True, kw_only=True)
class Scatter:
    """`J` is the logarithm of the largest scale, `L` the number of angles."""

    takes_tensors: ClassVar[bool] = True

    J: int = 2
    L: int = 8

    def __post_init__(self) -> None:
        for name, most in (("J", 12), ("L", 64)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
                raise WrongInput(f"scatter: expected {name} as a whole number from 1 to {most}, got {value!r}")

    def __call__(self, x: Images, schema: Schema | None = None) -> Images:
        """(N, C, H, W) becomes (N, C, maps, H / 2^J, W / 2^J), rounded down, in float32.

        Arrays give arrays and tensors give tensors, on the device where they are.
        """
        import torch

        if isinstance(x, np.ndarray):
            return self._tensor(torch.from_numpy(x.astype(np.float32))).numpy()
        return self._tensor(x.to(torch.float32))

    @property
    def maps(self) -> int:
        """How many maps a channel gives."""
        return 1 + self.J * self.L + self.L**2 * self.J * (self.J - 1) // 2

    def width(self, schema: Schema) -> int:
        """How many entries a row has, laid flat."""
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
        bank = Bank(J=self.J, L=self.L, height=height, width=width)
        way, count = _way(bank, str(x.device)), self._at_once(bank, x.device.type)
        made = x.new_empty((rows * channels, self.maps, height >> self.J, width >> self.J))
        flat = x.detach().reshape(rows * channels, height, width)

        def some(starts: list[int]) -> None:
            scratch = Scratch(made)
            with torch.no_grad():
                for at in starts:
                    images = torch.nan_to_num(flat[at : at + count], posinf=1.0, neginf=0.0)
                    self._write(images, way, scratch, made[at : at + count])

        with _full_precision():
            _shared(some, list(range(0, len(flat), count)), x.device.type)
        return made.reshape(rows, channels, *made.shape[1:])

    def _write(self, images: torch.Tensor, way: Any, scratch: Scratch, out: torch.Tensor) -> None:
        """Fills (rows, maps, height', width') from images (rows, height, width)."""
        J, L, rows, size = self.J, self.L, len(images), out.shape[2:]
        x, device = way.enter(images), images.device
        out[:, :1] = way.average(x, -1, scratch)
        start = 1 + J * L
        for at in range(J):
            first = way.modulus(x, -1, at, scratch)
            one = _places(way.order[-1, at], device)
            out[:, 1 + at * L : 1 + (at + 1) * L] = way.average(first, at, scratch)[:, one]
            coarser = J - 1 - at
            block = out[:, start : start + L * coarser * L].view(rows, L, coarser, L, *size)
            for to in range(at + 1, J):
                second = way.average(way.modulus(first, at, to, scratch), to, scratch)
                second = second.reshape(L, rows, L, *size).transpose(0, 1)
                other = _places(way.order[at, to], device)
                block[:, :, to - at - 1] = second[:, one[:, None], other]
            start += L * coarser * L

    def _at_once(self, bank: Bank, device: str) -> int:
        """How many images fit the budget: a pixel needs about three copies of each wavelet's maps."""
        height, width = bank.shape
        widest = 2 * self.L * max(1.0, self.L / 4) * height * width
        copies = 4 if bank.dense else 8
        return max(1, int(MEMORY.get(device, MEMORY["cuda"]) // (4 * copies * widest)))


@lru_cache(maxsize=8)
def _way(bank: Bank, device: str) -> Any:
    """The matrices of one image size on one device."""
    import torch

    def place(values: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(values, np.float32)).to(device)

    return Dense(bank, place) if bank.dense else Fourier(bank, place)


def _shared(some: Callable[[list[int]], None], starts: list[int], device: str) -> None:
    """Does `some` of the starts in each thread: threads that share one small product mostly wait."""
    import torch

    threads = torch.get_num_threads()
    if device != "cpu" or min(threads, len(starts)) < 2:
        return some(starts)
    parts = [starts[at::threads] for at in range(threads)]
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            list(pool.map(some, parts))
    finally:
        torch.set_num_threads(threads)
    return None


def _places(order: list[int], device: Any) -> torch.Tensor:
    """Where each angle is found among maps in this order."""
    import torch

    return torch.from_numpy(np.argsort(order)).to(device)


class _full_precision:
    """Features must not depend on whether a caller allowed products of ten bits on an accelerator."""

    def __enter__(self) -> None:
        import torch

        self.before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")

    def __exit__(self, *_: object) -> None:
        import torch

        torch.set_float32_matmul_precision(self.before)
