"""Images made by random processes: no photograph, no drawing and no row of anybody's data is behind them.

Half of them are textures: a random convolutional generator (oriented filters, styles, noise) paints 32 images and is
then forgotten. The other half are dead leaves: superellipses that cover one another, coloured, shaded and textured from
the first half. Everything follows from a seed, which is published with what is learned from the images.

Paper: Baradad et al. 2021, Learning to See by Looking at Noise, arXiv:2106.05963, for the families; Lee, Mumford and
Huang 2001, Occlusion Models for Natural Images, for the leaves. Filters, leaves and colours here are our own.

The same seed gives the same images on the same kind of device; processors and accelerators draw different numbers.
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

__all__ = ["Images", "generator_for"]

STYLES = 32
"""Numbers behind one textured image: what tells it from its siblings of the same generator."""
CHANNELS = 24
LEVELS = 4
"""Resolutions of a generator; each doubles the one before."""
FEWEST, MOST = 5, 40
FINER = 2
"""Leaves are painted at this many times the size and averaged, which softens their edges."""
LEAVES_AT_ONCE = 512


def generator_for(seed: int, purpose: str, index: int, device: Any) -> torch.Generator:
    """A generator of its own for every purpose and number: no draw depends on what was drawn before."""
    digest = hashlib.blake2b(f"{seed}:{purpose}:{index}".encode(), digest_size=7).digest()
    return torch.Generator(device).manual_seed(int.from_bytes(digest))


@dataclass(frozen=True, kw_only=True)
class Images:
    """An endless supply in chunks of 2 x `generators` x `each` images, textures and leaves by turns.

    >>> Images(seed=1, size=24, generators=2, each=4).make(10).shape
    torch.Size([10, 3, 24, 24])
    """

    seed: int
    size: int = 48
    generators: int = 64
    each: int = 32

    def __post_init__(self) -> None:
        if self.size < 24 or self.size % 2 ** (LEVELS - 1):
            raise WrongInput(f"images: expected size as a multiple of 8 >= 24, got {self.size!r}")

    @property
    def chunk(self) -> int:
        """How many images are made at once."""
        return 2 * self.generators * self.each

    def make(self, count: int, device: Any = "cpu", first: int = 0) -> Tensor:
        """`count` images of bytes (count, 3, size, size), from chunk number `first` on."""
        made = torch.empty(count, 3, self.size, self.size, dtype=torch.uint8, device=device)
        for at, chunk in zip(range(0, count, self.chunk), self.chunks(device, first)):
            some = made[at : at + self.chunk]
            some.copy_(chunk[: len(some)])
        return made

    @torch.no_grad()
    def chunks(self, device: Any = "cpu", first: int = 0) -> Iterator[Tensor]:
        """Chunk after chunk of bytes; each is the same whichever were made before it."""
        index = first
        while True:
            g = generator_for(self.seed, "images", index, device)
            textured = textures(self.generators, self.each, self.size, g)
            both = torch.stack([textured, _all_leaves(textured, g)], dim=1).flatten(0, 1)
            yield both.mul_(255).round_().to(torch.uint8)
            index += 1


def _uniform(g: torch.Generator, *shape: int, low: float = 0.0, high: float = 1.0) -> Tensor:
    return low + (high - low) * torch.rand(*shape, device=g.device, generator=g)


def _normal(g: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, device=g.device, generator=g)


def textures(generators: int, each: int, size: int, g: torch.Generator) -> Tensor:
    """`each` images of every random generator, (generators * each, 3, size, size) in [0, 1]."""
    width, side = generators * CHANNELS, size // 2 ** (LEVELS - 1)
    x = _normal(g, 1, width, side, side) + 0.4 * _normal(g, each, width, side, side)
    style = _normal(g, each, generators, STYLES)
    painted = torch.zeros(each, 3 * generators, side, side, device=g.device)
    for level in range(LEVELS):
        if level:
            x, painted = _doubled(x), _doubled(painted)
        for _ in range(2):
            x = _layer(x, style, g)
        brush = _normal(g, 3 * generators, CHANNELS, 1, 1) / math.sqrt(CHANNELS)
        weight = torch.exp(0.7 * _normal(g, 1, generators, 1, 1, 1))  # coarse or fine, each its own mix
        stroke = functional.conv2d(x, brush, groups=generators).unflatten(1, (generators, 3))
        painted = painted + (weight * stroke).flatten(1, 2)
    images = painted.unflatten(1, (generators, 3)).transpose(0, 1).flatten(0, 1)
    return _toned(images, g)


def _doubled(x: Tensor) -> Tensor:
    return functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)


def _layer(x: Tensor, style: Tensor, g: torch.Generator) -> Tensor:
    """One layer of all generators: style, oriented filters, noise, a bent line, and every map to unit spread."""
    each, generators = style.shape[:2]
    width, side = x.shape[1], x.shape[-1]
    turn = _normal(g, generators, STYLES, CHANNELS) / math.sqrt(STYLES)
    strength = torch.exp(0.8 * torch.einsum("egs,gsc->egc", style, turn)).flatten(1)
    x = functional.pad(x * strength[:, :, None, None], (2, 2, 2, 2), mode="reflect")
    x = functional.conv2d(x, _oriented(width, CHANNELS, g), groups=generators)
    amount = 0.8 * _uniform(g, 1, generators, CHANNELS, 1, 1).square()
    grain = amount * _normal(g, each, generators, 1, side, side)
    x = x + grain.flatten(1, 2) + 0.3 * _normal(g, 1, width, 1, 1)
    x = functional.leaky_relu(x, 0.2)
    return x / (x.std(dim=(2, 3), keepdim=True) + 0.05)


def _oriented(filters: int, channels: int, g: torch.Generator, side: int = 5) -> Tensor:
    """Filters that look at a third of their inputs, at each through a stripe of random direction and width."""
    shape = (filters, channels, 1, 1)
    at = torch.arange(side, device=g.device) - (side - 1) / 2
    angle = _uniform(g, *shape, high=2 * math.pi)
    across = torch.cos(angle) * at + torch.sin(angle) * at[:, None]
    along = torch.cos(angle) * at[:, None] - torch.sin(angle) * at
    reach = _uniform(g, *shape, low=0.45, high=1.55)
    stripe = torch.cos(_uniform(g, *shape, low=0.2, high=1.7) * across + _uniform(g, *shape, high=2 * math.pi))
    window = torch.exp(-(across.square() + along.square() / 2) / (2 * reach.square()))
    chosen = _normal(g, *shape) * (_uniform(g, *shape) < 1 / 3)
    made = stripe * window * chosen
    return made / (made.square().sum((1, 2, 3), keepdim=True).sqrt() + 1e-6)


def _toned(images: Tensor, g: torch.Generator) -> Tensor:
    """A contrast, a brightness, a tint and a saturation (mostly low) of each image's own."""
    shape = (len(images), 1, 1, 1)
    grey, colour = _split(images - images.mean((2, 3), keepdim=True))
    grey = grey / (grey.std((2, 3), keepdim=True) + 1e-3)
    colour = colour / (colour.std((1, 2, 3), keepdim=True) + 1e-3)
    tint = _split(_normal(g, len(images), 3, 1, 1))[1]
    colour = 0.6 * _uniform(g, *shape).square() * colour + 0.6 * _uniform(g, *shape).square() * tint
    contrast = _uniform(g, *shape, low=0.8, high=2.2)
    return torch.sigmoid(contrast * (grey + colour) + 0.6 * _normal(g, *shape))


def _split(images: Tensor) -> tuple[Tensor, Tensor]:
    """The grey part and what colour adds to it."""
    grey = images.mean(1, keepdim=True)
    return grey, images - grey


def _all_leaves(bank: Tensor, g: torch.Generator) -> Tensor:
    """As many images of leaves as `bank` has textures, a few hundred with the same number of leaves at a time."""
    made = []
    for some in bank.split(LEAVES_AT_ONCE):
        number = int(torch.randint(FEWEST, MOST + 1, (1,), generator=g, device=g.device))
        made.append(leaves(len(some), number, bank, g))
    return torch.cat(made)


def leaves(rows: int, number: int, bank: Tensor, g: torch.Generator) -> Tensor:
    """Images (rows, 3, size, size) in [0, 1] of `number` leaves over a textured ground.

    Each leaf is an |u|^p + |v|^p < 1 in its own turned coordinates. For every point only the leaf on top matters: one
    pass finds it, then colour, texture and shade are looked up once.
    """
    size = bank.shape[-1]
    top, u, v = _on_top(rows, number, FINER * size, g)
    saturation = 0.8 * _uniform(g, rows, 1, 1)
    colour = _uniform(g, rows, number + 1, 3)
    grey = colour.mean(2, keepdim=True)
    colour = grey + saturation * (colour - grey)
    share = _uniform(g, rows, number + 1).square()
    share[:, 0] = 1.0  # the ground is all texture
    slope = 0.2 * _normal(g, rows, number + 1, 2)
    picked = torch.randint(len(bank), (rows, number + 1), device=g.device, generator=g)
    row = torch.arange(rows, device=g.device)[:, None, None]
    at = torch.arange(FINER * size, device=g.device) // FINER
    pattern = bank.permute(0, 2, 3, 1)[picked[row, top], at[:, None], at]
    shade = (slope[..., 0][row, top] * u + slope[..., 1][row, top] * v).clamp_(-0.3, 0.3)
    made = torch.lerp(colour[row, top], pattern, share[row, top].unsqueeze(-1))
    made = (made + shade.unsqueeze(-1)).clamp_(0, 1)
    return functional.avg_pool2d(made.permute(0, 3, 1, 2), FINER)


def _on_top(rows: int, number: int, side: int, g: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Which leaf is seen at each point (0 is the ground), and where in that leaf the point lies."""
    line = torch.linspace(-1, 1, side, device=g.device)
    centre = _uniform(g, 2, number, rows, 1, 1, low=-1.2, high=1.2)
    radius = 0.08 * 12 ** (1 - _uniform(g, number, rows, 1, 1).pow(0.8))
    order = torch.linspace(1.0, 0.4, number, device=g.device)[:, None, None, None]
    radius = radius * order  # what lies on top is smaller, or it would hide the rest
    angle = _uniform(g, number, rows, 1, 1, high=math.pi)
    flat = _uniform(g, number, rows, 1, 1, low=0.35, high=1.0)
    power = torch.exp(_uniform(g, number, rows, 1, 1, low=0.0, high=math.log(10)))
    cos, sin = torch.cos(angle) / radius, torch.sin(angle) / radius
    top = torch.zeros(rows, side, side, dtype=torch.int64, device=g.device)
    seen_u = torch.zeros(rows, side, side, device=g.device)
    seen_v = torch.zeros_like(seen_u)
    for leaf in range(number):
        dx, dy = line - centre[0, leaf], line[:, None] - centre[1, leaf]
        u = cos[leaf] * dx + sin[leaf] * dy
        v = (cos[leaf] * dy - sin[leaf] * dx) / flat[leaf]
        inside = u.abs().pow(power[leaf]) + v.abs().pow(power[leaf]) < 1
        top.masked_fill_(inside, leaf + 1)
        seen_u, seen_v = torch.where(inside, u, seen_u), torch.where(inside, v, seen_v)
    return top, seen_u, seen_v
