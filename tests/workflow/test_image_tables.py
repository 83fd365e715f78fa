"""Tables with a column of image files: the features of images beside all other columns, in one linear model."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from privaware import audit, fit, load, predict
from privaware.errors import BudgetExceeded, WrongInput
from privaware.features import _public_photos
from privaware.schema import Column, Schema
from privaware.workflow.run.training_plan import training_plan

KINDS = {"scan": "image"}
PIXELS: dict[str, Any] = {"learner": "linear", "settings": {"features": [{"name": "pixels"}]}}
DECLARED = Schema(
    columns=(Column(name="scan", kind="image"), Column(name="age", low=0, high=90)),
    target="label",
    classes=("no", "yes"),
    rows=240,
    shape=(1, 8, 8),
)


@pytest.fixture(autouse=True, scope="module")
def _without_photographs() -> Any:
    """As where the public network is not installed."""
    with mock.patch.object(_public_photos, "installed", return_value=False):
        yield


def written(folder: Path, seed: int = 0, rows: int = 300) -> Path:
    """Write images with a bright left or right half, by the class, and tables of training and test rows."""
    rng = np.random.default_rng(seed)
    yes = rng.integers(2, size=rows).astype(bool)
    images = rng.integers(0, 80, (rows, 8, 8), dtype=np.uint8)
    images[yes, :, :4] += 150
    images[~yes, :, 4:] += 150
    (folder / "scans").mkdir()
    for at, image in enumerate(images):
        Image.fromarray(image).save(folder / "scans" / f"{at}.png")
    frame = pd.DataFrame(
        {
            "scan": [f"scans/{at}.png" for at in range(rows)],
            "age": rng.integers(20, 80, rows),
            "ward": rng.choice(["north", "south"], rows),
            "label": np.where(yes, "yes", "no"),
        }
    )
    frame[:240].to_csv(folder / "train.csv", index=False)
    frame[240:].to_csv(folder / "test.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("scans"))


@pytest.fixture(scope="module")
def fitted(files: Path) -> Any:
    asked: dict[str, Any] = {"target": "label", "epsilon": 8.0, "kinds": KINDS, "seed": 0}
    return fit(files / "train.csv", test=files / "test.csv", out=files / "model", **asked)


def test_images_keep_their_learner_beside_other_columns() -> None:
    plan = training_plan(DECLARED, epsilon=1.0, delta=1e-5)
    assert plan.learner == "linear"
    assert plan.settings["features"][0]["image"][0]["name"] == "prior"
    assert "beside the features of the images" in plan.reasons[0]


def test_declared_images_are_learned_from(fitted: Any) -> None:
    assert fitted.learner == "linear"
    assert fitted.internal["test_score"] > 0.8
    assert fitted.model.schema.columns[0].kind == "image"


def test_saved_model_predicts_files_and_frames(files: Path, fitted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, rows = load(files / "model"), pd.read_csv(files / "test.csv")
    labels = loaded.predict(files / "test.csv")
    assert np.mean(labels == rows["label"]) > 0.8
    monkeypatch.chdir(files)
    assert np.array_equal(labels, loaded.predict(rows.drop(columns="label")))


def test_predictions_keep_the_names_of_images(files: Path, fitted: Any, tmp_path: Path) -> None:
    predict(files / "model", files / "test.csv", out=tmp_path / "out.csv", keep=["scan"])
    assert pd.read_csv(tmp_path / "out.csv")["scan"].tolist() == pd.read_csv(files / "test.csv")["scan"].tolist()


def test_card_says_that_the_size_of_images_is_public(fitted: Any) -> None:
    assert "the size of the images" in fitted.model.schema.assumed


def test_image_without_other_columns_is_an_image_set(files: Path, tmp_path: Path) -> None:
    rows = written(tmp_path, seed=1)
    for name in ("train", "test"):
        frame = pd.read_csv(rows / f"{name}.csv")[["scan", "label"]]
        frame.to_csv(rows / f"{name}.csv", index=False)
        for at, label in zip(frame["scan"], frame["label"], strict=True):
            (rows / name / label).mkdir(parents=True, exist_ok=True)
            (rows / name / label / Path(at).name).write_bytes((rows / at).read_bytes())
    asked: dict[str, Any] = {"epsilon": 8.0, "seed": 0, "limit": 99.0}
    table = fit(rows / "train.csv", target="label", kinds=KINDS, test=rows / "test.csv", **asked)
    with pytest.raises(WrongInput, match="'train' probably shares rows with a table that was charged to"):
        fit(rows / "train", **asked)
    folder = fit(rows / "train", test=rows / "test", ledger=rows / "train.csv.ledger", **asked)
    assert table.model.schema.form == "image"
    assert table.model.features == folder.model.features
    assert len(table.model.predict(rows / "test.csv")) == 60
    majority = fit(rows / "train.csv", target="label", kinds=KINDS, learner="majority", **asked)
    assert len(majority.model.predict(rows / "test.csv")) == 60


def test_same_images_under_other_names_find_their_ledger(tmp_path: Path) -> None:
    rows = written(tmp_path, seed=2)
    fit(rows / "train.csv", target="label", kinds=KINDS, epsilon=1.0, learner="majority", seed=0)
    (rows / "scans").rename(rows / "moved")
    text = (rows / "train.csv").read_text().replace("scans/", "moved/")
    (rows / "again.csv").write_text(text)
    with pytest.raises(BudgetExceeded, match=r"train.csv.ledger"):
        fit(rows / "again.csv", target="label", kinds=KINDS, epsilon=1.0, learner="majority", seed=0)


def test_persons_with_several_images_are_capped(tmp_path: Path) -> None:
    rows = written(tmp_path, seed=3)
    frame = pd.read_csv(rows / "train.csv")
    frame.assign(patient=np.arange(240) // 2).to_csv(rows / "train.csv", index=False)
    asked: dict[str, Any] = {"target": "label", "kinds": KINDS, "unit": "patient", "cap": 1, "epsilon": 8.0, "seed": 0}
    assert fit(rows / "train.csv", **asked, **PIXELS).model.schema.unit == "patient"


@pytest.mark.parametrize("learner", ["boosted", "linear"])
def test_learner_without_features_of_images_is_refused(learner: str) -> None:
    with pytest.raises(WrongInput, match=f"{learner} reads no images of a table without features for images"):
        training_plan(DECLARED, epsilon=1.0, delta=1e-5, learner=learner)


def test_named_features_read_the_images() -> None:
    settings = {"features": [{"name": "scatter"}, {"name": "group_norm"}]}
    plan = training_plan(DECLARED, epsilon=1.0, delta=1e-5, learner="linear", settings=settings)
    assert plan.settings["features"] == [{"name": "mixed", "image": settings["features"], "columns": 0.25}]


def test_selection_of_columns_is_refused_beside_images(files: Path) -> None:
    with pytest.raises(WrongInput, match="got whole images in 'scan'; declare this column"):
        fit(files / "train.csv", target="label", kinds=KINDS, epsilon=1.0, select="random", dry_run=True)


def test_two_columns_of_images_are_refused(files: Path) -> None:
    with pytest.raises(WrongInput, match="expected at most one column of images"):
        fit(files / "train.csv", target="label", kinds={"scan": "image", "ward": "image"}, epsilon=1.0)


@pytest.mark.parametrize("attack", ["one_run", "label_only"])
def test_models_of_image_tables_are_audited(tmp_path: Path, attack: str) -> None:
    asked: dict[str, Any] = {"schema": DECLARED, "epsilon": 2.0, "attack": attack, "seed": 0}
    found = audit(written(tmp_path, seed=4) / "train.csv", **asked, **PIXELS)
    assert found.epsilon <= found.epsilon_claimed
