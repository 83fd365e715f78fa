"""The cells behind a released score: what a row adds to them, and how they are summed over rows and released.

Cells are nonnegative sums over rows, arranged in groups. A row adds at most 1 in total to the cells of each group, in
multiples of 2^-20, so that sums have no rounding error. The prediction of a row depends on no other row. Adding or
removing a row therefore changes the cells by at most `len(cells.sizes)`, the number of groups, in L1 norm. Changing the
label of a row changes them by at most twice as much.

* Two classes: one histogram of shape (true class, bin of the predicted log-odds of the second class). One edge, 0,
gives the confusion matrix. Edges at the log-odds of 0.1 to 0.9 serve the threshold and the calibration, and a finer
grid serves the AUC. * More classes: a histogram of shape (wrong or right, bin of the probability of the predicted
class); and a second group with the counts of the true classes, or with the confusion matrix. * MAE: the sums of `error`
and `1 - error`, where `error` is relative to the target range; and a second group with the
  same sums for a constant prediction. Targets are clipped to the range.
* R2: the sums of `error**2` and `1 - error**2`, and a second group with the sums of `u**2` and `u - u**2`, where `u` is
  the target scaled to [0, 1].

>>> ScoreCells.of("accuracy", 2).sizes, ScoreCells.of("accuracy", 3, ("confusion", "calibration")).sizes
((4,), (20, 9))
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from privaware.data import Data, Sum
from privaware.learners._fixed_features import row_features
from privaware.model import Model
from privaware.noise import Rng
from privaware.schema import Schema

STEP = 2.0**-20
"""Multiple to which the contribution of a row is rounded, so that sums are exact."""
GRID = np.append(-np.sinh(np.linspace(4.1, 0, 16))[:-1], np.sinh(np.linspace(0, 4.1, 16))) / 5
"""Bin edges of the AUC histogram, in log-odds: fine near 0, and up to 6 on either side."""
DECILES = np.arange(1, 10) / 10
"""Bin edges of predicted probabilities, for the threshold and the calibration."""
LOG_ODDS = np.array([math.log(part / (10 - part)) for part in range(1, 10)])
"""The deciles of the probability in log-odds; the middle one is exactly 0."""
BINNED = ("calibration", "threshold")
"""Releases with a score that need bins of the predicted probability."""


DEVIATION = 1 / 8
"""Standard deviation of a typical target for R2, as a fraction of the target's range."""


@dataclass(frozen=True)
class Typical:
    """A typical score, for which a plan forecasts the interval: its `value`, and its description in `words`.

    `constant` is the score of a constant prediction by the same metric.
    """

    words: str
    value: float
    constant: float


TYPICAL = {
    "accuracy": Typical("an accuracy of 0.8", 0.8, 0.5),
    "auc": Typical("an AUC of 0.8", 0.8, 0.5),
    "r2": Typical("an R2 of 0.5, if the target's standard deviation is an eighth of its range,", 0.5, 0.0),
    "mae": Typical("a mean absolute error of 0.1, as a fraction of the target's range,", 0.1, 0.25),
}
"""The typical score of each metric, for equally frequent classes or a target in the middle of its range."""


def scored_words(training: str, metric: str) -> str:
    """Return "TRAINING, and its METRIC on held-out rows", which describes a training that also releases a score."""
    return f"{training}, and its {metric} on held-out rows"


def train_schema(schema: Schema, held_out: float) -> Schema:
    """Return `schema` with the number of rows that train if the fraction `held_out` of the rows is held out.

    It is `max(1, rows - round(rows * held_out))`.
    """
    return replace(schema, rows=max(1, schema.rows - round(schema.rows * held_out)))


@dataclass(frozen=True, kw_only=True)
class ScoreCells:
    """The layout of the sums over held-out rows ("cells") from which a score is computed.

    The cells are arranged in groups; a row adds at most 1 in total to the cells of each group. `metric` is "accuracy",
    "auc", "r2" or "mae". `classes` is the number of classes, 0 for a regression. `edges` are the bin edges of a
    histogram, in log-odds for two classes and in probabilities for more. With more than two classes, the second group
    is the confusion matrix if `confusion`, else the counts of the true classes.
    """

    metric: str
    classes: int = 0
    edges: tuple[float, ...] = ()
    confusion: bool = False

    @classmethod
    def of(cls, metric: str, classes: int, also: Sequence[str] = ()) -> ScoreCells:
        """Return the layout for a metric, a number of classes (0 for numbers) and the releases `also`.

        `also` names the tables of `SCORE_ALSO` that are released with the score.
        """
        binned = any(name in BINNED for name in also)
        edges: tuple[float, ...] = ()
        if classes == 2:
            wanted = {*(GRID if metric == "auc" else (0.0,)), *(LOG_ODDS if binned else ())}
            edges = tuple(sorted(float(edge) for edge in wanted))
        elif classes and binned:
            edges = tuple(float(edge) for edge in DECILES)
        return cls(metric=metric, classes=classes, edges=edges, confusion=classes > 2 and "confusion" in also)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of cells in each group."""
        if not self.classes:
            return 2, 2
        histogram = 2 * (len(self.edges) + 1)
        if self.classes == 2:
            return (histogram,)
        return histogram, self.classes ** (2 if self.confusion else 1)

    def typical(self, rows: float) -> np.ndarray:
        """Return the exact cells of `rows` held-out rows whose score is the value in `TYPICAL`, for a forecast."""
        value = TYPICAL[self.metric].value
        if self.metric == "mae":
            return rows * np.array([value, 1 - value, 1 / 4, 3 / 4])
        if self.metric == "r2":
            error = (1 - value) * DEVIATION**2
            square = 1 / 4 + DEVIATION**2  # the mean of the squared target, whose mean is 1/2
            return rows * np.array([error, 1 - error, square, 1 / 2 - square])
        if self.classes > 2:
            bins, counts = self.sizes[0] // 2, self.sizes[1]
            return rows * np.append(np.repeat([(1 - value) / bins, value / bins], bins), np.full(counts, 1 / counts))
        distance = NormalDist().inv_cdf(value) * (2.0 if self.metric == "accuracy" else math.sqrt(2))
        classes = [NormalDist(sign * distance**2 / 2, distance) for sign in (-1, 1)]  # log-odds of a calibrated model
        below = [[0.0, *map(log_odds.cdf, self.edges), 1.0] for log_odds in classes]
        return rows / 2 * np.diff(below, axis=1).ravel()

    def exact(self, model: Model, data: Data, constant: float) -> np.ndarray:
        """Return the exact cells, summed over the rows of `data`, as one array with the groups one after another.

        `constant` is the constant prediction, in units of the target; only MAE uses it.
        """
        outputs = row_outputs(model, data)
        if not self.classes:
            return self._exact_errors(model, data, outputs, constant)
        cells = [np.zeros(size) for size in self.sizes]
        if self.classes == 2:
            odds = np.nan_to_num(outputs[:, 1] - outputs[:, 0], nan=0.0)
            np.add.at(cells[0].reshape(2, -1), (data.y, np.searchsorted(self.edges, odds)), 1.0)
            return cells[0]
        predictions = outputs.argmax(axis=1)
        chances = np.array([_largest_probability(line) for line in outputs])
        right = (predictions == data.y).astype(np.int64)
        np.add.at(cells[0].reshape(2, -1), (right, np.searchsorted(self.edges, chances)), 1.0)
        if self.confusion:
            np.add.at(cells[1].reshape(self.classes, -1), (data.y, predictions), 1.0)
        else:
            np.add.at(cells[1], data.y, 1.0)
        return np.concatenate(cells)

    def _exact_errors(self, model: Model, data: Data, outputs: np.ndarray, constant: float) -> np.ndarray:
        low, high = float(model.schema.low or 0.0), float(model.schema.high or 0.0)
        truth = np.clip((data.y - low) / (high - low), 0, 1)
        predictions = np.clip((model.decide(outputs) - low) / (high - low), 0, 1)
        errors = np.nan_to_num(np.abs(predictions - truth), nan=1.0)  # a diverged model predicts NaN, which is wrong
        if self.metric == "mae":
            beside = _rounded(np.nan_to_num(np.abs((constant - low) / (high - low) - truth), nan=1.0))
            errors = _rounded(errors)
            return np.array([errors.sum(), (1 - errors).sum(), beside.sum(), (1 - beside).sum()])
        errors, squares = _rounded(errors**2), _rounded(np.nan_to_num(truth) ** 2)
        rest = np.maximum(_rounded(np.nan_to_num(truth)) - squares, 0.0)
        return np.array([errors.sum(), (1 - errors).sum(), squares.sum(), rest.sum()])


@dataclass(frozen=True, kw_only=True)
class CellSums(Sum[Data, np.ndarray, np.ndarray]):
    """The cells summed over all rows, released with Laplace noise of scale `noise * sensitivity`.

    `cells` is the layout, `model` predicts, and `sensitivity` is the L1 sensitivity. `constant` is the constant
    prediction, in units of the target; only MAE uses it.
    """

    cells: ScoreCells
    model: Model
    sensitivity: float
    constant: float = 0.0

    def partial(self, part: Data) -> np.ndarray:
        return self.cells.exact(self.model, part, self.constant)

    def release(self, total: np.ndarray, noise: float, rng: Rng) -> np.ndarray:
        return np.asarray(rng.laplace(total, noise=noise, sensitivity=self.sensitivity))


def _rounded(values: np.ndarray) -> np.ndarray:
    """Round down to multiples of `STEP`, on which sums of up to 2^32 terms are exact."""
    return np.floor(values / STEP) * STEP


def _largest_probability(outputs: np.ndarray) -> float:
    """Return the probability of the predicted class from the raw outputs of one row.

    Return 0 if an output is NaN, or if the largest output is infinite.

    >>> round(_largest_probability(np.array([0.0, 0.0, math.log(2)])), 6)
    0.5
    """
    top = float(outputs.max())
    return 0.0 if not math.isfinite(top) else 1 / math.fsum(math.exp(float(output) - top) for output in outputs)


def row_outputs(model: Model, data: Data) -> np.ndarray:
    """Return the raw outputs of `model` for the rows of `data`, of shape (rows, classes), or (rows, 1) for numbers.

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
