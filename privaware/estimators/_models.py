"""A private classifier and a private regressor for scikit-learn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_is_fitted

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
    with_persons,
)
from privaware.estimators._labels import with_classes
from privaware.estimators._overlap import fit_ledger, without_persons
from privaware.ledger import Ledger
from privaware.model import Model
from privaware.schema import Schema
from privaware.workflow.fit import fit
from privaware.workflow.run.publish import Release


class PrivateModel(PrivateEstimator):
    """Base class of estimators that release a model.

    After `fit`, `model_` is the released model, `release_` is what `save` writes, and `score_` is the released score
    (None without `score_epsilon`).
    """

    model_: Model
    release_: Release

    @known_arguments
    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = DEFAULT_DELTA,
        schema: Schema | str | Path | None = None,
        learner: str = "auto",
        random_state: Any = None,
        ledger: Ledger | str | Path | None = None,
        settings: Mapping[str, Any] | None = None,
        unit: str | None = None,
        cap: int = 1,
        missing: str | float = "refuse",
        text: Sequence[str] = (),
        score_epsilon: float | None = None,
        policy: Mapping[str, Any] | str | Path | None = None,
        not_persons: Sequence[str] = (),
    ) -> None:
        super().__init__(epsilon, delta, schema, random_state, ledger, unit, cap, missing)
        self.learner = learner
        self.settings = settings
        self.text = text
        self.score_epsilon = score_epsilon
        self.policy = policy
        self.not_persons = not_persons

    def _release(self, frame: pd.DataFrame, schema: Schema) -> None:
        """Plan, charge and train on `frame`, which has the target too; set `release_`, `model_` and `score_`.

        Only what may be published is kept.
        """
        seed = seed_of(self.random_state)
        with fit_ledger(self.ledger, schema, self.delta, seeded=seed is not None) as (ledger, row_ledgers):
            result = fit(
                frame,
                target=schema.target,
                epsilon=self.epsilon,
                delta=self.delta,
                schema=schema,
                learner=self.learner,
                settings=self.settings,
                score_epsilon=self.score_epsilon,
                policy=self.policy,
                not_persons=self.not_persons,
                ledger=ledger,
                seed=seed,
            )
            overlap = self._state(result, frame, schema, seed, frame[schema.target], row_ledgers)
        assert result.model is not None
        assert result.release is not None
        self.release_ = result.release.overlapping(overlap)
        self.model_ = result.model
        self.score_ = result.score

    def save(self, folder: str | Path) -> Path:
        """Write the released model to a new folder.

        The ledger closed the fit before this folder was written, so `privaware verify FOLDER --ledger FILE` checks the
        charge, and says that it cannot tell whether the files were replaced. `privaware fit --out` binds them.

        Parameters
        ----------
        folder : str or path
            A new or empty folder, which `privaware.load` and all commands read. Any other folder raises `WrongInput`.

        Returns
        -------
        Path
            The folder.
        """
        check_is_fitted(self, "release_")
        return self.release_.save(folder)

    def _rows(self, X: Any) -> Data:
        """Return the new rows `X`, coded by the released schema and without a target."""
        check_is_fitted(self, "model_")
        schema = self.model_.schema
        return Data.of(read(new_rows(self, X, schema)), schema, labelled=False)


def unquoted_score(metric: Callable[..., float], y: Any, predictions: np.ndarray, sample_weight: Any) -> float:
    """Return `metric` of the labels or numbers `y` and of the predictions.

    Raise `WrongInput` if `y` is not usable. Messages of scikit-learn quote values of `y`; this one does not.
    """
    try:
        return float(metric(y, predictions, sample_weight=sample_weight))
    except (TypeError, ValueError):
        kind = "finite numbers" if predictions.dtype.kind == "f" else "labels of one type, as for fit"
        raise WrongInput(
            f"expected y as {kind}, one for each of {len(predictions)} rows (and sample_weight as numbers, if it is "
            f"given), got {type(y).__name__} with other values or of another length"
        ) from None


class PrivateClassifier(ClassifierMixin, PrivateModel):
    """A classifier that is released under (epsilon, delta)-differential privacy.

    Parameters
    ----------
    epsilon, delta : float
        The privacy budget of one fit.
    schema : Schema or path, optional
        The public facts about the columns of `X`. Without a schema, part of the budget estimates ranges and categories.
    learner : str
        The name of a learner (`privaware list learners`). "auto" chooses one from public facts.
    random_state : optional
        The random seed. It makes the result reproducible and not for release.
    ledger : Ledger or path, optional
        The ledger to charge. Without a ledger, the costs of all fits of this process on overlapping rows are composed.
        From the second such fit on, each fit warns with the total epsilon and is not certified.
    settings : mapping, optional
        Hyper-parameters of the learner.
    unit, cap : str, int
        `unit` is what is protected: "row", "label" (only the label of a row) or the name of the column that identifies
        the person of a row. `cap` is the largest number of rows used for each person. Default: unit and cap of the
        schema, or "row". `cap` is used only if `unit` is given.
    missing : optional
        Without a schema, the treatment of missing numbers: "refuse", "category" or a number to fill in. Without a
        schema, missing entries of a column of categories are a category of their own.
    text : sequence of str
        Without a schema, the columns of free text, whose words are hashed.
    score_epsilon : float, optional
        The epsilon of a score on held-out rows, which is released with noise as `score_`. The fit with its score costs
        at most `epsilon`.
    policy : mapping or path, optional
        The rules by which "auto" chooses. Default: the policy of the package.
    not_persons : sequence of str
        Columns that identify nobody although their names suggest it. A fit warns about other such columns.

    Notes
    -----
    `X` is an array or a data frame of pandas or polars. A column that identifies persons (`unit`) is no feature: rows
    to predict need not have it. Without a schema, columns of a date type are dates, as for `privaware.fit`. `save`
    writes a folder that `privaware.load` reads.

    Examples
    --------
    >>> import pandas as pd
    >>> from privaware.schema import Column
    >>> frame = pd.DataFrame({"age": [20, 70] * 200, "town": ["Ulm", "Bonn"] * 200})
    >>> facts = Schema(columns=(Column(name="age", low=0, high=100), Column(name="town", kind="category",
    ...     categories=("Bonn", "Ulm"))), classes=("no", "yes"), rows=400)
    >>> model = PrivateClassifier(schema=facts, random_state=0).fit(frame, ["no", "yes"] * 200)
    >>> model.predict(frame[:2])
    array(['no', 'yes'], dtype='<U3')
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Release a model of `y` given `X`; without a schema the labels that occur are taken as declared.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            The private rows.
        y : array of shape (rows,)
            The labels.

        Returns
        -------
        self
            The fitted classifier.
        """
        X = as_pandas(X)
        schema = self._declared(X, "classification")
        features = without_persons(X, schema)
        checked, labels = checked_input(self, features, y, **input_checks(schema, features))
        schema, classes, target = with_classes(self, schema, checked.shape, labels, target_name(y))
        frame = with_persons(named_frame(features, checked, schema), X, schema)
        self._release(frame.assign(**{schema.target: target}), schema)
        self.classes_ = classes
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predict the most likely class of each row.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            Rows with the columns of the rows for `fit`.

        Returns
        -------
        ndarray of shape (rows,)
            The labels.
        """
        data = self._rows(X)
        return np.asarray(self.classes_[self.model_.predictions(data)])

    def predict_proba(self, X: Any) -> np.ndarray:
        """Predict the probability of each class, in the order of `classes_`.

        The features of texts can take seconds, and `predict` computes them again. To get labels and probabilities in
        one pass, take the labels `classes_[probabilities.argmax(axis=1)]`.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            Rows with the columns of the rows for `fit`.

        Returns
        -------
        ndarray of shape (rows, classes)
            The probabilities.
        """
        data = self._rows(X)
        return self.model_.probabilities(data)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of the predictions, without noise: for the owner of the rows only.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            Rows with the columns of the rows for `fit`.
        y : array of shape (rows,)
            The labels. No error quotes one of them.
        sample_weight : array of shape (rows,), optional
            The weight of each row.

        Returns
        -------
        float
            The score.
        """
        return unquoted_score(accuracy_score, y, self.predict(X), sample_weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags


class PrivateRegressor(RegressorMixin, PrivateModel):
    """A regressor that is released under (epsilon, delta)-differential privacy.

    It has the same parameters as `PrivateClassifier`. Without a schema, part of the budget also estimates the range of
    the target.

    Examples
    --------
    >>> from privaware.schema import Column
    >>> facts = Schema(columns=(Column(name="age", low=0, high=100),), low=0, high=50, rows=1000)
    >>> model = PrivateRegressor(schema=facts, random_state=0).fit([[20], [80]] * 500, [10, 40] * 500)
    >>> young, old = model.predict([[20], [80]])
    >>> bool(0 <= young < old <= 50)
    True
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Release a model of the numbers `y` given `X`.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            The private rows.
        y : array of shape (rows,)
            The target values.

        Returns
        -------
        self
            The fitted regressor.
        """
        X = as_pandas(X)
        schema = self._declared(X, "regression")
        features = without_persons(X, schema)
        checked, numbers = checked_input(self, features, y, y_numeric=True, **input_checks(schema, features))
        schema = open_schema(self, schema, checked.shape, target=target_name(y))
        frame = with_persons(named_frame(features, checked, schema), X, schema)
        self._release(frame.assign(**{schema.target: numbers}), schema)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predict a number for each row, within the declared or estimated range of the target.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            Rows with the columns of the rows for `fit`.

        Returns
        -------
        ndarray of shape (rows,)
            The predictions.
        """
        data = self._rows(X)
        return self.model_.predictions(data)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the R2 of the predictions, without noise: for the owner of the rows only.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            Rows with the columns of the rows for `fit`.
        y : array of shape (rows,)
            The target values. No error quotes one of them.
        sample_weight : array of shape (rows,), optional
            The weight of each row.

        Returns
        -------
        float
            The score.
        """
        return unquoted_score(r2_score, y, self.predict(X), sample_weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags
