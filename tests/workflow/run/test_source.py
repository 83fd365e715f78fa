"""What is public about rows without a schema, and how one row changes it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from privaware import load, predict, select
from privaware.data import read, typed
from privaware.data._csv import CsvFile
from privaware.errors import WrongInput
from privaware.events import leaves
from privaware.ledger import Ledger
from privaware.workflow.fit import fit
from privaware.workflow.run.options import RunOptions
from privaware.workflow.run.source import draft_schema, resolve

ROWS = 300


def ages(*, last: str) -> pd.DataFrame:
    frame = pd.DataFrame({"age": [str(18 + at % 60) for at in range(ROWS)], "y": ["no", "yes"] * (ROWS // 2)})
    frame.loc[ROWS - 1, "age"] = last
    return frame


def test_p12_one_word_among_numbers_does_not_change_the_schema(tmp_path: Path) -> None:
    schemas = []
    for last in ("44", "unknown age"):
        ages(last=last).to_csv(tmp_path / "people.csv", index=False)
        schemas.append(resolve(tmp_path / "people.csv", RunOptions(target="y")).schema)
    assert schemas[0] == schemas[1]
    assert [column.kind for column in schemas[0].columns] == ["undecided"]


def test_kind_of_text_is_paid_for_and_that_of_numbers_is_given(tmp_path: Path) -> None:
    ages(last="unknown age").to_csv(tmp_path / "people.csv", index=False)
    model = fit(tmp_path / "people.csv", target="y", epsilon=8.0).model
    assert model is not None
    assert [(column.name, column.kind) for column in model.schema.columns] == [("age", "number")]
    charged = Ledger.open(tmp_path / "people.csv.ledger").entries()[-2].event
    assert charged is not None
    numbers = ages(last="44").astype({"age": int})
    given = fit(numbers, target="y", epsilon=8.0, dry_run=True).event
    assert len(list(leaves(charged))) > len(list(leaves(given)))
    typed = resolve(numbers, RunOptions(target="y")).schema
    assert [column.kind for column in typed.columns] == ["number"]
    assert "the names and kinds of the columns" in typed.assumed


def test_drafted_schema_holds_no_undecided_kind(tmp_path: Path) -> None:
    ages(last="44").to_csv(tmp_path / "people.csv", index=False)
    drafted = resolve(tmp_path / "people.csv", RunOptions(target="y", accept_schema=True)).schema
    assert [column.kind for column in drafted.columns] == ["number"]


def visits(rows: int = ROWS) -> pd.DataFrame:
    """A table with every kind of column; the target follows the text."""
    draw = np.random.default_rng(1)
    words = ["pain", "fever", "cough", "arm", "leg", "mild"]
    frame = pd.DataFrame(
        {
            "patient_id": np.arange(rows),
            "age": draw.integers(18, 90, rows),
            "seen": pd.Timestamp("2019-05-01") + pd.to_timedelta(draw.integers(0, 900, rows), unit="D"),
            "at": [f"{hour}:15" for hour in draw.integers(7, 19, rows)],
            "smoker": draw.choice(["yes", "no"], rows),
            "town": draw.choice(["Ulm", "ulm ", "Bonn"], rows),
            "note": [" ".join(draw.choice(words, 5)) for _ in range(rows)],
        }
    )
    return frame.assign(y=np.where(frame["note"].str.contains("fever"), "ill", "well"))


@pytest.mark.parametrize("learner", ["linear", "boosted", "dpsgd"])
def test_learners_train_and_predict_on_dates_times_and_text(tmp_path: Path, learner: str) -> None:
    visits(1500).to_csv(tmp_path / "visits.csv", index=False)
    settings = {"linear": {"steps": 30}, "boosted": {"trees": 4}, "dpsgd": {"steps": 4}}[learner]
    spoken: list[str] = []
    fit(
        tmp_path / "visits.csv",
        target="y",
        epsilon=20.0,
        learner=learner,
        settings=settings,
        out=tmp_path / "model",
        say=spoken.append,
    )
    model = load(tmp_path / "model")
    kinds = {column.name: column.kind for column in model.schema.columns}
    assert kinds == {
        "age": "number",
        "seen": "date",
        "at": "time",
        "smoker": "boolean",
        "town": "category",
        "note": "text",
    }
    assert any("Not used: 'patient_id' (by its name it identifies persons or cases)" in sentence for sentence in spoken)
    new = visits(40).drop(columns=["y", "patient_id"])
    new.loc[0, "town"], new.loc[1, "age"], new.loc[2, "seen"] = "Kiel", 400, pd.Timestamp("2090-01-01")
    new["smoker"] = new["smoker"].astype(object)
    new.loc[3, "smoker"] = "sometimes"
    result = predict(tmp_path / "model", new, out=tmp_path / "p.csv")
    assert result["rows"] == 40
    assert result["outside"]["town"] == {"unseen": 1}
    assert result["outside"]["smoker"] == {"unseen": 1}
    assert result["outside"]["age"]["outside_bounds"] >= 1
    assert result["outside"]["seen"]["outside_bounds"] >= 1
    if learner == "linear":
        assert (model.predict(visits(500)) == visits(500)["y"]).mean() > 0.85


def test_undecided_columns_stay_one_each_in_a_selection(tmp_path: Path) -> None:
    visits(400).drop(columns="note").to_csv(tmp_path / "visits.csv", index=False)
    result = select(tmp_path / "visits.csv", target="y", method="top", epsilon=30.0, say=lambda _: None)
    assert set(result.columns) <= {"age", "at", "smoker", "town", "seen (days)"}


def test_unnamed_index_and_persons_are_identifiers_by_name_alone(tmp_path: Path) -> None:
    frame = visits()[["age", "y"]].assign(surname="same")
    frame.to_csv(tmp_path / "people.csv")
    schema = resolve(tmp_path / "people.csv", RunOptions(target="y")).schema
    assert {column.name: column.kind for column in schema.columns} == {
        "column_1": "identifier",
        "age": "undecided",
        "surname": "identifier",
    }


def test_unknown_target_is_refused_before_rows_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ages(last="44").to_csv(tmp_path / "people.csv", index=False)
    with pytest.raises(WrongInput) as after_reading:
        typed(read(tmp_path / "people.csv", header=True), target="agee")
    monkeypatch.setattr(CsvFile, "frame", lambda file: pytest.fail("all rows are read"))
    with pytest.raises(WrongInput, match=r"expected a target among .* 'agee'; did you mean 'age'") as early:
        fit(tmp_path / "people.csv", target="agee", epsilon=1.0, header=True)
    assert str(early.value) == str(after_reading.value)


def test_test_rows_without_any_row_cost_nothing(tmp_path: Path) -> None:
    frame, ledger = ages(last="44"), tmp_path / "a.ledger"
    with pytest.raises(WrongInput, match="at least one test row, got none; check test=, or leave it out"):
        fit(frame, target="y", epsilon=1.0, test=frame[:0], ledger=ledger)
    assert not ledger.exists()


def test_other_target_of_a_folder_of_images_is_refused(tmp_path: Path) -> None:
    for name in ("dark", "light"):
        (tmp_path / "shades" / name).mkdir(parents=True)
        Image.new("L", (4, 4)).save(tmp_path / "shades" / name / "1.png")
    shades = str(tmp_path / "shades")
    with pytest.raises(WrongInput, match=r"expected target='class', or none, for a folder of images.*got 'mood'"):
        resolve(shades, RunOptions(target="mood"))
    with pytest.raises(WrongInput, match="leave it out"):
        draft_schema(shades, target="mood")
    assert {resolve(shades, RunOptions(target=name)).schema.target for name in ("class", None)} == {"class"}


def test_rows_that_are_no_data_frame_are_named_by_their_type() -> None:
    with pytest.raises(WrongInput, match="got an object of ndarray; put rows in memory into a DataFrame"):
        resolve(np.zeros((20, 3)), RunOptions(target="y"))
