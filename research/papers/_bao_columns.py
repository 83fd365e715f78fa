"""Breast Cancer and Adult as Bao et al. use them: columns between 0 and 1, and private models on subsets of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from privaware import datasets
from privaware.data import Data
from privaware.learners.objective_perturbation import PureAnalysis, fit_many
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.selectors._tables import release, uncertainties
from privaware.selectors.cfs_greedy import best_first


@dataclass(frozen=True, kw_only=True, eq=False)
class Columns:
    """Training and test rows: columns between 0 and 1, the attribute that each belongs to, and classes 0 and 1."""

    names: tuple[str, ...]
    attribute: np.ndarray
    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray

    @property
    def constant(self) -> float:
        """Test accuracy of the more frequent class of the training rows."""
        return float((self.y_test == (self.y.mean() > 0.5)).mean())

    def data(self) -> Data:
        """The training rows as a table whose columns can be selected."""
        columns = tuple(Column(name=name, low=0, high=1) for name in self.names)
        schema = Schema(columns=columns, classes=("no", "yes"), rows=len(self.y))
        return Data(schema=schema, x=self.x, y=self.y.astype(np.int64))

    def norms(self, masks: np.ndarray) -> np.ndarray:
        """Public bounds on the norm of rows with a constant column: at most 1 for each attribute."""
        used = np.zeros((len(masks), int(self.attribute.max()) + 1), dtype=bool)
        for at, attribute in enumerate(self.attribute):
            used[:, attribute] |= masks[:, at]
        return np.asarray(np.sqrt(used.sum(axis=1) + 1.0))


@cache
def breast() -> Columns:
    """43 columns: the categories that occur among all 286 rows, "?" among them."""
    loaded = datasets.load("breast_cancer")
    everything = np.concatenate([loaded.train.x, loaded.test.x])
    present = [
        (at, code, f"{column.name}={word}")
        for at, column in enumerate(loaded.train.schema.used)
        for code, word in enumerate(column.categories)
        if (everything[:, at] == code).any()
    ]
    parts = [
        np.column_stack([part.x[:, at] == code for at, code, _ in present]).astype(float)
        for part in (loaded.train, loaded.test)
    ]
    return Columns(
        names=tuple(name for _, _, name in present),
        attribute=np.array([at for at, _, _ in present]),
        x=parts[0],
        y=loaded.train.y,
        x_test=parts[1],
        y_test=loaded.test.y,
    )


NUMBERS = {
    "age": (17, 90),
    "fnlwgt": (0, 1_500_000),
    "education-num": (1, 16),
    "capital-gain": (0, 99_999),
    "capital-loss": (0, 5_000),
    "hours-per-week": (1, 99),
}


@cache
def adult() -> Columns:
    """108 columns: 102 categories that occur in the training file, "?" among them, and six numbers.

    22,750 and 9,750 of the training file's rows by a fixed public order, numbers scaled by public bounds.
    """
    import pandas as pd

    from privaware.datasets._dataset import order

    names = [column.name for column in datasets.schema("adult").columns]
    frame = pd.read_csv(
        datasets.path("adult") / "adult.data",
        header=None,
        names=[*names, "income"],
        skipinitialspace=True,
        keep_default_na=False,
    )
    columns, labels, owner = [], [], []
    for at, name in enumerate(names):
        if name in NUMBERS:
            low, high = NUMBERS[name]
            columns.append(np.clip((frame[name].to_numpy(float) - low) / (high - low), 0, 1))
            labels.append(name)
            owner.append(at)
            continue
        for word in sorted(frame[name].unique()):
            columns.append((frame[name] == word).to_numpy(float))
            labels.append(f"{name}={word}")
            owner.append(at)
    x, y = np.column_stack(columns), (frame["income"] == ">50K").to_numpy(np.int64)
    permutation = order("adult", len(x))
    train, test = permutation[:22_750], permutation[22_750:32_500]
    return Columns(
        names=tuple(labels), attribute=np.array(owner), x=x[train], y=y[train], x_test=x[test], y_test=y[test]
    )


def split(table: Columns, seed: int) -> Columns:
    """The same rows in another random split of the same sizes."""
    x, y = np.concatenate([table.x, table.x_test]), np.concatenate([table.y, table.y_test])
    at, many = np.random.default_rng(seed).permutation(len(y)), len(table.y)
    return replace(table, x=x[at[:many]], y=y[at[:many]], x_test=x[at[many:]], y_test=y[at[many:]])


def exact_uncertainties(table: Columns, bins: int = 2) -> np.ndarray:
    """Exact symmetrical uncertainties, as the paper's selectors see them."""
    return uncertainties(release(table.data(), bins, 1e-9, Rng(seed=0)))


def greedy_order(table: Columns, bins: int = 2) -> list[int]:
    """The columns in the order of CFS-Greedy, best first."""
    return best_first(exact_uncertainties(table, bins))[0]


def published_models(table: Columns, masks: np.ndarray, epsilons: np.ndarray, rng: Rng) -> np.ndarray:
    """Weights of as many private models: the published analysis, one row replaced, ridge 1."""
    return fit_many(
        with_constant(table.x),
        table.y,
        masks=with_constant(masks).astype(bool),
        epsilons=epsilons,
        rng=rng,
        norm=table.norms(masks),
        ridge=1.0,
        analysis=PureAnalysis(relation="replace_one", name="chaudhuri"),
    )


def accuracies(table: Columns, masks: np.ndarray, epsilons: np.ndarray, rng: Rng) -> np.ndarray:
    """Test accuracies of as many private models."""
    return scored(table, published_models(table, masks, epsilons, rng))


def scored(table: Columns, weights: np.ndarray) -> np.ndarray:
    """The test accuracy of each model."""
    return correct(table, weights).mean(axis=0)


def correct(table: Columns, weights: np.ndarray) -> np.ndarray:
    """Whether each test row is classified correctly by each model: (rows, models)."""
    return np.asarray((with_constant(table.x_test) @ weights.T > 0) == table.y_test[:, None])


def with_constant(rows: np.ndarray) -> np.ndarray:
    return np.hstack([rows.astype(float), np.ones((len(rows), 1))])


def first_columns(order: list[int], size: int) -> np.ndarray:
    """The mask of the `size` best columns."""
    return np.isin(np.arange(len(order)), order[:size])


def summary(values: np.ndarray) -> list[float]:
    """Mean and spread, in per cent."""
    return [round(100 * float(np.mean(values)), 3), round(100 * float(np.std(values)), 3)]
