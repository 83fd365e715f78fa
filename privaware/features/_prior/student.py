"""The small network of the feature `prior`, which was trained to predict the features of the large network.

It has residual blocks of plain convolutions, and two dense layers.

During training every convolution has a batch norm, whose statistics come from synthetic images. Batch norms are folded
into the weights before the network is saved (`research/pretraining/distillation.py`), so an image passes only
convolutions and sums.
"""

from __future__ import annotations

import json
import math
import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from privaware.features._rounded_tensors import read_rounded

STEM = 5
"""Side in pixels of the filters of the first convolution, which has stride 2."""
LARGEST_ACTIVATION = 12.0
"""Value at which activations after the convolutions of a folded network are clipped.

Photographs and synthetic images hardly reach it: the cosine between their rows with and without clipping is 0.999.
White noise far exceeds it: all such images have the same row, and if half precision overflows the row is not finite,
which a learner treats as zeros.
"""


@dataclass(frozen=True, kw_only=True)
class StudentShape:
    """The sizes of a `Student`, which is the small network.

    `widths` and `blocks` are the number of channels and of blocks of each stage. `pools` is the side of each stage's
    pooled map. `hidden` and `columns` are the widths of the two last layers.
    """

    widths: tuple[int, ...] = (48, 128, 256)
    blocks: tuple[int, ...] = (2, 2, 2)
    pools: tuple[int, ...] = (4, 4, 2)
    hidden: int = 768
    columns: int = 1024

    def __post_init__(self) -> None:
        for name in ("widths", "blocks", "pools"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

    @property
    def pooled(self) -> int:
        """The number of entries of all pooled maps."""
        return sum(width * pool**2 for width, pool in zip(self.widths, self.pools, strict=True))


class Student(nn.Module):
    """The small network, from images (rows, 3, height, width) in [-1, 1] to rows (rows, shape.columns).

    Its rows predict the features of the large network. With `learning=True` it has batch norms. With `learning=False`
    it has none, and activations after convolutions are clipped at `LARGEST_ACTIVATION`.
    """

    def __init__(self, shape: StudentShape, *, learning: bool) -> None:
        super().__init__()
        self.shape = shape
        self.most = math.inf if learning else LARGEST_ACTIVATION
        self.stem = _convolution(3, shape.widths[0], STEM, 2, learning)
        self.stages = nn.ModuleList()
        channels = shape.widths[0]
        for stage, (width, blocks) in enumerate(zip(shape.widths, shape.blocks, strict=True)):
            strides = [2 if stage else 1] + [1] * (blocks - 1)
            inputs = [channels] + [width] * (blocks - 1)
            stage_blocks = (_Block(i, width, s, learning) for i, s in zip(inputs, strides, strict=True))
            self.stages.append(nn.Sequential(*stage_blocks))
            channels = width
        self.norm: nn.Module = nn.BatchNorm1d(shape.pooled) if learning else nn.Identity()
        hidden = nn.Linear(shape.pooled, shape.hidden)
        self.hidden: nn.Module = nn.Sequential(hidden, nn.BatchNorm1d(shape.hidden)) if learning else hidden
        self.output = nn.Linear(shape.hidden, shape.columns)

    def forward(self, images: Tensor) -> Tensor:
        x = _rectified(self.stem(images.to(memory_format=torch.channels_last)), self.most)
        pooled = []
        for stage, pool in zip(self.stages, self.shape.pools, strict=True):
            x = stage(x)
            pooled.append(functional.adaptive_avg_pool2d(x, pool).flatten(1))
        rows = torch.cat(pooled, 1).to(self.output.weight.dtype)
        return self.output(functional.relu(self.hidden(self.norm(rows)), inplace=True))

    def prepared(self, device: str) -> Student:
        """Move the network to `device`, and return it.

        Its convolutions are in float16 on some Arm processors, otherwise in float32 (`fastest_precision(device)`).
        """
        self.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        for part in (self.stem, self.stages):
            part.to(fastest_precision(device))
        return self

    def features(self, images: Tensor) -> Tensor:
        """Return rows (rows, columns) in single precision for images (rows, 3, height, width) in [-1, 1]."""
        weight: Tensor = self.stem.weight  # type: ignore[assignment]
        return self(images.to(weight.dtype)).float()


class _Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int, learning: bool) -> None:
        super().__init__()
        self.first = _convolution(inputs, outputs, 3, stride, learning)
        self.second = _convolution(outputs, outputs, 3, 1, learning)
        same = stride == 1 and inputs == outputs
        self.most = math.inf if learning else LARGEST_ACTIVATION
        self.shortcut = nn.Identity() if same else _convolution(inputs, outputs, 1, stride, learning)

    def forward(self, x: Tensor) -> Tensor:
        inner = _rectified(self.first(x), self.most)
        return _rectified(self.second(inner).add_(self.shortcut(x)), self.most)


def _rectified(x: Tensor, most: float) -> Tensor:
    """Clip `x` to [0, most] in place, and return it."""
    return functional.hardtanh(x, 0.0, most, inplace=True)


def _convolution(inputs: int, outputs: int, side: int, stride: int, learning: bool) -> nn.Module:
    convolution = nn.Conv2d(inputs, outputs, side, stride, side // 2, bias=not learning)
    nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs)) if learning else convolution


@cache
def fastest_precision(device: str) -> torch.dtype:
    """Return float16 for "cpu" on an Arm processor that computes in half precision (flag `asimdhp`), else float32.

    Every other `device`, a GPU included, gets float32. Half precision is about twice as fast on such Arm processors.
    """
    arm = device == "cpu" and platform.machine() == "aarch64" and torch.backends.mkldnn.is_available()
    flags = Path("/proc/cpuinfo")
    return torch.float16 if arm and flags.is_file() and "asimdhp" in flags.read_text() else torch.float32


def load_student(file: str | Path, device: str = "cpu") -> Student:
    """Return the folded student in the weights file `file`, on `device`, in evaluation mode and without gradients.

    Its convolutions are in float16 on some Arm processors, otherwise in float32 (`fastest_precision(device)`). Raise
    `WrongInput` if `file` cannot be read as such a student.
    """
    with read_rounded(file, "prior", "ours/prior/small") as (tensors, metadata):
        student = Student(StudentShape(**json.loads(metadata["shape"])), learning=False)
        student.load_state_dict(tensors)
    return student.eval().requires_grad_(False).prepared(device)
