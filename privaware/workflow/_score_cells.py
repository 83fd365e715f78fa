"""The cells behind a released score: the contribution of a row, the score computed from the cells, and its interval.

Cells are nonnegative sums over rows, arranged in groups. A row adds at most 1 in total to the cells of each group, in
multiples of 2^-20, so that sums have no rounding error. The prediction of a row depends on no other row. Adding or
removing a row therefore changes the cells by at most `GROUPS[metric]` in L1 norm. Changing the label of a row changes
them by at most `2 * GROUPS[metric]`.

* accuracy: counts of right and wrong predictions; with two classes, the four cells of the confusion matrix.
* AUC (two classes): a histogram of scores for each class, on a public grid. A pair in the same bin counts one half.
* MAE: sums of `error` and `1 - error`, where `error` is relative to the target range. Targets are clipped to the range.
* R2: the sums of `error**2` and `1 - error**2`, and a second group with the sums of `u**2` and `u - u**2`, where `u` is
  the target scaled to [0, 1].

>>> STATISTICS["accuracy"](np.array([[8.0, 1.0, 2.0, 9.0]]))
array([0.85])
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from privaware.data import Data, Sum
from privaware.learners._fixed_features import row_features
from privaware.model import Model
from privaware.noise import Rng

__all__ = [
    "GROUPS",
    "STATISTICS",
    "CellSums",
    "bootstrap_interval",
    "exact_cells",
    "groups_of",
    "row_outputs",
    "scored_words",
]

GROUPS = {"accuracy": 1, "auc": 1, "mae": 1, "r2": 2}
"""Number of groups of cells to which a row adds, for each metric."""
STEP = 2.0**-20
"""Multiple to which the contribution of a row is rounded, so that sums are exact."""
GRID = np.sinh(np.linspace(-4.1, 4.1, 31)) / 5
"""Bin edges of the AUC histogram, in differences of two logits: fine near 0, and up to 6 on either side."""
CONFIDENCE = 0.95
"""Confidence of the interval of a score."""
RESAMPLES = 400
"""Number of bootstrap samples behind the interval of a score."""


def scored_words(training: str, metric: str) -> str:
    """Describe a training that also releases a score."""
    return f"{training}, and its {metric} on held-out rows"


def exact_cells(metric: str, model: Model, data: Data) -> np.ndarray:
    """Return the exact cells, summed over the rows of `data`; the top of the file says what a row adds."""
    classes, outputs = len(model.schema.classes), row_outputs(model, data)
    if metric == "auc":
        exact = np.zeros((2, len(GRID) + 1))
        difference = np.nan_to_num(outputs[:, 1] - outputs[:, 0], nan=0.0) if len(data) else np.zeros(0)
        np.add.at(exact, (data.y, np.searchsorted(GRID, difference)), 1.0)
        return exact.ravel()
    if metric == "accuracy":
        predictions = outputs.argmax(axis=1) if len(data) else np.zeros(0, dtype=np.int64)
        if classes != 2:
            right = float((predictions == data.y).sum())
            return np.array([right, len(data) - right])
        exact = np.zeros((2, 2))
        np.add.at(exact, (data.y, predictions), 1.0)
        return exact.ravel()
    low, high = float(model.schema.low or 0.0), float(model.schema.high or 0.0)
    truth = np.clip((data.y - low) / (high - low), 0, 1)
    predictions = np.clip((model.decide(outputs) - low) / (high - low), 0, 1) if len(data) else np.zeros(0)
    errors = np.nan_to_num(np.abs(predictions - truth), nan=1.0)  # NaN predictions of a diverged model count as wrong
    if metric == "mae":
        errors = _rounded(errors)
        return np.array([errors.sum(), (1 - errors).sum()])
    errors, squares = _rounded(errors**2), _rounded(np.nan_to_num(truth) ** 2)
    rest = np.maximum(_rounded(np.nan_to_num(truth)) - squares, 0.0)
    return np.array([errors.sum(), (1 - errors).sum(), squares.sum(), rest.sum()])


@dataclass(frozen=True, kw_only=True)
class CellSums(Sum[Data, np.ndarray, np.ndarray]):
    """The cells summed over all rows, released with Laplace noise."""

    metric: str
    model: Model
    sensitivity: float

    def partial(self, part: Data) -> np.ndarray:
        return exact_cells(self.metric, self.model, part)

    def merge(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return left + right

    def release(self, total: np.ndarray, noise: float, rng: Rng) -> np.ndarray:
        return np.asarray(rng.laplace(total, noise=noise, sensitivity=self.sensitivity))


def _rounded(values: np.ndarray) -> np.ndarray:
    """Round down to multiples of `STEP`, on which sums of up to 2^32 terms are exact."""
    return np.floor(values / STEP) * STEP


def row_outputs(model: Model, data: Data) -> np.ndarray:
    """Return the raw outputs of `model`, of shape (rows, outputs).

    Features are computed in microbatches of one shape, and the network for one row at a time. So the bits of an output
    depend on no other row.
    """
    import torch

    rows = data.keep(tuple(column.name for column in model.schema.used))
    inputs = row_features(model.features, replace(rows, schema=model.schema))
    if inputs.dtype == object:  # texts without a text feature: a constant model ignores its inputs
        inputs = np.zeros((len(inputs), 1), dtype=np.float32)
    inputs = np.ascontiguousarray(inputs)
    network, outputs = model.network(), np.zeros((len(inputs), max(len(model.schema.classes), 1)))
    with torch.no_grad():
        slot = torch.empty((1, *inputs.shape[1:]), dtype=torch.from_numpy(inputs).dtype)
        for at in range(len(inputs)):
            slot.copy_(torch.from_numpy(inputs[at : at + 1]))
            outputs[at] = network(slot)[0].double().numpy()
    return outputs


def _accuracy(cells: np.ndarray) -> np.ndarray:
    right = cells[:, 0] if cells.shape[1] == 2 else cells[:, 0] + cells[:, 3]
    return _ratio(right, cells.sum(axis=1), 0.5)


def _auc(cells: np.ndarray) -> np.ndarray:
    negative, positive = cells.reshape(len(cells), 2, -1).swapaxes(0, 1)
    below = negative.cumsum(axis=1) - negative / 2
    return _ratio((below * positive).sum(axis=1), negative.sum(axis=1) * positive.sum(axis=1), 0.5)


def _error(cells: np.ndarray) -> np.ndarray:
    return _ratio(cells[:, 0], cells[:, :2].sum(axis=1), 1.0)


def _r2(cells: np.ndarray) -> np.ndarray:
    count, squares = np.maximum(cells[:, :2].sum(axis=1), 1.0), cells[:, 2]
    variance = squares - (squares + cells[:, 3]) ** 2 / count
    return 1 - _ratio(cells[:, 0], variance, 2.0)


def _ratio(part: np.ndarray, of: np.ndarray, otherwise: float) -> np.ndarray:
    """Return `part / of`, or `otherwise`, an uninformative value, where noise made `of` zero or negative."""
    safe = of > 1e-9
    return np.where(safe, part / np.where(safe, of, 1.0), otherwise)


STATISTICS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "accuracy": _accuracy,
    "auc": _auc,
    "mae": _error,
    "r2": _r2,
}


def groups_of(cells: np.ndarray, groups: int) -> list[np.ndarray]:
    """Split the cells into their groups."""
    return np.split(cells, groups)


def bootstrap_interval(metric: str, noisy: np.ndarray, scale: float, draw: np.random.Generator) -> tuple[float, float]:
    """Return the ends of a parametric bootstrap interval of the score.

    Rows are drawn again from the noisy cells, and Laplace noise of the same `scale` is added again.
    """
    statistic, groups = STATISTICS[metric], GROUPS[metric]
    count = max(1, round(float(groups_of(noisy, groups)[0].sum())))
    resampled, centres = [], []
    for cells in groups_of(noisy, groups):
        likely = np.maximum(cells, 0.0)
        nothing = max(count - likely.sum(), 0.0)  # rows that add less than 1 to the group
        chances = np.append(likely, nothing) + 1e-9
        chances /= chances.sum()
        resampled.append(draw.multinomial(count, chances, RESAMPLES)[:, :-1])
        centres.append(count * chances[:-1])
    noised = np.concatenate(resampled, axis=1) + draw.laplace(0, scale, (RESAMPLES, noisy.size))
    errors = statistic(noised) - statistic(np.concatenate(centres)[None])
    value = float(statistic(noisy[None])[0])
    reach = (1 - CONFIDENCE) / 2
    return value - float(np.quantile(errors, 1 - reach)), value - float(np.quantile(errors, reach))
