"""Synthetic images from random processes: no photograph, no drawing and no row of any data set is used.

Half of the images are textures: a random convolutional generator (oriented filters, styles, noise) draws 32 images and
is then discarded. The other half are dead leaves: superellipses that occlude one another, coloured, shaded, and
textured with the first half. Everything follows from a seed, which is published with the weights learned from the
images.

Paper: Baradad et al. 2021, Learning to See by Looking at Noise, arXiv:2106.05963, for the families; Lee, Mumford and
Huang 2001, Occlusion Models for Natural Images, for the leaves. Filters, leaves and colours differ from the papers.

The same seed gives the same images on the same kind of device; CPUs and GPUs draw different numbers.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from privaware.errors import WrongInput

__all__ = ["SyntheticImages", "generator_for", "normal", "uniform"]

STYLES = 32
"""Number of style coordinates, which distinguish the textures of one generator."""
CHANNELS = 24
"""Number of channels of a random generator."""
RESOLUTIONS = 4
"""Number of resolutions of a generator; each doubles the resolution before."""
MIN_LEAVES = 5
"""Smallest number of leaves of an image."""

MAX_LEAVES = 40
"""Largest number of leaves of an image."""

SUPERSAMPLING = 2
"""Factor by which leaves are drawn larger and then averaged, against aliasing."""
LEAVES_MICROBATCH = 512
"""Number of images of leaves that are drawn at once."""


def generator_for(seed: int, purpose: str, index: int, device: Any) -> torch.Generator:
    """Return a separate random generator for every purpose and index, so that no draw depends on earlier draws."""
    digest = hashlib.blake2b(f"{seed}:{purpose}:{index}".encode(), digest_size=7).digest()
    return torch.Generator(device).manual_seed(int.from_bytes(digest))


@dataclass(frozen=True, kw_only=True)
class SyntheticImages:
    """Images in chunks of `2 * generators * each`, textures and leaves alternating.

    >>> SyntheticImages(seed=1, size=24, generators=2, each=4).generate(10).shape
    torch.Size([10, 3, 24, 24])
    """

    seed: int
    size: int = 48
    generators: int = 64
    each: int = 32

    def __post_init__(self) -> None:
        if self.size < 24 or self.size % 2 ** (RESOLUTIONS - 1):
            raise WrongInput(f"images: expected size as a multiple of 8 >= 24, got {self.size!r}")

    @property
    def chunk(self) -> int:
        """The number of images in a chunk."""
        return 2 * self.generators * self.each

    def generate(self, count: int, device: Any = "cpu", first: int = 0) -> Tensor:
        """Return `count` images as bytes of shape (count, 3, size, size), starting with chunk number `first`."""
        images = torch.empty(count, 3, self.size, self.size, dtype=torch.uint8, device=device)
        for at, chunk in zip(range(0, count, self.chunk), self.chunks(device, first)):
            part = images[at : at + self.chunk]
            part.copy_(chunk[: len(part)])
        return images

    @torch.no_grad()
    def chunks(self, device: Any = "cpu", first: int = 0) -> Iterator[Tensor]:
        """Yield chunks of bytes; each depends only on the seed and its number."""
        index = first
        while True:
            g = generator_for(self.seed, "images", index, device)
            textured = textures(self.generators, self.each, self.size, g)
            both = torch.stack([textured, _leaves_for(textured, g)], dim=1).flatten(0, 1)
            yield both.mul_(255).round_().to(torch.uint8)
            index += 1


def uniform(g: torch.Generator, *shape: int, low: float = 0.0, high: float = 1.0) -> Tensor:
    """Return independent numbers, uniform between `low` and `high`."""
    return low + (high - low) * torch.rand(*shape, device=g.device, generator=g)


def normal(g: torch.Generator, *shape: int) -> Tensor:
    """Return independent standard normal numbers."""
    return torch.randn(*shape, device=g.device, generator=g)


def textures(generators: int, each: int, size: int, g: torch.Generator) -> Tensor:
    """Return `each` images of every random generator, with shape (generators * each, 3, size, size) in [0, 1]."""
    width, side = generators * CHANNELS, size // 2 ** (RESOLUTIONS - 1)
    x = normal(g, 1, width, side, side) + 0.4 * normal(g, each, width, side, side)
    style = normal(g, each, generators, STYLES)
    images = torch.zeros(each, 3 * generators, side, side, device=g.device)
    for resolution in range(RESOLUTIONS):
        if resolution:
            x, images = _upsample(x), _upsample(images)
        for _ in range(2):
            x = _layer(x, style, g)
        to_rgb = normal(g, 3 * generators, CHANNELS, 1, 1) / math.sqrt(CHANNELS)
        weight = torch.exp(0.7 * normal(g, 1, generators, 1, 1, 1))  # sets how coarse or fine a generator is
        colours = functional.conv2d(x, to_rgb, groups=generators).unflatten(1, (generators, 3))
        images = images + (weight * colours).flatten(1, 2)
    images = images.unflatten(1, (generators, 3)).transpose(0, 1).flatten(0, 1)
    return _tone(images, g)


def _upsample(x: Tensor) -> Tensor:
    return functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)


def _layer(x: Tensor, style: Tensor, g: torch.Generator) -> Tensor:
    """Apply one layer of all generators: style, oriented filters, noise, leaky ReLU, normalisation of every map."""
    each, generators = style.shape[:2]
    width, side = x.shape[1], x.shape[-1]
    projection = normal(g, generators, STYLES, CHANNELS) / math.sqrt(STYLES)
    scale = torch.exp(0.8 * torch.einsum("egs,gsc->egc", style, projection)).flatten(1)
    x = functional.pad(x * scale[:, :, None, None], (2, 2, 2, 2), mode="reflect")
    x = functional.conv2d(x, _oriented_filters(width, CHANNELS, g), groups=generators)
    amplitude = 0.8 * uniform(g, 1, generators, CHANNELS, 1, 1).square()
    noise = amplitude * normal(g, each, generators, 1, side, side)
    x = x + noise.flatten(1, 2) + 0.3 * normal(g, 1, width, 1, 1)
    x = functional.leaky_relu(x, 0.2)
    return x / (x.std(dim=(2, 3), keepdim=True) + 0.05)


def _oriented_filters(filters: int, channels: int, g: torch.Generator, side: int = 5) -> Tensor:
    """Return filters over a random third of their inputs, each a Gabor stripe of random direction and width."""
    shape = (filters, channels, 1, 1)
    at = torch.arange(side, device=g.device) - (side - 1) / 2
    angle = uniform(g, *shape, high=2 * math.pi)
    across = torch.cos(angle) * at + torch.sin(angle) * at[:, None]
    along = torch.cos(angle) * at[:, None] - torch.sin(angle) * at
    sigma = uniform(g, *shape, low=0.45, high=1.55)
    stripe = torch.cos(uniform(g, *shape, low=0.2, high=1.7) * across + uniform(g, *shape, high=2 * math.pi))
    window = torch.exp(-(across.square() + along.square() / 2) / (2 * sigma.square()))
    weights = normal(g, *shape) * (uniform(g, *shape) < 1 / 3)
    kernels = stripe * window * weights
    return kernels / (kernels.square().sum((1, 2, 3), keepdim=True).sqrt() + 1e-6)


def _tone(images: Tensor, g: torch.Generator) -> Tensor:
    """Apply random contrast, brightness, tint and saturation (mostly low) to each image."""
    shape = (len(images), 1, 1, 1)
    grey, colour = _grey_and_colour(images - images.mean((2, 3), keepdim=True))
    grey = grey / (grey.std((2, 3), keepdim=True) + 1e-3)
    colour = colour / (colour.std((1, 2, 3), keepdim=True) + 1e-3)
    tint = _grey_and_colour(normal(g, len(images), 3, 1, 1))[1]
    colour = 0.6 * uniform(g, *shape).square() * colour + 0.6 * uniform(g, *shape).square() * tint
    contrast = uniform(g, *shape, low=0.8, high=2.2)
    return torch.sigmoid(contrast * (grey + colour) + 0.6 * normal(g, *shape))


def _grey_and_colour(images: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean over channels, and the deviation of each channel from it."""
    grey = images.mean(1, keepdim=True)
    return grey, images - grey


def _leaves_for(bank: Tensor, g: torch.Generator) -> Tensor:
    """Return as many images of leaves as `bank` has textures; a microbatch shares its number of leaves."""
    images = []
    for part in bank.split(LEAVES_MICROBATCH):
        number = int(torch.randint(MIN_LEAVES, MAX_LEAVES + 1, (1,), generator=g, device=g.device))
        images.append(leaves(len(part), number, bank, g))
    return torch.cat(images)


def leaves(rows: int, number: int, bank: Tensor, g: torch.Generator) -> Tensor:
    """Return images (rows, 3, size, size) in [0, 1] of `number` leaves over a textured background.

    Each leaf is |u|^p + |v|^p < 1 in its own rotated coordinates. Only the topmost leaf at each pixel is visible: one
    pass finds it, and then colour, texture and shade are looked up once.
    """
    size = bank.shape[-1]
    top, u, v = _topmost(rows, number, SUPERSAMPLING * size, g)
    saturation = 0.8 * uniform(g, rows, 1, 1)
    colour = uniform(g, rows, number + 1, 3)
    grey = colour.mean(2, keepdim=True)
    colour = grey + saturation * (colour - grey)
    share = uniform(g, rows, number + 1).square()
    share[:, 0] = 1.0  # the background is all texture
    slope = 0.2 * normal(g, rows, number + 1, 2)
    texture = torch.randint(len(bank), (rows, number + 1), device=g.device, generator=g)
    row = torch.arange(rows, device=g.device)[:, None, None]
    at = torch.arange(SUPERSAMPLING * size, device=g.device) // SUPERSAMPLING
    pattern = bank.permute(0, 2, 3, 1)[texture[row, top], at[:, None], at]
    shade = (slope[..., 0][row, top] * u + slope[..., 1][row, top] * v).clamp_(-0.3, 0.3)
    images = torch.lerp(colour[row, top], pattern, share[row, top].unsqueeze(-1))
    images = (images + shade.unsqueeze(-1)).clamp_(0, 1)
    return functional.avg_pool2d(images.permute(0, 3, 1, 2), SUPERSAMPLING)


def _topmost(rows: int, number: int, side: int, g: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Return the topmost leaf at each pixel (0 is the background), and the coordinates of the pixel in that leaf."""
    line = torch.linspace(-1, 1, side, device=g.device)
    centre = uniform(g, 2, number, rows, 1, 1, low=-1.2, high=1.2)
    radius = 0.08 * 12 ** (1 - uniform(g, number, rows, 1, 1).pow(0.8))
    order = torch.linspace(1.0, 0.4, number, device=g.device)[:, None, None, None]
    radius = radius * order  # later leaves are smaller, so that they do not cover all earlier ones
    angle = uniform(g, number, rows, 1, 1, high=math.pi)
    flat = uniform(g, number, rows, 1, 1, low=0.35, high=1.0)
    power = torch.exp(uniform(g, number, rows, 1, 1, low=0.0, high=math.log(10)))
    cos, sin = torch.cos(angle) / radius, torch.sin(angle) / radius
    top = torch.zeros(rows, side, side, dtype=torch.int64, device=g.device)
    top_u = torch.zeros(rows, side, side, device=g.device)
    top_v = torch.zeros_like(top_u)
    for leaf in range(number):
        dx, dy = line - centre[0, leaf], line[:, None] - centre[1, leaf]
        u = cos[leaf] * dx + sin[leaf] * dy
        v = (cos[leaf] * dy - sin[leaf] * dx) / flat[leaf]
        inside = u.abs().pow(power[leaf]) + v.abs().pow(power[leaf]) < 1
        top.masked_fill_(inside, leaf + 1)
        top_u, top_v = torch.where(inside, u, top_u), torch.where(inside, v, top_v)
    return top, top_u, top_v
