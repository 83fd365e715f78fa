"""A frozen public network: EfficientNet-Lite0, trained on ImageNet-1k, as 1,280 features an image.

Images are enlarged to `size` x `size` pixels (grey ones shown in three equal channels) and the averaged
last maps are the row. The weights are a public file, looked for in `$PRIVAWARE_DATA/efficientnet_lite0`
and then in the user's cache; a file other than the published one is refused, because a released model
must find the same features again.

Any other frozen module serves too: `extract(module, images)` applies it batch by batch. To have it in
a released model, put it behind a class of your own and name that as an entry point of the group
`privaware.features`.

Paper: Tan and Le 2019, EfficientNet, arXiv:1905.11946; transfer to private tasks Tramer and Boneh 2021,
arXiv:2011.11660, section 5.
Privacy: free, as long as the private rows were not among those the network was trained on.
Use when: the private images look like photographs.

>>> import torch
>>> extract(torch.nn.Flatten(), np.ones((2, 1, 2, 2), np.float32)).shape
(2, 4)
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from privaware.datasets._download import File, locate
from privaware.errors import WrongInput
from privaware.schema import Schema

if TYPE_CHECKING:
    import torch

__all__ = ["Extractor", "extract"]

WEIGHTS = File(
    name="efficientnet_lite0_imagenet1k.safetensors",
    sha256="674d70cf95067908d96cb2b8e057037947eb9be0bf8efea1bbf5d90ec06888b7",
)
FEATURES = 1280
BLOCKS = 16
HALVING = (1, 3, 5, 11)
"""The blocks that halve the image."""


@dataclass(frozen=True, kw_only=True)
class Extractor:
    """`size` is the side, in pixels, that images are enlarged to."""

    size: int = 96

    def __post_init__(self) -> None:
        if not isinstance(self.size, int) or not 32 <= self.size <= 1024:
            raise WrongInput(f"extractor: expected size from 32 to 1024, got {self.size!r}")

    def __call__(self, x: np.ndarray, schema: Schema | None = None) -> np.ndarray:
        """(N, 1 or 3, H, W) in [0, 1] becomes (N, 1280)."""
        if x.ndim != 4 or x.shape[1] not in (1, 3):
            raise WrongInput(f"extractor: expected images with 1 or 3 channels, got shape {x.shape}")
        return extract(self.features, x)

    def width(self, schema: Schema) -> int:
        """How many entries a row has."""
        return FEATURES

    def features(self, images: torch.Tensor) -> torch.Tensor:
        """The same for a tensor, on the device where it is."""
        import torch
        from torch.nn import functional

        size = (self.size, self.size)
        x = functional.interpolate(images, size=size, mode="bilinear", align_corners=False)
        x = (x.expand(-1, 3, -1, -1) * 255 - 127) / 128
        x = x.contiguous(memory_format=torch.channels_last)  # twice as fast on a processor
        return _network(x, _weights(str(images.device)))


def extract(module: object, images: np.ndarray, rows_at_once: int = 64) -> np.ndarray:
    """Features of a frozen module (or function) of tensors, computed batch by batch.

    A module should treat rows one by one: it is put in evaluation mode, where batch normalisation does.
    """
    import torch

    if isinstance(module, torch.nn.Module):
        module = module.eval()
    if not callable(module):
        raise WrongInput(f"extract: expected a torch module or a function, got {module!r:.80}")
    made = []
    with torch.no_grad():
        for at in range(0, max(len(images), 1), rows_at_once):
            rows = torch.from_numpy(images[at : at + rows_at_once].astype(np.float32))
            made.append(module(torch.nan_to_num(rows, posinf=1.0, neginf=0.0)).numpy())
    return np.concatenate(made)


@lru_cache(maxsize=2)
def _weights(device: str) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Each convolution with its normalisation folded in: filters and biases by name."""
    import torch
    from safetensors.numpy import load

    content = (locate("efficientnet_lite0", (WEIGHTS,)) / WEIGHTS.name).read_bytes()
    if hashlib.sha256(content).hexdigest() != WEIGHTS.sha256:
        raise WrongInput(
            f"extractor: {WEIGHTS.name} differs from the published file; put the original into "
            "$PRIVAWARE_DATA/efficientnet_lite0"
        )
    stored = {name: torch.from_numpy(value).double() for name, value in load(content).items()}
    pairs = {"_conv_stem": "_bn0", "_conv_head": "_bn1"}
    for at in range(BLOCKS):
        for convolution, number in (("expand", 0), ("depthwise", 1), ("project", 2)):
            pairs[f"_blocks.{at}._{convolution}_conv"] = f"_blocks.{at}._bn{number}"
    folded = {}
    for name, norm in pairs.items():
        if f"{name}.weight" in stored:  # the first block does not expand
            scale = stored[f"{norm}.weight"] / (stored[f"{norm}.running_var"] + 1e-3).sqrt()
            bias = stored[f"{norm}.bias"] - stored[f"{norm}.running_mean"] * scale
            filters = stored[f"{name}.weight"] * scale[:, None, None, None]
            folded[name] = (filters.float().to(device), bias.float().to(device))
    return folded


def _network(x: torch.Tensor, weights: dict[str, tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
    def layer(x: torch.Tensor, name: str, stride: int = 1, *, bent: bool = True) -> torch.Tensor:
        made = _convolve(x, *weights[name], stride)
        return made.clamp_(0, 6) if bent else made

    x = layer(x, "_conv_stem", 2)
    for at in range(BLOCKS):
        block, stride = f"_blocks.{at}", 2 if at in HALVING else 1
        inner = layer(x, f"{block}._expand_conv") if at else x
        inner = layer(inner, f"{block}._depthwise_conv", stride)
        inner = layer(inner, f"{block}._project_conv", bent=False)
        x = x + inner if stride == 1 and x.shape == inner.shape else inner
    return layer(x, "_conv_head").mean(dim=(2, 3))


def _convolve(x: torch.Tensor, filters: torch.Tensor, bias: torch.Tensor, stride: int) -> torch.Tensor:
    """With zeros around as TensorFlow puts them: the odd one is below and to the right."""
    from torch.nn import functional

    size = filters.shape[-1]
    around = []
    for length in (x.shape[3], x.shape[2]):
        missing = max((-(-length // stride) - 1) * stride + size - length, 0)
        around += [missing // 2, missing - missing // 2]
    x = functional.pad(x, around) if any(around) else x
    groups = x.shape[1] if filters.shape[1] == 1 else 1
    return functional.conv2d(x, filters, bias, stride=stride, groups=groups)
