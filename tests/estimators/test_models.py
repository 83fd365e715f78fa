"""The estimators keep scikit-learn's contract and the promises of `fit`."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import replace
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import check_methods_subset_invariance, parametrize_with_checks

from privaware import Ledger, PrivateClassifier, PrivateRegressor, PrivateSelector, Schema, load, verify
from privaware.errors import BudgetExceeded, OpenBoundsWarning, WrongInput
from privaware.estimators import EXPECTED_FAILED_CHECKS, PrivateNormaliser, _declared, _overlap
from privaware.events import Approximate, Gaussian, leaves
from privaware.schema import Column
from privaware.testing import BrokenPromise, neighbours, replay, rows_for

DELTA = 1e-5


@parametrize_with_checks(
    [PrivateClassifier(), PrivateRegressor()], expected_failed_checks=lambda estimator: EXPECTED_FAILED_CHECKS
)
def test_passes_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("labels", [[True, False], [1, "x"]])
def test_objects_that_are_no_text_are_refused_as_labels(labels: list[object]) -> None:
    X, y = measurements(20)
    with pytest.raises(WrongInput, match=r"labels of one type in y, got an array of dtype object; convert them"):
        PrivateClassifier().fit(X, np.array([labels[int(each)] for each in y], dtype=object))


def test_dates_are_no_target_of_a_regression() -> None:
    X, _ = measurements(20)
    for days in (pd.date_range("2020", periods=20), pd.Series(pd.date_range("2020", periods=20, tz="UTC"))):
        with pytest.raises(WrongInput, match="numbers as the target of a regression, got dates"):
            PrivateRegressor().fit(X, days)


def measurements(rows: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(seed).uniform(-1, 1, size=(rows, 2))
    return X, X[:, 0] > 0


def square(**facts: object) -> Schema:
    """Two declared columns in [-1, 1]."""
    columns = tuple(Column(name=name, low=-1, high=1) for name in ("a", "b"))
    return Schema(**{"columns": columns, "classes": ("False", "True"), "rows": 400, **facts})


def charged(ledger: Ledger) -> list[object]:
    """Every kind of event that the ledger was charged."""
    spends = [entry.event for entry in ledger.entries() if entry.event is not None]
    return [type(leaf) for event in spends for leaf, _ in leaves(event)]


# What it costs, and what it says about it.


@pytest.mark.parametrize(
    ("learner", "settings"), [("linear", None), ("objective_perturbation", {"distribution": "gamma"})]
)
def test_bounds_are_charged_without_a_schema_only(tmp_path, learner, settings):
    X, y = measurements()
    open_book = Ledger.create(tmp_path / "open.ledger", limit=1.0, delta=DELTA)
    known_book = Ledger.create(tmp_path / "known.ledger", limit=1.0, delta=DELTA)
    paid = PrivateClassifier(learner=learner, settings=settings, ledger=open_book).fit(X, y)
    free = PrivateClassifier(learner=learner, settings=settings, schema=square(), ledger=known_book)
    free.fit(*measurements(seed=1))
    assert len(charged(known_book)) == 1
    two_rounds_of_counts = {Gaussian: 2}
    assert Counter(charged(open_book)) - Counter(charged(known_book)) == two_rounds_of_counts
    assert paid.epsilon_ == pytest.approx(open_book.spent(), rel=1e-6)
    assert all(column.bounded for column in paid.model_.schema.columns)
    assert free.model_.schema.columns == square().columns


@pytest.mark.parametrize("estimator", [PrivateClassifier, PrivateRegressor])
@pytest.mark.parametrize(("learner", "epsilon"), [("dpsgd", 5.0), ("fourier", 50.0)])
def test_prediction_of_a_row_is_that_of_the_row_alone(estimator, learner, epsilon):
    model = estimator(epsilon=epsilon, learner=learner, random_state=0)
    check_methods_subset_invariance(estimator.__name__, model)


def test_facts_taken_from_x_and_y_are_listed_as_assumptions():
    X, y = measurements()
    assumptions = " ".join(PrivateClassifier().fit(X, y).assumptions_)
    assert "labels that occur in y" in assumptions
    assert "number of rows" in assumptions
    assert "number of columns, their names and types" in assumptions
    declared = " ".join(PrivateClassifier(schema=square()).fit(*measurements(seed=1)).assumptions_)
    assert "labels that occur" not in declared


def test_seed_is_recorded_and_marks_model_as_not_for_release(tmp_path):
    X, y = measurements()
    ledger = Ledger.create(tmp_path / "book.ledger", limit=9.0, delta=DELTA)
    seeded = PrivateClassifier(random_state=7, ledger=ledger).fit(X, y)
    again = PrivateClassifier(random_state=7, ledger=ledger).fit(X, y)
    from_state = PrivateClassifier(random_state=np.random.RandomState(7), ledger=ledger).fit(X, y)
    free = PrivateClassifier(ledger=ledger).fit(X, y)
    seeds = [entry.seed for entry in ledger.entries() if entry.event is not None]
    assert seeds[:2] == [7, 7]
    assert seeds[2] not in (None, 7)
    assert seeds[3] is None
    assert [m.certified_ for m in (seeded, from_state, free)] == [False, False, True]
    assert "NOT FOR RELEASE" in seeded.guarantee_
    assert "NOT FOR RELEASE" not in free.guarantee_
    assert np.array_equal(seeded.predict_proba(X), again.predict_proba(X))
    assert not np.array_equal(seeded.predict_proba(X), free.predict_proba(X))


def test_one_ledger_adds_up_the_folds_and_stops_at_its_limit(tmp_path):
    X, y = measurements()
    path = tmp_path / "book.ledger"
    Ledger.create(path, limit=1.7, delta=DELTA)
    model = PrivateClassifier(ledger=path, schema=square(), learner="linear")
    with pytest.raises(BudgetExceeded):
        cross_val_score(model, X, y, cv=5, error_score="raise")
    assert 2 <= len(charged(Ledger.open(path))) < 5
    assert Ledger.open(path).spent() <= 1.7
    with pytest.raises(BudgetExceeded):
        clone(model).fit(X, y)


def test_a_refused_call_costs_nothing(tmp_path):
    X, y = measurements()
    ledger = Ledger.create(tmp_path / "book.ledger", limit=1.0, delta=DELTA)
    declared = PrivateClassifier(schema=square(classes=("no", "yes")), ledger=ledger)
    with pytest.raises(WrongInput, match=r"^row \d+ of y: expected one of the declared classes no, yes") as caught:
        declared.fit(X, np.where(y, "yes", "perhaps"))
    assert "perhaps" not in str(caught.value)
    with pytest.raises(WrongInput, match="spell the labels as the schema does"):
        declared.fit(X, y)
    with pytest.raises(WrongInput, match="the 2 columns of the schema, got 3"):
        declared.fit(np.hstack([X, X[:, :1]]), np.where(y, "yes", "no"))
    with pytest.raises(ValueError, match="contains NaN"):
        PrivateClassifier(ledger=ledger).fit(np.where(X > 0.9, np.nan, X), y)
    with pytest.raises(ValueError, match="Seed must be"):
        PrivateClassifier(ledger=ledger, random_state=-1).fit(X, y)
    assert charged(ledger) == []


def test_a_delta_that_would_allow_publishing_a_row_is_refused():
    X, y = measurements()
    with pytest.raises(WrongInput, match="delta well below 1 / rows"):
        PrivateClassifier(delta=1 / 400).fit(X, y)


# What comes in.


def people(rows: int = 600) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(1)
    town = rng.choice(["Bonn", "Ulm", "Trier"], size=rows)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, size=rows),
            "town": town,
            "job": pd.Categorical(rng.choice(["cook", "smith"], size=rows)),
            "member": rng.random(rows) < 0.5,
        },
        index=np.arange(rows)[::-1],
    )
    return frame, np.where(town == "Ulm", "yes", "no")


def test_text_columns_become_categories_with_a_charge(tmp_path):
    frame, y = people()
    ledger = Ledger.create(tmp_path / "book.ledger", limit=6.0, delta=DELTA)
    model = PrivateClassifier(epsilon=6.0, ledger=ledger, random_state=0).fit(frame, y)
    assert list(model.feature_names_in_) == ["age", "town", "job", "member"]
    assert Approximate in charged(ledger)
    columns = {column.name: column for column in model.model_.schema.columns}
    assert columns["town"].categories == ("Bonn", "Trier", "Ulm")
    assert columns["job"].categories == ("cook", "smith")
    assert (columns["member"].low, columns["member"].high) == (0, 1)
    assert model.score(frame, y) > 0.9
    elsewhere = frame.assign(town="Kiel")
    assert set(model.predict(elsewhere)) <= {"no", "yes"}
    assert np.array_equal(model.predict(frame), model.predict(frame.astype({"town": object})))


def test_a_frame_is_read_by_the_names_of_a_schema():
    X, y = measurements()
    frame = pd.DataFrame(X, columns=["a", "b"])
    by_name = PrivateClassifier(schema=square(), random_state=0).fit(frame[["b", "a"]], y)
    by_place = PrivateClassifier(schema=square(), random_state=0).fit(X, y)
    assert np.array_equal(by_name.predict_proba(frame[["b", "a"]]), by_place.predict_proba(X))
    with pytest.raises(WrongInput, match="the model needs 'a', 'b'"):
        PrivateClassifier(schema=square()).fit(frame.rename(columns={"a": "c", "b": "d"}), y)


def test_schema_decides_how_missing_values_are_coded():
    X, y = measurements()
    holes = np.where(X > 0.9, np.nan, X)
    slots = square(columns=tuple(replace(c, missing="category") for c in square().columns))
    model = PrivateClassifier(epsilon=4.0, schema=slots, random_state=0)
    assert model.fit(holes, y).score(holes, y) > 0.8
    assert get_tags(model).input_tags.allow_nan
    for refusing in (PrivateClassifier(), PrivateClassifier(schema=square())):
        assert not get_tags(refusing).input_tags.allow_nan
        with pytest.raises(ValueError, match="contains NaN"):
            refusing.fit(holes, y)


def test_a_schema_may_come_as_its_file(tmp_path):
    X, y = measurements()
    (tmp_path / "facts.toml").write_text(square().toml())
    model = PrivateClassifier(schema=tmp_path / "facts.toml", random_state=0).fit(X, y)
    same = PrivateClassifier(schema=square(), random_state=0).fit(X, y)
    assert np.array_equal(model.predict_proba(X), same.predict_proba(X))


def test_a_pipeline_and_its_clone_give_the_same_model():
    X, y = measurements()
    flipped = FunctionTransformer(np.negative)
    pipe = make_pipeline(flipped, PrivateClassifier(epsilon=4.0, random_state=0))
    assert pipe.fit(X, y).score(X, y) > 0.8
    assert np.array_equal(pipe.predict(X), clone(pipe).fit(X, y).predict(X))


@pytest.mark.parametrize("make", [PrivateClassifier, PrivateRegressor])
def test_unsupported_input_is_refused_with_a_sentence(make):
    X, y = measurements()
    y = y.astype(int)
    with pytest.raises(TypeError, match="Sparse data was passed"):
        make().fit(csr_array(X), y)
    with pytest.raises(WrongInput, match=r"'wait': expected numbers, truth values, dates, text.*dt.total_seconds"):
        make().fit(pd.DataFrame({"wait": pd.to_timedelta(np.arange(400), unit="h")}), y)
    facts = {"classes": ("0", "1")}, {"low": 0, "high": 1}
    matching, other = facts if make is PrivateClassifier else facts[::-1]
    images = make(schema=Schema(form="image", shape=(1, 2, 2), **matching))
    with pytest.raises(WrongInput, match=r"use privaware\.fit"):
        images.fit(X, y)
    mistaken = make(schema=Schema(columns=square().columns, **other))
    with pytest.raises(WrongInput, match="give another schema"):
        mistaken.fit(X, y)


# Labels.


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([-1, 1], ("-1", "1")),
        ([1.0, 2.0], ("1", "2")),
        ([False, True], ("False", "True")),
        (["a b", "ü"], ("a b", "ü")),
    ],
)
def test_labels_round_trip_through_the_schema(labels, words):
    X, y = measurements()
    targets = np.array(labels)[y.astype(int)]
    model = PrivateClassifier(epsilon=4.0, random_state=0).fit(X, targets)
    assert model.model_.schema.classes == words
    assert model.predict(X).dtype == targets.dtype
    assert model.score(X, targets) > 0.8


def test_declared_classes_need_not_occur_and_are_sorted():
    X, y = measurements()
    facts = square(classes=("10", "9", "2"))
    model = PrivateClassifier(epsilon=4.0, schema=facts, random_state=0)
    model.fit(X, np.where(y, 10, 2))
    assert model.classes_.tolist() == [2, 9, 10]
    chances = model.predict_proba(X)
    assert np.array_equal(model.predict(X), model.classes_[chances.argmax(axis=1)])
    assert chances[y, 2].mean() > chances[y, 1].mean()
    assert chances[~y, 0].mean() > chances[~y, 2].mean()


def test_one_class_trains_only_where_more_are_declared():
    X, _ = measurements()
    with pytest.raises(ValueError, match="only one class is present"):
        PrivateClassifier().fit(X, np.ones(400, dtype=bool))
    model = PrivateClassifier(schema=square(), random_state=0).fit(X, np.ones(400, dtype=bool))
    assert model.classes_.tolist() == [False, True]
    assert model.predict(X).all()


def test_missing_label_is_named_by_its_row():
    X, y = measurements()
    labels = np.where(y, "yes", "no").astype(object)
    labels[3] = None
    with pytest.raises(WrongInput, match="row 4 of y: expected a label, got none"):
        PrivateClassifier().fit(X, labels)


SECRET = "canary123456"


@pytest.mark.parametrize("make", [PrivateClassifier, PrivateRegressor])
@pytest.mark.parametrize(
    "truth",
    [
        np.full(400, 123456.75 + 1j),
        [123456.75 + 1j] * 400,
        np.full(400, 123456.75 + 1j).astype(object),
        {123456.75, "x"},
        [SECRET, 7.5] * 200,
        np.array([[SECRET, "x"]] * 400),
    ],
    ids=["complex", "list", "objects", "set", "mixed", "two columns"],
)
def test_no_error_of_score_quotes_the_target(make, truth):
    X, y = measurements()
    model = make(learner="majority" if make is PrivateClassifier else "mean", random_state=0).fit(X, y.astype(int))
    with pytest.raises(WrongInput, match="one for each of 400 rows") as problem:
        model.score(X, truth)
    assert "123456" not in str(problem.value)
    assert "\n" not in str(problem.value)


def test_array_of_one_dimension_is_not_quoted():
    X, y = measurements()
    with pytest.raises(WrongInput, match="two dimensions, got 1") as problem:
        PrivateClassifier().fit(X[:, 0], y)
    assert str(X[0, 0])[:6] not in str(problem.value)


@pytest.mark.parametrize("part", ["X", "frame", "y", "numeric y", "predict", "normalise", "select", "inverse"])
def test_complex_numbers_are_not_quoted(part):
    X, y = measurements()
    secret = np.full(X.shape, 123456.75 + 1j)
    target = secret[:, 0]
    classifier = PrivateClassifier(schema=square(), random_state=0, learner="majority")
    selector = PrivateSelector(schema=square(), random_state=0, settings={"columns": 1})
    calls = {
        "X": lambda: PrivateClassifier().fit(secret, y),
        "frame": lambda: PrivateClassifier().fit(pd.DataFrame(secret), y),
        "y": lambda: PrivateClassifier().fit(X, target),
        "numeric y": lambda: PrivateRegressor().fit(X, target),
        "predict": lambda: classifier.fit(X, y).predict(secret),
        "normalise": lambda: PrivateNormaliser(schema=square(), random_state=0).fit(X).transform(secret),
        "select": lambda: selector.fit(X, y).transform(secret),
        "inverse": lambda: selector.fit(X, y).inverse_transform(secret[:, :1]),
    }
    with pytest.raises(WrongInput, match="Complex data not supported") as problem:
        calls[part]()
    assert "123456" not in str(problem.value)


@pytest.mark.parametrize("method", ["transform", "inverse_transform"])
def test_selector_does_not_quote_an_array_of_one_dimension(method):
    X, y = measurements()
    selector = PrivateSelector(schema=square(), random_state=0, settings={"columns": 1}).fit(X, y)
    with pytest.raises(WrongInput, match="two dimensions, got 1"):
        getattr(selector, method)(X[:, 0])


def test_labels_that_only_differ_in_spaces_are_refused():
    X, y = measurements()
    with pytest.raises(WrongInput, match="spaces around them"):
        PrivateClassifier().fit(X, np.where(y, "yes", " yes"))


def test_regression_stays_within_released_or_declared_range():
    X, _ = measurements(2000)
    y = 50 * X[:, 0]
    paid = PrivateRegressor(random_state=0).fit(X, y)
    facts = Schema(columns=square().columns, low=-20, high=20, rows=2000)
    free = PrivateRegressor(schema=facts, learner="linear", random_state=0).fit(X, y)
    assert (free.model_.schema.low, free.model_.schema.high) == (-20, 20)
    for model in (paid, free):
        result = model.predict(100 * X)
        assert model.model_.schema.low <= result.min() < result.max() <= model.model_.schema.high


# What leaves. A mechanism whose release is everything a fitted estimator carries.


class Fitted:
    """Runs an estimator with the given generator, and releases all its attributes."""

    def __init__(self, estimator, patch):
        self.estimator, self.patch = estimator, patch

    def run(self, data, noise, rng):
        self.patch.setattr(import_module("privaware.workflow.run.charge"), "Rng", lambda seed: rng)
        self.patch.setattr(_overlap, "PAST_FITS", [])  # neighbours are never in one process
        fitted = vars(clone(self.estimator).fit(data.x.astype(float), data.y.astype(float)))
        # time, hash and run of a charge are drawn anew for each, and every card has them
        return {**fitted, "release_": replace(fitted["release_"], charged=None)}


class WithMeans(PrivateRegressor):
    """The planted leak: exact column means, kept on the estimator."""

    def fit(self, X, y):
        self.means_ = np.nanmean(X, axis=0)
        return super().fit(X, y)


def two_columns(*, bounded: bool) -> Schema:
    columns = tuple(replace(column, missing="category") for column in square().columns)
    facts = Schema(columns=columns, rows=60, low=-1, high=1)
    return facts if bounded else facts.bare()


@pytest.mark.parametrize(
    ("learner", "bounded"),
    [("linear", True), ("linear", False), ("mean", True)],
    ids=["linear", "bounds then linear", "mean"],
)
def test_fitted_estimator_carries_nothing_unreleased(monkeypatch, learner, bounded):
    facts = two_columns(bounded=bounded)
    mechanism = Fitted(PrivateRegressor(schema=facts, learner=learner), monkeypatch)
    data = rows_for(two_columns(bounded=True), 60)
    for _, neighbour in [*neighbours(data, "row")][::4]:
        assert replay(mechanism, data, neighbour, noise=1.0).changed_calls


def test_without_schema_only_shape_and_labels_come_from_rows(monkeypatch):
    data = rows_for(square(rows=60), 60)
    changed = replace(data, x=np.vstack([data.x[:-1], [[1.0, -1.0]]]))
    mechanism = Fitted(PrivateClassifier(learner="linear"), monkeypatch)
    # The number of rows is declared by X, so one is replaced: two neighbours of one row more or less.
    assert replay(mechanism, data, changed, noise=1.0, apart=2).changed_calls


@pytest.mark.parametrize("bounded", [True, False], ids=["declared", "paid"])
def test_leaked_column_mean_is_detected(monkeypatch, bounded):
    data = rows_for(two_columns(bounded=True), 60)
    mechanism = Fitted(WithMeans(schema=two_columns(bounded=bounded), learner="linear"), monkeypatch)
    with pytest.raises(BrokenPromise, match="the release differs on neighbouring rows"):
        replay(mechanism, data, data.take(np.arange(59)), noise=1.0)


# What a person has: persons, gaps, texts, other frames, and a folder at the end.


def visits(rows: int = 1200) -> tuple[pd.DataFrame, np.ndarray]:
    draw = np.random.default_rng(5)
    frame = pd.DataFrame(
        {"age": draw.uniform(0, 90, rows), "who": np.arange(rows) // 2, "note": ["rain", "sun"] * (rows // 2)}
    )
    return frame, np.where(frame["age"] > 45, "old", "young")


@pytest.mark.parametrize("name", ["row", "label"])
def test_unused_column_named_row_or_label_is_kept(name):
    X = pd.DataFrame({"a": np.linspace(0, 1, 60), name: np.arange(60)})
    y = np.where(X["a"] > 0.5, "yes", "no")
    column = Column(name="a", low=0, high=1)
    schema = Schema(columns=(column,), target="y", classes=("no", "yes"), rows=60, unit=name)
    model = PrivateClassifier(schema=schema, learner="majority", random_state=0).fit(X, y)
    assert list(model.feature_names_in_) == ["a", name]
    assert len(model.predict(X)) == 60


def test_unit_protects_all_rows_of_a_person(tmp_path):
    frame, y = visits(200)
    ledger = tmp_path / "visits.ledger"
    model = PrivateClassifier(epsilon=3.0, unit="who", cap=2, text=["note"], ledger=ledger).fit(frame, y)
    assert (Ledger.open(ledger).unit, Ledger.open(ledger).facts.cap) == ("who", 2)
    assert "all rows of any one who" in model.guarantee_
    assert [column.name for column in model.model_.schema.columns] == ["age", "note"]
    assert list(model.feature_names_in_) == ["age", "note"]
    assert np.array_equal(model.predict(frame.drop(columns="who")), model.predict(frame))
    assert model.score(frame[["age", "note"]], y) == model.score(frame, y)
    with pytest.raises(WrongInput, match="did you mean who"):
        PrivateClassifier(unit="whoo").fit(frame, y)
    with pytest.raises(WrongInput, match="data frame"):
        PrivateClassifier(unit="who").fit(frame[["age", "who"]].to_numpy(), y)


def timed(rows: int = 1500) -> tuple[pd.DataFrame, np.ndarray]:
    draw = np.random.default_rng(6)
    when = pd.Timestamp("2021-01-01") + pd.to_timedelta(draw.integers(0, 700, rows), unit="D")
    frame = pd.DataFrame({"when": when, "age": draw.uniform(0, 90, rows)})
    return frame, np.where(frame["when"] > "2022-01-01", "late", "early")


@pytest.mark.parametrize("convert", ["pandas", "days", "polars"])
def test_date_columns_are_read_as_fit_reads_them(convert):
    frame, y = timed()
    X = frame
    if convert == "days":
        X = frame.assign(when=frame["when"].astype("date32[pyarrow]"))
    elif convert == "polars":
        X = pytest.importorskip("polars").from_pandas(frame)
    model = PrivateClassifier(epsilon=4.0, random_state=0, learner="linear").fit(X, y)
    [when, _] = model.model_.schema.columns
    assert (when.kind, "hour" in when.known_parts and not when.parts) == ("date", convert != "days")
    assert model.score(X, y) > 0.85
    assert PrivateNormaliser(epsilon=4.0, random_state=0).fit(X).transform(X).shape[0] == len(y)


def test_dates_without_seed_are_fitted_and_floats_are_warned_of(tmp_path, monkeypatch):
    """A user has no seed, and is warned of open bounds; the parts of a date are no columns of X."""
    frame, y = timed()
    frame = frame.assign(born=frame["when"].dt.normalize(), visits=range(len(y)))[["born", "visits"]]
    monkeypatch.setattr(_declared, "_warned", set())
    ledger = Ledger.create(tmp_path / "l.ledger", limit=9.0)
    model = PrivateClassifier(epsilon=4.0, learner="linear", ledger=ledger).fit(frame, y)
    assert len(model.predict(frame)) == len(y)
    with pytest.warns(OpenBoundsWarning):
        PrivateClassifier(epsilon=4.0, learner="linear", ledger=ledger).fit(frame.assign(size=0.5), y)


def test_missing_dates_are_refused_unless_said_otherwise():
    frame, y = timed()
    frame.loc[3, "when"] = pd.NaT
    with pytest.raises(WrongInput, match="'when', row 4: the value is missing"):
        PrivateClassifier(random_state=0).fit(frame, y)
    for missing in ("category", 0.0):
        model = PrivateClassifier(epsilon=4.0, random_state=0, learner="linear", missing=missing).fit(frame, y)
        assert len(model.predict(frame)) == len(y)


@pytest.mark.parametrize("as_array", [False, True], ids=["frame", "array"])
def test_missing_numbers_are_refused_unless_said_otherwise(as_array):
    frame, y = visits()
    frame = frame[["age"]]
    frame.loc[::10, "age"] = np.nan
    X = frame.to_numpy() if as_array else frame
    with pytest.raises(ValueError, match="NaN"):
        PrivateClassifier(epsilon=3.0, random_state=0).fit(X, y)
    model = PrivateClassifier(epsilon=3.0, missing="category", random_state=0).fit(X, y)
    assert model.score(X, y) > 0.8
    assert get_tags(model).input_tags.allow_nan


def test_words_of_a_text_column_are_learnt():
    frame, _ = visits(300)
    y = frame["note"] == "sun"
    model = PrivateClassifier(epsilon=3.0, text=["note"], random_state=0).fit(frame[["age", "note"]], y)
    assert model.score(frame[["age", "note"]], y) > 0.9


def test_frame_of_polars_gives_the_same_model():
    polars = pytest.importorskip("polars", reason="polars is not installed")
    frame, y = visits()
    frame = frame[["age"]]
    other = polars.DataFrame({"age": frame["age"].to_list()})
    models = [PrivateClassifier(epsilon=2.0, random_state=3).fit(X, y) for X in (frame, other)]
    assert (models[0].predict_proba(frame) == models[1].predict_proba(other)).all()
    assert list(models[1].feature_names_in_) == ["age"]


def test_settings_reach_the_learner_and_wrong_ones_cost_nothing(tmp_path):
    X, y = measurements()
    ledger = Ledger.create(tmp_path / "m.ledger", limit=2.0)
    model = PrivateClassifier(schema=square(), learner="linear", settings={"steps": 7}, ledger=ledger).fit(X, y)
    assert [times for event in ledger.entries() if event.event for _, times in leaves(event.event)] == [7]
    with pytest.raises(WrongInput, match="did you mean steps"):
        clone(model).set_params(settings={"stepps": 7}).fit(X, y)
    assert len([entry for entry in ledger.entries() if entry.kind == "spend"]) == 1


def test_saved_model_loads_verifies_and_predicts_the_same(tmp_path):
    X, y = measurements()
    estimator = PrivateClassifier(epsilon=2.0, schema=square(), score_epsilon=1.0, ledger=tmp_path / "m.ledger").fit(
        X, y
    )
    folder = pickle.loads(pickle.dumps(estimator)).save(tmp_path / "model")
    model = load(folder)
    rows = pd.DataFrame(X, columns=["a", "b"])
    assert (model.predict(rows) == estimator.predict(X).astype(str)).all()
    assert model.card.score == estimator.score_
    assert model.guarantee.sentence == estimator.guarantee_
    verdict = verify(folder, ledger=tmp_path / "m.ledger")
    assert verdict.valid
    assert not verdict.bound  # its run was closed before there were files
    with pytest.raises(WrongInput, match="finished model"):
        estimator.save(folder)


def test_gap_beside_text_is_refused_with_the_argument_to_pass() -> None:
    frame = pd.DataFrame({"age": [30.0, np.nan, 50.0, 41.0], "town": ["a", "b", "a", "b"]})
    with pytest.raises(WrongInput, match=r'missing = "category" or a number to fill in .*or the estimator'):
        PrivateClassifier(epsilon=1.0, random_state=1).fit(frame, ["n", "y", "n", "y"])


def test_occupied_folder_is_refused_without_an_option_of_fit(tmp_path):
    X, y = measurements()
    model = PrivateClassifier(random_state=0).fit(X, y)
    model.save(tmp_path / "model")
    with pytest.raises(WrongInput, match=r"never overwritten; choose another folder$"):
        model.save(tmp_path / "model")
