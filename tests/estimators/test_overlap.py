"""Fits on overlapping rows are added up: they warn with the epsilon of all, and are not certified."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import re
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer

from privaware import Ledger, PrivateClassifier, PrivateSelector, Schema, fit, verify
from privaware.card import ModelCard
from privaware.errors import OverlapWarning, WrongInput
from privaware.estimators import PrivateNormaliser, PrivatePCA, _overlap
from privaware.schema import Column

ROWS = 200


def declared() -> Schema:
    columns = tuple(Column(name=name, low=-1, high=1) for name in ("a", "b"))
    return Schema(columns=columns, classes=("False", "True"), rows=ROWS)


def rows(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(seed).uniform(-1, 1, size=(ROWS, 2))
    return X, X[:, 0] > 0


def classifier(**settings: object) -> PrivateClassifier:
    return PrivateClassifier(**{"schema": declared(), "learner": "majority", **settings})


def composed(warning: warnings.WarningMessage) -> float:
    match = re.search(r"together they spend epsilon ([\d.]+) at delta 1e-5", str(warning.message))
    assert match is not None
    return float(match[1])


def test_p48_third_plain_fit_warns_with_the_epsilon_of_all_three() -> None:
    X, y = rows()
    first = classifier().fit(X, y)
    with pytest.warns(OverlapWarning) as after_two:
        second = classifier().fit(X[50:150], y[50:150])
    with pytest.warns(OverlapWarning) as after_three:
        third = classifier().fit(pd.DataFrame(X[::-1], columns=["a", "b"]), y[::-1])
    assert [model.certified_ for model in (first, second, third)] == [True, False, False]
    assert 1.0 < composed(after_two[0]) < composed(after_three[0]) <= 3.0


def test_saved_second_fit_says_that_it_is_not_certified(tmp_path: Path) -> None:
    X, y = rows()
    first, second = classifier().fit(X, y), classifier()
    with pytest.warns(OverlapWarning):
        second.fit(X, y)
    cards = [ModelCard.read(model.save(tmp_path / name)) for name, model in (("one", first), ("two", second))]
    assert [card.guarantee.certified for card in cards] == [True, False]
    assert [card.guarantee.sentence for card in cards] == [first.guarantee_, second.guarantee_]
    assert second.guarantee_.startswith("NOT CERTIFIED: rows of this fit were in earlier fits of this process: ")
    verdict = verify(tmp_path / "two")
    assert (verdict.valid, verdict.certified, verdict.problems) == (True, False, [])


def test_p48_cross_validation_and_grid_search_are_not_certified() -> None:
    X, y = rows()
    with pytest.warns(OverlapWarning) as warned:
        cross_val_score(classifier(), X, y, cv=3)
    assert len(warned) == 2  # of three folds
    with pytest.warns(OverlapWarning) as warned:
        grid = GridSearchCV(classifier(), {"epsilon": [0.5, 1.0]}, cv=2).fit(X, y)
    assert len(warned) == 5  # two folds of each value, and all rows at the end
    assert not grid.best_estimator_.certified_
    assert composed(warned[-1]) > 3.0


def test_later_folds_warn_with_the_total_alone(tmp_path: Path) -> None:
    X, y = rows()
    with pytest.warns(OverlapWarning) as warned:
        cross_val_score(classifier(), X, y, cv=4)
    first, *later = [str(warning.message) for warning in warned]
    assert first.endswith("Give all these fits the same ledger=FILE, which adds up and limits their costs")
    short = r"rows of this fit were in earlier fits of this process: together they spend epsilon [\d.]+ at delta 1e-5"
    assert [bool(re.fullmatch(short, words)) for words in later] == [True, True]
    with pytest.warns(OverlapWarning, match="these rows are charged|its ledger does not count") as other:
        classifier(ledger=Ledger.create(tmp_path / "rows.ledger", limit=9.0)).fit(X, y)
    assert "Give every fit on these rows" in str(other[0].message)


def test_fits_on_other_rows_do_not_warn() -> None:
    assert all(classifier().fit(*rows(seed)).certified_ for seed in range(2))
    X, y = rows(seed=3)
    assert classifier().fit(X[:100], y[:100]).certified_
    assert classifier().fit(X[100:], y[100:]).certified_


def test_seeded_fits_do_not_warn_but_count() -> None:
    X, y = rows()
    assert not classifier(random_state=0).fit(X, y).certified_
    assert not classifier(random_state=1).fit(X, y).certified_
    with pytest.warns(OverlapWarning) as warned:
        assert not classifier().fit(X, y).certified_
    assert composed(warned[0]) > 2.0


def test_one_ledger_adds_up_without_a_warning_and_two_do_not(tmp_path: Path) -> None:
    X, y = rows()
    book = Ledger.create(tmp_path / "rows.ledger", limit=9.0)
    assert all(classifier(ledger=ledger).fit(X, y).certified_ for ledger in (book, str(book.path), book.path))
    with pytest.warns(OverlapWarning, match="these rows are charged to another ledger too, .*, and rows of this fit"):
        assert not classifier().fit(X, y).certified_
    with pytest.warns(OverlapWarning, match="together they spend epsilon .* its ledger does not count 1 of these fits"):
        assert not classifier(ledger=book).fit(X, y).certified_


def test_a_selector_and_a_model_of_the_same_rows_are_added_up() -> None:
    X, y = rows()
    assert PrivateSelector(schema=declared(), settings={"columns": 1}).fit(X, y).certified_
    with pytest.warns(OverlapWarning, match="together they spend"):
        classifier().fit(X, y)


def test_another_unit_has_no_epsilon_in_common() -> None:
    X, y = rows()
    classifier().fit(X, y)
    labels = Schema.parse(declared().toml().replace('unit = "row"', 'unit = "label"'))
    with pytest.warns(OverlapWarning, match="another unit, cap or relation"):
        classifier(schema=labels).fit(X, y)


def test_p48_ledger_without_a_common_total_ends_the_certificate(tmp_path: Path) -> None:
    X, y = rows()
    labels = Schema.parse(declared().toml().replace('unit = "row"', 'unit = "label"'))
    book = Ledger.create(tmp_path / "labels.ledger", limit=9.0, unit="label")
    assert classifier(schema=labels, ledger=book).fit(X, y).certified_
    _overlap.PAST_FITS.clear()  # as another process
    with pytest.warns(OverlapWarning, match="so that no epsilon holds"):
        model = classifier().fit(X, y)
    assert not model.certified_
    assert "another ledger of another unit" in model.guarantee_
    assert "labels.ledger" not in model.guarantee_


def test_fit_in_a_worker_process_needs_a_ledger(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    X, y = rows()
    monkeypatch.setattr(multiprocessing.current_process(), "_name", "LokyProcess-1")
    with pytest.raises(WrongInput, match="expected ledger=FILE for fits in several processes"):
        classifier().fit(X, y)
    assert classifier(random_state=1).fit(X, y).certified_ is False
    ledger = Ledger.create(tmp_path / "x.ledger", limit=9.0, delta=1e-5)
    assert classifier(ledger=ledger.path).fit(*rows(seed=5)).certified_ is True


@pytest.mark.slow
def test_grid_search_in_several_processes_says_what_is_missing() -> None:
    X, y = rows()
    with pytest.raises(ValueError, match="expected ledger=FILE for fits in several processes"):
        GridSearchCV(classifier(), {"epsilon": [1.0, 2.0]}, n_jobs=2, cv=2).fit(X, y)


# Ways around the memory of the process.


def test_threads_of_a_grid_search_are_added_up() -> None:
    X, y = rows()
    with pytest.warns(OverlapWarning) as warned, joblib.parallel_config("threading", n_jobs=2):
        grid = GridSearchCV(classifier(), {"epsilon": [0.5, 1.0]}, cv=2).fit(X, y)
    assert not grid.best_estimator_.certified_
    assert max(map(composed, warned)) > 3.0


def fit_in_a_process(_: int) -> str:
    try:
        return str(classifier().fit(*rows()).certified_)
    except WrongInput as problem:
        return str(problem)


@pytest.mark.slow
def test_processes_of_an_executor_need_a_ledger() -> None:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        (answer,) = pool.map(fit_in_a_process, [0])
    assert "expected ledger=FILE for fits in several processes" in answer


def test_child_process_of_any_name_needs_a_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiprocessing, "parent_process", multiprocessing.current_process)
    with pytest.raises(WrongInput, match="expected ledger=FILE for fits in several processes"):
        classifier().fit(*rows())


def test_ledger_that_was_removed_and_made_anew_does_not_add_up(tmp_path: Path) -> None:
    X, y = rows()
    path = tmp_path / "x.ledger"
    Ledger.create(path, limit=1.0)
    assert classifier(ledger=path).fit(X, y).certified_
    path.unlink()
    Ledger.create(path, limit=1.0)
    with pytest.warns(OverlapWarning):
        assert not classifier(ledger=path).fit(X, y).certified_


def test_clones_and_unpickled_estimators_count() -> None:
    X, y = rows()
    first = classifier().fit(X, y)
    for other in (clone(first), pickle.loads(pickle.dumps(first))):
        with pytest.warns(OverlapWarning):
            assert not other.fit(X, y).certified_


def test_pickled_estimator_holds_no_hash_of_a_row() -> None:
    X, y = rows()
    content = pickle.dumps(classifier().fit(X, y))
    (past,) = _overlap.PAST_FITS
    assert not any(value.tobytes() in content for value in past.hashes)
    assert _overlap.KEY not in content


def test_columns_that_were_dropped_or_renamed_are_added_up() -> None:
    X = np.random.default_rng(0).uniform(-1, 1, size=(ROWS, 4))
    frame = pd.DataFrame(X, columns=list("abcd"))
    y = X[:, 0] > 0
    assert PrivateClassifier(learner="majority").fit(frame, y).certified_
    for changed in (frame.drop(columns="b"), frame.rename(columns=str.upper), frame[["d", "a"]][20:]):
        with pytest.warns(OverlapWarning, match="together they spend epsilon"):
            PrivateClassifier(learner="majority").fit(changed, y[-len(changed) :])


def totals(steps: object, X: np.ndarray, y: np.ndarray) -> list[float]:
    with pytest.warns(OverlapWarning) as warned:
        steps.fit(X, y)  # type: ignore[attr-defined]
    return [composed(each) for each in warned]


STEPS = {
    "scaled": lambda: [PrivateNormaliser(epsilon=0.5)],
    "projected": lambda: [PrivatePCA(n_components=2, epsilon=0.5)],
    "selected": lambda: [PrivateSelector(epsilon=0.5, settings={"columns": 1})],
    "both": lambda: [PrivateNormaliser(epsilon=0.25), PrivatePCA(n_components=1, epsilon=0.25)],
    "in a frame": lambda: [PrivatePCA(n_components=2, epsilon=0.5).set_output(transform="pandas")],
    "and rescaled": lambda: [PrivateNormaliser(epsilon=0.5), FunctionTransformer(np.tanh)],
    "beside others": lambda: [FeatureUnion([("one", PrivatePCA(epsilon=0.5)), ("two", FunctionTransformer(abs))])],
}


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
def test_p48_last_step_of_a_pipeline_counts_the_steps_before(steps: Any) -> None:
    X, y = rows()
    last = PrivateClassifier(learner="majority")
    assert totals(make_pipeline(*steps(), last), X, y)[-1] > last.epsilon * 1.1
    again = totals(make_pipeline(*steps(), last), X, y)
    assert again == sorted(again)
    assert again[-1] > 2.0


def test_p48_transformed_rows_are_known_without_a_pipeline() -> None:
    X, y = rows()
    scaled = PrivateNormaliser(epsilon=0.5).fit(X).transform(X)
    for part in (scaled, scaled[:50].copy(), pd.DataFrame(scaled, columns=["c", "d"])[50:]):
        with pytest.warns(OverlapWarning, match="together they spend epsilon"):
            assert not PrivateClassifier(learner="majority").fit(part, y[: len(part)]).certified_
    with pytest.warns(OverlapWarning) as warned:
        PrivateNormaliser(epsilon=0.5).fit(X)
    assert composed(warned[0]) > 3.0


def test_p48_repeated_rows_are_known_after_a_transformer() -> None:
    X = np.random.default_rng(0).integers(0, 2, size=(ROWS, 3)).astype(float)
    PrivateNormaliser(epsilon=0.5).fit(X[:150])
    with pytest.warns(OverlapWarning, match="together they spend epsilon"):
        PrivateClassifier(learner="majority").fit(X[50:], X[50:, 0] > 0)


def test_p48_last_step_counts_fits_that_a_step_before_it_knows(tmp_path: Path) -> None:
    X = np.random.default_rng(0).uniform(-1, 1, size=(ROWS, 4))
    frame, y = pd.DataFrame(X, columns=list("abcd")), X[:, 0] > 0
    PrivateClassifier(learner="majority").fit(frame[::-1].drop(columns="b"), y[::-1])
    ledger = Ledger.create(tmp_path / "x.ledger", limit=9.0)
    first = PrivateSelector(epsilon=0.5, settings={"columns": 1}, ledger=ledger)
    last = PrivateClassifier(learner="majority", ledger=ledger)
    with pytest.warns(OverlapWarning):
        make_pipeline(first, last).fit(frame, y)
    assert (first.certified_, last.certified_) == (False, False)


def test_transformed_rows_of_other_people_do_not_warn() -> None:
    scaler = PrivateNormaliser(epsilon=0.5).fit(rows()[0])
    others, labels = rows(seed=1)
    assert PrivateClassifier(learner="majority").fit(scaler.transform(others), labels).certified_
    assert PrivateClassifier(learner="majority").fit(*rows(seed=2)).certified_
    with pytest.warns(OverlapWarning, match="together they spend epsilon"):
        PrivateNormaliser(epsilon=0.5).fit(others)


def test_rows_of_a_ledger_are_known_to_a_fit_without_one(tmp_path: Path) -> None:
    X, y = rows()
    table = pd.DataFrame(X, columns=["a", "b"]).assign(y=np.where(y, "yes", "no"))
    fit(table, target="y", epsilon=1.0, learner="majority", accept_schema=True, ledger=tmp_path / "x.ledger")
    with pytest.warns(OverlapWarning, match=r"charged to another ledger too, '.*x\.ledger'"):
        assert not classifier().fit(X, y).certified_


@pytest.mark.parametrize("own", [True, False], ids=["one ledger", "no ledger"])
def test_last_step_counts_a_ledger_of_untransformed_rows(own: bool, tmp_path: Path) -> None:
    X, y = rows()
    table = pd.DataFrame(X, columns=["a", "b"]).assign(y=np.where(y, "yes", "no"))
    fit(table, target="y", epsilon=1.0, learner="majority", accept_schema=True, ledger=tmp_path / "x.ledger")
    ledger = Ledger.create(tmp_path / "steps.ledger", limit=9.0) if own else None
    first = PrivateNormaliser(epsilon=0.5, ledger=ledger)
    with pytest.warns(OverlapWarning) as warned:
        pipe = make_pipeline(first, PrivateClassifier(learner="majority", ledger=ledger)).fit(X, y)
    assert composed(warned[-1]) > composed(warned[0]) > 1.0
    assert "x.ledger" in str(warned[0].message)
    assert not pipe[-1].certified_


@pytest.mark.parametrize("own", [True, False], ids=["another ledger", "no ledger"])
def test_last_step_counts_all_charges_of_an_earlier_step(own: bool, tmp_path: Path) -> None:
    X, y = rows()
    book = Ledger.create(tmp_path / "steps.ledger", limit=9.0)
    classifier(epsilon=3.0, ledger=book).fit(X, y)
    _overlap.PAST_FITS.clear()  # as in another process
    ledger = Ledger.create(tmp_path / "last.ledger", limit=9.0) if own else None
    Z = PrivateNormaliser(epsilon=0.5, ledger=book).fit_transform(X)
    with pytest.warns(OverlapWarning, match=r"^rows of this fit are charged to .*steps\.ledger' \(epsilon 3") as warned:
        last = PrivateClassifier(learner="majority", ledger=ledger).fit(Z, y)
    assert composed(warned[-1]) == pytest.approx(4.5, abs=0.1)
    assert not last.certified_


def test_charges_of_a_lost_ledger_are_counted_from_their_copies(tmp_path: Path) -> None:
    X, y = rows()
    book = Ledger.create(tmp_path / "steps.ledger", limit=9.0)
    Z = PrivateNormaliser(epsilon=2.0, ledger=book).fit_transform(X)
    book.path.unlink()
    with pytest.warns(OverlapWarning) as warned:
        PrivateClassifier(learner="majority").fit(Z, y)
    assert composed(warned[-1]) == pytest.approx(3.0, abs=0.1)


def test_one_total_counts_ledgers_and_fits_of_this_process(tmp_path: Path) -> None:
    X, y = rows()
    book = Ledger.create(tmp_path / "rows.ledger", limit=9.0)
    for _ in range(2):
        classifier(ledger=book).fit(X, y)
    _overlap.PAST_FITS.clear()  # as in another process
    with pytest.warns(OverlapWarning):
        classifier().fit(X, y)
    with pytest.warns(OverlapWarning) as warned:
        model = classifier().fit(X, y)
    assert [composed(each) for each in warned] == [pytest.approx(4.0, abs=0.01)]  # two charges, and two fits without
    without_path = str(warned[0].message).replace(f", '{book.path}'", "")
    assert model.guarantee_.startswith(f"NOT CERTIFIED: {without_path}. So this fit is not certified. Give all ")


@pytest.mark.parametrize("others", [1, 2])
@pytest.mark.filterwarnings("ignore:these rows are charged")
def test_saved_model_names_no_ledger_of_the_rows(others: int, tmp_path: Path) -> None:
    X, y = rows()
    paths = [tmp_path / f"book{number}.ledger" for number in range(others)]
    table = pd.DataFrame(X, columns=["a", "b"]).assign(target=y.astype(str))
    for path in paths:
        ledger = Ledger.create(path, limit=9.0)
        fit(table, target="target", epsilon=1.0, schema=declared(), learner="majority", ledger=ledger)
    with pytest.warns(OverlapWarning) as warned:
        model = classifier().fit(X, y.astype(str))
    assert all(f"'{path}' (epsilon 0.9998)" in str(warned[-1].message) for path in paths)
    epsilons = ", ".join(["epsilon 0.9998"] * others)
    which = f"{'another ledger' if others == 1 else '2 other ledgers'} too ({epsilons})"
    assert f"these rows are charged to {which}: together they spend epsilon" in model.guarantee_
    files = [path for path in model.save(tmp_path / "released").rglob("*") if path.is_file()]
    assert len(files) == 3
    assert not any(b".ledger" in path.read_bytes() for path in files)
    assert ".ledger" not in model.guarantee_


def test_total_of_a_ledger_in_the_data_folder_has_no_digest() -> None:
    X, y = rows()
    table = pd.DataFrame(X, columns=["a", "b"]).assign(target=y.astype(str))
    first = fit(table, target="target", epsilon=1.0, schema=declared(), learner="majority", limit=9.0)
    model = classifier(ledger=first.ledger).fit(X, y.astype(str))
    assert "2 releases are charged to the ledger of this fit: all releases together have epsilon" in model.guarantee_
    assert Path(str(first.ledger)).stem not in model.guarantee_


def test_fit_without_a_ledger_needs_no_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PRIVAWARE_LEDGERS", str(tmp_path / "nowhere"))
    assert classifier().fit(*rows()).certified_
    assert not (tmp_path / "nowhere").exists()


def test_data_folder_that_cannot_be_used_stops_before_a_charge(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PRIVAWARE_LEDGERS", str(tmp_path / "file"))
    ledger = Ledger.create(tmp_path / "x.ledger", limit=1.0)
    with pytest.raises(WrongInput, match="PRIVAWARE_LEDGERS"):
        classifier(ledger=ledger).fit(*rows())
    assert ledger.spent() == 0


@pytest.mark.parametrize("beside", [False, True], ids=["as an array", "beside the persons"])
@pytest.mark.parametrize("known", [False, True], ids=["without persons", "with persons"])
@pytest.mark.parametrize("step", [PrivateNormaliser, PrivatePCA])
def test_p48_rows_of_a_transformer_of_persons_are_known(step: Any, known: bool, beside: bool) -> None:
    X, y = rows()
    people = pd.DataFrame(X, columns=["a", "b"]).assign(customer=np.arange(ROWS) // 2)
    released = step(epsilon=0.5, unit="customer", cap=2).fit(people)
    out: Any = released.transform(people if known else people[["a", "b"]])
    if beside:
        out = pd.DataFrame(out, columns=["c", "d"]).assign(customer=people["customer"])
    last = PrivateClassifier(learner="majority", **({"unit": "customer", "cap": 2} if beside else {}))
    with pytest.warns(OverlapWarning, match="in earlier fits of this process"):
        assert not last.fit(out, y).certified_


def test_p48_columns_that_a_selector_of_persons_keeps_are_known() -> None:
    X, y = rows()
    people = pd.DataFrame(X, columns=["a", "b"]).assign(customer=np.arange(ROWS) // 2)
    shared: dict[str, Any] = {"epsilon": 0.5, "unit": "customer", "cap": 2}
    kept = PrivateSelector(settings={"columns": 1}, **shared).fit(people, y).transform(people)
    assert list(kept.columns)[1:] == ["customer"]
    with pytest.warns(OverlapWarning, match="in earlier fits of this process"):
        assert not PrivateClassifier(learner="majority").fit(kept.iloc[:40, :1], np.arange(40) % 2).certified_


UNCERTIFIED = {
    "scaled": lambda **more: PrivateNormaliser(epsilon=0.5, **more),
    "projected": lambda **more: PrivatePCA(epsilon=0.5, **more),
    "selected": lambda **more: PrivateSelector(epsilon=0.5, settings={"columns": 1}, **more),
    "beside others": lambda **more: FeatureUnion([("one", PrivatePCA(**more)), ("two", FunctionTransformer(abs))]),
}


@pytest.mark.parametrize("step", UNCERTIFIED.values(), ids=UNCERTIFIED)
def test_rows_of_an_uncertified_transformer_get_no_certificate(step: Any, tmp_path: Path) -> None:
    X, y = rows()
    shared = {"ledger": Ledger.create(tmp_path / "x.ledger", limit=9.0)}
    fine = make_pipeline(step(**shared), PrivateClassifier(learner="majority", **shared)).fit(X, y)
    assert fine[-1].certified_
    pipe = make_pipeline(step(random_state=0, **shared), PrivateClassifier(learner="majority", **shared))
    with pytest.warns(OverlapWarning, match="transformer whose fit is not certified"):
        last = pipe.fit(X, y)[-1]
    assert not last.certified_
    assert last.guarantee_.startswith(
        "NOT CERTIFIED: rows of this fit come from a transformer whose fit is not certified"
    )
    last.save(tmp_path / "model")
    assert not ModelCard.read(tmp_path / "model").guarantee.certified


def test_rows_before_an_uncertified_selector_stay_certified(tmp_path: Path) -> None:
    X, y = rows()
    shared = {"ledger": Ledger.create(tmp_path / "x.ledger", limit=9.0)}
    PrivateSelector(random_state=0, settings={"columns": 1}, **shared).fit(X, y).transform(X)
    assert PrivateClassifier(learner="majority", **shared).fit(X, y).certified_


@pytest.mark.parametrize("unit", ["row", "a"])
def test_p49_run_after_a_fit_without_a_ledger_warns(unit: str) -> None:
    X, y = rows()
    classifier(learner="linear").fit(X, y)
    assert not Path(os.environ["PRIVAWARE_LEDGERS"]).exists()
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(target=y)
    schema = replace(declared(), unit=unit, columns=declared().columns[unit == "a" :])
    said = "all of them spend epsilon 1.465 at delta 1e-5" if unit == "row" else "no epsilon holds for all of them"
    with pytest.warns(OverlapWarning, match=rf"rows of this run were in earlier fits .* had no ledger.*{said}"):
        fit(frame, target="target", epsilon=1.0, schema=schema, learner="linear")


def test_p49_run_on_rows_that_a_transformer_returned_warns() -> None:
    X, y = rows()
    step = PrivateNormaliser(epsilon=1.0, schema=declared()).fit(X)
    frame = pd.DataFrame(step.transform(X), columns=["a", "b"]).assign(target=y)
    with pytest.warns(OverlapWarning, match="had no ledger: all of them spend epsilon 1.465"):
        fit(frame, target="target", epsilon=1.0, schema=declared(), learner="linear")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        others = pd.DataFrame(step.transform(rows(seed=1)[0]), columns=["a", "b"]).assign(target=rows(seed=1)[1])
        fit(others, target="target", epsilon=1.0, schema=declared(), learner="linear")
