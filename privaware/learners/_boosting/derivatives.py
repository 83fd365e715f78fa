"""Gradients and second derivatives of the loss at a row's outputs, functions of the row alone, on a public lattice.

For two classes both are read from a table of `CELLS` public cells of the logit: rows are then counted by cell rather
than summed, and the same bits come out on every machine. A cell is 1/64 wide, which moves a gradient by 0.002 at most.
`response` says how noise in the gradients moves the result of gradient descent.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from privaware.exact_sums import MARGIN, Lattice
from privaware.learners._boosting.coded_rows import CodedLayout
from privaware.learners._row_functions import LOG2E, exp2, softmax_numerators

LATTICE = Lattice(bound=1 - MARGIN, bits=20)
"""Gradients and second derivatives are clipped to about [-1, 1] and rounded towards zero to multiples of 2^-20."""

CELLS = 2048
"""Number of cells of the logit of two classes; the first and the last cell extend to infinity."""

CELLS_PER_UNIT = 64
"""Number of cells in an interval of the logit of length 1."""

MOMENTUM = 0.9
"""The momentum coefficient of gradient descent."""


def derivatives(
    layout: CodedLayout, values: np.ndarray, target: np.ndarray, unit: float, *, curved: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Return negative clipped gradients (outputs, rows) and second derivatives (rows,) of the loss at `values`.

    `values` (outputs, rows) are outputs, and `target` (rows,) are class codes, or numbers in a regression. `unit` is
    used in a regression only, and `curved` for two classes only. Both results are rounded to multiples of 2^-20. They
    are:

    1. In a regression, `(target - values) / unit`, clipped to [-1, 1], and 1.
    2. For two classes, both derivatives of the logistic loss by the logit of the second class, from tables by cells of
       the logit. Gradients are clipped to norm `layout.length`. The second derivative is divided by 1/4, its maximum;
       if not `curved`, it is 1 instead.
    3. For more classes with probabilities p, `one_hot - p`, clipped to norm `layout.length`, and `1 - sum(p**2)`.
    """
    if not layout.classes:
        return LATTICE.round((target - values) / np.float32(unit)), np.ones(values.shape[1], np.float32)
    if layout.outputs == 1:
        gradients, seconds = logit_tables(layout.length)
        cells = logit_cells(values[0], target)
        return gradients.take(cells)[None], seconds.take(cells) if curved else np.ones(len(cells))
    numerators = softmax_numerators(LOG2E * values.astype(np.float64)).astype(np.float64)
    chances = numerators / numerators.sum(axis=0)
    gradients = (np.arange(layout.outputs)[:, None] == target) - chances
    if layout.clip < 1:
        lengths = np.sqrt(_column_sum(gradients * gradients))
        gradients = gradients * np.minimum(1.0, layout.length * (1 - MARGIN) / np.maximum(lengths, 1e-9))
    return LATTICE.round(gradients), LATTICE.round(1 - _column_sum(chances * chances))


def logit_cells(logits: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Return, for each row, `group * CELLS` plus the number of the cell in which its logit lies: integers (rows,).

    `logits` (rows,) are the logits of the second of two classes. `group` (rows,) holds small integers, such as the
    class of a row, or twice its leaf plus its class. Logits beyond all cells count for the first or the last cell.
    """
    places = logits * np.float32(CELLS_PER_UNIT)
    places += np.float32(CELLS / 2 + 0.5)
    np.clip(places, 0, CELLS - 1, out=places)
    cells: np.ndarray = group.astype(np.intp)
    cells *= CELLS
    cells += places.astype(np.intp)
    return cells


@cache
def logit_tables(length: float) -> tuple[np.ndarray, np.ndarray]:
    """Return two tables for two classes, by cell of the logit: negative gradients and second derivatives.

    Each is (2 * CELLS,): entries for rows of the first class, then for rows of the second class. Gradients are clipped
    to [-length, length]. Second derivatives are divided by 1/4, their maximum.
    """
    logits = (np.arange(CELLS) - CELLS / 2) / CELLS_PER_UNIT
    against = 1 / (exp2(LOG2E * logits).astype(np.float64) + 1)  # the chance of the first class
    most = length * (1 - MARGIN)
    gradients = LATTICE.round(np.concatenate([against - 1, against]).clip(-most, most))
    return gradients, LATTICE.round(np.tile(4 * against * (1 - against), 2))


def _column_sum(values: np.ndarray) -> np.ndarray:
    """Return the sums over the first axis of `values` (outputs, rows), as float64 (rows,).

    The outputs are added one after another, so a row's sum has the same bits for any number of rows.
    """
    total = np.zeros(values.shape[1])
    for row in values:
        total += row
    return total


def response(steps: int) -> float:
    """Return the standard deviation that noise gives the mean of the last half of `steps` iterates of gradient descent.

    Each step adds noise of standard deviation 1 to the gradient; the learning rate is 1, and momentum is `MOMENTUM`.
    Only the noise counts: the gradient without noise is taken to be zero.

    >>> response(1)
    1.0
    """
    age = np.arange(steps)[:, None] - np.arange(steps)[None, :] + 1  # steps since each noise draw
    moved = np.where(age > 0, (1 - MOMENTUM ** np.maximum(age, 0)) / (1 - MOMENTUM), 0.0)
    return float(np.linalg.norm(moved[steps // 2 :].mean(axis=0)))
