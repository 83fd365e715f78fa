"""What an estimator refuses in X and y, it names by its place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from privaware import PrivateClassifier, PrivateRegressor, PrivateSelector, Schema
from privaware.errors import WrongInput
from privaware.estimators import PrivateNormaliser, PrivatePCA
from privaware.estimators._declared import schema_from_types
from privaware.estimators._labels import declared_labels
from privaware.schema import Column

CANARY = "Qcanary"
X = np.random.default_rng(0).normal(size=(60, 2)).astype(object)
Y = np.arange(60) % 2


def with_canary(values: np.ndarray, at: Any) -> list[Any]:
    changed = values.astype(object).copy()
    changed[at] = CANARY
    return changed.tolist()


ESTIMATORS = {
    "classifier": PrivateClassifier(),
    "regressor": PrivateRegressor(),
    "selector": PrivateSelector(task="regression"),
    "gaps": PrivateClassifier(missing=0.0),
}


@pytest.mark.parametrize("estimator", ESTIMATORS.values(), ids=ESTIMATORS)
def test_p46_text_among_numbers_is_refused_by_its_place(estimator: Any) -> None:
    with pytest.raises(WrongInput, match=r"^row 4, column 2 of X: expected a number") as caught:
        estimator.fit(with_canary(X, (3, 1)), Y)
    assert CANARY not in str(caught.value)
    if not isinstance(estimator, PrivateClassifier):
        with pytest.raises(WrongInput, match=r"^row 6 of y: expected a number") as caught:
            estimator.fit(X.astype(float), with_canary(Y, 5))
        assert CANARY not in str(caught.value)


def test_p46_text_to_predict_is_refused_by_its_place() -> None:
    model = PrivateClassifier(learner="majority", random_state=1).fit(X.astype(float), Y)
    with pytest.raises(WrongInput, match=r"^row 1, column 1 of X: expected a number") as caught:
        model.predict(with_canary(X, (0, 0)))
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize("estimator", [PrivateRegressor, PrivateSelector])
def test_refused_gap_says_which_setting_takes_it(estimator: Any) -> None:
    X, y = np.arange(40.0).reshape(20, 2), np.arange(20.0)
    X[3, 1] = np.nan
    with pytest.raises(WrongInput, match=r'^Input X contains NaN: .*missing="category"'):
        estimator(epsilon=1.0).fit(X, y)


def test_declared_fractions_are_no_integer_labels() -> None:
    with pytest.raises(WrongInput, match="expected labels among the declared classes"):
        declared_labels(("1", "1.5"), np.dtype(int))
    assert declared_labels(("2", "1"), np.dtype(int))[1] == ("1", "2")


@pytest.mark.parametrize("estimator", [PrivateClassifier, PrivateNormaliser, PrivateSelector])
def test_columns_of_the_same_name_are_refused_in_a_sentence(estimator):
    frame = pd.DataFrame(np.zeros((60, 3)), columns=["a", "b", "a"])
    with pytest.raises(WrongInput, match="distinct column names in 'X', got the same for columns 1 and 3"):
        estimator().fit(frame, np.arange(60) % 2)


@pytest.mark.parametrize("words", [False, True])
def test_classes_given_to_a_regression_are_named_as_fault(words: bool) -> None:
    X = pd.DataFrame({"a": np.arange(40.0), "town": ["Ulm", "Bonn"] * 20})
    with pytest.raises(WrongInput, match=r"^row 1 of y: expected a number as the target .* take PrivateClassifier"):
        PrivateRegressor(missing="category").fit(X if words else X[["a"]], pd.Series(["no", "yes"] * 20))


@pytest.mark.parametrize("kind", [float, object, "Int64", "category", "string"])
@pytest.mark.parametrize("estimator", [PrivateClassifier, PrivateRegressor, PrivateSelector])
def test_gap_in_the_target_is_named_by_its_row(estimator: Any, kind: Any) -> None:
    y = pd.Series(np.arange(40) % 2).astype(kind)
    y[4] = None
    with pytest.raises(WrongInput, match=r"^row 5 of y: expected a (label|number), got none; leave the row out$"):
        estimator().fit(np.arange(40.0)[:, None], y)


ALL = [PrivateClassifier, PrivateRegressor, PrivateSelector, PrivateNormaliser, PrivatePCA]


@pytest.mark.parametrize("estimator", ALL)
def test_unknown_argument_names_the_nearest_one(estimator: Any) -> None:
    with pytest.raises(TypeError, match=f"^{estimator.__name__} has no argument 'eps'; did you mean epsilon"):
        estimator(eps=1)


@pytest.mark.parametrize("epsilon", ["1", None, np.nan, -1, True])
@pytest.mark.parametrize("estimator", ALL)
def test_epsilon_that_is_no_number_is_refused_in_a_sentence(estimator: Any, epsilon: Any) -> None:
    with pytest.raises(WrongInput, match=r"expected epsilon (as a (finite )?number|> 0)"):
        estimator(epsilon=epsilon).fit(np.arange(80.0).reshape(40, 2), np.arange(40) % 2)


@pytest.mark.parametrize("estimator", [PrivateClassifier, PrivateRegressor])
def test_target_is_called_like_the_series_of_labels(estimator: Any) -> None:
    X, y = pd.DataFrame({"a": np.arange(40.0)}), pd.Series(np.arange(40) % 2, name="returned")
    model = estimator(epsilon=1.0, random_state=0)
    assert model.fit(X, y).model_.schema.target == "returned"
    assert model.fit(X, y.rename("a")).model_.schema.target == "a_"
    assert (
        model.fit(X, y.to_numpy()).model_.schema.target == model.fit(X, y.rename(None)).model_.schema.target == "target"
    )


def test_number_of_rows_is_assumed_once() -> None:
    model = PrivateClassifier(random_state=0).fit(np.arange(40.0)[:, None], np.arange(40) % 2)
    assert [fact for fact in model.assumptions_ if "number of rows" in fact] == [
        "public: the number of rows, as the length of X, and every setting in the plan"
    ]


@pytest.mark.parametrize("missing", ["category", 0.0])
def test_gaps_of_truth_values_are_taken(missing: Any) -> None:
    frame = pd.DataFrame({"a": np.arange(40.0), "b": pd.array([True, False, None, True] * 10, dtype="boolean")})
    PrivateClassifier(learner="majority", random_state=1, missing=missing).fit(frame, np.arange(40) % 2)
    with pytest.raises(WrongInput, match=r'^Input X contains NaN: .*missing="category"'):
        PrivateClassifier(learner="majority", random_state=1).fit(frame, np.arange(40) % 2)


def test_feature_may_be_called_target() -> None:
    frame = pd.DataFrame({"target": np.arange(40.0), "b": ["x", "y"] * 20})
    model = PrivateClassifier(learner="majority", random_state=1).fit(frame, np.arange(40) % 2)
    assert list(model.feature_names_in_) == ["target", "b"]
    assert len(model.predict(frame)) == 40


@pytest.mark.parametrize("estimator", [PrivateClassifier, PrivateNormaliser])
def test_columns_that_a_schema_lacks_may_hold_text(estimator: Any) -> None:
    classes = ("0", "1") if estimator is PrivateClassifier else ()
    schema = Schema(columns=(Column(name="a", low=0, high=40),), target="y", classes=classes, rows=40)
    frame = pd.DataFrame({"a": np.arange(40.0), "note": ["x", "y"] * 20})
    estimator(schema=schema, random_state=1).fit(frame, np.arange(40) % 2)
    with pytest.raises(WrongInput, match=r"column 'a', row 1: "):
        estimator(schema=schema, random_state=1).fit(frame.assign(a="x"), np.arange(40) % 2)


@pytest.mark.parametrize("kind", [object, "string", "category", "string[pyarrow]", pd.ArrowDtype(pa.string())])
def test_text_of_any_type_of_pandas_is_a_category(kind: Any) -> None:
    frame = pd.DataFrame({"town": pd.Series(["north", "south"] * 4, dtype=kind)})
    assert schema_from_types(frame).columns[0].kind == "category"
