"""Tables with free text beside other columns: one model, one budget, from the plan to the saved model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest

from privaware import advise, audit, fit, load
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.features import _public_text
from privaware.schema import Column, Schema
from privaware.workflow.auto import _facts
from privaware.workflow.run.pricing import selection_plan
from privaware.workflow.run.training_plan import training_plan

GOOD, BAD = ("lovely", "great", "fine", "happy"), ("awful", "poor", "sad", "broken")
OTHER = ("the", "box", "arrived", "on", "monday", "with", "a", "note")


@pytest.fixture(autouse=True, scope="module")
def _few_words() -> Any:
    """As where the public network is not installed, with few hash buckets."""
    with mock.patch.object(_public_text, "installed", return_value=False), mock.patch.object(_facts, "MOST_SLOTS", 512):
        yield


def comments(rows: int, seed: int = 0) -> pd.DataFrame:
    """Comments whose words tell the class, with a number and a category that tell nothing."""
    rng = np.random.default_rng(seed)
    good = rng.integers(2, size=rows).astype(bool)
    words = [[*rng.choice(GOOD if each else BAD, 2), *rng.choice(OTHER, 5), f"no{at}"] for at, each in enumerate(good)]
    return pd.DataFrame(
        {
            "comment": [" ".join(rng.permutation(each)) for each in words],
            "hour": rng.integers(24, size=rows),
            "colour": rng.choice(["red", "blue"], rows),
            "label": np.where(good, "good", "bad"),
        }
    )


def written(folder: Path, seed: int = 0) -> Path:
    """Return a folder with files of training rows and test rows; other seeds give other rows, with their own budget."""
    frame = comments(700, seed)
    frame[:500].to_csv(folder / "train.csv", index=False)
    frame[500:].to_csv(folder / "test.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("comments"))


@pytest.fixture(scope="module")
def model(files: Path) -> Path:
    fit(files / "train.csv", target="label", epsilon=4.0, seed=0, out=files / "model")
    return files / "model"


DECLARED = Schema(
    columns=(Column(name="comment", kind="text"), Column(name="hour", low=0, high=24)),
    target="label",
    classes=("bad", "good"),
    rows=500,
)


def test_text_keeps_its_learner_beside_other_columns() -> None:
    plan = training_plan(DECLARED, epsilon=1.0, delta=1e-5)
    assert plan.learner == "linear"
    assert plan.settings["features"][0]["text"]["name"] == "hashed"
    assert "beside the features of the texts" in plan.reasons[0]


@pytest.mark.parametrize(("epsilon", "learner"), [(0.9, "linear"), (1.0, "fourier"), (7.9, "fourier"), (8.0, "linear")])
def test_numbers_beside_columns_take_the_learner_of_tables(epsilon: float, learner: str) -> None:
    numbers = replace(DECLARED, target="price", classes=(), rows=1000)
    plan = training_plan(numbers, epsilon=epsilon, delta=1e-5)
    assert plan.learner == learner
    assert len(plan.schema.used) == (2 if learner == "linear" else 65)


def test_numbers_from_a_text_alone_stay_with_its_features() -> None:
    alone = replace(DECLARED, columns=DECLARED.columns[:1], target="price", classes=(), rows=1000)
    assert training_plan(alone, epsilon=2.0, delta=1e-5).learner == "linear"


def test_advise_names_the_learner_of_fit_beside_a_text(files: Path) -> None:
    plan = fit(files / "train.csv", target="label", epsilon=4.0, dry_run=True)
    choice = advise(files / "train.csv", target="label", epsilon=4.0).choice
    assert (choice["learner"], choice["why"]) == (plan.learner, plan.plan[0])


def test_policy_with_no_rule_for_texts_hashes_them_to_columns() -> None:
    from privaware.workflow._recipe import Recipe
    from privaware.workflow.auto import Policy
    from privaware.workflow.run.training_plan import recipe_plan

    rule = {"name": "any", "when": {}, "use": {"learner": "boosted"}, "why": "Learner: {learner}."}
    plan = recipe_plan(
        DECLARED, Recipe(), {"epsilon": 1.0, "delta": 1e-5}, policy=Policy.read({"name": "own", "rule": [rule]})
    )
    assert (plan.learner, len(plan.schema.used)) == ("boosted", 65)


@pytest.mark.parametrize("learner", ["boosted", "fourier", "additive", "majority"])
def test_learners_of_tables_get_hashed_texts_as_before(tmp_path: Path, learner: str) -> None:
    rows = written(tmp_path)
    result = fit(rows / "train.csv", target="label", epsilon=4.0, learner=learner, seed=0, test=rows / "test.csv")
    assert result.learner == learner
    assert all(column.slots == 64 for column in result.model.schema.columns)


def test_uninformative_columns_leave_the_text_its_score(files: Path, tmp_path: Path) -> None:
    scores = []
    for part, columns in (("alone", ["comment", "label"]), ("beside", ["comment", "hour", "colour", "label"])):
        (tmp_path / part).mkdir()
        for name in ("train", "test"):
            pd.read_csv(files / f"{name}.csv")[columns].to_csv(tmp_path / part / f"{name}.csv", index=False)
        place = tmp_path / part
        result = fit(place / "train.csv", target="label", epsilon=4.0, seed=0, test=place / "test.csv")
        scores.append(result.internal["test_score"])
    alone, beside = scores
    assert beside >= alone - 0.03


def test_plan_has_at_most_eight_lines_and_names_the_texts(files: Path) -> None:
    said: list[str] = []
    fit(files / "train.csv", target="label", epsilon=1.0, dry_run=True, say=said.append)
    plan = [line for line in said if not line.startswith("Column")]
    assert len(plan) <= 8
    assert any("All other columns" in line for line in plan)


def test_saved_model_predicts_frames_arrays_and_files(files: Path, model: Path) -> None:
    loaded, rows = load(model), pd.read_csv(files / "test.csv").drop(columns="label")
    labels = loaded.predict(rows)
    assert np.mean(labels == pd.read_csv(files / "test.csv")["label"]) > 0.8
    assert np.array_equal(labels, loaded.predict(rows.to_numpy(dtype=object)))
    assert np.array_equal(labels, loaded.predict(files / "test.csv"))
    assert loaded.feature_names_in_.tolist() == ["comment", "hour", "colour"]


def test_missing_text_and_unseen_category_are_predicted(model: Path) -> None:
    rows = pd.DataFrame({"comment": [None, "lovely box"], "hour": [None, 3], "colour": ["green", "red"]})
    assert len(load(model).predict(rows)) == 2


def test_card_and_report_name_the_declared_columns(model: Path) -> None:
    card = load(model).card
    assert [row["learner"] for row in card.considered if row["taken"]] == ["linear"]
    assert all(name in (model / "report.html").read_text() for name in ("comment", "hour", "colour"))


def test_saved_plan_trains_on_the_same_features(tmp_path: Path) -> None:
    rows, saved, asked = written(tmp_path), tmp_path / "plan.toml", {"target": "label", "epsilon": 2.0, "limit": 9.0}
    fit(rows / "train.csv", dry_run=True, plan=saved, **asked)
    again = fit(rows / "train.csv", plan=saved, seed=1, **asked)
    direct = fit(rows / "train.csv", seed=2, **asked)
    assert again.model.features[0] == direct.model.features[0]
    assert again.model.schema.columns[0] == direct.model.schema.columns[0]


def test_numbers_are_predicted_from_texts_and_columns(tmp_path: Path) -> None:
    frame = comments(400).assign(price=lambda frame: 10.0 * (frame["label"] == "good") + frame["hour"])
    frame.drop(columns="label").to_csv(tmp_path / "train.csv", index=False)
    result = fit(tmp_path / "train.csv", target="price", task="regression", epsilon=8.0, seed=0)
    assert np.isfinite(result.model.predict(frame)).all()


def test_score_is_released_on_held_out_rows_with_texts(tmp_path: Path) -> None:
    scored = fit(written(tmp_path) / "train.csv", target="label", epsilon=4.0, seed=0, score=True)
    assert 0 <= scored.score["value"] <= 1


def test_search_tunes_the_head_on_mixed_features(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"target": "label", "epsilon": 8.0, "search": "rs", "search_settings": {"trials": 2}}
    searched = fit(written(tmp_path) / "train.csv", seed=0, **asked)
    assert searched.learner == "linear"
    assert searched.model.schema.has_whole_texts


def test_selection_chooses_among_hashed_texts(tmp_path: Path) -> None:
    result = fit(written(tmp_path) / "train.csv", target="label", epsilon=4.0, seed=0, select="random")
    assert not result.model.schema.has_whole_texts


@pytest.mark.parametrize("attack", ["one_run", "label_only"])
def test_models_of_mixed_tables_are_audited(tmp_path: Path, attack: str) -> None:
    asked: dict[str, Any] = {"schema": DECLARED, "epsilon": 2.0, "attack": attack, "seed": 0}
    found = audit(written(tmp_path) / "train.csv", **asked)
    assert found.epsilon <= found.epsilon_claimed


def test_parts_of_a_large_table_keep_their_texts() -> None:
    from privaware.data import _large, read

    with mock.patch.object(_large, "LARGE", 10):
        rows = _large.coded_rows(read(comments(60)), DECLARED.with_whole_texts())
    assert not isinstance(rows, Data)
    assert isinstance(rows.gathered().x[0, 0], str)


@pytest.mark.parametrize("method", ["cfs_greedy", "random"])
def test_selection_beside_whole_texts_is_refused_in_the_plan(files: Path, method: str) -> None:
    words = r'got whole texts in \'comment\'; leave slots = 0 out, .* declare this column as kind = "ignore"'
    whole = DECLARED.with_whole_texts()
    with pytest.raises(WrongInput, match=words):
        selection_plan(whole, epsilon=1.0, delta=1e-5, method=method)
    with pytest.raises(WrongInput, match=words):
        fit(files / "train.csv", schema=whole, epsilon=1.0, select=method, dry_run=True)


def test_learner_that_reads_no_texts_refuses_whole_ones() -> None:
    with pytest.raises(WrongInput, match="boosted reads texts of a table as hash buckets, but the schema says slots"):
        training_plan(DECLARED.with_whole_texts(), epsilon=1.0, delta=1e-5, learner="boosted")
