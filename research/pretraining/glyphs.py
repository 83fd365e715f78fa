"""Synthetic glyphs: random strokes, drawn by random pens on random grounds. No font and no letter is used.

A glyph has one to five curves between the nodes of a coarse grid: lines, arcs and loops, often joined end to end, as in
most scripts. Glyphs come in families of four that differ in one stroke. A drawing of a glyph moves its control points a
little, rotates, shears and scales it, and draws it with a pen of random width: white on black like a scan, or coloured
over a texture with neighbours to the left and right like a sign. Two drawings of one glyph share only its strokes.

Paper: Lake, Salakhutdinov and Tenenbaum 2015, Human-Level Concept Learning through Probabilistic Program Induction, for
characters as programs of strokes. The strokes here are random; no drawn character was used.

Everything follows from a seed, as in `images.py`, whose textures are the grounds of the signs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from research.pretraining.images import SyntheticImages, generator_for, normal, uniform

__all__ = ["SyntheticGlyphs"]

SIDE = 32
"""Height and width of a drawing in pixels."""
STROKES = 5
"""Largest number of strokes of a glyph."""

POINTS = 24
"""Number of points that are drawn for each stroke."""

NUMBERS = (0.12, 0.28, 0.28, 0.2, 0.12)
"""Fractions of glyphs with one stroke, two strokes, and so on."""
FAMILY_SIZE = 4
"""Number of glyphs in a family, which differ in one of the first three strokes."""

JOINED = 0.6
"""Probability that a stroke starts at the end of the stroke before it."""

BENT = 0.4
"""A uniform draw below this makes a stroke straight; above it, the stroke is bent."""

LOOPED = 0.85
"""A uniform draw above this makes a stroke a loop."""

PENS = 0.35
"""Probability that a glyph is drawn as with a pen: in black and white, alone and without blur."""

ALONE = 0.45
"""Probability that a glyph has no neighbour on one side."""

WHITE_ON_BLACK = 0.8
"""Probability that a pen draws white on black rather than black on white."""

GREY = 0.5
"""Probability that the colours of a glyph and its ground are grey."""

SCALES = (0.5, 0.95)
BLURS = 2
"""Number of times that a drawing is blurred."""
FAR = 100.0
"""Coordinate that stands for an unused point."""


@dataclass(frozen=True, kw_only=True)
class SyntheticGlyphs:
    """Drawings in chunks of `chunk`, and pairs of drawings of one glyph; `textures` is the number of grounds for signs.

    >>> SyntheticGlyphs(seed=1, chunk=8, textures=4, generators=1).generate(10).shape
    torch.Size([10, 3, 32, 32])
    """

    seed: int
    chunk: int = 1024
    textures: int = 40_000
    generators: int = 64

    def generate(self, count: int, device: Any = "cpu", first: int = 0) -> Tensor:
        """Return `count` drawings as bytes of shape (count, 3, 32, 32), starting with chunk number `first`."""
        chunks = self.chunks(device, first)
        return torch.cat([next(chunks) for _ in range(0, count, self.chunk)])[:count]

    @torch.no_grad()
    def chunks(self, device: Any = "cpu", first: int = 0) -> Iterator[Tensor]:
        """Yield chunks of bytes; each depends only on the seed and its number."""
        index = first
        while True:
            g = generator_for(self.seed, "glyphs", index, device)
            yield draw(alphabet(self.chunk, g), self.grounds(device), g).mul_(255).round_().to(torch.uint8)
            index += 1

    @torch.no_grad()
    def pairs(self, rows: int, index: int, device: Any = "cpu") -> Tensor:
        """Return two drawings of each of `rows` glyphs, in [0, 1]; drawings i and `rows + i` are a pair."""
        g = generator_for(self.seed, "pairs", index, device)
        glyphs, grounds = alphabet(rows, g), self.grounds(device)
        return torch.cat([draw(glyphs, grounds, g) for _ in range(2)])

    def grounds(self, device: Any) -> Tensor:
        """Return textures as bytes, to draw on."""
        return _grounds(self.seed, self.textures, self.generators, str(device))


@lru_cache(maxsize=2)
def _grounds(seed: int, count: int, generators: int, device: str) -> Tensor:
    return SyntheticImages(seed=seed, generators=generators).generate(count, device)


def alphabet(rows: int, g: torch.Generator) -> Tensor:
    """Return control points (rows, STROKES, 4, 2) of glyphs, family after family; NaN for unused strokes."""
    base = curves(math.ceil(rows / FAMILY_SIZE), g).repeat_interleave(FAMILY_SIZE, 0)[:rows]
    other = curves(rows, g)
    changed = functional.one_hot(torch.randint(3, (rows,), generator=g, device=g.device), STROKES).bool()
    changed[::FAMILY_SIZE] = False
    glyphs = torch.where(changed[:, :, None, None], other, base)
    empty = glyphs.isnan().flatten(1).all(1)
    return torch.where(empty[:, None, None, None], other, glyphs)


def curves(rows: int, g: torch.Generator) -> Tensor:
    """Return cubic curves between nodes of a 3 x 4 grid in [-1, 1]: lines, arcs, waves, and loops at one node."""
    shape = (rows, STROKES, 1)
    across, down = torch.linspace(-0.6, 0.6, 3, device=g.device), torch.linspace(-0.9, 0.9, 4, device=g.device)
    nodes = torch.cartesian_prod(across, down)
    ends = nodes[torch.randint(len(nodes), (rows, STROKES, 2), generator=g, device=g.device)]
    ends = ends + 0.08 * normal(g, rows, STROKES, 2, 2)
    joined = uniform(g, *shape) < JOINED
    for at in range(1, STROKES):
        ends[:, at, 0] = torch.where(joined[:, at], ends[:, at - 1, 1], ends[:, at, 0])
    start, end = ends.unbind(2)
    along = end - start
    aside = torch.stack([-along[..., 1], along[..., 0]], -1)
    aside = torch.where(along.norm(dim=-1, keepdim=True) < 0.2, normal(g, rows, STROKES, 2), aside)
    kind = uniform(g, *shape)
    bend = torch.where(kind < BENT, 0.0, 0.8) * normal(g, *shape)
    back = torch.where(uniform(g, *shape) < 0.75, bend, -bend)
    turn, radius = uniform(g, *shape, high=2 * math.pi), uniform(g, *shape, low=0.5, high=1.3)
    way = radius * torch.cat([turn.cos(), turn.sin()], -1)
    left = 0.9 * torch.stack([-way[..., 1], way[..., 0]], -1)
    loop = kind > LOOPED
    first = torch.where(loop, start + way + left, start + along / 3 + bend * aside)
    second = torch.where(loop, start + way - left, start + 2 * along / 3 + back * aside)
    control = torch.stack([start, first, second, torch.where(loop, start, end)], 2)
    number = 1 + torch.multinomial(torch.tensor(NUMBERS, device=g.device), rows, True, generator=g)
    used = torch.arange(STROKES, device=g.device) < number[:, None]
    return torch.where(used[:, :, None, None], control, torch.nan)


def draw(glyphs: Tensor, grounds: Tensor, g: torch.Generator) -> Tensor:
    """Return one drawing of each glyph, with shape (rows, 3, 32, 32) and values in [0, 1]."""
    rows, shape = len(glyphs), (len(glyphs), 1, 1, 1)
    scale = uniform(g, rows, 1, low=SCALES[0], high=SCALES[1])
    pen = uniform(g, *shape) < PENS
    width = (0.03 + 0.17 * uniform(g, *shape)) * (0.4 + 0.6 * scale[..., None, None])
    points = _posed_points(glyphs, scale, pen, g)
    covered = torch.sigmoid((width - _distances(points)) / uniform(g, *shape, low=0.02, high=0.09))
    ground, front = _colours(rows, grounds, g)
    black = torch.where(uniform(g, *shape) < WHITE_ON_BLACK, 0.0, 1.0)
    ground, front = torch.where(pen, black, ground), torch.where(pen, 1 - black, front)
    images = torch.lerp(ground, front, covered)
    blur = uniform(g, *shape).square() * ~pen
    for _ in range(BLURS):
        smooth = functional.avg_pool2d(functional.pad(images, (1,) * 4, mode="replicate"), 3, 1)
        images = torch.lerp(images, smooth, blur)
    noise = 0.06 * uniform(g, *shape).square()
    return (images + noise * normal(g, *images.shape)).clamp_(0, 1)


def _posed_points(glyphs: Tensor, scale: Tensor, pen: Tensor, g: torch.Generator) -> Tensor:
    """Return points (rows, 3 * STROKES * POINTS, 2) of each glyph and of its neighbours; NaN if there are none."""
    rows = len(glyphs)
    moved = glyphs + uniform(g, rows, 1, 1, 1, low=0.01, high=0.08) * normal(g, *glyphs.shape)
    upright = _points(moved)
    angle, shear = 0.15 * normal(g, rows, 1), 0.2 * normal(g, rows, 1)
    narrow, shift = uniform(g, rows, 1, low=0.55, high=1.0), 0.1 * normal(g, rows, 2)
    cos, sin = angle.cos() * scale, angle.sin() * scale

    def posed(points: Tensor, at: Tensor) -> Tensor:
        x, y = points[..., 0] * narrow + shear * points[..., 1], points[..., 1]
        return torch.stack([cos * x - sin * y, sin * x + cos * y], -1) + at[:, None]

    parts = [posed(upright, shift)]
    for way in (-1, 1):
        order = torch.randperm(rows, device=g.device, generator=g)
        gap = uniform(g, rows, 1, low=0.75, high=1.5) * scale * (narrow + 0.35)
        at = shift + torch.cat([way * gap, 0.08 * normal(g, rows, 1)], 1)
        absent = pen[:, 0, 0] | (uniform(g, rows, 1) < ALONE)
        parts.append(torch.where(absent[..., None], torch.nan, posed(upright[order], at)))
    return torch.cat(parts, 1)


def _points(control: Tensor) -> Tensor:
    """Return points on the curves of glyphs, scaled to fill the square from -1 to 1."""
    t = torch.linspace(0, 1, POINTS, device=control.device)
    basis = torch.stack([(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3])
    points = torch.einsum("rskd,kp->rspd", control, basis).flatten(1, 2)
    unused = points.isnan()
    low, high = points.masked_fill(unused, FAR).amin(1, keepdim=True), points.masked_fill(unused, -FAR).amax(1, True)
    return (points - (low + high) / 2) / ((high - low).amax(2, keepdim=True) / 2).clamp(min=0.3)


def _distances(points: Tensor) -> Tensor:
    """Return the distance of each pixel from the nearest point, with shape (rows, 1, SIDE, SIDE)."""
    line = torch.linspace(-1, 1, SIDE, device=points.device)
    pixels = torch.cartesian_prod(line, line).flip(1)
    points = torch.nan_to_num(points, nan=FAR)
    squares = points.square().sum(2)[:, None] - 2 * pixels @ points.transpose(1, 2)
    nearest = squares.amin(2) + pixels.square().sum(1)
    return nearest.clamp_(min=0).sqrt_().view(-1, 1, SIDE, SIDE)


def _colours(rows: int, grounds: Tensor, g: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return ground and front of signs, (rows, 3, SIDE, SIDE): shaded, textured, and of different brightness."""
    shape = (rows, 1, 1, 1)
    tints = uniform(g, rows, 2, 3, 1, 1)
    grey = (uniform(g, *shape) < GREY)[:, None]
    tints = torch.where(grey, tints.mean(2, keepdim=True), tints)
    ground = 0.5 + (tints[:, 0] - 0.5) * uniform(g, *shape)
    contrast = uniform(g, *shape, low=0.15, high=0.9) * torch.sign(uniform(g, *shape) - 0.5)
    front = ground.mean(1, keepdim=True) + contrast + 0.4 * (tints[:, 1] - tints[:, 1].mean(1, keepdim=True))
    line = torch.linspace(-1, 1, SIDE, device=g.device)
    slope = 0.15 * normal(g, rows, 2, 1, 1)
    shade = slope[:, :1] * line + slope[:, 1:] * line[:, None]
    ground = ground + shade + 1.2 * uniform(g, *shape).square() * _texture(rows, grounds, g)
    front = front + shade + 0.5 * uniform(g, *shape).square() * _texture(rows, grounds, g)
    return ground, front


def _texture(rows: int, grounds: Tensor, g: torch.Generator) -> Tensor:
    """Return a part of a texture for each row, with its mean subtracted."""
    chosen = torch.randint(len(grounds), (rows,), device=g.device, generator=g)
    room = grounds.shape[-1] - SIDE
    down, right = (int(at) for at in torch.randint(room + 1, (2,), device=g.device, generator=g))
    part = grounds[chosen, :, down : down + SIDE, right : right + SIDE].float() / 255
    return part - part.mean((2, 3), keepdim=True)
