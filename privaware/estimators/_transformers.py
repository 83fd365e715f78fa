"""Steps of a scikit-learn pipeline: private normalisation, principal components and selection of columns."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from privaware._validate import expect
from privaware.accounting import DEFAULT_DELTA
from privaware.data import Data, read
from privaware.errors import WrongInput
from privaware.estimators._declared import (
    PrivateEstimator,
    as_pandas,
    checked_input,
    input_checks,
    known_arguments,
    named_frame,
    new_rows,
    open_schema,
    seed_of,
    target_name,
    unquoted,
    with_persons,
)
from privaware.estimators._labels import with_classes
from privaware.estimators._overlap import fit_ledger, note_transformed, without_persons
from privaware.features.onehot import OneHot
from privaware.ledger import Ledger
from privaware.preprocessing._ranges.open_columns import open_columns, outline
from privaware.schema import Schema
from privaware.workflow._transform import ReleasedMap, transform
from privaware.workflow.select import select


class PrivateTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PrivateEstimator):  # type: ignore[misc]
    """Base class of estimators that release a feature map, which is `map_` after `fit`."""

    map_: ReleasedMap
    _method = ""
    _what = ""

    def _settings(self, schema: Schema) -> Mapping[str, Any]:
        """Return the settings of the transformation; raise `WrongInput` if they do not fit `schema`."""
        return {}

    def fit(self, X: Any, y: Any = None) -> Self:
        """Release the feature map of `X`.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            The private rows.
        y : optional
            The labels. The map does not use them. They only help to recognise later fits on the same rows.

        Returns
        -------
        self
            The fitted transformer.
        """
        X = as_pandas(X)
        schema = self._given_schema() or self._from_types(X)  # of classification or regression: its target is not used
        features = without_persons(X, schema)
        checked = checked_input(self, features, **input_checks(schema, features))
        schema = open_schema(self, schema, checked.shape)
        schema = replace(schema, classes=(), low=0.0, high=1.0)  # there is no target: a constant column replaces it
        frame, seed = with_persons(named_frame(features, checked, schema), X, schema), seed_of(self.random_state)
        rows = frame.assign(**{schema.target: 0.0})
        with fit_ledger(self.ledger, schema, self.delta, seeded=seed is not None) as (ledger, row_ledgers):
            released = transform(
                rows,
                name=self._method,
                what=self._what,
                settings=self._settings(schema),
                target=schema.target,
                epsilon=self.epsilon,
                delta=self.delta,
                schema=schema,
                ledger=ledger,
                seed=seed,
            )
            self._state(released, frame, schema, seed, y, row_ledgers)
        self.map_ = released
        self._n_features_out = released.width
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Compute the features of each row. They depend only on the row and on the released map.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            Rows with the columns of the rows for `fit`.

        Returns
        -------
        ndarray of shape (rows, features)
            The features.
        """
        check_is_fitted(self, "map_")
        frame = new_rows(self, X, self.map_.schema)
        features = self.map_(Data.of(read(frame), self.map_.schema, labelled=False))
        note_transformed(frame, features, certified=self.certified_)
        return features

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the features.

        Parameters
        ----------
        input_features : array of str, optional
            The names of the columns of `X`, as in `fit`. A column of persons may be among them.

        Returns
        -------
        ndarray of str
            The names: that of the class in small letters, followed by 0, 1 and so on.
        """
        check_is_fitted(self, "map_")
        if input_features is not None and len(input_features) > self.n_features_in_:
            input_features = [name for name in input_features if name != self.map_.schema.unit]
        return super().get_feature_names_out(input_features)


class PrivateNormaliser(PrivateTransformer):
    """Centre columns and scale them to unit variance, by means and deviations under (epsilon, delta)-DP.

    This is the private counterpart of scikit-learn's `StandardScaler`. Numbers are first clipped to the bounds of the
    schema, or to bounds that part of the budget estimates. Each category becomes a column of its own (one-hot).

    Parameters
    ----------
    epsilon, delta : float
        The privacy budget of one fit.
    schema : Schema or path, optional
        The public facts about the columns of `X`. Without a schema, part of the budget estimates their bounds.
    random_state : optional
        The random seed. It makes the result reproducible and not for release.
    ledger : Ledger or path, optional
        The ledger to charge. Give the same ledger to all steps of a pipeline.
    unit, cap, missing
        As in `PrivateClassifier`.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(5000, 2)) * [1, 100]
    >>> scaled = PrivateNormaliser(epsilon=4.0, random_state=0).fit_transform(X)
    >>> scaled.shape, bool((abs(scaled.std(axis=0) - 1) < 0.3).all())
    ((5000, 2), True)
    """

    _method, _what = "normalise", "means and deviations"


class PrivatePCA(PrivateTransformer):
    """Project rows to principal components under (epsilon, delta)-differential privacy.

    This is the private counterpart of scikit-learn's `PCA` on rescaled columns: numbers are scaled from their bounds to
    [-1, 1], and each category becomes a column of its own (one-hot). Rows are not centred, because the mean would be
    another release.

    Parameters
    ----------
    n_components : int
        The number of components, at most the number of columns of `X` after one-hot encoding. If `fit` must first
        estimate categories or dates, that number is not known, and fewer components may be returned.
    epsilon, delta, schema, random_state, ledger, unit, cap, missing
        As in `PrivateNormaliser`.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(5000, 3)) * [1, 1, 100]
    >>> PrivatePCA(n_components=2, epsilon=4.0, random_state=0).fit_transform(X).shape
    (5000, 2)
    """

    _method, _what = "pca", "principal components"

    @known_arguments
    def __init__(
        self,
        n_components: int = 2,
        epsilon: float = 1.0,
        delta: float = DEFAULT_DELTA,
        schema: Schema | str | Path | None = None,
        random_state: Any = None,
        ledger: Ledger | str | Path | None = None,
        unit: str | None = None,
        cap: int = 1,
        missing: str | float = "refuse",
    ) -> None:
        super().__init__(epsilon, delta, schema, random_state, ledger, unit, cap, missing)
        self.n_components = n_components

    def _settings(self, schema: Schema) -> Mapping[str, Any]:
        width = OneHot().width(outline(schema))
        known = not open_columns(schema, "category", "date", "undecided")
        if known and isinstance(self.n_components, numbers.Integral) and self.n_components > width:
            raise WrongInput(
                f"expected n_components of at most {width}, the number of columns of X after one-hot encoding, got "
                f"{self.n_components}; set n_components={width} or less"
            )
        return {"components": self.n_components}


class PrivateSelector(SelectorMixin, PrivateEstimator):  # type: ignore[misc]
    """Select columns under (epsilon, delta)-differential privacy.

    Parameters
    ----------
    epsilon, delta : float
        The privacy budget of one fit.
    schema : Schema or path, optional
        The public facts about the columns of `X`. Without a schema, part of the budget estimates ranges and categories.
    method : str
        The name of a selector (`privaware list selectors`).
    settings : mapping, optional
        Settings of the selector, such as `columns`, the largest number of columns.
    task : str
        "classification" or "regression".
    random_state, ledger, unit, cap, missing, not_persons
        As in `PrivateClassifier`.

    Notes
    -----
    After `fit`, `columns_` has the names of the selected columns. A private learner after the selector in a pipeline
    has its own cost. Give both the same ledger. If `unit` names a column of a data frame `X`, that column identifies
    persons: it stays beside the selected columns, in a data frame, so that a learner with the same `unit` finds it.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 3))
    >>> selector = PrivateSelector(epsilon=4.0, settings={"columns": 1}, random_state=0).fit(X, X[:, 1] > 0)
    >>> selector.get_support(), selector.transform(X).shape
    (array([False,  True, False]), (2000, 1))
    """

    _persons: str | None = None

    @known_arguments
    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = DEFAULT_DELTA,
        schema: Schema | str | Path | None = None,
        method: str = "cfs_greedy",
        random_state: Any = None,
        ledger: Ledger | str | Path | None = None,
        settings: Mapping[str, Any] | None = None,
        task: str = "classification",
        unit: str | None = None,
        cap: int = 1,
        missing: str | float = "refuse",
        not_persons: Sequence[str] = (),
    ) -> None:
        super().__init__(epsilon, delta, schema, random_state, ledger, unit, cap, missing)
        self.method = method
        self.settings = settings
        self.task = task
        self.not_persons = not_persons

    def fit(self, X: Any, y: Any) -> Self:
        """Release the names of columns of `X` that are informative about `y`.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            The private rows.
        y : array of shape (rows,)
            The target.

        Returns
        -------
        self
            The fitted selector.
        """
        X = as_pandas(X)
        expect(self.task in ("classification", "regression"), "", "task classification or regression", self.task)
        schema, regression = self._declared(X, self.task), self.task == "regression"
        checked, target = checked_input(self, X, y, y_numeric=regression, **input_checks(schema, X))
        if not regression:
            schema, _, target = with_classes(self, schema, checked.shape, target, target_name(y))
        else:
            schema = open_schema(self, schema, checked.shape, target=target_name(y))
        frame = named_frame(X, checked, schema)
        columns = list(frame.columns)
        rows, seed = frame.assign(**{schema.target: target}), seed_of(self.random_state)
        with fit_ledger(self.ledger, schema, self.delta, seeded=seed is not None) as (ledger, row_ledgers):
            selection = select(
                rows,
                target=schema.target,
                method=self.method,
                settings=self.settings,
                epsilon=self.epsilon,
                delta=self.delta,
                schema=schema,
                not_persons=self.not_persons,
                ledger=ledger,
                seed=seed,
            )
            self._state(selection, rows, schema, seed, target, row_ledgers)
        assert selection.columns is not None
        self.columns_ = selection.columns
        self._persons = schema.unit if schema.unit in columns else None
        self.support_ = np.isin(columns, [*selection.columns, *filter(None, [self._persons])])
        return self

    def transform(self, X: Any) -> Any:
        """Keep the selected columns of `X`.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            Rows with the columns of the rows for `fit`.

        Returns
        -------
        array or data frame of shape (rows, selected columns)
            The selected columns, and the column of persons, if `unit` names one. A data frame with a column of persons,
            or with columns that hold no numbers, such as text, stays a data frame. Any other `X` becomes an array,
            unless `set_output` asks for a data frame.
        """
        check_is_fitted(self, "support_")
        table = as_pandas(X)
        if isinstance(table, pd.DataFrame) and (self._persons or not all(map(is_numeric_dtype, table.dtypes))):
            kept = self._transform(validate_data(self, table, reset=False, skip_check_array=True))
        else:
            with unquoted(table):
                kept = super().transform(X)
        tables = (table, as_pandas(kept))
        if self._persons:
            tables = tuple(t[[name for name in t.columns if str(name) != self._persons]] for t in tables)
        note_transformed(*tables, certified=self.certified_)
        return kept

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Return the selected columns `X` among columns of zeros in place of the others, as scikit-learn does.

        Parameters
        ----------
        X : array or data frame of shape (rows, selected columns)
            The selected columns.

        Returns
        -------
        ndarray of shape (rows, columns)
            The columns in the order of the rows for `fit`.
        """
        with unquoted(X):
            inverse: np.ndarray = super().inverse_transform(X)
        return inverse

    def _get_support_mask(self) -> np.ndarray:
        check_is_fitted(self, "support_")
        return self.support_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
