"""Random tables for pretraining: encoded columns and classes from random processes, thousands at once on one device.

1. Rows have latent numbers, some in clusters, and two layers of random functions of them, with noise: a structural
   causal model.
2. Columns are some of these nodes, with additional noise of any size; a node may become several columns.
3. Each column has a marginal (normal, skewed, zero-inflated, integer, uniform, heavy-tailed). It is encoded as
   `features.codes` does, by bins of about equal counts or as a category, and may have missing values.
4. The class follows from nodes, from random scores of levels, from random trees, or from a mixture, by logits with
   Gumbel noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["RandomTables", "TableShape"]

LATENTS = 12
"""Number of latent variables of a random table."""

NODES = 24
"""Number of random functions in a layer of a random table."""

CLUSTERS = 6
"""Number of clusters of the rows of a random table."""

TREES = 8
"""Number of random trees that add up to a target."""

DEPTH = 3
"""Depth of each random tree."""

MAX_CATEGORIES = 31
"""Largest number of categories of a random column."""

NARROWEST_CELL = 1e-6
"""Width, relative to the range, below which a cell holds one value."""


@dataclass(frozen=True, kw_only=True)
class TableShape:
    """The facts that the tables of one batch share; `cells` is a setting of `features.codes`, or 0 to use `bins`."""

    tables: int
    rows: int
    columns: int
    classes: int
    cells: int = 32
    bins: int = 8

    @property
    def levels(self) -> int:
        """The largest number of levels of a column, with one level for missing values, as a multiple of 8."""
        number = self.bins if not self.cells else self.cells // 2 + 2 * (self.cells // 2 - 2) + 2
        return math.ceil((max(number, MAX_CATEGORIES) + 1) / 8) * 8


@dataclass(frozen=True, kw_only=True, eq=False)
class RandomTables:
    """Ordinal codes (tables, columns, rows), classes (tables, rows), and the public facts about each column.

    `levels`, `ordered` and `with_missing` have shape (tables, columns): the number of levels, whether the column is a
    number, and whether its last level is for missing values.
    """

    codes: Tensor
    classes: Tensor
    levels: Tensor
    ordered: Tensor
    with_missing: Tensor

    @classmethod
    def generate(cls, shape: TableShape, g: torch.Generator) -> RandomTables:
        """Generate tables with the random numbers of `g`, on its device."""
        draw = _Draws(g, shape)
        nodes = _nodes(draw)
        values = _columns(nodes, draw)
        uniform = torch.special.ndtr(values)
        ordered = draw.uniform(shape.tables, shape.columns) < draw.uniform(shape.tables, 1)
        codes, levels = _number_codes(values, uniform, draw)
        categories, counts = _category_codes(uniform, draw)
        codes = torch.where(ordered[..., None], codes, categories)
        levels = torch.where(ordered, levels, counts)
        with_missing = draw.uniform(shape.tables, 1) < 0.6
        with_missing = with_missing.expand(-1, shape.columns)
        missing = _missing(uniform, draw) & with_missing[..., None]
        codes = torch.where(missing, levels[..., None], codes)
        levels = levels + with_missing
        classes = _classes(nodes, codes, uniform, ordered, draw)
        return cls(codes=codes, classes=classes, levels=levels, ordered=ordered, with_missing=with_missing)


class _Draws:
    """Random numbers on the device of one generator."""

    def __init__(self, g: torch.Generator, shape: TableShape) -> None:
        self.g, self.shape, self.device = g, shape, g.device

    def normal(self, *size: int) -> Tensor:
        return torch.randn(size, generator=self.g, device=self.device)

    def uniform(self, *size: int) -> Tensor:
        return torch.rand(size, generator=self.g, device=self.device)

    def below(self, most: int, *size: int) -> Tensor:
        return torch.randint(most, size, generator=self.g, device=self.device)

    def between(self, low: float, high: float, *size: int) -> Tensor:
        """Draw numbers whose logarithms are uniform."""
        return torch.exp(math.log(low) + (math.log(high) - math.log(low)) * self.uniform(*size))


def _standardised(values: Tensor, dim: int) -> Tensor:
    return (values - values.mean(dim, keepdim=True)) / (values.std(dim, keepdim=True) + 1e-6)


def _nodes(draw: _Draws) -> Tensor:
    """Return nodes of shape (tables, rows, nodes), each with mean 0 and standard deviation 1."""
    tables, rows = draw.shape.tables, draw.shape.rows
    weights = (2 * draw.normal(tables, 1, CLUSTERS)).softmax(-1).cumsum(-1)
    cluster = torch.searchsorted(weights[:, 0].contiguous(), draw.uniform(tables, rows)).clamp(max=CLUSTERS - 1)
    apart = draw.between(0.5, 3.0, tables, 1, 1) * (draw.uniform(tables, 1, 1) < 0.5)
    centres = draw.normal(tables, CLUSTERS, LATENTS) * apart
    latent = draw.normal(tables, rows, LATENTS)
    latent += centres.gather(1, cluster[..., None].expand(-1, -1, LATENTS))
    layers = [_standardised(latent, 1)]
    for _ in range(2):
        layers.append(_layer(layers[-1], draw))
    return torch.cat(layers, 2)


def _layer(inputs: Tensor, draw: _Draws) -> Tensor:
    """Return random functions of a few inputs each, with noise."""
    tables, rows, width = inputs.shape
    kept = draw.uniform(tables, width, NODES) < draw.between(0.08, 0.6, tables, 1, 1)
    sums = _standardised(inputs @ (draw.normal(tables, width, NODES) * kept), 1)
    kind = draw.below(6, tables, 1, NODES)
    functions = (
        sums,
        torch.tanh(2 * sums),
        sums.clamp(min=0),
        torch.sin(2.5 * sums),
        sums.abs(),
        (sums > 0.5).to(sums.dtype),
    )
    out = torch.zeros_like(sums)
    for at, function in enumerate(functions):
        out = torch.where(kind == at, function, out)
    noise = draw.between(0.03, 2.0, tables, 1, NODES)
    return _standardised(_standardised(out, 1) + noise * draw.normal(tables, rows, NODES), 1)


def _columns(nodes: Tensor, draw: _Draws) -> Tensor:
    """Return columns of shape (tables, columns, rows): nodes mixed with noise, from no noise to pure noise."""
    tables, rows, count = nodes.shape
    columns = draw.shape.columns
    few = draw.between(3, count, tables, 1).long()  # with fewer nodes, more columns carry the same information
    order = draw.uniform(tables, count).argsort(1)
    chosen = order.gather(1, draw.below(2**30, tables, columns) % few)
    values = nodes.transpose(1, 2).gather(1, chosen[..., None].expand(-1, -1, rows))
    noise, kind = draw.uniform(tables, columns, 1), draw.uniform(tables, columns, 1)
    noise = torch.where(kind < 0.25, torch.zeros_like(noise), torch.where(kind > 0.85, torch.ones_like(noise), noise))
    mixed = (1 - noise**2).sqrt() * values + noise * draw.normal(tables, columns, rows)
    return _standardised(mixed, 2)


def _number_codes(values: Tensor, uniform: Tensor, draw: _Draws) -> tuple[Tensor, Tensor]:
    """Return codes by public cells or by bins of about equal counts, and the number of levels but the missing one."""
    shape, size = draw.shape, (draw.shape.tables, draw.shape.columns, 1)
    kind, steep = draw.below(7, *size), draw.between(0.3, 2.5, *size)
    steps = draw.between(2, 14, *size).floor()
    skewed = torch.exp(steep * values)
    shift = draw.normal(*size)
    marginals = (
        values,
        skewed,
        torch.where(values > shift, skewed * (values - shift), torch.zeros_like(values)),
        (uniform * steps).floor(),
        uniform,
        values * values.abs(),
        (skewed * steps).floor().clamp(max=2000),
    )
    numbers = values
    for at, marginal in enumerate(marginals):
        numbers = torch.where(kind == at, marginal, numbers)
    low, high = numbers.amin(2, keepdim=True), numbers.amax(2, keepdim=True)
    inside = (kind == 0) | (kind == 5)
    zero = torch.where(inside & (draw.uniform(*size) < 0.5), torch.zeros_like(low), low)
    wider = torch.where(draw.uniform(*size) < 0.3, draw.between(1.0, 4.0, *size), torch.ones_like(low))
    reach = (high - low) * wider + 1e-9
    scaled, anchor = (numbers - low) / reach, (zero - low) / reach
    edges = _public_edges(anchor, shape.cells) if shape.cells else _equal_edges(scaled, shape.bins)
    levels = (edges <= 1).sum(2) + 1
    return torch.searchsorted(edges, scaled.contiguous(), right=True), levels


def _public_edges(anchor: Tensor, cells: int) -> Tensor:
    """Return the edges of `features.codes.public_edges` as fractions of a range; unused edges are above 1."""
    half = cells // 2
    sizes = torch.logspace(-4, math.log10(0.5), half - 1, device=anchor.device)[:-1]
    equal = torch.linspace(0, 1, half + 1, device=anchor.device)[1:-1].expand(*anchor.shape[:2], -1)
    edges = torch.cat([equal, anchor + sizes, anchor - sizes, anchor, anchor + NARROWEST_CELL], 2)
    return torch.where((edges > 0) & (edges <= 1), edges, torch.full_like(edges, 2.0)).sort(2).values


def _equal_edges(scaled: Tensor, bins: int) -> Tensor:
    """Return quantiles of a few rows, as coarse as private quantiles, without repetitions."""
    some = scaled[..., :128].sort(2).values
    at = torch.linspace(0, some.shape[2] - 1, bins + 1, device=scaled.device)[1:-1].long()
    edges = some[..., at]
    repeated = torch.cat([torch.zeros_like(edges[..., :1]), edges[..., :-1]], 2) == edges
    return torch.where(repeated, torch.full_like(edges, 2.0), edges).sort(2).values


def _category_codes(uniform: Tensor, draw: _Draws) -> tuple[Tensor, Tensor]:
    """Return codes of categories with uneven frequencies and no meaningful order, and the number of categories."""
    tables, columns, _ = uniform.shape
    count = draw.between(2, MAX_CATEGORIES + 0.99, tables, columns, 1).long()
    count = torch.where(draw.uniform(tables, columns, 1) < 0.3, torch.full_like(count, 2), count)
    uneven = draw.uniform(tables, columns, 1) * 2
    shares = torch.exp(uneven * draw.normal(tables, columns, MAX_CATEGORIES))
    exists = torch.arange(MAX_CATEGORIES, device=uniform.device) < count
    shares = torch.where(exists, shares, torch.zeros_like(shares))
    cuts = (shares / shares.sum(2, keepdim=True)).cumsum(2)
    codes = torch.searchsorted(cuts, uniform.contiguous(), right=True)
    codes = torch.minimum(codes, count - 1)
    keys = draw.uniform(tables, columns, MAX_CATEGORIES) + 2.0 * ~exists
    other = draw.uniform(tables, columns) < 0.5  # a level for unseen categories, which almost no row has
    return keys.argsort(2).gather(2, codes), (count[..., 0] + other).clamp(max=MAX_CATEGORIES)


def _missing(uniform: Tensor, draw: _Draws) -> Tensor:
    """Return which values are missing: at random, or where another column is large."""
    tables, columns, rows = uniform.shape
    rate = draw.uniform(tables, columns, 1) ** 2 * (draw.uniform(tables, columns, 1) < 0.25)
    depends = draw.uniform(tables, columns, 1) < 0.5
    factor = torch.where(depends, 2 * uniform.roll(1, 1), torch.ones_like(uniform))
    return draw.uniform(tables, columns, rows) < rate * factor


def _classes(nodes: Tensor, codes: Tensor, uniform: Tensor, ordered: Tensor, draw: _Draws) -> Tensor:
    """Return classes of shape (tables, rows): the largest of the logits plus Gumbel noise."""
    tables, rows, _ = nodes.shape
    classes = draw.shape.classes
    parts = (_node_scores(nodes, draw), _level_scores(codes, ordered, draw), _tree_scores(uniform, draw))
    weights = draw.uniform(tables, 1, 3) ** 3
    alone = draw.below(6, tables, 1, 1)  # half of the tables use a single source
    weights = torch.where(alone < 3, (torch.arange(3, device=draw.device) == alone).float(), weights + 1e-3)
    first, second, third = (part * weights[..., at : at + 1] for at, part in enumerate(parts))
    scale = draw.between(0.3, 6.0, tables, 1, 1)
    shift = draw.normal(tables, 1, classes) * 2.0 * draw.uniform(tables, 1, 1)
    logits = scale * _standardised(first + second + third, 1) + shift
    gumbel = -torch.log(-torch.log(draw.uniform(tables, rows, classes).clamp(1e-6, 1 - 1e-6)))
    return (logits + gumbel).argmax(2)


def _node_scores(nodes: Tensor, draw: _Draws) -> Tensor:
    tables, rows, count = nodes.shape
    chosen = draw.below(count, tables, 1, draw.shape.classes).expand(-1, rows, -1)
    return nodes.gather(2, chosen)


def _level_scores(codes: Tensor, ordered: Tensor, draw: _Draws) -> Tensor:
    """Score levels by a random walk (numbers) or independently (categories); only a few columns count."""
    tables, columns, _ = codes.shape
    kept = draw.uniform(tables, columns, 1) < draw.between(0.1, 1.0, tables, 1, 1)
    weights = draw.normal(tables, columns, 1) * (kept + 0.02)
    scores = []
    for _ in range(draw.shape.classes):
        steps = draw.normal(tables, columns, draw.shape.levels)
        trend = draw.normal(tables, columns, 1) * (draw.uniform(tables, columns, 1) < 0.5)
        walk = (0.3 * steps + 0.3 * trend).cumsum(2)
        table = weights * torch.where(ordered[..., None], walk, steps)
        scores.append(table.gather(2, codes).sum(1))
    return _standardised(torch.stack(scores, 2), 1)


def _tree_scores(uniform: Tensor, draw: _Draws) -> Tensor:
    """Score rows by trees whose splits are the same in all branches, at random columns and ranks."""
    tables, columns, rows = uniform.shape
    total = torch.zeros(tables, rows, draw.shape.classes, device=draw.device)
    for _ in range(TREES):
        leaf = torch.zeros(tables, rows, dtype=torch.long, device=draw.device)
        for _ in range(DEPTH):
            column = draw.below(columns, tables, 1, 1).expand(-1, 1, rows)
            leaf = 2 * leaf + (uniform.gather(1, column)[:, 0] > draw.uniform(tables, 1))
        values = draw.normal(tables, 2**DEPTH, draw.shape.classes)
        total += values.gather(1, leaf[..., None].expand(-1, -1, draw.shape.classes))
    return _standardised(total, 1)
