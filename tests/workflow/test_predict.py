"""Loading a released model and writing predictions; the command line's side is in tests/cli."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from privaware import load, predict
from privaware.data import Data
from privaware.errors import WrongInput
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


def test_file_that_another_process_wrote_meanwhile_is_not_overwritten(
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
