"""A released model predicts labels as they were spelt, from data frames, files and built-in data sets."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from privaware import datasets, load
from privaware.errors import WrongInput
from privaware.features import apply
from privaware.features.bounded import Bounded
from privaware.model import TENSORS, Model, read_tensors, scaled
from privaware.schema import Column, Schema

FORMAT_1 = Path(__file__).parent / "workflow" / "format_1"


def linear_model(weights: np.ndarray, schema: Schema) -> Model:
    """Rows of norm 1 times `weights`; each output has a bias above the one before."""
    outputs, inputs = weights.shape
    tensors = {"output.weight": weights.astype(np.float32), "output.bias": np.arange(outputs, dtype=np.float32)}
    architecture = {"name": "linear", "inputs": inputs, "outputs": outputs}
    return Model(schema=schema, features=(Bounded(),), architecture=architecture, tensors=tensors)


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame({"age": [17, 50, 89], "town": ["a", "ü", "elsewhere"], "z": [0.2, 0.5, 0.9]})


def test_predict_gives_labels_of_a_frame_and_of_a_file(frame: pd.DataFrame, tmp_path: Path) -> None:
    model = load(FORMAT_1)
    labels = model.predict(frame)
    assert set(labels) <= {"no", "yes"}
    frame.to_csv(tmp_path / "rows.csv", index=False)
    assert list(model.predict(tmp_path / "rows.csv")) == list(labels)


def test_an_array_has_the_columns_in_the_order_of_the_schema(frame: pd.DataFrame) -> None:
    model = load(FORMAT_1)
    names = [column.name for column in model.schema.columns]
    assert (model.predict_proba(frame[names].to_numpy()) == model.predict_proba(frame)).all()
    with pytest.raises(WrongInput, match="3 columns age, town, z"):
        model.predict(frame[names[:2]].to_numpy())


def test_an_array_of_images_is_predicted() -> None:
    schema = Schema(form="image", shape=(1, 2, 2), classes=("dark", "light"), rows=10)
    model = linear_model(np.array([[-1, -1, -1, -1], [1, 1, 1, 1]]), schema)
    images = np.zeros((2, 2, 2), np.uint8)
    images[1] = 255
    assert model.predict_proba(images)[1, 1] > model.predict_proba(images)[0, 1]


def test_predict_proba_sums_to_one_and_agrees_with_predict(frame: pd.DataFrame) -> None:
    model = load(FORMAT_1)
    probabilities = model.predict_proba(frame)
    assert probabilities.shape == (3, 2)
    assert probabilities.sum(axis=1) == pytest.approx(1)
    classes = np.array(model.schema.classes)
    assert list(classes[probabilities.argmax(axis=1)]) == list(model.predict(frame))


def test_order_of_columns_and_extra_columns_do_not_matter(frame: pd.DataFrame) -> None:
    model = load(FORMAT_1)
    turned = frame[["z", "town", "age"]].assign(y="no")
    assert (model.predict_proba(turned) == model.predict_proba(frame)).all()


def test_missing_column_is_refused(frame: pd.DataFrame) -> None:
    with pytest.raises(WrongInput, match="age"):
        load(FORMAT_1).predict(frame[["town", "z"]])


def test_built_in_data_set_with_other_columns_is_refused() -> None:
    with pytest.raises(WrongInput, match="wisconsin, whose columns differ"):
        load(FORMAT_1).predict("wisconsin")


def test_regression_predicts_numbers_within_the_declared_range() -> None:
    schema = Schema(columns=(Column(name="a", low=0, high=1),), target="y", low=10.0, high=20.0)
    model = linear_model(np.array([[100.0]]), schema)
    predictions = model.predict(pd.DataFrame({"a": [0.0, 0.001, 1.0]}))
    assert predictions.min() >= 10.0
    assert predictions.max() == 20.0
    with pytest.raises(WrongInput, match="predicts the number 'y'"):
        model.predict_proba(pd.DataFrame({"a": [0.0]}))


def test_no_rounding_leads_out_of_the_declared_range() -> None:
    schema = Schema(columns=(Column(name="a", low=0, high=1),), target="y", low=0.1, high=0.4)
    assert linear_model(np.array([[1.0]]), schema).decide(np.array([[-1.0], [1.0]])).tolist() == [0.1, 0.4]


def test_scaled_targets_span_the_declared_range() -> None:
    schema = Schema(target="y", low=10.0, high=20.0)
    assert scaled(np.array([0.0, 10.0, 15.0, 20.0, 99.0]), schema).tolist() == [-1, -1, 0, 1, 1]
    with pytest.raises(WrongInput, match="low and high of the target 'y'"):
        scaled(np.array([1.0]), Schema(target="y"))


def test_microbatches_do_not_change_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = Schema(columns=(Column(name="a", low=0, high=1),), classes=("n", "y"))
    model = linear_model(np.array([[1.0], [2.0]]), schema)
    x = np.linspace(0, 1, 10)[:, None]
    expected = model.outputs(x)
    monkeypatch.setattr("privaware.model.MICROBATCH", 3)
    assert (model.outputs(x) == expected).all()
    assert (model.network_outputs(apply(model.features, x, schema)) == expected).all()
    assert model.outputs(x[:0]).shape == (0, 2)


def test_tensors_that_do_not_fit_the_schema_are_refused() -> None:
    schema = Schema(columns=(Column(name="a", low=0, high=1),), classes=("n", "m", "y"))
    with pytest.raises(WrongInput, match=r"expected outputs of shape \(1, 3\)"):
        linear_model(np.array([[1.0], [2.0]]), schema).check()


@pytest.mark.skipif(os.name != "posix", reason="Windows has no pipes among its files")
def test_tensors_are_not_read_from_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / TENSORS)
    with pytest.raises(WrongInput, match="restore the folder"):
        read_tensors(tmp_path)


def test_built_in_data_set_is_predicted_on_its_test_rows() -> None:
    schema = datasets.schema("wisconsin")
    labels = linear_model(np.zeros((2, len(schema.used))), schema).predict("wisconsin")
    assert len(labels) == len(datasets.load("wisconsin").test)
    assert set(labels) == {schema.classes[1]}


def test_features_are_computed_where_the_network_is(frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    places = []

    def noted(chain: tuple[object, ...], x: np.ndarray, schema: Schema, device: str = "cpu") -> np.ndarray:
        places.append(device)
        return apply(chain, x, schema, device)

    monkeypatch.setattr("privaware.model.features.apply", noted)
    model = load(FORMAT_1)
    places.clear()  # `load` tries the model on a row
    assert list(model.predict(frame, device="cpu:0")) == list(model.predict(frame))
    assert model.predict_proba(frame, device="cpu:0") == pytest.approx(model.predict_proba(frame))
    assert places == ["cpu:0", "cpu", "cpu:0", "cpu"]


def test_loaded_model_has_the_classes_of_its_schema() -> None:
    assert load(FORMAT_1).classes_.tolist() == ["no", "yes"]


def test_model_of_numbers_has_no_classes() -> None:
    model = linear_model(np.ones((1, 1)), Schema(columns=(Column(name="x", low=0, high=1),), low=0, high=10))
    assert not hasattr(model, "classes_")


def test_feature_names_are_the_columns_that_a_frame_needs(frame: pd.DataFrame) -> None:
    model = load(FORMAT_1)
    assert model.feature_names_in_.tolist() == ["age", "town", "z"]
    assert len(model.predict(frame[list(model.feature_names_in_)])) == 3
    assert model.n_features_in_ == 3


def test_images_have_no_feature_names() -> None:
    schema = Schema(form="image", shape=(1, 2, 2), classes=("dark", "light"), rows=10)
    assert not hasattr(linear_model(np.ones((2, 4)), schema), "feature_names_in_")


def test_score_is_the_fraction_of_correct_labels(frame: pd.DataFrame) -> None:
    model = load(FORMAT_1)
    labels = model.predict(frame)
    other = {"no": "yes", "yes": "no"}
    assert model.score(frame, labels) == 1
    assert model.score(frame, [other[labels[0]], *labels[1:]]) == pytest.approx(2 / 3)
    assert model.score(frame.assign(y=labels)) == 1


def test_score_of_numbers_is_r2() -> None:
    model = linear_model(np.ones((1, 1)), Schema(columns=(Column(name="x", low=0, high=1),), low=0, high=10))
    rows = pd.DataFrame({"x": [0.0, 0.5, 1.0]})
    predictions = model.predict(rows)
    assert model.score(rows, predictions) == 1
    assert model.score(rows, predictions[::-1]) < 1


def test_score_refuses_another_number_of_targets(frame: pd.DataFrame) -> None:
    with pytest.raises(WrongInput, match="one target for each of 3 rows, got 2"):
        load(FORMAT_1).score(frame, ["no", "yes"])


def test_score_matches_labels_that_are_numbers(frame: pd.DataFrame) -> None:
    schema = Schema(columns=(Column(name="x", low=0, high=1),), classes=("0", "1"), rows=10)
    model = linear_model(np.array([[-1.0], [1.0]]), schema)
    rows = pd.DataFrame({"x": [0.1, 0.9]})
    assert model.score(rows, model.predict(rows).astype(int)) == 1
