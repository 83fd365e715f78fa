"""Exact sums of the clipped gradients of a linear model: softmax, logistic or squared loss.

A row x of norm at most 1 is extended by a public constant c. Its gradient is the outer product of its residual r and
(x, c), of norm |r| |(x, c)|. One row changes the sum by at most `norm` also in floating-point arithmetic, because:
1. Rows lie on a lattice of 12 bits, so |x|^2 is exact. Weights are public; they are rounded to 12 bits of their norm.
   So x . w is below 2^24 lattice steps, and exact in float32. The bias is added entry by entry.
2. Residuals are computed entry by entry (`_row_functions`) and from exact sums over classes. They are a function of the
   row alone, bit for bit: neither the row's position nor any other row changes them.
3. Residuals are scaled to a norm of at most norm (1 - MARGIN) / |(x, c)|, minus the norm that rounding to a lattice of
   10 bits can add.
4. Sums of outer products of two lattices are exact in float64 (`exact_sums`). A chunk whose entries cannot exceed 2^24
   steps (by Cauchy-Schwarz over its rows) is exact in float32 too, and faster. So is a chunk whose residuals are split
   into two parts of few bits (`RESIDUAL_UNIT`). All ways give the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from privaware.exact_sums import MARGIN, Lattice, Total, add_outer_sum
from privaware.learners._linear.comparison import DEVIATION
from privaware.learners._row_functions import LOG2E, exp2, softmax_numerators

Totals = tuple[Total, Total]
"""Two exact sums over rows: residual times row, and residual.

Residuals are counted in multiples of `LinearGradient._residual_step`.
"""

ROWS = Lattice(bound=1.0, bits=12)
"""Entries of rows are multiples of 2^-12 in [-1, 1]."""
WEIGHT_BITS = 12
"""Weights are rounded to multiples of about 2^-12 times their norm."""
RESIDUAL_STEPS = Lattice(bound=2.0**10, bits=10)
"""Residuals are counted in steps (`LinearGradient._residual_step`): integers from -1024 to 1024."""

GAINS = Lattice(bound=1 - MARGIN, bits=20)
"""Gains, margins and targets are clipped to about [-1, 1] and rounded towards zero to multiples of 2^-20."""

CHUNK_ROWS = 128
"""Number of rows in one float32 matrix product, whose entries stay exact."""

RESIDUAL_UNIT = 32.0
"""A residual of at most 1024 steps is split into `RESIDUAL_UNIT * high + low`, with |high| and |low| at most 32.

Products of either part with the rows of a chunk have at most 2^(5 + 12 + 7) steps, so float32 adds them exactly.
"""

MAX_ROWS_PER_BLOCK = 2**14
"""Largest number of rows in a block, which is processed at once.

Residuals are integers of at most 2^10 steps (`RESIDUAL_STEPS`), so their sum over a block is at most 2^24 steps.
"""

MAX_NUMBERS_PER_BLOCK = 2**26
"""Largest number of entries of rows that are processed at a time."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearGradient:
    """Rows and settings from which clipped gradient sums of a linear model are computed.

    `rows` (rows, width) are float32 multiples of 2^-12 (`ROWS`), each row of norm at most 1. `targets` (rows,) are
    class codes, or numbers in [-1, 1] if `classes` is 0. `constant` is a public number appended to every row, whose
    weight is the bias. `norm` is the clipping norm. `known` caches tensors that follow from rows and settings alone;
    objects for the same rows and settings may share it.
    """

    rows: Tensor
    targets: Tensor
    classes: int
    constant: float
    norm: float
    known: dict[str, Tensor] = field(default_factory=dict, repr=False)

    def clipped_sum(self, weights: Tensor, batch: Tensor | None = None) -> Tensor:
        """Return the exact sum of the clipped gradients (outputs, width + 1) at float64 `weights` of the same shape.

        The last column belongs to the appended constant. The sum is over all rows or, if `batch` is given, over the
        rows at these positions.
        """
        return self.combined(self.totals(weights, batch))

    def totals(self, weights: Tensor, batch: Tensor | None = None) -> Totals:
        """Return the exact sums from which `combined` computes the sum of clipped gradients at float64 `weights`.

        `weights` are (outputs, width + 1). `batch` holds positions of rows; None means all rows. Totals of several
        `LinearGradient` objects may be merged, in any order, before `combined` is called.
        """
        sums, constants = Total(), Total()
        for chosen, rows, outputs in self._outputs(weights, batch):
            residuals = self._residual_steps(outputs, chosen)
            self._add_products(sums, residuals, rows, chosen)
            constants.add(residuals.sum(1, keepdim=True).double())
        return sums, constants

    def margins(self, weights: Tensor, columns: list[int], reach: float) -> np.ndarray:
        """Return, for each block of columns, the exact sum over rows of the clipped margin of the row's class.

        The result is (blocks,). `columns` says how many columns each block has, in order, and `weights` are (classes,
        width + 1). The margin of a block is the output of the row's own class minus the mean output of all classes,
        computed from the block's columns alone, without bias. It is divided by `reach` standard deviations, and clipped
        to [-1, 1]. Here one standard deviation is the standard deviation of the output of a block of norm `1 /
        sqrt(blocks)` under random weights of the size of `weights`.
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
                if self.classes == 2:  # one output: the difference of the two classes
                    own = 0.5 * outputs[0] * (2.0 * targets - 1.0)
                else:
                    own = outputs.gather(0, targets[None])[0]
                total.add(GAINS.round(own * (1 / unit)).double().sum(0, keepdim=True))
            sums.append(float(total.value[0]))
        return np.array(sums)

    def gains(self, weights: Tensor, mean: float) -> Total:
        """Return two exact sums over the rows of a regression: the gains over `mean`, and the targets.

        Both are in one `Total`, whose property `value` is the tensor (2,) of the sum of gains and the sum of targets.
        `mean` is a constant prediction, and the outputs come from the linear model with `weights` (1, width + 1). The
        gain of a row is ((target - mean)^2 - (target - output)^2) / DEVIATION^2, clipped to [-1, 1], where the output
        is clipped to [-1, 1] first.
        """
        total = Total()
        for chosen, _, outputs in self._outputs(weights):
            targets = self.targets[chosen]
            from_mean, error = targets - mean, targets - outputs[0].clip(-1.0, 1.0)
            gains = (from_mean * from_mean - error * error) * (1 / DEVIATION**2)
            total.add(GAINS.round(torch.stack([gains, targets], 1)).double().sum(0))
        return total

    def combined(self, totals: Totals) -> Tensor:
        """Return the sum of clipped gradients (outputs, width + 1) from `totals`, the exact sums over all rows.

        For two classes the totals have one residual, and the result has two outputs of opposite sign.
        """
        sums, constants = totals
        exact = torch.cat([sums.value, self.constant * constants.value], 1) * self._residual_step
        return torch.cat([-exact, exact]) if self.classes == 2 else exact

    def _outputs(self, weights: Tensor, batch: Tensor | None = None) -> Iterator[tuple[slice | Tensor, Tensor, Tensor]]:
        """Yield, block by block, the positions of the rows, the rows, and their outputs (outputs, rows) at `weights`.

        The rows are all rows, or those at the positions `batch`. A regression has one output. Outputs of classes are
        logits times `LOG2E`; two classes have one output, the second logit minus the first, times `LOG2E`.
        """
        if self.classes:  # binary exponents; for two classes the difference of the two
            weights = LOG2E * (weights[1:] - weights[:1] if self.classes == 2 else weights)
        length = 1.25 * float(weights[:, :-1].norm(dim=1).max())  # rounding increases the norm by less than a quarter
        coarse = Lattice(bound=max(length, 2.0**-99), bits=WEIGHT_BITS).nearest(weights[:, :-1])
        bias = (self.constant * weights[:, -1:]).float()
        count, size = len(self.rows) if batch is None else len(batch), self._slab
        for at in range(0, max(count, 1), size):
            chosen = slice(at, at + size) if batch is None else batch[at : at + size]
            rows = self.rows[chosen] if isinstance(chosen, slice) else self.rows.index_select(0, chosen)
            yield chosen, rows, self._product(coarse, rows) + bias

    def _product(self, weights: Tensor, rows: Tensor) -> Tensor:
        if self._float32_is_exact:
            return weights.float().T.contiguous().T @ rows.T  # the fastest of the four layouts on a CPU
        return (weights @ rows.double().T).float()

    def _residual_steps(self, logits: Tensor, chosen: slice | Tensor) -> Tensor:
        """Return the clipped derivatives of the loss with respect to each output (outputs, rows), as integers.

        They count multiples of `_residual_step`. `logits` (outputs, rows) are outputs and `chosen` the positions of
        their rows, both as `_outputs` yields them.
        """
        most, targets = self._most[chosen], self.targets[chosen]
        if not self.classes:
            residuals = (logits - targets) * (1 / self._residual_step)
            return torch.minimum(torch.maximum(residuals, -most), most).round_()
        if self.classes == 2:  # the residuals of both outputs are opposite: sqrt(2) times the norm of one
            signs = 2.0 * targets - 1.0
            wrong = (1 / self._residual_step) / (exp2(logits * signs) + 1.0)
            return torch.minimum(wrong, most * math.sqrt(0.5)).mul_(-signs).round_()
        numerators = softmax_numerators(logits)
        totals = numerators.sum(0)
        numerators.scatter_add_(0, targets[None], -totals[None])
        lengths = numerators.double().square_().sum(0).sqrt_().clamp_min_(1.0)  # 0 or at least 1
        factors = torch.minimum((1 / self._residual_step) / totals, (most / lengths).float())
        return numerators.mul_(factors).round_()

    def _add_products(self, sums: Total, residuals: Tensor, rows: Tensor, chosen: slice | Tensor) -> None:
        """Add the exact matrix product of `residuals` (outputs, rows) and `rows` (rows, width) to `sums`, in place.

        `residuals` are integers. `chosen` holds the positions of `rows` in `self.rows`; `_bounds` needs them to bound
        the entries of the product.
        """
        count = len(rows) // CHUNK_ROWS if self._float32_is_exact else 0
        if count:
            by_chunk = residuals[:, : count * CHUNK_ROWS].view(len(residuals), count, CHUNK_ROWS)
            chunks = rows[: count * CHUNK_ROWS].view(count, CHUNK_ROWS, rows.shape[1])
            if bool((self._bounds(by_chunk, chosen) < 0.99 * 2.0**24 * ROWS.step).all()):
                sums.add(_product_sum(by_chunk, chunks))
            else:
                high = (by_chunk * (1 / RESIDUAL_UNIT)).round_()
                both = _product_sum(torch.cat([high, by_chunk - RESIDUAL_UNIT * high]), chunks)
                sums.add(RESIDUAL_UNIT * both[: len(high)] + both[len(high) :])
            residuals, rows = residuals[:, count * CHUNK_ROWS :], rows[count * CHUNK_ROWS :]
        if len(rows) or not count:
            add_outer_sum(sums, residuals.T, rows, RESIDUAL_STEPS, ROWS)

    def _bounds(self, by_chunk: Tensor, chosen: slice | Tensor) -> Tensor:
        """Return upper bounds on the absolute entries of each chunk's product of residuals and rows.

        `by_chunk` (outputs, chunks, rows) are the residuals, and `chosen` the positions of all rows. If `chosen` is a
        slice, chunks hold the same rows in each step; the bound (chunks,) is the largest norm of a chunk's residuals
        times the chunk's largest column norm (Cauchy-Schwarz). Otherwise the bound (outputs, chunks) is the sum over
        rows of |residual| times the row's largest absolute entry.
        """
        count = by_chunk.shape[1]
        if isinstance(chosen, slice):
            first = chosen.start // CHUNK_ROWS
            norms = torch.linalg.vector_norm(by_chunk, dim=2).amax(0)
            return norms * self._column_norms[first : first + count]
        return by_chunk.abs().mul_(self._largest[chosen[: count * CHUNK_ROWS]].view(count, CHUNK_ROWS)).sum(2)

    @property
    def _slab(self) -> int:
        """The number of rows of a block: a multiple of `CHUNK_ROWS`, at most `MAX_ROWS_PER_BLOCK`."""
        return min(
            MAX_ROWS_PER_BLOCK, max(1, MAX_NUMBERS_PER_BLOCK // (max(self.rows.shape[1], 1) * CHUNK_ROWS)) * CHUNK_ROWS
        )

    @property
    def _most(self) -> Tensor:
        """For each row, the norm to which its residuals are clipped before they are rounded, in residual steps."""
        return self._once("most", self._find_most)

    @property
    def _largest(self) -> Tensor:
        """For each row, its largest absolute entry."""
        return self._once("largest", lambda: torch.cat([part.abs().amax(1) for part in self.rows.split(self._slab)]))

    @property
    def _column_norms(self) -> Tensor:
        """For each chunk of `CHUNK_ROWS` rows, the largest norm of a column; a shorter last chunk is left out."""
        return self._once("column norms", self._find_column_norms)

    def _once(self, name: str, find: Callable[[], Tensor]) -> Tensor:
        if name not in self.known:
            self.known[name] = find()
        return self.known[name]

    def _find_most(self) -> Tensor:
        squares = torch.cat([part.double().square().sum(1) for part in self.rows.split(self._slab)])
        most = self.norm * (1 - MARGIN) / (squares + self.constant**2).sqrt() / self._residual_step
        return (most - 0.5 * math.sqrt(max(self.classes, 1))).clip(0.0).float()

    def _find_column_norms(self) -> Tensor:
        chunks = self.rows.split(CHUNK_ROWS)[: len(self.rows) // CHUNK_ROWS]
        return torch.stack([chunk.square().sum(0).amax().sqrt() for chunk in chunks] or [self.rows.new_zeros(())])

    @property
    def _residual_step(self) -> float:
        """The step of residuals: a power of two; residuals are rounded to multiples of it.

        An absolute residual is at most `RESIDUAL_STEPS.bound` steps.
        """
        largest = self.norm / self.constant  # the norm of a row is at least its constant
        return Lattice(bound=min(1.0, largest) if self.classes else largest, bits=RESIDUAL_STEPS.bits).step

    @cached_property
    def _float32_is_exact(self) -> bool:
        """Whether float32 matrix products on this device keep 24 bits, rather than round inputs to TF32 or BF16."""
        twelve_bits = torch.full((64, 64), 4095.0, device=self.rows.device)
        return bool((twelve_bits @ torch.full_like(twelve_bits, 63.0) == 64 * 4095 * 63).all())


def _product_sum(by_chunk: Tensor, chunks: Tensor) -> Tensor:
    """Return the sum over chunks of `by_chunk` (outputs, chunks, rows) times `chunks` (chunks, rows, width).

    Each product is computed in float32, and the sum (outputs, width) in float64.
    """
    products = torch.bmm(by_chunk.transpose(0, 1), chunks)
    if products.is_cuda:
        return products.sum(0, dtype=torch.float64)
    return torch.from_numpy(products.numpy().sum(0, dtype=np.float64))  # several times as fast as the sum of PyTorch
