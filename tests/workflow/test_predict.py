"""Loading a released model and writing predictions; the command line's side is in tests/cli."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privaware import fit, load, predict
from privaware.data import Data, _csv, read
from privaware.errors import WrongInput
from privaware.schema import Column, Schema
from privaware.workflow.predict import ReleasedModel

FORMAT_1 = Path(__file__).parent / "format_1"


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame({"age": [17, 50, 89], "town": ["a", "b", "ü"], "z": [0.2, 0.5, 0.9]})


def test_load_gives_card_and_guarantee() -> None:
    model = load(FORMAT_1)
    assert isinstance(model, ReleasedModel)
    assert model.card.learner == "linear"
    assert model.guarantee == model.card.guarantee
    assert (model.guarantee.unit, model.guarantee.cap, model.guarantee.certified) == ("who", 3, True)
    assert model.guarantee.epsilon == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("name", ["p.csv", "p.parquet"])
def test_predictions_hold_label_and_probability_of_each_class(tmp_path: Path, frame: pd.DataFrame, name: str) -> None:
    assert predict(FORMAT_1, frame, out=tmp_path / name) == {"rows": 3, "out": str(tmp_path / name), "outside": {}}
    written = (pd.read_csv if name.endswith("csv") else pd.read_parquet)(tmp_path / name)
    assert list(written.columns) == ["prediction", "probability_no", "probability_yes"]
    assert list(written["prediction"]) == list(load(FORMAT_1).predict(frame))
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_file_written_meanwhile_is_not_overwritten(
    tmp_path: Path, frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    def written(self: ReleasedModel, data: object, **how: object) -> Data:
        (tmp_path / "p.csv").write_text("precious")
        return rows(self, data, **how)

    rows: Any = ReleasedModel.rows
    monkeypatch.setattr(ReleasedModel, "rows", written)
    with pytest.raises(WrongInput, match="not overwritten"):
        predict(FORMAT_1, frame, out=tmp_path / "p.csv")
    assert (tmp_path / "p.csv").read_text() == "precious"


def test_existing_file_and_other_suffixes_are_refused(tmp_path: Path, frame: pd.DataFrame) -> None:
    (tmp_path / "p.csv").write_text("precious")
    with pytest.raises(WrongInput, match="not overwritten"):
        predict(FORMAT_1, frame, out=tmp_path / "p.csv")
    with pytest.raises(WrongInput, match=r"\.csv or \.parquet"):
        predict(FORMAT_1, frame, out=tmp_path / "p.txt")
    with pytest.raises(WrongInput, match="cannot write"):
        predict(FORMAT_1, frame, out=tmp_path / "none" / "p.csv")
    assert (tmp_path / "p.csv").read_text() == "precious"


def test_card_that_does_not_fit_the_tensors_is_refused(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(FORMAT_1, tmp_path / "m"))
    entries = json.loads((folder / "model.json").read_text())
    entries["architecture"]["inputs"] += 1
    (folder / "model.json").write_text(json.dumps(entries))
    with pytest.raises(WrongInput, match="do not fit the architecture"):
        load(folder)


@pytest.fixture
def many() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    towns = rng.choice(["a", "b", "ü", "nowhere"], 500, p=[0.5, 0.3, 0.15, 0.05])
    return pd.DataFrame({"left out": rng.normal(size=500), "age": rng.integers(0, 120, 500), "town": towns, "z": 0.5})


def cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every table is large, and its parts are small."""
    monkeypatch.setattr("privaware.workflow.predict.BLOCKWISE_FROM_BYTES", 1)
    monkeypatch.setattr("privaware.data._large_csv.LargeCsv.block", 700)
    monkeypatch.setattr("privaware.data._large.LARGE", 1)
    monkeypatch.setattr("privaware.data._large.PART", 37)


@pytest.mark.parametrize("out", ["p.csv", "p.parquet"])
@pytest.mark.parametrize("name", ["many.csv", "many.parquet"])
def test_predictions_in_pieces_are_those_of_the_whole(
    tmp_path: Path, many: pd.DataFrame, name: str, out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    many.to_csv(path, index=False) if name.endswith("csv") else many.to_parquet(path)
    whole = predict(FORMAT_1, path, out=tmp_path / f"whole {out}")
    monkeypatch.setattr(ReleasedModel, "rows", lambda *_, **__: pytest.fail("read at once"))
    cut(monkeypatch)
    pieces = []
    outputs = ReleasedModel.outputs
    monkeypatch.setattr(ReleasedModel, "outputs", lambda self, x, *at: (pieces.append(len(x)), outputs(self, x))[1])
    result = predict(FORMAT_1, path, out=tmp_path / out)
    assert sum(pieces[1:]) == 500
    assert max(pieces[1:]) < 60
    reader = pd.read_csv if out.endswith("csv") else pd.read_parquet
    pd.testing.assert_frame_equal(reader(tmp_path / out), reader(tmp_path / f"whole {out}"), rtol=1e-6)
    assert result["rows"] == whole["rows"] == 500
    assert result["outside"] == whole["outside"]
    assert result["outside"]["town"] == {"unseen": int((many["town"] == "nowhere").sum())}


@pytest.mark.parametrize("name", ["many.csv", "many.parquet"])
def test_refusal_in_a_late_piece_leaves_no_file(
    tmp_path: Path, many: pd.DataFrame, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    many = many.assign(age=many["age"].astype(float))
    many.loc[450, "age"] = None
    many.to_csv(path, index=False) if name.endswith("csv") else many.to_parquet(path)
    with pytest.raises(WrongInput) as at_once:
        predict(FORMAT_1, path, out=tmp_path / "p.csv")
    cut(monkeypatch)
    with pytest.raises(WrongInput, match="line 452" if name.endswith("csv") else "row 451") as in_pieces:
        predict(FORMAT_1, path, out=tmp_path / "p.csv")
    assert str(in_pieces.value) == str(at_once.value)
    many.drop(columns="town").to_csv(tmp_path / "less.csv", index=False)
    with pytest.raises(WrongInput, match="'town'"):
        predict(FORMAT_1, tmp_path / "less.csv", out=tmp_path / "p.csv")
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(["less.csv", name])


def labelled(folder: Path, label: str) -> Path:
    """A model whose first class is called `label`."""
    copied = Path(shutil.copytree(FORMAT_1, folder / "m"))
    card = json.loads((copied / "model.json").read_text())
    card["schema"]["classes"][0] = label
    (copied / "model.json").write_text(json.dumps(card))
    return copied


FORMULAS = ["=1+1", "=cmd|' /C calc'!A0", "+sum(1)", "-2+3", "@sum(1)", "\t=1+1", "\r=1", " =1+1", "low;=1+1", "＝1"]


@pytest.mark.parametrize("label", FORMULAS)
def test_p53_label_that_a_spreadsheet_runs_is_refused(tmp_path: Path, frame: pd.DataFrame, label: str) -> None:
    with pytest.raises(WrongInput, match=r"would run as a formula; take a \.parquet file for --out"):
        predict(labelled(tmp_path, label), frame, out=tmp_path / "p.csv")
    assert not (tmp_path / "p.csv").exists()


@pytest.mark.parametrize("label", ["-1", "+1", "-0,5", "1e-3", "-", "+", "<=50K", "a+b", "low; high", "10,-20"])
def test_numbers_and_plain_labels_are_written_as_they_are(tmp_path: Path, frame: pd.DataFrame, label: str) -> None:
    predict(labelled(tmp_path, label), frame, out=tmp_path / "p.csv")
    assert f"probability_{label}" in pd.read_csv(tmp_path / "p.csv")


@pytest.mark.parametrize(("name", "keep"), [("p.csv", True), ("p.parquet", False)])
def test_kept_formulas_and_parquet_hold_labels_unchanged(
    tmp_path: Path, frame: pd.DataFrame, name: str, keep: bool
) -> None:
    model = labelled(tmp_path, "=1+1")
    predict(model, frame, out=tmp_path / name, keep_formulas=keep)
    written = (pd.read_csv if keep else pd.read_parquet)(tmp_path / name)
    assert list(written["prediction"]) == list(load(model).predict(frame))
    assert "=1+1" in set(written["prediction"])


def test_predict_parses_only_columns_of_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pd.DataFrame({f"c{at}": [float(at), 1.5] * 50 for at in range(30)})
    columns = (Column(name="c3", low=0, high=10), Column(name="c7", low=0, high=10))
    schema = Schema(columns=columns, target="y", classes=("a", "b"), rows=100)
    fit(rows.assign(y=["a", "b"] * 50), schema=schema, epsilon=1.0, learner="linear", seed=1, out=tmp_path / "model")
    rows.to_csv(tmp_path / "new.csv", index=False)
    parsed: list[int] = []
    real = _csv.spelt_or_text
    monkeypatch.setattr(_csv, "spelt_or_text", lambda texts: (parsed.append(1), real(texts))[1])
    assert predict(tmp_path / "model", tmp_path / "new.csv", out=tmp_path / "p.csv")["rows"] == 100
    assert len(parsed) == 2


def test_commas_in_unused_lines_of_a_text_are_no_records(tmp_path: Path) -> None:
    note = '"first line\na, b and c\nlast line"'
    (tmp_path / "new.csv").write_text("a,b,c,note,d,e\n" + f"1,2,3,{note},5,6\n" * 4)
    raw = read(tmp_path / "new.csv", columns=["a", "b", "note"])
    assert raw.columns == ["a", "b", "note"]
    texts = Schema(columns=(Column(name="note", kind="text"),), classes=("n", "y"))
    assert len(Data.of(raw, texts, labelled=False)) == 4
