"""Persons are asked about before the charge, and a private count can answer."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privaware import PrivateClassifier, fit, select
from privaware.data import Data, read
from privaware.errors import BudgetExceeded, PersonsWarning, Refused, UnusedColumnWarning, WrongInput
from privaware.events import Event, Laplace
from privaware.ledger import Ledger
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.testing import BrokenPromise, check_mechanism
from privaware.workflow.run.persons_check import DistinctValues, PersonsCheck

ROWS = 2000
WORDS = Schema(
    columns=(Column(name="PatNr", kind="category", missing="category", unseen="other"),),
    target="well",
    classes=("no", "yes"),
    rows=ROWS,
)


def visits(persons: int) -> pd.DataFrame:
    draw = np.random.default_rng(0)
    age = draw.integers(18, 91, ROWS)
    well = np.where(age + draw.normal(0, 8, ROWS) < 50, "yes", "no")
    return pd.DataFrame({"PatNr": np.arange(ROWS) % persons, "age": age, "well": well})


def trained(path: Path, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PersonsWarning)
        return fit(path, target="well", epsilon=1.0, learner="majority", **options)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    visits(ROWS // 2).to_csv(tmp_path / "visits.csv", index=False)
    return tmp_path / "visits.csv"


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_count_of_different_values_keeps_the_contract(relation: str) -> None:
    schema = Schema(columns=WORDS.columns, classes=("0", "1"), rows=24, relation=relation)
    data = Data.uncoded(read(visits(6)[:12].assign(target=["0", "1"] * 6)), schema)
    assert check_mechanism(DistinctValues(columns=("PatNr",)), data=data, games=100) <= 1.0


class PaidOnce(DistinctValues):
    """Planted: two columns are counted, and one of them is charged."""

    def cost(self, schema: Schema, noise: float) -> Event:
        return Laplace(noise=noise)


def test_planted_count_that_is_not_charged_is_caught() -> None:
    columns = tuple(Column(name=name, kind="category") for name in ("PatNr", "ward"))
    schema = Schema(columns=columns, classes=("0", "1"), rows=24)
    rows = visits(6)[:12].assign(target=["0", "1"] * 6, ward=list("abcdefghijkl"))
    data = Data.uncoded(read(rows), schema)
    assert check_mechanism(DistinctValues(columns=("PatNr", "ward")), data=data, games=20) <= 1.0
    with pytest.raises(BrokenPromise):
        check_mechanism(PaidOnce(columns=("PatNr", "ward")), data=data, games=20)


def test_all_rows_of_one_person_change_the_count_by_one() -> None:
    data = Data.uncoded(read(visits(5)), WORDS)
    without = data.take(np.arange(ROWS) % 5 != 3)
    counts = [DistinctValues(columns=("PatNr",)).run(rows, 1e-9, Rng(seed=1))["PatNr"] for rows in (data, without)]
    assert len(data) - len(without) == ROWS // 5
    assert counts == pytest.approx([5, 4])


def test_missing_values_are_different_values() -> None:
    frame = visits(10).astype({"PatNr": object})
    frame.loc[:49, "PatNr"] = None
    counts = DistinctValues(columns=("PatNr",)).run(Data.uncoded(read(frame), WORDS), 1e-9, Rng(seed=1))
    assert counts == {"PatNr": pytest.approx(60)}


def test_repeated_values_stop_the_run_before_its_main_charge(table: Path, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"Values of 'PatNr' repeat: about .* unit='PatNr' .* not_persons='PatNr'"):
        trained(table, check_persons=True, out=tmp_path / "m")
    ledger = Ledger.open(f"{table}.ledger")
    assert [entry.what for entry in ledger.entries() if entry.kind == "spend"] == ["count different values of PatNr"]
    assert ledger.spent() <= 0.0101
    assert ledger.limit == pytest.approx(1.0)
    assert not (tmp_path / "m").exists()


def test_run_goes_on_where_values_do_not_repeat(tmp_path: Path) -> None:
    visits(ROWS).to_csv(tmp_path / "visits.csv", index=False)
    result = trained(tmp_path / "visits.csv", check_persons=True, out=tmp_path / "m")
    assert any("1% of the budget (epsilon 0.01) counts the different values of 'PatNr'" in each for each in result.plan)
    assert any("'PatNr' do not clearly repeat: at most" in each for each in result.notices)
    assert result.epsilon == pytest.approx(0.99, abs=0.01)
    assert Ledger.open(f"{tmp_path / 'visits.csv'}.ledger").spent() <= 1.0
    again = trained(tmp_path / "visits.csv", check_persons=True, out=tmp_path / "m")
    assert again.epsilon == result.epsilon
    assert len(Ledger.open(f"{tmp_path / 'visits.csv'}.ledger").history()) == 2


def test_check_is_refused_where_the_run_would_not_fit(table: Path) -> None:
    with pytest.raises(BudgetExceeded):
        trained(table, check_persons=True, limit=0.5)
    assert not Path(f"{table}.ledger").exists()


def test_question_is_a_warning_in_python(table: Path) -> None:
    with pytest.warns(PersonsWarning, match=r"Does 'PatNr' identify persons .* several rows.* unit='PatNr'") as warned:
        result = fit(table, target="well", epsilon=1.0, learner="majority")
    assert warned[0].filename == __file__
    assert any(each.startswith("Not used: 'PatNr' (by its name") for each in result.plan)


def test_column_that_identifies_nobody_is_used_unasked(table: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = select(table, target="well", epsilon=5.0, method="all", not_persons="PatNr")
    assert set(result.columns or ()) == {"PatNr", "age"}
    assert not any("Not used" in each for each in result.plan)


def test_identifier_of_rows_is_left_out_with_a_warning(tmp_path: Path) -> None:
    visits(ROWS).rename(columns={"PatNr": "row_id"}).to_csv(tmp_path / "visits.csv", index=False)
    with pytest.warns(UnusedColumnWarning, match="Not used: 'row_id' "):
        fit(tmp_path / "visits.csv", target="well", epsilon=1.0, learner="majority")


def test_p50_named_index_of_a_frame_is_left_out_with_a_warning() -> None:
    frame = visits(ROWS).set_index("PatNr")
    with pytest.warns(UnusedColumnWarning, match=r"the index 'PatNr' of .*reset_index"):
        result = fit(frame, target="well", epsilon=1.0, limit=9.0, learner="majority")
    assert any("the index 'PatNr'" in each for each in result.plan)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(visits(ROWS)[["age", "well"]], target="well", epsilon=1.0, learner="majority", dry_run=True)


def test_estimator_asks_about_persons() -> None:
    frame = visits(ROWS // 2)
    for not_persons in ((), ("PatNr",)):
        model = PrivateClassifier(learner="majority", random_state=0, not_persons=not_persons)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(frame[["PatNr", "age"]], frame["well"])
        asked = [str(each.message) for each in caught if each.category is PersonsWarning]
        assert len(asked) == (0 if not_persons else 1)
        assert all("Used as features now: 'PatNr'" in each for each in asked)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"not_persons": "PatientNr"}, "not_persons= and check_persons= among .* did you mean 'PatNr'"),
        ({"unit": "PatientNr"}, "unit= among .* did you mean 'PatNr'"),
        ({"unit": "PatNr", "not_persons": "PatNr"}, "one of unit='PatNr' and not_persons="),
        ({"unit": "PatNr", "check_persons": True}, "one of unit='PatNr' and check_persons="),
        ({"not_persons": "PatNr", "check_persons": True}, "no name of a column suggests it"),
    ],
)
def test_contradictions_about_persons_are_refused(table: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(WrongInput, match=words):
        trained(table, **options)
    assert not Path(f"{table}.ledger").exists()


def test_bounds_of_counted_values_are_rounded_outward() -> None:
    check = PersonsCheck(columns=("PatNr",), epsilon=0.01, schema=replace(WORDS, rows=1945))
    [said] = check.sentences({"PatNr": 88.0})
    assert "about 88 different values in 1,945 rows, at most 480 with 99% confidence, so at least 4 rows" in said
