"""Loading a released model and writing predictions; the command line's side is in tests/cli."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from privaware import fit, load, predict
from privaware.data import Data, Outside, _csv, read
from privaware.errors import WrongInput
from privaware.model import STRONG_CHANGE
from privaware.schema import Column, Schema
from privaware.workflow.load import ReleasedModel
from privaware.workflow.predict import mostly_outside_sentences, outside_sentences, predictions_for_owner

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
    known = {"outside": {}, "ranges": {}}
    assert predict(FORMAT_1, frame, out=tmp_path / name) == {"rows": 3, "out": str(tmp_path / name), **known}
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


def test_model_with_changed_tensors_is_refused(tmp_path: Path) -> None:
    fit("wisconsin", epsilon=1.0, learner="majority", out=tmp_path / "m")
    path = tmp_path / "m" / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(WrongInput, match="its hash differs from model"):
        load(tmp_path / "m")


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
    with pytest.raises(WrongInput, match=r"would run as a formula; take a \.parquet file for out="):
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


def unreadable(many: pd.DataFrame, share: float) -> pd.DataFrame:
    """The rows, with text in place of this share of the ages."""
    lost = np.arange(500) < share * 500
    return many.assign(age=np.where(lost, "twenty", many["age"].astype(str)))


def lenient(folder: Path) -> Path:
    """A model that treats values of another kind as missing, as models with a paid schema do."""
    copied = Path(shutil.copytree(FORMAT_1, folder / "m"))
    card = json.loads((copied / "model.json").read_text())
    for column in card["schema"]["columns"]:
        column |= {"unseen": "other"} | ({} if column["kind"] == "category" else {"missing": column["low"]})
    (copied / "model.json").write_text(json.dumps(card))
    return copied


@pytest.mark.parametrize("pieces", [False, True])
def test_mostly_unreadable_column_is_refused(
    tmp_path: Path, many: pd.DataFrame, pieces: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, path = lenient(tmp_path), tmp_path / "rows.csv"
    unreadable(many, 0.52).to_csv(path, index=False)
    if pieces:
        cut(monkeypatch)
    with pytest.raises(
        WrongInput, match=r"'age': expected numbers, but 260 of 500 values cannot be read so.*allow_unreadable=True"
    ):
        predict(model, path, out=tmp_path / "p.csv")
    assert not (tmp_path / "p.csv").exists()
    assert predict(model, path, out=tmp_path / "p.csv", allow_unreadable=True)["rows"] == 500


def test_column_that_is_half_readable_is_predicted(tmp_path: Path, many: pd.DataFrame) -> None:
    result = predict(lenient(tmp_path), unreadable(many, 0.5), out=tmp_path / "p.csv")
    assert result["outside"]["age"]["no_number"] == 250


def test_missing_values_are_not_unreadable(tmp_path: Path, many: pd.DataFrame) -> None:
    empty = many.assign(age=[""] * 490 + ["20"] * 6 + ["old"] * 4)
    assert predict(lenient(tmp_path), empty, out=tmp_path / "p.csv")["rows"] == 500
    with pytest.raises(WrongInput, match="4 of 6 values"):
        predict(
            lenient(tmp_path / "other"), empty.assign(age=[""] * 494 + ["20"] * 2 + ["old"] * 4), out=tmp_path / "q.csv"
        )


@pytest.fixture(scope="module")
def strong(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose class follows from the numbers `level`, and hardly from `aside`."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"level": rng.random(2000).round(3), "aside": rng.random(2000).round(3)})
    rows["kind"] = rng.choice(["a", "b"], 2000)
    rows["y"] = np.where(rows["level"] + 0.5 * (rows["kind"] == "b") > 0.75, "yes", "no")
    folder = tmp_path_factory.mktemp("strong")
    fit(rows, target="y", epsilon=20.0, learner="linear", seed=0, out=folder / "m")
    rows.to_csv(folder / "rows.csv", index=False)
    return folder


@pytest.mark.parametrize("pieces", [False, True])
@pytest.mark.parametrize("empty", ["level", "kind"])
def test_empty_column_is_refused_if_it_is_strongly_used(
    strong: Path, tmp_path: Path, empty: str, pieces: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pd.read_csv(strong / "rows.csv").head(500).assign(**{empty: ""})
    rows.to_csv(tmp_path / "rows.csv", index=False)
    if pieces:
        cut(monkeypatch)
    with pytest.raises(
        WrongInput, match=rf"'{empty}': expected values, but all 500 are missing.*allow_unreadable=True"
    ):
        predict(strong / "m", tmp_path / "rows.csv", out=tmp_path / "p.csv")
    assert not (tmp_path / "p.csv").exists()
    result = predict(strong / "m", tmp_path / "rows.csv", out=tmp_path / "p.csv", allow_unreadable=True)
    assert result["outside"][empty] == {"missing": 500}
    assert f"'{empty}': 500 values missing" in outside_sentences(result)


def test_empty_column_is_named_if_it_is_hardly_used(strong: Path, tmp_path: Path) -> None:
    rows = pd.read_csv(strong / "rows.csv").head(500)
    result = predict(strong / "m", rows.assign(aside=np.nan), out=tmp_path / "p.csv")
    assert "'aside': 500 values missing" in outside_sentences(result)
    few = rows.assign(level=rows["level"].where(np.arange(500) < 250, np.nan))
    result = predict(strong / "m", few, out=tmp_path / "q.csv")
    assert result["outside"]["level"]["missing"] == 250
    assert not any("missing" in sentence for sentence in outside_sentences(result))
    assert len(load(strong / "m").predict(rows.assign(level=np.nan).head(19))) == 19


@pytest.mark.parametrize("form", ["table", "text"])
def test_empty_column_of_texts_is_refused(tmp_path: Path, form: str) -> None:
    rows = pd.DataFrame({"note": ["good service", "late again"] * 100, "y": ["yes", "no"] * 100})
    note = Column(name="note", kind="text")
    schema = Schema(columns=(note,), target="y", classes=("no", "yes"), rows=200, form=form)
    fit(rows, schema=schema, epsilon=5.0, learner="linear", seed=1, out=tmp_path / "m")
    empty = rows.assign(note="")
    with pytest.raises(WrongInput, match="'note': expected values, but all 200 are missing, and the model reads texts"):
        predict(tmp_path / "m", empty, out=tmp_path / "p.csv")
    result = predict(tmp_path / "m", empty, out=tmp_path / "p.csv", allow_unreadable=True)
    assert result["outside"] == {"note": {"missing": 200}}


def test_empty_column_of_noise_is_not_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    rows = pd.DataFrame({"number": rng.uniform(0, 100, 2000).round(2)})
    rows["day"] = (pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1500, 2000), "D")).strftime("%Y-%m-%d")
    rows["y"] = np.where(rows["number"] > 50, "yes", "no")
    number = Column(name="number", low=0, high=100, missing="category")
    day = Column(name="day", kind="date", low="2010-01-01", high="2034-01-01", missing="category")
    schema = Schema(columns=(number, day), target="y", classes=("no", "yes"), rows=2000)
    fit(rows, schema=schema, epsilon=1.0, learner="linear", seed=6, out=tmp_path / "m")
    model = load(tmp_path / "m")
    with_days, without = (model.predict_proba(part) for part in (rows, rows.assign(day=None)))
    assert np.abs(with_days - without).sum(axis=1).mean() / 2 < STRONG_CHANGE
    with pytest.raises(WrongInput, match="'number': expected values, but all 2000 are missing"):
        model.predict(rows.assign(number=np.nan))


def test_loaded_model_refuses_an_unreadable_column(tmp_path: Path, many: pd.DataFrame) -> None:
    model, rows = load(lenient(tmp_path)), unreadable(many, 0.9)
    for method in (model.predict, model.predict_proba):
        with pytest.raises(WrongInput, match="450 of 500"):
            method(rows)
        assert len(method(rows, allow_unreadable=True)) == 500


IDENTIFIERS = ["007", "12345678901234567890", "1.50", "", 'x,"y"', "ü", "NA", "true"]


@pytest.mark.parametrize("out", ["p.csv", "p.parquet"])
@pytest.mark.parametrize("pieces", [False, True])
def test_kept_columns_are_copied_unchanged(
    tmp_path: Path, many: pd.DataFrame, out: str, pieces: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = [IDENTIFIERS[at % len(IDENTIFIERS)] for at in range(500)]
    numbers = [str(at) for at in range(500)]
    many.assign(id=given, number=numbers).to_csv(tmp_path / "rows.csv", index=False)
    if pieces:
        cut(monkeypatch)
    predict(FORMAT_1, tmp_path / "rows.csv", out=tmp_path / out, keep=("id", "number", "town"))
    if out.endswith("csv"):
        written = pd.read_csv(tmp_path / out, dtype=str, keep_default_na=False)
    else:
        written = pd.read_parquet(tmp_path / out)
    assert list(written)[:4] == ["id", "number", "town", "prediction"]
    assert written["id"].tolist() == given
    assert written["number"].tolist() == numbers
    assert written["town"].tolist() == many["town"].tolist()


def test_kept_columns_of_a_frame_keep_their_types(tmp_path: Path, frame: pd.DataFrame) -> None:
    stamped = frame.assign(id=[3, 1, 2], when=pd.to_datetime(["2020-01-01"] * 3))
    predict(FORMAT_1, stamped, out=tmp_path / "p.parquet", keep=("id", "when"))
    written = pd.read_parquet(tmp_path / "p.parquet")
    assert written["id"].tolist() == [3, 1, 2]
    assert written["when"].dtype.kind == "M"


@pytest.mark.parametrize(
    ("keep", "words"),
    [
        (("agee",), "did you mean age"),
        (("prediction",), "called like a column of the predictions"),
        (("age", "age"), "once"),
    ],
)
def test_columns_that_cannot_be_kept_are_refused(
    tmp_path: Path, frame: pd.DataFrame, keep: tuple[str, ...], words: str
) -> None:
    with pytest.raises(WrongInput, match=words):
        predict(FORMAT_1, frame.assign(prediction=1), out=tmp_path / "p.csv", keep=keep)
    assert list(tmp_path.iterdir()) == []


def test_built_in_data_keep_no_columns(tmp_path: Path) -> None:
    fit("wisconsin", epsilon=1.0, learner="majority", out=tmp_path / "m")
    with pytest.raises(WrongInput, match="a file or a data frame"):
        predict(tmp_path / "m", "wisconsin", out=tmp_path / "p.csv", keep=("mean area",))


def test_p53_kept_value_that_a_spreadsheet_runs_is_refused(tmp_path: Path, frame: pd.DataFrame) -> None:
    rows = frame.assign(id=["a", "=1+1", "-5"])
    with pytest.raises(WrongInput, match=r"'id'.*row 2.*keep_formulas=") as problem:
        predict(FORMAT_1, rows, out=tmp_path / "p.csv", keep=("id",))
    assert "1+1" not in str(problem.value)
    predict(FORMAT_1, rows, out=tmp_path / "p.parquet", keep=("id",))
    predict(FORMAT_1, rows, out=tmp_path / "p.csv", keep=("id",), keep_formulas=True)


def test_rare_category_is_not_called_unseen(tmp_path: Path) -> None:
    months = ["Jan"] * 900 + ["Feb"] * 900 + ["Dec"] * 2
    rows = pd.DataFrame({"month": months, "y": (["no", "yes"] * 901)})
    fit(rows, target="y", epsilon=1.0, seed=1, out=tmp_path / "m")
    result = predict(tmp_path / "m", rows, out=tmp_path / "p.csv")
    assert result["outside"] == {"month": {"unseen": 2}}  # "Dec" was there, but is too rare to be released
    assert outside_sentences(result) == [
        "'month': 2 values not among the categories that the model knows (new, or too rare in training to be "
        "released), treated as one other category"
    ]


def test_column_mostly_outside_its_range_is_said_with_the_range(tmp_path: Path) -> None:
    columns = (
        Column(name="weight", low=30, high=150),
        Column(name="born", kind="date", low="1930-01-01", high="2010-01-01"),
    )
    schema = Schema(columns=columns, target="y", classes=("a", "b"), rows=100)
    rows = pd.DataFrame({"weight": [70.0, 90.0] * 50, "born": ["1980-05-01", "1950-02-03"] * 50, "y": ["a", "b"] * 50})
    fit(rows, schema=schema, epsilon=1.0, learner="linear", seed=1, out=tmp_path / "m")
    new = rows.assign(weight=rows["weight"] * 2.5, born=["1920-01-01", *rows["born"][1:]])
    result = predict(tmp_path / "m", new, out=tmp_path / "p.csv")
    assert result["ranges"] == {"weight": ("30", "150"), "born": ("1930-01-01", "2010-01-01")}
    assert "'born': 1 value outside the range that the model knows (1930-01-01 to 2010-01-01), clipped to it" in (
        outside_sentences(result)
    )
    (said,) = mostly_outside_sentences(result)
    assert said.startswith("Most values of 'weight' (100 of 100 rows) are outside the range 30 to 150, with which")


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


def test_predictions_for_a_folder_of_images_name_the_files(tmp_path: Path) -> None:
    for folder, shade in (("train/dark", 40), ("train/light", 200), ("new", 200)):
        (tmp_path / folder).mkdir(parents=True)
        for at in range(20):
            Image.fromarray(np.full((8, 8), shade + at, dtype=np.uint8)).save(tmp_path / folder / f"{at:02}.png")
    fit(tmp_path / "train", epsilon=5.0, learner="majority", seed=1, out=tmp_path / "model")
    predict(tmp_path / "model", tmp_path / "new", out=tmp_path / "p.csv")
    assert pd.read_csv(tmp_path / "p.csv")["file"].tolist() == [f"{at:02}.png" for at in range(20)]


@pytest.mark.parametrize("folder", ["flat", "train"])
def test_predictions_for_a_folder_of_texts_name_the_files(tmp_path: Path, folder: str) -> None:
    for name in ("train/bad", "train/good", "flat"):
        (tmp_path / name).mkdir(parents=True)
        for at in range(20):
            (tmp_path / name / f"{at:02}.txt").write_text(f"the service was {name} again {at}")
    fit(tmp_path / "train", epsilon=5.0, learner="majority", seed=1, out=tmp_path / "model")
    predict(tmp_path / "model", tmp_path / folder, out=tmp_path / "p.csv")
    names = [f"{at:02}.txt" for at in range(20)]
    expected = names if folder == "flat" else [f"{label}/{name}" for label in ("bad", "good") for name in names]
    assert pd.read_csv(tmp_path / "p.csv")["file"].tolist() == expected


def test_members_of_built_in_data_are_its_training_rows(tmp_path: Path) -> None:
    fit("wisconsin", epsilon=1.0, learner="majority", out=tmp_path / "model")
    members, others = predictions_for_owner(tmp_path / "model", "wisconsin", "wisconsin")
    assert (len(members), len(others)) == (455, 114)


@pytest.mark.parametrize("form", ["table", "text"])
def test_missing_texts_are_counted_and_named(form: str) -> None:
    schema = Schema(columns=(Column(name="note", kind="text"),), classes=("n", "y"), form=form)
    outside = Outside()
    Data.of(read(pd.DataFrame({"note": ["good service", "", None, " "]})), schema, labelled=False, outside=outside)
    assert outside.counts["note"] == {"missing": 3}
    assert outside.sentences(4) == ["'note': 3 values missing"]


def test_empty_text_files_are_counted_and_named(tmp_path: Path) -> None:
    for name, text in (("a", "good service"), ("b", ""), ("c", " \n"), ("d", "late"), ("e", "late again")):
        (tmp_path / f"{name}.txt").write_text(text)
    schema = Schema(columns=(Column(name="text", kind="text"),), classes=("n", "y"), form="text")
    outside = Outside()
    Data.of(read(tmp_path), schema, labelled=False, outside=outside)
    assert outside.counts["text"] == {"missing": 2, "empty_file": 2}
    assert outside.sentences(5) == ["'text': 2 values read from empty files, treated as missing"]


@pytest.mark.parametrize(
    ("missing", "advice"), [("category", "an empty column.*in `predict` with"), ("refuse", "edit")]
)
def test_message_of_an_absent_column_says_what_works(missing: str, advice: str) -> None:
    schema = Schema(columns=(Column(name="crp", low=0, high=9, missing=missing),), classes=("n", "y"))
    with pytest.raises(WrongInput, match=f"the model needs 'crp'.*{advice}"):
        Data.of(read(pd.DataFrame({"age": [1, 2]})), schema, labelled=False)


def test_predicted_numbers_have_no_digits_far_below_the_range(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=300), "y": rng.uniform(0, 70, 300)})
    fit(table, target="y", epsilon=5.0, learner="median", seed=1, out=tmp_path / "m", ledger=tmp_path / "a.ledger")
    model = load(tmp_path / "m")
    predict(tmp_path / "m", table, out=tmp_path / "p.csv")
    written = pd.read_csv(tmp_path / "p.csv")["prediction"]
    assert all(len(each.partition(".")[2]) <= 6 for each in written.astype(str))
    low, high = model.schema.low, model.schema.high
    assert low is not None
    assert high is not None
    assert np.abs(written - model.predict(table)).max() <= 1e-6 * (high - low)
