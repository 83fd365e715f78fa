"""Selection of the columns whose removal would cost more accuracy than the noise on their weights.

Let theta be the weights of a linear model, released with noise of standard deviation s. Let x be a row and c = y -
theta.x its residual. The expected squared error on the row is c^2 + s^2 |x|^2. Let x_m be the entries of column m and
theta_m its weights. Without column m the expected squared error is (theta_m.x_m + c)^2 + s^2 |x|^2 - s^2 |x_m|^2. So
dropping m helps exactly when |theta_m.x_m + c| <= sqrt(c^2 + d), with d = s^2 |x_m|^2. Squared errors add over rows. On
all rows together dropping m helps exactly when

    2 theta_m.sum(c x_m) + theta_m' sum(x_m x_m') theta_m  <=  s^2 sum |x_m|^2.

Columns are one-hot, so |x_m|^2 = 1 / columns on every row and the right side is public. The left side follows from
second moments, which are released once. Columns that fail are dropped, the worst first, and the model is solved again,
until all remaining columns are worth their noise.

Paper: Bao, Bauer and Bindschaedler, lemma 1 and corollary 1. The lemma's printed bound |theta_m| <= (sqrt(c^2 + d) -
|c|) / |x_m| is only sufficient, though printed as an equivalence: with c = 1, d = 3 and theta_m x_m = -2 dropping wins
(1 against 4) while the bound says otherwise. For c = 0 both are the corollary, |theta_m| <= s.
Privacy: (epsilon, delta) for one row added or removed, by one Gaussian release of (sum x x', sum x y'). Rows and
targets have norm at most 1, so a row changes it by (|x|^4 + |x|^2 |y|^2)^(1/2) <= sqrt(2). This holds in floating-point
arithmetic: rows and targets lie on public lattices, so the sums have no rounding error (see `_moments`). Solving and
dropping use released numbers only.
Use when: a linear model follows and its budget is known: `model_noise` is its noise multiplier divided by the noise
multiplier of this selector.

>>> from privaware.noise import Rng
>>> from privaware.testing import example, rows_for
>>> Worth(model_noise=20.0).run(rows_for(example(rows=3000), 3000), noise=1.0, rng=Rng(seed=1))
('age',)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privaware._validate import expect_between, expect_count
from privaware.data import Data, Rows, Sum, release
from privaware.events import Event, Gaussian
from privaware.exact_sums import Total
from privaware.features.onehot import OneHot
from privaware.model import scaled
from privaware.noise import Rng
from privaware.preprocessing._moments import add_second_moments, clipped, folded, unfolded
from privaware.schema import Schema
from privaware.selectors import Selector
from privaware.selectors._tables import chosen, limit, owners, slots

__all__ = ["Worth"]

LIPSCHITZ = 2.0
"""Largest gradient norm of half a squared error with rows, targets and predictions of norm at most 1."""


@dataclass(frozen=True, kw_only=True)
class Worth(Selector):
    """Selection of columns that are worth the noise on their weights.

    The following model is assumed to be ridge regression on the same encoding, whose weights are released with noise.

    Parameters
    ----------
    columns : int, optional
        Largest number of columns that are kept; by default all columns may be.
    model_noise : float
        Noise multiplier of the following model divided by the noise multiplier of this selector.
    ridge : float
        Ridge penalty of the following model as a fraction of the declared rows.
    bins : int
        Number of bins for numbers without declared bins.
    """

    in_parts: ClassVar[bool] = True

    columns: int | None = None
    model_noise: float = 1.0
    ridge: float = 0.1
    bins: int = 8

    def __post_init__(self) -> None:
        expect_count("worth", optional=True, columns=self.columns)
        expect_count("worth", bins=self.bins)
        expect_between("worth", 1e-9, 1e9, model_noise=self.model_noise, ridge=self.ridge)

    def cost(self, schema: Schema, noise: float) -> Event:
        slots(schema, self.bins)
        return Gaussian(noise=noise)

    def run(self, data: Rows, noise: float, rng: Rng) -> tuple[str, ...]:
        schema = data.schema
        moments, outputs = release(Moments(bins=self.bins), data.parts, noise, rng)
        penalty = self.ridge * schema.rows
        spread = self.model_noise * noise * LIPSCHITZ / penalty  # standard deviation of each weight of the model
        price = spread**2 * outputs.shape[1] * schema.rows / len(schema.used)
        selected = worthy(
            _positive(moments),
            outputs,
            owners(schema, self.bins),
            penalty=penalty,
            price=price,
            most=limit(self.columns, schema),
            blur=noise * math.sqrt(2),
        )
        return chosen(schema, selected)


@dataclass(frozen=True, kw_only=True)
class Moments(Sum[Data, tuple[Total, Total], tuple[np.ndarray, np.ndarray]]):
    """The sums of x x' and of x y' over one-hot rows x and their targets y, released with Gaussian noise.

    `bins` is the number of bins for numbers without declared bins. One row changes both sums together by at most
    sqrt(2) in L2 norm.
    """

    bins: int

    def partial(self, part: Data) -> tuple[Total, Total]:
        rows = clipped(OneHot(bins=self.bins)(part.x, part.schema), 1.0)
        squares, with_target = Total(), Total()
        add_second_moments(squares, rows, 1.0)
        add_second_moments(with_target, rows, 1.0, clipped(_targets(part), 1.0))
        return squares, with_target

    def release(self, total: tuple[Total, Total], noise: float, rng: Rng) -> tuple[np.ndarray, np.ndarray]:
        squares, with_target = (np.asarray(each.value) for each in total)
        exact = np.concatenate([folded(squares), with_target.ravel()])
        noisy = rng.gaussian(exact, noise=noise, sensitivity=math.sqrt(2))
        ends = exact.size - with_target.size
        return unfolded(noisy[:ends], len(squares)), noisy[ends:].reshape(with_target.shape)


def worthy(
    moments: np.ndarray,
    with_target: np.ndarray,
    owner: np.ndarray,
    *,
    penalty: float,
    price: float,
    most: int,
    blur: float = 0.0,
) -> np.ndarray:
    """Return the mask of the columns that reduce the squared error by more than the noise on their weights adds.

    `moments` and `with_target` are the released sums of x x' and x y'. `owner` is the column of each entry of x.
    `penalty` is the ridge penalty. `price` is the squared error over all rows that the noise on one column's weights
    adds. `blur` is the standard deviation of the noise in `with_target`; the part of the error that such noise alone
    appears to explain is not counted. Columns are dropped until all are worth their noise and at most `most` remain. At
    most 1/8 of the remaining columns (at least one) are dropped at a time, those worth least. One column always
    remains.
    """
    selected = np.ones(int(owner.max()) + 1, dtype=bool)
    while selected.sum() > 1:
        surplus = explained(moments, with_target, owner, selected, penalty, blur) - price
        failing = np.flatnonzero(selected & ((surplus <= 0) | (selected.sum() > most)))
        if not len(failing):
            break
        dropped = min(max(int(selected.sum()) // 8, 1), int(selected.sum()) - 1)
        worst = failing[np.argsort(surplus[failing], kind="stable")][:dropped]
        selected[worst] = False
    return selected


def explained(
    moments: np.ndarray, with_target: np.ndarray, owner: np.ndarray, selected: np.ndarray, penalty: float, blur: float
) -> np.ndarray:
    """Return the squared error that leaving out each column adds over all rows, minus what noise alone explains.

    `selected` is the mask of the columns in the model; other columns get 0. `moments` and `with_target` are the
    released sums of x x' and x y', and `owner` is the column of each entry of x. `penalty` is the ridge penalty, and
    `blur` the standard deviation of the noise in `with_target`.
    """
    inside = np.flatnonzero(selected[owner])
    square, cross = moments[np.ix_(inside, inside)], with_target[inside]
    inverse = np.linalg.inv(square + penalty * np.eye(len(inside)))
    weights = inverse @ cross
    left_over = cross - square @ weights  # sum of c x
    owners = owner[inside]
    within = np.where(owners[:, None] == owners[None, :], square, 0.0)
    gained = (weights * (2 * left_over + within @ weights)).sum(axis=1)
    # Noise alone gives weights of covariance blur^2 inverse^2 for each output.
    spread = blur**2 * inverse @ inverse
    by_noise = 2 * penalty * np.diagonal(spread) + (within * spread).sum(axis=1)
    gained -= cross.shape[1] * by_noise
    return np.bincount(owners, gained, minlength=len(selected))


def _positive(moments: np.ndarray) -> np.ndarray:
    """Return the nearest positive semidefinite matrix, because noise may have made eigenvalues negative."""
    values, vectors = np.linalg.eigh(moments)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def _targets(data: Data) -> np.ndarray:
    """Return targets of norm at most 1, of shape (rows, outputs).

    They are -1 or 1 for two classes, centred one-hot vectors for more classes, and numbers scaled to [-1, 1] for a
    regression.
    """
    schema = data.schema
    if not schema.classes:
        return scaled(data.y, schema)[:, None]
    if len(schema.classes) == 2:
        return np.asarray(2.0 * (data.y == 1) - 1.0)[:, None]
    return np.asarray(np.eye(len(schema.classes))[data.y] - 1 / len(schema.classes))
