"""Private normalisation and private principal components, as steps of a scikit-learn pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from privaware.accounting import DEFAULT_DELTA
from privaware.data import Data, read
from privaware.estimators._declared import (
    PrivateEstimator,
    as_pandas,
    checked_input,
    input_checks,
    named_frame,
    open_schema,
    seed_of,
)
from privaware.estimators._overlap import fit_ledger, note_transformed
from privaware.ledger import Ledger
from privaware.schema import Schema
from privaware.workflow._transform import ReleasedMap, transform

__all__ = ["PrivateNormaliser", "PrivatePCA"]


class PrivateTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PrivateEstimator):  # type: ignore[misc]
    """Base class of estimators that release a feature map, which is `map_` after `fit`."""

    map_: ReleasedMap
    _method = ""
    _what = ""

    def _settings(self) -> Mapping[str, Any]:
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
        checked = checked_input(self, X, **input_checks(schema))
        if self.schema is None:
            schema = open_schema(self, schema, checked.shape)
        assert schema is not None
        schema = replace(schema, classes=(), low=0.0, high=1.0)  # there is no target: a constant column replaces it
        frame, seed = named_frame(X, checked, schema), seed_of(self.random_state)
        rows = frame.assign(**{schema.target: 0.0})
        with fit_ledger(self.ledger, schema, self.delta, seeded=seed is not None) as ledger:
            released = transform(
                rows,
                name=self._method,
                what=self._what,
                settings=self._settings(),
                target=schema.target,
                epsilon=self.epsilon,
                delta=self.delta,
                schema=schema,
                ledger=ledger,
                seed=seed,
            )
        self._state(released, frame, schema, seed, y)
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
        X = as_pandas(X)
        schema = self.map_.schema
        checked = checked_input(self, X, reset=False, **input_checks(schema))
        frame = named_frame(X, checked, schema)
        features = self.map_(Data.of(read(frame), schema, labelled=False))
        note_transformed(frame, features)
        return features


class PrivateNormaliser(PrivateTransformer):
    """Scale columns to unit variance, by means and deviations under (epsilon, delta)-differential privacy.

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
        The number of components; fewer are returned if there are fewer columns after one-hot encoding.
    epsilon, delta, schema, random_state, ledger, unit, cap, missing
        As in `PrivateNormaliser`.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(5000, 3)) * [1, 1, 100]
    >>> PrivatePCA(n_components=2, epsilon=4.0, random_state=0).fit_transform(X).shape
    (5000, 2)
    """

    _method, _what = "pca", "principal components"

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

    def _settings(self) -> Mapping[str, Any]:
        return {"components": self.n_components}
