"""Random Fourier features: a linear model on them is a kernel machine with a Gaussian kernel.

A row x becomes cos(W x + b) norm / sqrt(count) with frequencies W and phases b drawn once from a
public seed; the product of two such rows approaches norm^2 / 2 exp(-|x - y|^2 / (2 scale^2)), and no row
is longer than `norm`, whatever it holds.

Paper: Rahimi and Recht 2007, Random Features for Large-Scale Kernel Machines.
Privacy: free. It uses one row at a time; the map is drawn without looking at any.
Use when: few columns interact and a linear model is too plain.

>>> RandomFourier(count=4)(np.zeros((2, 3), np.float32)).shape
(2, 4)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privaware.errors import WrongInput
from privaware.schema import Schema

__all__ = ["RandomFourier"]


@dataclass(frozen=True, kw_only=True)
class RandomFourier:
    """`scale` is the distance over which rows look alike; `draw` names the public random map."""

    count: int = 1024
    scale: float = 1.0
    norm: float = 1.0
    draw: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.count, int) or self.count < 1:
            raise WrongInput(f"random_fourier: expected count >= 1, got {self.count!r}")
        if not isinstance(self.draw, int) or self.draw < 0:
            raise WrongInput(f"random_fourier: expected draw >= 0, got {self.draw!r}")
        for name in ("scale", "norm"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not 1e-9 <= value <= 1e9:
                raise WrongInput(f"random_fourier: expected {name} from 1e-9 to 1e9, got {value!r}")

    def __call__(self, x: np.ndarray, schema: Schema | None = None) -> np.ndarray:
        rows = x.reshape(len(x), math.prod(x.shape[1:])).astype(np.float32)
        rows = np.nan_to_num(rows, nan=0.0, posinf=0.0, neginf=0.0)
        source = np.random.Generator(np.random.PCG64([self.draw, rows.shape[1], self.count]))
        frequencies = source.standard_normal((rows.shape[1], self.count), np.float32)
        phases = source.uniform(0, 2 * math.pi, self.count).astype(np.float32)
        angles = rows @ (frequencies / np.float32(self.scale)) + phases
        scale = np.float32(self.norm / math.sqrt(self.count))
        return np.asarray(np.cos(np.nan_to_num(angles)) * scale)

    def width(self, schema: Schema) -> int:
        """How many entries a row has."""
        return self.count
