"""The private selector keeps scikit-learn's contract and the promises of `select`."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from privaware import Ledger, PrivateClassifier, PrivateSelector, Schema
from privaware.errors import BudgetExceeded, WrongInput
from privaware.estimators import EXPECTED_FAILED_CHECKS
from privaware.events import Gaussian, leaves
from privaware.schema import Column

DELTA = 1e-5


@parametrize_with_checks([PrivateSelector()], expected_failed_checks=lambda estimator: EXPECTED_FAILED_CHECKS)
def test_passes_scikit_learn_checks(estimator, check):
    check(estimator)


def measurements(rows: int = 2000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Four columns, of which the third tells the class."""
    X = np.random.default_rng(seed).uniform(-1, 1, size=(rows, 4))
    return X, np.where(X[:, 2] > 0, "yes", "no")


def declared(**facts: Any) -> Schema:
    columns = tuple(Column(name=name, low=-1, high=1) for name in "abcd")
    return Schema(**{"columns": columns, "classes": ("no", "yes"), "rows": 2000, **facts})


def charged(ledger: Ledger) -> list[object]:
    """Every kind of event that the ledger was charged."""
    spends = [entry.event for entry in ledger.entries() if entry.event is not None]
    return [type(leaf) for event in spends for leaf, _ in leaves(event)]


def test_selector_keeps_informative_column_and_releases_its_name() -> None:
    X, y = measurements()
    frame = pd.DataFrame(X, columns=list("abcd"))
    selector = PrivateSelector(epsilon=4.0, settings={"columns": 1}, random_state=0).fit(frame, y)
    assert selector.columns_ == ("c",)
    assert selector.get_support().tolist() == [False, False, True, False]
    assert selector.get_feature_names_out().tolist() == ["c"]
    assert np.array_equal(selector.transform(frame)[:, 0], X[:, 2])
    public = {"columns_", "support_", "epsilon_", "certified_", "guarantee_", "assumptions_"}
    assert {name for name in vars(selector) if name.endswith("_")} == public | {"n_features_in_", "feature_names_in_"}


def test_bounds_are_charged_without_a_schema_only(tmp_path) -> None:
    X, y = measurements()
    ledgers = [Ledger.create(tmp_path / f"{name}.ledger", limit=1.0, delta=DELTA) for name in ("bought", "declared")]
    bought = PrivateSelector(ledger=ledgers[0]).fit(X, y)
    PrivateSelector(schema=declared(), ledger=ledgers[1]).fit(*measurements(seed=1))
    assert len(charged(ledgers[1])) == 1
    assert Counter(charged(ledgers[0])) - Counter(charged(ledgers[1])) == {Gaussian: 2}  # two rounds of counts
    assert bought.epsilon_ == pytest.approx(ledgers[0].spent(), rel=1e-6)
    assert "labels that occur in y" in " ".join(bought.assumptions_)
    assert "every outcome computed from these columns" in bought.guarantee_


def test_selector_and_classifier_share_one_ledger(tmp_path) -> None:
    X, y = measurements()
    path = tmp_path / "people.ledger"
    Ledger.create(path, limit=6.0, delta=DELTA)
    schema = declared()
    steps = (
        PrivateSelector(epsilon=2.0, schema=schema, settings={"columns": 1}, ledger=path, random_state=0),
        PrivateClassifier(epsilon=2.0, ledger=path, random_state=0),
    )
    pipe = make_pipeline(*steps).fit(X, y)
    assert pipe.score(X, y) > 0.9
    assert sum(entry.kind == "spend" for entry in Ledger.open(path).entries()) == 2
    with pytest.raises(BudgetExceeded):
        clone(pipe).set_params(privateselector__epsilon=5.0).fit(X, y)


def test_text_columns_stay_a_data_frame_in_a_pipeline(tmp_path) -> None:
    X, y = measurements()
    towns = np.where(y == "yes", "Ulm", "Bonn").astype(object)
    towns[:9] = None
    frame = pd.DataFrame({"a": X[:, 0], "town": towns, "b": X[:, 1]})
    ledger = Ledger.create(tmp_path / "people.ledger", limit=9.0, delta=DELTA)
    selector = PrivateSelector(method="top", epsilon=4.0, settings={"columns": 2}, ledger=ledger, random_state=0)
    pipe = make_pipeline(selector, PrivateClassifier(epsilon=4.0, ledger=ledger, random_state=0)).fit(frame, y)
    assert "town" in selector.columns_
    assert list(selector.transform(frame).columns) == list(pipe[-1].feature_names_in_)
    assert pipe.score(frame, y) > 0.9


def test_regression_target_is_declared_by_task() -> None:
    X, _ = measurements()
    schema = declared(classes=(), low=-1.0, high=1.0)
    selector = PrivateSelector(
        epsilon=8.0, schema=schema, task="regression", settings={"columns": 1}, random_state=0
    ).fit(X, X[:, 1])
    assert selector.columns_ == ("b",)
    bought = PrivateSelector(epsilon=8.0, task="regression", settings={"columns": 1}, random_state=0).fit(X, X[:, 1])
    assert bought.columns_ == ("x1",)
    with pytest.raises(WrongInput, match="task classification or regression"):
        PrivateSelector(task="divination").fit(X, X[:, 1])
    with pytest.raises(WrongInput, match="give another schema"):
        PrivateSelector(schema=declared(), task="regression").fit(X, X[:, 1])


def test_seed_makes_the_choice_reproducible_and_not_for_release() -> None:
    X, y = measurements(400)
    seeded = [PrivateSelector(epsilon=0.5, random_state=3).fit(X, y) for _ in range(2)]
    assert seeded[0].columns_ == seeded[1].columns_
    assert not seeded[0].certified_
    assert seeded[0].guarantee_.startswith("SEEDED, NOT FOR RELEASE")
    assert PrivateSelector(schema=replace(declared(), rows=400)).fit(*measurements(400, seed=1)).certified_


def test_a_refused_call_costs_nothing(tmp_path) -> None:
    X, y = measurements()
    ledger = Ledger.create(tmp_path / "people.ledger", limit=1.0, delta=DELTA)
    for wrong in ({"method": "pca"}, {"settings": {"columns": 0}}, {"delta": 0.1}, {"epsilon": -1.0}):
        with pytest.raises(WrongInput):
            PrivateSelector(ledger=ledger, **wrong).fit(X, y)
    with pytest.raises(ValueError, match="Unknown label type"):
        PrivateSelector(ledger=ledger).fit(X, X[:, 0])
    assert charged(ledger) == []


def persons_frame(rows: int = 2000) -> tuple[pd.DataFrame, np.ndarray]:
    """The `measurements` as a data frame, with two rows for each customer."""
    X, y = measurements(rows)
    return pd.DataFrame(X, columns=list("abcd")).assign(customer=np.arange(rows) // 2), y


def test_pipeline_of_selector_and_model_protects_persons(tmp_path) -> None:
    frame, y = persons_frame()
    Ledger.create(tmp_path / "people.ledger", limit=9.0, delta=DELTA, unit="customer", cap=2)
    shared = {"ledger": tmp_path / "people.ledger", "unit": "customer", "cap": 2, "epsilon": 4.0, "random_state": 0}
    pipe = make_pipeline(PrivateSelector(settings={"columns": 1}, **shared), PrivateClassifier(**shared)).fit(frame, y)
    assert pipe[0].columns_ == ("c",)
    assert list(pipe[0].transform(frame).columns) == list(pipe[0].get_feature_names_out()) == ["c", "customer"]
    assert list(pipe[-1].feature_names_in_) == ["c"]
    assert "customer" in pipe[-1].guarantee_
    assert pipe.score(frame, y) > 0.9
    assert Ledger.open(tmp_path / "people.ledger").spent() > 4.0


def test_column_of_persons_stays_under_set_output() -> None:
    frame, y = persons_frame()
    selector = PrivateSelector(settings={"columns": 1}, unit="customer", cap=2, epsilon=8.0, random_state=0)
    selected = selector.set_output(transform="pandas").fit_transform(frame, y)
    assert list(selected.columns) == ["c", "customer"]
    assert selected["customer"].tolist() == frame["customer"].tolist()
