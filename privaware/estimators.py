"""scikit-learn estimators over the same `fit`: a budget in the constructor, a guarantee after `fit`.

Without a schema, the labels, the number of columns and their types are taken as declared by the
caller (`assumptions_` says so), and the bounds of the columns are paid for from the budget. With a
schema nothing is paid for bounds. What a fitted estimator carries is public: it holds no row and no
statistic without noise.

Two things stay with the caller. Every call of `fit` is a release of its own, so that cross-validation
pays once for each fold: one `ledger` for all of them adds it up and stops at its limit. And a step of
a `Pipeline` before this one that learns from the rows (a scaler, a selector) is outside the guarantee.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> X = rng.normal(size=(400, 2))
>>> model = PrivateClassifier(epsilon=2.0, random_state=0).fit(X, X[:, 0] > 0)
>>> model.classes_, model.score(X, X[:, 0] > 0) > 0.8
(array([False,  True]), True)
>>> model.epsilon_ <= 2.0, model.certified_
(True, False)
"""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from privaware.data import Data, read
from privaware.errors import WrongInput
from privaware.ledger import Ledger
from privaware.model import Model
from privaware.schema import Column, Schema
from privaware.workflow.fit import fit

__all__ = ["EXPECTED_FAILED_CHECKS", "PrivateClassifier", "PrivateRegressor"]

EXPECTED_FAILED_CHECKS: dict[str, str] = {}
"""The checks of scikit-learn that privacy forces us to fail, each with its reason: none."""

ASSUMED = ("the number of rows, as the length of X", "the number of columns, their names and types, as X declares them")


class _Private(BaseEstimator):
    """What both estimators share: public settings in, a released model out."""

    model_: Model

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        schema: Schema | str | Path | None = None,
        learner: str = "auto",
        random_state: Any = None,
        ledger: Ledger | str | Path | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.learner = learner
        self.random_state = random_state
        self.ledger = ledger

    def __sklearn_tags__(self) -> Any:
        """With a `random_state` a fit can be repeated bit for bit, so `non_deterministic` stays false."""
        tags = super().__sklearn_tags__()
        if isinstance(self.schema, Schema):
            tags.input_tags.allow_nan = any(c.missing != "refuse" for c in self.schema.used)
        return tags

    def _declared(self, X: Any, task: str) -> Schema | None:
        """The schema given, or for a DataFrame what its types say; None where every column is a number."""
        if self.schema is None:
            return _from_types(X) if isinstance(X, pd.DataFrame) else None
        made = self.schema if isinstance(self.schema, Schema) else Schema.read(self.schema)
        if made.task != task:
            raise WrongInput(
                f"expected a schema with {'classes' if task == 'classification' else 'no classes'} "
                f"for {type(self).__name__}, got one for {made.task}; give another schema"
            )
        if made.form == "image":
            raise WrongInput("expected a schema of form table or text, got one of images; use privaware.workflow.fit")
        return made

    def _release(self, frame: pd.DataFrame, schema: Schema) -> None:
        """Plans, charges and trains; keeps only what may be seen by everyone."""
        done = fit(
            frame,
            target=schema.target,
            epsilon=self.epsilon,
            delta=self.delta,
            schema=schema,
            learner=self.learner,
            ledger=self.ledger,
            seed=_seed(self.random_state),
        )
        assert done.model is not None
        self.epsilon_ = done.epsilon
        self.certified_ = done.certified
        self.guarantee_ = done.sentence
        self.assumptions_ = done.assumptions
        self.model_ = done.model

    def _rows(self, X: Any) -> Data:
        """New rows against the released schema."""
        check_is_fitted(self, "model_")
        schema = self.model_.schema
        checked = validate_data(self, X, reset=False, **_how(schema))
        return Data.of(read(_named(X, checked, self, schema)), schema, labelled=False)


class PrivateClassifier(ClassifierMixin, _Private):
    """A classifier released under (epsilon, delta)-differential privacy.

    `schema` is a `Schema` or its TOML file; `learner` any name of `privaware list learners`;
    `ledger` the file that the cost is charged to (without one, each `fit` has a ledger of its own).
    A `random_state` makes the result reproducible and therefore not for release.

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
        """Releases a model of `y` given `X`; the labels that occur are taken as declared."""
        schema = self._declared(X, "classification")
        checked, y = validate_data(self, X, y, **_how(schema))
        check_classification_targets(y)
        if self.schema is None:
            classes, words = _label_set(y)
            schema = _open_schema(self, schema, checked.shape, classes=words)
        else:
            assert schema is not None
            classes, words = _declared_labels(schema.classes, y.dtype)
            schema = replace(schema, classes=words)
        frame = _named(X, checked, self, schema)
        self._release(frame.assign(**{schema.target: _spelt_labels(y, classes, words)}), schema)
        self.classes_ = classes
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The most likely class of each row."""
        data = self._rows(X)
        return np.asarray(self.classes_[self.model_.predictions(data)])

    def predict_proba(self, X: Any) -> np.ndarray:
        """The chance of each class, in the order of `classes_`."""
        data = self._rows(X)
        return self.model_.probabilities(data)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags


class PrivateRegressor(RegressorMixin, _Private):
    """A regression released under (epsilon, delta)-differential privacy; arguments as in `PrivateClassifier`.

    >>> from privaware.schema import Column
    >>> facts = Schema(columns=(Column(name="age", low=0, high=100),), low=0, high=50, rows=400)
    >>> model = PrivateRegressor(schema=facts, random_state=0).fit([[20], [80]] * 200, [10, 40] * 200)
    >>> young, old = model.predict([[20], [80]])
    >>> bool(0 <= young < old <= 50)
    True
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Releases a model of the numbers `y` given `X`."""
        schema = self._declared(X, "regression")
        checked, y = validate_data(self, X, y, y_numeric=True, **_how(schema))
        if self.schema is None:
            schema = _open_schema(self, schema, checked.shape)
        assert schema is not None
        frame = _named(X, checked, self, schema)
        self._release(frame.assign(**{schema.target: y.astype(float)}), schema)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """A number for each row, within the range of the target in the schema."""
        data = self._rows(X)
        return self.model_.predictions(data)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


# What the caller declares.


def _how(schema: Schema | None) -> dict[str, Any]:
    """How scikit-learn is to check X: plain finite numbers, or (where more is declared) nothing but its shape."""
    plain = schema is None or all(c.kind == "number" and c.missing == "refuse" for c in schema.columns)
    if plain:
        return {"dtype": np.float64}
    return {"dtype": None, "ensure_all_finite": False}


def _from_types(X: pd.DataFrame) -> Schema:
    """Columns by the types of a DataFrame: numbers, truth values, words; values are never looked at."""
    return Schema(columns=tuple(_column(str(name), kind) for name, kind in X.dtypes.items()))


def _column(name: str, kind: Any) -> Column:
    if pd.api.types.is_bool_dtype(kind) and not isinstance(kind, pd.CategoricalDtype):
        return Column(name=name, low=0, high=1)
    if pd.api.types.is_numeric_dtype(kind):
        return Column(name=name)
    words = isinstance(kind, (pd.CategoricalDtype, pd.StringDtype)) or kind.kind == "O"
    if not words:
        raise WrongInput(
            f"column {name!r}: expected numbers, truth values, text or categories, got {kind}; "
            "convert the column or leave it out"
        )
    return Column(name=name, kind="category", missing="category", unseen="other")


def _open_schema(estimator: Any, typed: Schema | None, shape: tuple[int, int], classes: tuple[str, ...] = ()) -> Schema:
    """What the caller of `fit` declares by calling it; bounds and categories are left to be paid for."""
    columns = typed.columns if typed else tuple(Column(name=n) for n in _names(estimator, shape[1]))
    target = "target"
    while target in {column.name for column in columns}:
        target += "_"
    return Schema(
        columns=columns,
        target=target,
        classes=classes,
        rows=shape[0],
        assumed=ASSUMED + (("the classes, as the labels that occur in y",) if classes else ()),
    )


def _names(estimator: Any, columns: int) -> list[str]:
    given = getattr(estimator, "feature_names_in_", None)
    return [f"x{at}" for at in range(columns)] if given is None else [str(n) for n in given]


def _named(X: Any, checked: np.ndarray, estimator: Any, schema: Schema) -> pd.DataFrame:
    """The rows under the names of the schema; an array has its columns in the schema's order."""
    if isinstance(X, pd.DataFrame):
        plain = checked.dtype == np.float64
        frame = pd.DataFrame(checked) if plain else X.reset_index(drop=True)
        return frame.set_axis([str(name) for name in X.columns], axis=1)
    names = [column.name for column in schema.columns]
    if not names:  # a constant looks at no column
        return pd.DataFrame(index=range(len(checked)))
    if len(names) != checked.shape[1]:
        raise WrongInput(
            f"expected X with the {len(names)} columns of the schema, got {checked.shape[1]}; "
            "give a DataFrame with named columns, or all columns in the schema's order"
        )
    return pd.DataFrame(checked, columns=names)


# Labels and the words of a schema.


def _label_set(y: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    """The labels that occur, sorted, and how the schema spells them."""
    classes = np.unique(y)
    words = tuple(_spelt(label) for label in classes)
    if len(classes) < 2:
        raise WrongInput(
            "Classifier can't train when only one class is present; give rows of another class, "
            "or declare the classes in a schema"
        )
    if len(set(words)) < len(words):
        raise WrongInput("expected labels that differ in more than the spaces around them; rename one")
    return classes, words


def _declared_labels(words: tuple[str, ...], kind: Any) -> tuple[np.ndarray, tuple[str, ...]]:
    """Declared classes as labels of the type of y, sorted as scikit-learn wants them."""
    try:
        if kind.kind == "b":
            labels = np.array([{"true": True, "false": False}[word.lower()] for word in words])
        elif kind.kind in "iuf":
            labels = np.array([float(word) for word in words]).astype(kind)
        else:
            labels = np.array(words, dtype=object if kind.kind == "O" else str)
    except (KeyError, ValueError):
        raise WrongInput(
            f"expected labels among the declared classes {', '.join(words[:6])}, got y of type {kind}; "
            "spell the labels as the schema does"
        ) from None
    order = np.argsort(labels)
    return labels[order], tuple(words[at] for at in order)


def _spelt_labels(y: np.ndarray, classes: np.ndarray, words: tuple[str, ...]) -> np.ndarray:
    """Each label as the schema spells it."""
    at = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    wrong = classes[at] != y
    if wrong.any():
        row = int(np.argmax(wrong))
        raise WrongInput(
            f"y, row {row + 1}: {str(y[row])!r:.60} is not among the declared classes "
            f"{', '.join(words[:6])}; mend the row or declare the class"
        )
    return np.array(words, dtype=object)[at]


def _spelt(label: Any) -> str:
    """A label as a person writes it: 1.0 as "1"."""
    whole = isinstance(label, (float, np.floating)) and float(label).is_integer()
    return str(int(label)) if whole else str(label).strip()


def _seed(random_state: Any) -> int | None:
    """The seed that is recorded; none at all leaves the noise to the operating system."""
    if random_state is None:
        return None
    state = check_random_state(random_state)
    return int(random_state) if isinstance(random_state, Integral) else int(state.randint(2**31))
