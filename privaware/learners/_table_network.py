"""The network of `amortised`: from noisy sums over levels to the scores of an additive model.

A token is a pair of a level of a column and a view. A view is a class whose scores are estimated: each class, or only
the second of two classes. Blocks mix the levels of a column by attention, then columns by attention over one summary of
each column; nothing depends on the order of columns. Inputs are sums of residuals divided by their noise and by the
rows, ridge estimates of scores with several penalties, and public facts: rows, noise, columns, levels. For each token
the network returns factors on these estimates and on the previous score, and a term; their sum changes the score.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from privaware.errors import WrongInput
from privaware.features._fourier import HARMONIC_WEIGHTS, LEVEL_WEIGHT, harmonics

MOST_ROUNDS = 3
"""Largest number of releases (rounds); the network has an input for each."""
PENALTIES = (0.5, 2.0, 8.0)
"""Penalties of the ridge estimates, as multiples of the standard deviation of the noise of a sum."""
LARGEST_SCORE = 6.0
"""Estimates of a score are clipped to this absolute value."""

LEVEL_INPUTS = 16
"""Number of inputs of the network for each pair of a level and a class (a token)."""

COLUMN_INPUTS = 8
"""Number of inputs of the network for each column."""

TABLE_INPUTS = 16
"""Number of inputs of the network for the whole table."""

MOST_LOG_ROWS = math.log(2**14)
"""Logarithm of the number of rows at which the input for rows is capped; the input for noise / rows is not."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TableFacts:
    """The public facts of a batch of tables, as the network reads them.

    `exists` (tables, columns, levels) says which levels a column has; the arrays are padded to the largest number of
    levels. `ordered` (tables, columns) says whether a column is a number, and `with_missing` (tables, columns) whether
    its last level is for missing values. `rows` (tables,) is the declared number of rows. `scale` (tables,) is the
    standard deviation of the noise of a count in the first release: noise multiplier times sensitivity. `classes` is
    the number of classes. `rounds` is the number of releases in all, and `round_number` the number of the present
    release, from 0.
    """

    exists: Tensor
    ordered: Tensor
    with_missing: Tensor
    rows: Tensor
    scale: Tensor
    classes: int
    round_number: int = 0
    rounds: int = 1

    @property
    def positions(self) -> Tensor:
        """Return the position of each level in its column: (tables, columns, levels).

        The levels of a number are evenly spaced from 0 to 1. Levels of categories, levels for missing values and padded
        levels have 0.
        """
        known = self.exists.sum(2) - self.with_missing.long()
        at = torch.arange(self.exists.shape[2], device=self.exists.device)
        inside = self.ordered[..., None] & (at < known[..., None])
        return torch.where(inside, at / (known[..., None] - 1).clamp(min=1), 0.0)

    @property
    def is_missing(self) -> Tensor:
        """Return a Boolean for each level (tables, columns, levels): whether it is for missing values."""
        at = torch.arange(self.exists.shape[2], device=self.exists.device)
        return self.with_missing[..., None] & (at == self.exists.sum(2, keepdim=True) - 1)

    @property
    def harmonics(self) -> Tensor:
        """Return the four harmonics at each level: (tables, columns, levels, 4).

        At position p (see `positions`) they are cos(pi p), sin(pi p), cos(2 pi p) and sin(2 pi p). They are 0 for
        categories, missing values and padded levels.
        """
        inside = self.ordered[..., None] & self.exists & ~self.is_missing
        return torch.stack(harmonics(math.pi * self.positions, torch.cos, torch.sin), -1) * inside[..., None]

    @property
    def bin_scale(self) -> Tensor:
        """Return the standard deviation of the noise in the sum of one level, for each column (tables, 1, columns, 1).

        It is `scale`, or `scale / sqrt(LEVEL_WEIGHT)` for a number, whose levels are released with less weight.
        """
        weight = torch.where(self.ordered, LEVEL_WEIGHT, 1.0).to(self.scale.dtype)
        return (self.scale[:, None] / weight.sqrt())[:, None, :, None]

    @property
    def harmonic_scale(self) -> Tensor:
        """Return the standard deviation of the noise in the sum of each harmonic: (tables, 1, 1, 4).

        It is `scale / sqrt(weight)`, where `weight` is the harmonic's entry in `HARMONIC_WEIGHTS`.
        """
        weights = torch.tensor(HARMONIC_WEIGHTS, device=self.scale.device, dtype=self.scale.dtype)
        return self.scale[:, None, None, None] / weights.sqrt()


@dataclass(frozen=True, kw_only=True, eq=False)
class Residuals:
    """Noisy sums over rows of the residuals of a model, and the noisy counts of the first release.

    A view is a class whose scores are estimated: each class, or only the second of two classes. The residual of a row
    is 1 if the row has the class, else 0, minus the predicted probability.

    `levels` (tables, views, columns, levels) sums residuals over the rows at each level. `harmonics` (tables, views,
    columns, 4) sums them times each harmonic, and `total` (tables, views) sums them over all rows. `spread` (tables,
    views) says how noisy these sums are. The standard deviation of the noise is `spread * bin_scale` in `levels`,
    `spread * harmonic_scale` in `harmonics` and `spread * scale` in `total`, with the scales of `TableFacts`. `counts`
    (tables, columns, levels) are noisy numbers of rows at each level, with noise of standard deviation `count_scale`
    (tables, columns, 1). `shares` (tables, views) are the estimated frequencies of the classes.
    """

    levels: Tensor
    harmonics: Tensor
    total: Tensor
    spread: Tensor
    counts: Tensor
    count_scale: Tensor
    shares: Tensor

    def later(self, levels: Tensor, harmonics: Tensor, total: Tensor, spread: float) -> Residuals:
        """Return the residuals of a later release: these sums and this `spread`, with the same counts and shares.

        The sums have the shapes of the fields of the same names; `spread` is one number for all tables and views.
        """
        return replace(
            self, levels=levels, harmonics=harmonics, total=total, spread=torch.full_like(self.spread, spread)
        )


def first_round(facts: TableFacts, levels: Tensor, harmonics: Tensor, totals: Tensor) -> Residuals:
    """Return the residuals of the model that predicts the class frequencies for every row, from noisy counts.

    `levels` (tables, classes, columns, levels), `harmonics` (tables, classes, columns, 4) and `totals` (tables,
    classes) are the noisy counts of the rows of each class: at each level, times each harmonic, and over all rows. The
    class frequencies are estimated from `levels` and `totals`, weighted by their precision. Two classes give one view,
    the second class.
    """
    exists, classes = facts.exists[:, None], facts.classes
    levels = levels * exists
    precision = 1 / (facts.bin_scale[..., 0] ** 2 * exists.sum(3))
    of_columns, own = (levels.sum(3) * precision).sum(2), 1 / facts.scale[:, None] ** 2
    precise = precision.sum(2) + own
    combined = (of_columns + totals * own) / precise
    rows = facts.rows[:, None]
    shares = (combined + (rows - combined.sum(1, keepdim=True)) / classes) / rows
    least = 0.5 / (precise.sqrt() * rows) + 1 / rows
    shares = torch.maximum(shares, least.clamp(max=0.5 / classes))
    shares = shares / shares.sum(1, keepdim=True)
    counts = levels.sum(1)
    seen = slice(1, 2) if classes == 2 else slice(0, classes)
    share, harmonics_all, total = shares[:, seen], harmonics.sum(1, keepdim=True), totals.sum(1, keepdim=True)
    return Residuals(
        levels=levels[:, seen] - share[..., None, None] * counts[:, None],
        harmonics=harmonics[:, seen] - share[..., None, None] * harmonics_all,
        total=totals[:, seen] - share * total,
        spread=((1 - share) ** 2 + (classes - 1) * share**2).sqrt(),
        counts=counts,
        count_scale=facts.bin_scale[:, 0] * math.sqrt(classes),
        shares=share,
    )


class TableNetwork(nn.Module):
    """A transformer that turns noisy sums over levels into scores of an additive model.

    It has `blocks` attention blocks with `heads` heads each. A token is a pair of a level and a class, and its hidden
    state is a vector of `width` numbers. The initial output weights are zeros, so an untrained network returns the
    scores that it is given.
    """

    def __init__(self, width: int = 96, blocks: int = 4, heads: int = 4) -> None:
        super().__init__()
        self.shape = (width, blocks, heads)
        self.of_token, self.of_column = nn.Linear(LEVEL_INPUTS, width), nn.Linear(COLUMN_INPUTS, width)
        self.of_whole, self.of_memory = nn.Linear(TABLE_INPUTS, width), nn.Linear(width, width)
        self.blocks = nn.ModuleList(_Block(width, heads) for _ in range(blocks))
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, 2 + len(PENALTIES) + len(HARMONIC_WEIGHTS))
        inner, outer = nn.Linear(width + TABLE_INPUTS, width), nn.Linear(width, 1)
        self.bias = nn.Sequential(inner, nn.GELU(), outer)
        for layer in (self.head, outer, self.of_memory):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(
        self, facts: TableFacts, residuals: Residuals, scores: Tensor, memory: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the new scores, a term to add to the bias, and the memory for the next round.

        The scores have the shape (tables, views, columns, levels), and the term (tables, views). A view is a class
        whose scores are estimated: each class, or only the second of two classes. The memory is the last hidden state
        (tables, views, columns, levels, width). `scores` and `memory` are those that the previous round returned. In
        the first round `scores` is zero and `memory` is None.
        """
        token, column, whole, estimates = _inputs(facts, residuals, scores)
        tables, views, columns, levels, _ = token.shape
        with torch.autocast(token.device.type, torch.bfloat16, enabled=token.device.type == "cuda"):
            hidden = self.of_token(token) + self.of_column(column)[..., None, :]
            hidden = hidden + self.of_whole(whole)[:, :, None, None]
            if memory is not None:
                hidden = hidden + self.of_memory(memory)
            exists = facts.exists[:, None].expand(-1, views, -1, -1).reshape(-1, levels)
            hidden = hidden.reshape(tables * views, columns, levels, -1)
            for block in self.blocks:
                hidden = block(hidden, exists)
            hidden = hidden.reshape(tables, views, columns, levels, -1)
            normed = self.last(hidden)
            gates = self.head(normed)
        gates, existing = gates.float(), facts.exists[:, None].float()
        fewer = min(1.0, 3.0 / math.sqrt(columns))  # a start at which many columns add up to no more than a few
        added = fewer * (0.3 * gates[..., 0] + (gates[..., 2:] * estimates).sum(-1))
        new = (scores + gates[..., 1] * scores + added) * existing
        pooled = (normed.float() * existing[..., None]).sum((2, 3)) / existing.sum((2, 3))[..., None]
        return new, self.bias(torch.cat([pooled, whole], -1))[..., 0], hidden


class _Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(4))
        self.of_levels, self.levels_out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.pool, self.pooled = nn.Linear(width, heads), nn.Linear(width, width)
        self.of_columns, self.columns_out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, hidden: Tensor, exists: Tensor) -> Tensor:
        tables, columns, levels, width = hidden.shape
        tokens = hidden.reshape(-1, levels, width)
        tokens = tokens + self.levels_out(self._attend(self.of_levels(self.norms[0](tokens)), exists[:, None, None]))
        normed = self.norms[1](tokens)
        weights = self.pool(normed).masked_fill(~exists[..., None], -1e4).softmax(1)
        values = self.pooled(normed).reshape(-1, levels, self.heads, width // self.heads)
        summary = (weights[..., None] * values).sum(1).reshape(tables, columns, width)
        mixed = self._attend(self.of_columns(self.norms[2](summary)), None)
        mixed = self.columns_out(summary + mixed).reshape(-1, 1, width)
        tokens = tokens + mixed
        tokens = tokens + self.narrow(functional.gelu(self.widen(self.norms[3](tokens))))
        return tokens.reshape(tables, columns, levels, width)

    def _attend(self, projected: Tensor, mask: Tensor | None) -> Tensor:
        batch, length, width = projected.shape
        split = projected.reshape(batch, length, 3, self.heads, width // (3 * self.heads)).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(split[0], split[1], split[2], attn_mask=mask)
        return mixed.transpose(1, 2).reshape(batch, length, width // 3)


def _inputs(facts: TableFacts, residuals: Residuals, scores: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return four tensors: the inputs for levels, columns and the table, and the estimates that the outputs combine.

    Their shapes are (tables, views, columns, levels, `LEVEL_INPUTS`), (tables, views, columns, `COLUMN_INPUTS`),
    (tables, views, `TABLE_INPUTS`) and (tables, views, columns, levels, estimates). The estimates of a level's score
    are one ridge estimate for each of `PENALTIES`, then one term for each harmonic. `scores` are the scores so far
    (tables, views, columns, levels).
    """
    share, spread = residuals.shares[..., None, None], residuals.spread[..., None, None]
    variance, rows = share * (1 - share), facts.rows[:, None, None, None]
    exists = facts.exists[:, None]
    noise, harmonic_noise = facts.bin_scale * spread, facts.harmonic_scale * spread
    sums = residuals.levels * exists
    counts, count_noise = residuals.counts[:, None] * exists, residuals.count_scale[:, None]
    basis = facts.harmonics[:, None]
    known = counts.clamp(min=0) * variance
    ridge = [(sums / (known + penalty * noise)).clamp(-LARGEST_SCORE, LARGEST_SCORE) for penalty in PENALTIES]
    slopes = residuals.harmonics / (0.5 * rows * variance + 2 * harmonic_noise)
    smooth = (slopes[..., None, :] * basis).clamp(-LARGEST_SCORE, LARGEST_SCORE)
    ratio = torch.asinh(sums / noise)
    ones = torch.ones_like(sums)
    estimates = torch.cat([torch.stack(ridge, -1), smooth], -1)
    token = [
        ratio,
        torch.asinh(20 * sums / (rows * variance.sqrt())),
        4 * counts / rows * ones,
        0.5 * torch.asinh(counts / count_noise) * ones,
        scores,
        facts.positions[:, None] * ones,
        facts.ordered[:, None, :, None] * ones,
        facts.is_missing[:, None] * ones,
        facts.exists.sum(2)[:, None, :, None] / 32 * ones,
    ]
    harmonic_ratio = torch.asinh(residuals.harmonics / harmonic_noise) * facts.ordered[:, None, :, None]
    level_count = exists.sum(3)
    energy = ((sums / noise).clamp(-100, 100) ** 2 * exists).sum(3) / level_count
    flat = torch.ones_like(energy)
    column = torch.stack(
        [
            *harmonic_ratio.unbind(-1),
            energy.log1p(),
            (ratio * exists).sum(3) / level_count,
            facts.ordered[:, None] * flat,
            level_count.log() * flat,
        ],
        -1,
    )
    whole = _whole_inputs(facts, residuals)
    return torch.cat([torch.stack(token, -1), estimates], -1), column, whole, estimates


def _whole_inputs(facts: TableFacts, residuals: Residuals) -> Tensor:
    share, spread = residuals.shares, residuals.spread
    variance, rows, scale = share * (1 - share), facts.rows[:, None], facts.scale[:, None]
    noise, one = scale * spread, torch.ones_like(share)
    log_rows = rows.log().clamp(max=MOST_LOG_ROWS)
    number, rounds = facts.round_number, facts.rounds
    values = [
        (log_rows - 8) / 2 * one,
        (scale / rows).log() / 4 * one,
        (noise / (rows * variance)).log() / 4,
        (noise / (rows * variance.sqrt())).log() / 4,
        torch.logit(share) / 2,
        math.log(facts.exists.shape[1]) / 2 * one,
        float(facts.classes == 2) * one,
        math.log(facts.classes) * one,
        torch.asinh(residuals.total / noise),
        (residuals.total / (rows * variance + 2 * noise)).clamp(-LARGEST_SCORE, LARGEST_SCORE),
        *(float(number == at) * one for at in range(MOST_ROUNDS)),
        *(float(rounds == at + 1) * one for at in range(MOST_ROUNDS)),
    ]
    return torch.stack(values, -1)


def load(file: str | Path, device: Any = "cpu") -> TableNetwork:
    """Return the network in the weights file `file`: float32, in evaluation mode, without gradients, on `device`.

    Raise `WrongInput` if the file is missing, cannot be read or holds another network.
    """
    from safetensors import SafetensorError, safe_open

    command = "`privaware reproduce ours/tables_prior/weights`"
    if not Path(file).is_file():
        raise WrongInput(
            f"amortised: expected its weights in {str(file)!r:.200}, got no such file; install a release of privaware "
            f"that ships them, or write them with {command} and give the file as weights"
        )
    try:
        with safe_open(str(file), framework="pt") as opened:
            metadata = opened.metadata() or {}
            tensors = {name: opened.get_tensor(name).float() for name in opened.keys()}  # noqa: SIM118
        network = TableNetwork(*(int(metadata[name]) for name in ("width", "blocks", "heads")))
        network.load_state_dict(tensors)
    except (SafetensorError, OSError, KeyError, ValueError, RuntimeError) as problem:
        reason = " ".join(str(problem).split())
        raise WrongInput(
            f"amortised: expected weights in {Path(file).name!r} as {command} writes them, got {reason:.160}"
        ) from None
    return network.eval().requires_grad_(False).to(device)
