"""Breast Cancer and Adult as Bao et al. use them: tables of columns between 0 and 1, and models on subsets of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from privaware import datasets
from privaware.data import Data
from privaware.learners.objective_perturbation import fit_many
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.selectors._tables import release, uncertainties


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """Columns between 0 and 1, the attribute that each belongs to, and class 1 against class 0."""

    names: tuple[str, ...]
    attribute: np.ndarray
    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray

    @property
    def constant(self) -> float:
        """Test accuracy of the training rows' more frequent class."""
        return float((self.y_test == (self.y.mean() > 0.5)).mean())

    def data(self) -> Data:
        """The training rows as a table whose columns can be selected."""
        columns = tuple(Column(name=name, low=0, high=1) for name in self.names)
        schema = Schema(columns=columns, classes=("no", "yes"), rows=len(self.y))
        return Data(schema=schema, x=self.x, y=self.y.astype(np.int64))

    def norms(self, masks: np.ndarray) -> np.ndarray:
        """Public bounds on the length of rows with a constant: at most 1 for each attribute."""
        touched = np.zeros((len(masks), int(self.attribute.max()) + 1), dtype=bool)
        for at, attribute in enumerate(self.attribute):
            touched[:, attribute] |= masks[:, at]
        return np.asarray(np.sqrt(touched.sum(axis=1) + 1.0))


def breast() -> Table:
    """43 columns: the categories that occur among all 286 rows, "?" among them."""
    loaded = datasets.load("breast_cancer")
    whole = np.concatenate([loaded.train.x, loaded.test.x])
    found = [
        (at, code, f"{column.name}={word}")
        for at, column in enumerate(loaded.train.schema.used)
        for code, word in enumerate(column.categories)
        if (whole[:, at] == code).any()
    ]
    parts = [
        np.column_stack([part.x[:, at] == code for at, code, _ in found]).astype(float)
        for part in (loaded.train, loaded.test)
    ]
    return Table(
        names=tuple(name for _, _, name in found),
        attribute=np.array([at for at, _, _ in found]),
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


def adult() -> Table:
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
    at = order("adult", len(x))
    train, test = at[:22_750], at[22_750:32_500]
    return Table(names=tuple(labels), attribute=np.array(owner), x=x[train], y=y[train], x_test=x[test], y_test=y[test])


def split(table: Table, seed: int) -> Table:
    """The same rows cut elsewhere, into parts of the same sizes."""
    x, y = np.concatenate([table.x, table.x_test]), np.concatenate([table.y, table.y_test])
    at, many = np.random.default_rng(seed).permutation(len(y)), len(table.y)
    return replace(table, x=x[at[:many]], y=y[at[:many]], x_test=x[at[many:]], y_test=y[at[many:]])


def shared(table: Table, bins: int = 2) -> np.ndarray:
    """Exact symmetrical uncertainties, as the paper's selectors see them."""
    return uncertainties(release(table.data(), bins, 1e-9, Rng(seed=0)))


def accuracies(table: Table, masks: np.ndarray, epsilons: np.ndarray, rng: Rng) -> np.ndarray:
    """Test accuracies of as many private models: the published analysis, one row replaced, ridge 1."""
    weights = fit_many(
        with_one(table.x),
        table.y,
        masks=with_one(masks).astype(bool),
        epsilons=epsilons,
        rng=rng,
        norm=table.norms(masks),
        ridge=1.0,
        relation="replace_one",
        analysis="chaudhuri",
    )
    return scored(table, weights)


def scored(table: Table, weights: np.ndarray) -> np.ndarray:
    right = (with_one(table.x_test) @ weights.T > 0) == table.y_test[:, None]
    return np.asarray(right.mean(axis=0))


def with_one(rows: np.ndarray) -> np.ndarray:
    return np.hstack([rows.astype(float), np.ones((len(rows), 1))])


def prefix(order: list[int], size: int, width: int) -> np.ndarray:
    return np.isin(np.arange(width), order[:size])


def summary(values: np.ndarray) -> list[float]:
    """Mean and spread, in per cent."""
    return [round(100 * float(np.mean(values)), 3), round(100 * float(np.std(values)), 3)]
