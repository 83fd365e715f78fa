"""Exact sums of the clipped gradients of a linear model: softmax, logistic or squared loss.

A row x of norm at most 1 stands beside a public constant c, and its gradient is the outer product of its residual
r and (x, c), of norm |r| |(x, c)|. Why one row moves the sum by at most `norm` in the arithmetic that is done:

1. Rows lie on a lattice of 12 bits, so |x|^2 is exact. Weights are public; they are rounded to 12 bits of their norm,
   so that x . w is below 2^24 steps, and exact in float32. The bias is added entry by entry.
2. Residuals are computed entry by entry (`_row_functions`) and from exact sums over classes, so they are a function
   of the row alone, bit for bit: neither its position nor any other row is in them.
3. They are scaled to a norm of norm (1 - MARGIN) / |(x, c)| at most, less what rounding to a lattice of 10 bits adds.
4. Sums of outer products of two lattices are exact in float64 (`exact_sums`). A chunk whose entries cannot
   exceed 2^24 steps (Cauchy and Schwarz over its rows) is as exact in float32, and faster; so is one of residuals in
   two parts of few bits (`PART`): the same bits either way.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from privaware.exact_sums import MARGIN, Lattice, Total, add_outer_sum
from privaware.learners._linear.comparison import DEVIATION
from privaware.learners._row_functions import LOG2E, exp2, softmax_numerators

__all__ = ["ROWS", "LinearGradient", "Totals"]

Totals = tuple[Total, Total]
"""Residuals times rows, and residuals."""

ROWS = Lattice(bound=1.0, bits=12)
WEIGHT_BITS = 12
RESIDUAL_STEPS = Lattice(bound=2.0**10, bits=10)

GAINS = Lattice(bound=1 - MARGIN, bits=20)

CHUNK = 128
"""Rows of a product in float32."""

PART = 32.0
"""Residuals of at most 1024 steps are this times a whole number, and a rest, of at most 32: products of either with a
chunk's rows have at most 2^(5 + 12 + 7) steps."""

SLAB = 2**14
"""Rows in work at once: their residuals add up to less than 2^24 steps."""

MEMORY = 2**26
"""Numbers of rows in work at once."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearGradient:
    """`rows` on the lattice `ROWS` in float32, class codes or (with `classes` 0) numbers as `targets`, and settings."""

    rows: Tensor
    targets: Tensor
    classes: int
    constant: float
    norm: float

    def clipped_sum(self, weights: Tensor, batch: Tensor | None = None) -> Tensor:
        """The sum of clipped gradients (outputs, width + 1) at float64 `weights`, of all rows or of a batch."""
        return self.combined(self.totals(weights, batch))

    def totals(self, weights: Tensor, batch: Tensor | None = None) -> Totals:
        """What `combined` makes the sum of: totals of several such objects may be merged before, in any order."""
        sums, constants = Total(), Total()
        for chosen, rows, outputs in self._outputs(weights, batch):
            residuals = self._residual_steps(outputs, chosen)
            self._add_products(sums, residuals, rows, chosen)
            constants.add(residuals.sum(1, keepdim=True).double())
        return sums, constants

    def margins(self, weights: Tensor, columns: list[int], reach: float) -> np.ndarray:
        """For each part of the columns, the exact sum over rows of how far its class is above the mean of the classes.

        A margin is divided by `reach` deviations of an output of a part of length 1 / root(parts), were weights of
        the average size random, and clipped to 1.
        """
        above = weights - weights.mean(0)
        above[:, -1] = 0.0
        unit = reach * LOG2E * float(above.square().mean().sqrt()) / math.sqrt(len(columns))
        sums, ends = [], np.cumsum(columns)
        for first, last in zip(ends - columns, ends, strict=True):
            part, total = torch.zeros_like(above), Total()
            part[:, first:last] = above[:, first:last]
            for chosen, _, outputs in self._outputs(part):
                targets = self.targets[chosen]
                if self.classes == 2:  # one output: twice that of the second class
                    own = 0.5 * outputs[0] * (2.0 * targets - 1.0)
                else:
                    own = outputs.gather(0, targets[None])[0]
                total.add(GAINS.round(own * (1 / unit)).double().sum(0, keepdim=True))
            sums.append(float(total.value[0]))
        return np.array(sums)

    def gains(self, weights: Tensor, mean: float) -> Total:
        """How much nearer the outputs of a regression are to the targets than a mean, and the targets: two exact sums.

        A gain is the difference of the squares over `DEVIATION` squared, clipped to 1.
        """
        total = Total()
        for chosen, _, outputs in self._outputs(weights):
            targets = self.targets[chosen]
            from_mean, error = targets - mean, targets - outputs[0].clip(-1.0, 1.0)
            gains = (from_mean * from_mean - error * error) * (1 / DEVIATION**2)
            total.add(GAINS.round(torch.stack([gains, targets], 1)).double().sum(0))
        return total

    def combined(self, totals: Totals) -> Tensor:
        """The sum of clipped gradients from the totals of all rows."""
        sums, constants = totals
        exact = torch.cat([sums.value, self.constant * constants.value], 1) * self._residual_step
        return torch.cat([-exact, exact]) if self.classes == 2 else exact

    def _outputs(self, weights: Tensor, batch: Tensor | None = None) -> Iterator[tuple[slice | Tensor, Tensor, Tensor]]:
        """Which rows are in work at once, these rows, and their outputs (outputs, rows)."""
        if self.classes:  # exponents of 2; of two classes the difference
            weights = LOG2E * (weights[1:] - weights[:1] if self.classes == 2 else weights)
        length = 1.25 * float(weights[:, :-1].norm(dim=1).max())  # rounding makes it longer, by less than a quarter
        coarse = Lattice(bound=max(length, 2.0**-99), bits=WEIGHT_BITS).nearest(weights[:, :-1])
        bias = (self.constant * weights[:, -1:]).float()
        count, size = len(self.rows) if batch is None else len(batch), self._slab
        for at in range(0, max(count, 1), size):
            chosen = slice(at, at + size) if batch is None else batch[at : at + size]
            rows = self.rows[chosen] if isinstance(chosen, slice) else self.rows.index_select(0, chosen)
            yield chosen, rows, self._product(coarse, rows) + bias

    def _product(self, weights: Tensor, rows: Tensor) -> Tensor:
        if self._float32_is_exact:
            return weights.float().T.contiguous().T @ rows.T  # of the four layouts the fastest on a CPU
        return (weights @ rows.double().T).float()

    def _residual_steps(self, logits: Tensor, chosen: slice | Tensor) -> Tensor:
        """Derivatives of the loss in each output (outputs, rows), clipped, as whole numbers of lattice steps."""
        most, targets = self._most[chosen], self.targets[chosen]
        if not self.classes:
            residuals = (logits - targets) * (1 / self._residual_step)
            return torch.minimum(torch.maximum(residuals, -most), most).round_()
        if self.classes == 2:  # two outputs of opposite residuals, so of root 2 times the norm
            signs = 2.0 * targets - 1.0
            wrong = (1 / self._residual_step) / (exp2(logits * signs) + 1.0)
            return torch.minimum(wrong, most * math.sqrt(0.5)).mul_(-signs).round_()
        numerators = softmax_numerators(logits)
        totals = numerators.sum(0)
        numerators.scatter_add_(0, targets[None], -totals[None])
        lengths = numerators.double().square_().sum(0).sqrt_().clamp_min_(1.0)  # of whole numbers: 0, or at least 1
        factors = torch.minimum((1 / self._residual_step) / totals, (most / lengths).float())
        return numerators.mul_(factors).round_()

    def _add_products(self, sums: Total, residuals: Tensor, rows: Tensor, chosen: slice | Tensor) -> None:
        """Adds residuals x rows."""
        count = len(rows) // CHUNK if self._float32_is_exact else 0
        if count:
            by_chunk = residuals[:, : count * CHUNK].view(len(residuals), count, CHUNK)
            chunks = rows[: count * CHUNK].view(count, CHUNK, rows.shape[1])
            if bool((self._bounds(by_chunk, chosen) < 0.99 * 2.0**24 * ROWS.step).all()):
                sums.add(_product_sum(by_chunk, chunks))
            else:
                high = (by_chunk * (1 / PART)).round_()
                both = _product_sum(torch.cat([high, by_chunk - PART * high]), chunks)
                sums.add(PART * both[: len(high)] + both[len(high) :])
            residuals, rows = residuals[:, count * CHUNK :], rows[count * CHUNK :]
        if len(rows) or not count:
            add_outer_sum(sums, residuals.T, rows, RESIDUAL_STEPS, ROWS)

    def _bounds(self, by_chunk: Tensor, chosen: slice | Tensor) -> Tensor:
        """What no entry of a chunk's product exceeds: by the norms of columns where chunks are always the same rows."""
        count = by_chunk.shape[1]
        if isinstance(chosen, slice):
            first = chosen.start // CHUNK
            norms = torch.linalg.vector_norm(by_chunk, dim=2).amax(0)
            return norms * self._column_norms[first : first + count]
        return by_chunk.abs().mul_(self._largest[chosen[: count * CHUNK]].view(count, CHUNK)).sum(2)

    @property
    def _slab(self) -> int:
        """Rows in work at once: whole chunks."""
        return min(SLAB, max(1, MEMORY // (max(self.rows.shape[1], 1) * CHUNK)) * CHUNK)

    @cached_property
    def _most(self) -> Tensor:
        """The largest norm of each row's residuals before rounding, in steps."""
        squares = torch.cat([part.double().square().sum(1) for part in self.rows.split(self._slab)])
        most = self.norm * (1 - MARGIN) / (squares + self.constant**2).sqrt() / self._residual_step
        return (most - 0.5 * math.sqrt(max(self.classes, 1))).clip(0.0).float()

    @cached_property
    def _largest(self) -> Tensor:
        """The largest number of each row."""
        return torch.cat([part.abs().amax(1) for part in self.rows.split(self._slab)])

    @cached_property
    def _column_norms(self) -> Tensor:
        """For each whole chunk of rows, the largest norm of a column."""
        chunks = self.rows[: len(self.rows) // CHUNK * CHUNK].split(CHUNK) if len(self.rows) >= CHUNK else ()
        return torch.stack([chunk.square().sum(0).amax().sqrt() for chunk in chunks] or [self.rows.new_zeros(())])

    @property
    def _residual_step(self) -> float:
        """The step of the lattice of residuals, whose largest value is `RESIDUAL_STEPS.bound` steps."""
        largest = self.norm / self.constant  # no row is shorter than its constant
        return Lattice(bound=min(1.0, largest) if self.classes else largest, bits=RESIDUAL_STEPS.bits).step

    @cached_property
    def _float32_is_exact(self) -> bool:
        """Whether products of this device keep 24 bits: not where they round to TF32 or BF16."""
        twelve_bits = torch.full((64, 64), 4095.0, device=self.rows.device)
        return bool((twelve_bits @ torch.full_like(twelve_bits, 63.0) == 64 * 4095 * 63).all())


def _product_sum(by_chunk: Tensor, chunks: Tensor) -> Tensor:
    """The sum over chunks of (outputs, chunks, rows) times (chunks, rows, width), each product in float32."""
    products = torch.bmm(by_chunk.transpose(0, 1), chunks)
    if products.is_cuda:
        return products.sum(0, dtype=torch.float64)
    return torch.from_numpy(products.numpy().sum(0, dtype=np.float64))  # several times as fast as PyTorch's
