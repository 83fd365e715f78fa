"""A private selection of columns, as a step of a scikit-learn pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted

from privaware._validate import expect
from privaware.accounting import DEFAULT_DELTA
from privaware.estimators._declared import (
    PrivateEstimator,
    as_pandas,
    checked_input,
    input_checks,
    named_frame,
    open_schema,
    seed_of,
)
from privaware.estimators._labels import with_classes
from privaware.estimators._overlap import fit_ledger, note_transformed
from privaware.ledger import Ledger
from privaware.schema import Schema
from privaware.workflow.select import select

__all__ = ["PrivateSelector"]


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
    has its own cost. Give both the same ledger.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 3))
    >>> selector = PrivateSelector(epsilon=4.0, settings={"columns": 1}, random_state=0).fit(X, X[:, 1] > 0)
    >>> selector.get_support(), selector.transform(X).shape
    (array([False,  True, False]), (2000, 1))
    """

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
        schema, numbers = self._declared(X, self.task), self.task == "regression"
        checked, target = checked_input(self, X, y, y_numeric=numbers, **input_checks(schema))
        if not numbers:
            schema, _, target = with_classes(self, schema, checked.shape, target)
        elif self.schema is None:
            schema = open_schema(self, schema, checked.shape)
        assert schema is not None
        frame = named_frame(X, checked, schema)
        columns = list(frame.columns)
        rows, seed = frame.assign(**{schema.target: target}), seed_of(self.random_state)
        with fit_ledger(self.ledger, schema, self.delta, seeded=seed is not None) as ledger:
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
        assert selection.columns is not None
        self._state(selection, rows, schema, seed, target)
        self.columns_ = selection.columns
        self.support_ = np.isin(columns, selection.columns)
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
            The selected columns.
        """
        kept = super().transform(X)
        note_transformed(as_pandas(X), as_pandas(kept))
        return kept

    def _get_support_mask(self) -> np.ndarray:
        check_is_fitted(self, "support_")
        return self.support_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
