"""Normalisation and principal components are paid for, and steps before an estimator are warned of."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from privaware import Ledger, PrivateClassifier, PrivateSelector, Schema
from privaware._rounded import rounded_up
from privaware.errors import OpenBoundsWarning, OverlapWarning, WrongInput
from privaware.estimators import EXPECTED_FAILED_CHECKS, PrivateNormaliser, PrivatePCA, _declared
from privaware.schema import Column

ROWS = 3000


@parametrize_with_checks(
    [PrivateNormaliser(), PrivatePCA()], expected_failed_checks=lambda estimator: EXPECTED_FAILED_CHECKS
)
def test_passes_scikit_learn_checks(estimator, check):
    check(estimator)


def rows(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(seed).uniform(-1, 1, size=(ROWS, 3)) * [1.0, 10.0, 100.0]
    return X, X[:, 0] > 0


def declared() -> Schema:
    columns = tuple(Column(name=name, low=-high, high=high) for name, high in zip("abc", (1, 10, 100), strict=True))
    return Schema(columns=columns, classes=("False", "True"), rows=ROWS)


STEPS = [PrivateNormaliser(schema=declared()), PrivatePCA(schema=declared())]


@pytest.mark.parametrize("step", STEPS)
def test_step_is_charged_what_it_says(step: Any, tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "x.ledger", limit=3.0)
    fitted = clone(step).set_params(ledger=ledger).fit(rows()[0])
    assert 0.9 < ledger.spent() <= 1.0
    assert fitted.epsilon_ == pytest.approx(ledger.spent(), rel=1e-6)
    assert fitted.certified_
    assert "every outcome computed from these" in fitted.guarantee_


def test_bounds_are_paid_for_without_a_schema(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "x.ledger", limit=3.0)
    fitted = PrivateNormaliser(ledger=ledger).fit(rows()[0])
    assert all(column.bounded for column in fitted.map_.schema.columns)
    assert ledger.spent() <= 1.0


def test_columns_get_one_scale() -> None:
    X, _ = rows()
    scaled = PrivateNormaliser(schema=declared(), epsilon=4.0, random_state=0).fit_transform(X)
    assert scaled.std(axis=0) == pytest.approx(np.ones(3), rel=0.1)
    assert scaled.mean(axis=0) == pytest.approx(np.zeros(3), abs=0.1)


def test_components_find_the_direction_of_the_rows() -> None:
    X = np.random.default_rng(0).normal(size=(ROWS, 1)) * [[0.3, 3.0, 0.0]]
    fitted = PrivatePCA(n_components=1, schema=declared(), epsilon=4.0, random_state=0).fit(X)
    assert abs(np.corrcoef(fitted.transform(X)[:, 0], X[:, 0])[0, 1]) > 0.9


def test_frames_with_words_and_persons_are_taken() -> None:
    X, _ = rows()
    frame = pd.DataFrame({"a": X[:, 0], "town": np.where(X[:, 1] > 0, "Ulm", "Bonn"), "who": np.arange(ROWS) // 2})
    fitted = PrivateNormaliser(unit="who", cap=2, epsilon=4.0, random_state=0).fit(frame)
    assert fitted.transform(frame).shape[1] == len(fitted.get_feature_names_out())
    assert np.array_equal(fitted.transform(frame[["a", "town"]]), fitted.transform(frame))


def test_fitted_step_holds_no_row_and_pickles() -> None:
    X, _ = rows()
    fitted = PrivatePCA(schema=declared(), random_state=0).fit(X)
    assert np.array_equal(pickle.loads(pickle.dumps(fitted)).transform(X), fitted.transform(X))
    assert len(pickle.dumps(fitted)) < 20_000


def test_wrong_setting_costs_nothing(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "x.ledger", limit=3.0)
    with pytest.raises(WrongInput, match="components"):
        PrivatePCA(n_components=0, schema=declared(), ledger=ledger).fit(rows()[0])
    assert ledger.spent() == 0


@pytest.mark.parametrize("schema", [declared(), None], ids=["declared", "open"])
def test_more_components_than_columns_cost_nothing(schema: Schema | None, tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "x.ledger", limit=3.0)
    with pytest.raises(WrongInput, match=r"n_components of at most 3, .* got 20; set n_components=3 or less"):
        PrivatePCA(n_components=20, schema=schema, ledger=ledger).fit(rows()[0])
    assert ledger.spent() == 0
    assert PrivatePCA(n_components=3, schema=schema, ledger=ledger).fit_transform(rows()[0]).shape == (ROWS, 3)


def test_components_of_open_categories_may_be_fewer() -> None:
    frame = pd.DataFrame({"a": rows()[0][:, 0], "town": ["Ulm", "Bonn"] * (ROWS // 2)})
    fitted = PrivatePCA(n_components=20, epsilon=4.0, random_state=0).fit(frame)
    assert 3 <= fitted.transform(frame).shape[1] < 20


def test_paid_pipeline_is_added_up_by_one_ledger(tmp_path: Path) -> None:
    X, y = rows()
    book = Ledger.create(tmp_path / "x.ledger", limit=2.5)
    pipe = make_pipeline(PrivateNormaliser(schema=declared(), ledger=book), PrivateClassifier(ledger=book))
    pipe.fit(X, y)
    assert 1.0 < book.spent() <= 2.0
    assert pipe.score(X, y) > 0.6


def test_guarantee_of_a_step_names_the_total_of_its_ledger(tmp_path: Path) -> None:
    X, y = rows()
    book = Ledger.create(tmp_path / "x.ledger", limit=2.5)
    first = PrivateNormaliser(schema=declared(), ledger=book)
    pipe = make_pipeline(first, PrivateClassifier(learner="majority", ledger=book)).fit(X, y)
    assert "x.ledger" not in pipe[0].guarantee_
    total = f"all releases together have epsilon {rounded_up(book.spent())} at delta 1e-5"
    assert f"2 releases are charged to the ledger of this fit: {total}." in pipe[-1].guarantee_


# Steps that nobody paid for.


def test_real_numbers_without_bounds_are_warned_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_declared, "_warned", set())
    X, y = rows()
    advice = r"replace such a step by PrivateNormaliser or PrivatePCA.*if there is none, .*scikit_learn_pipelines.md"
    with pytest.warns(OpenBoundsWarning, match=advice):
        make_pipeline(StandardScaler(), PrivateClassifier(learner="majority")).fit(X, y)
    PrivateClassifier(learner="majority").fit(*rows(seed=1))


@pytest.mark.parametrize("bounded", [{"schema": declared()}, {"random_state": 0}])
def test_declared_bounds_and_seeded_fits_are_not_warned_of(monkeypatch: pytest.MonkeyPatch, bounded: Any) -> None:
    monkeypatch.setattr(_declared, "_warned", set())
    PrivateClassifier(learner="majority", **bounded).fit(*rows())


def test_whole_numbers_are_not_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_declared, "_warned", set())
    X, y = rows()
    frame = pd.DataFrame({"a": X[:, 1].astype(int), "b": X[:, 0] > 0})
    with warnings.catch_warnings():
        warnings.simplefilter("error", OpenBoundsWarning)
        PrivateClassifier(learner="majority", missing=0.0).fit(frame, y)


def test_pipeline_without_ledger_adds_up_selector_and_model() -> None:
    X, y = rows()
    selector = PrivateSelector(schema=declared(), method="top", settings={"columns": 2})
    with pytest.warns(OverlapWarning, match="together they spend epsilon"):
        pipe = make_pipeline(selector, PrivateClassifier(learner="majority")).fit(X, y)
    assert not pipe[-1].certified_


def test_uncertified_fit_says_so_in_repr_and_guarantee() -> None:
    X, y = rows()
    model = PrivateClassifier(schema=declared(), learner="majority")
    assert "not certified" not in repr(clone(model))
    first = clone(model).fit(X, y)
    with pytest.warns(OverlapWarning):
        second = clone(model).fit(X, y)
    assert "not certified" not in repr(first)
    assert "NOT CERTIFIED" not in first.guarantee_
    assert repr(second).endswith("[not certified]")
    assert "NOT CERTIFIED: rows of this fit were in earlier fits" in second.guarantee_
    assert repr(clone(model).set_params(random_state=0).fit(*rows(seed=1))).endswith("[not certified]")


def test_rescaled_folds_are_not_noticed_as_the_page_says() -> None:
    X, y = rows()
    pipe = make_pipeline(StandardScaler(), PrivateClassifier(learner="majority"))
    assert len(cross_val_score(pipe, X, y, cv=3)) == 3
    page = Path(__file__).parents[2] / "docs" / "how_to" / "scikit_learn_pipelines.md"
    assert "rescaled" in page.read_text()


def test_pipeline_passes_persons_beside_a_transformer(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    X = pd.DataFrame(draw.normal(size=(2000, 2)), columns=["a", "b"]).assign(customer=np.arange(2000) // 2)
    shared = {"ledger": tmp_path / "people.ledger", "unit": "customer", "cap": 2, "epsilon": 4.0, "random_state": 0}
    Ledger.create(tmp_path / "people.ledger", limit=9.0, unit="customer", cap=2)
    steps = [("scaled", PrivateNormaliser(**shared), list(X)), ("persons", "passthrough", ["customer"])]
    scaled = ColumnTransformer(steps, verbose_feature_names_out=False).set_output(transform="pandas")
    pipe = make_pipeline(scaled, PrivateClassifier(**shared)).fit(X, X["a"] > 0)
    assert "customer" in pipe[-1].guarantee_
    assert pipe[-1].n_features_in_ == 2
    assert pipe.score(X, X["a"] > 0) > 0.9


def test_array_from_a_step_before_persons_names_the_way_out() -> None:
    X = pd.DataFrame({"a": np.linspace(0, 1, 400), "customer": np.arange(400)})
    pipe = make_pipeline(*(step(unit="customer", random_state=0) for step in (PrivateNormaliser, PrivateClassifier)))
    with pytest.raises(WrongInput, match=r"'customer'\), got an array; .*earlier step.*scikit_learn_pipelines.md"):
        pipe.fit(X, X["a"] > 0.5)
