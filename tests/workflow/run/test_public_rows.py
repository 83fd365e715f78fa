"""Public rows: a file, or a built-in data set by its name, against the schema of the private rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from privaware import Schema, datasets, fit
from privaware.errors import WrongInput
from privaware.schema import Column
from privaware.workflow.run.public_rows import read_public

WISCONSIN = datasets.schema("wisconsin")


def test_built_in_rows_are_read_by_their_name() -> None:
    rows = read_public("wisconsin", replace(WISCONSIN, rows=100), {}, private="people.csv", labelled=True)
    loaded = datasets.load("wisconsin").train
    assert np.array_equal(rows.x, loaded.x)
    assert np.array_equal(rows.y, loaded.y)
    unlabelled = read_public("wisconsin", WISCONSIN, {}, private="", labelled=False)
    assert not unlabelled.y.any()


def test_built_in_images_are_read_by_their_name() -> None:
    rows = read_public("digits", datasets.schema("digits"), {}, private="", labelled=True)
    loaded = datasets.load("digits").train
    assert np.array_equal(rows.x, loaded.x)
    assert np.array_equal(rows.y, loaded.y)


def test_private_rows_are_no_public_rows() -> None:
    with pytest.raises(WrongInput, match="other rows than the private ones"):
        fit("digits", epsilon=1.0, learner="private_knn", public="digits", dry_run=True)


def test_public_rows_need_declared_bounds() -> None:
    people = pd.DataFrame({"age": range(40), "rich": ["no", "yes"] * 20})
    with pytest.raises(WrongInput, match="expected declared bounds and categories of all columns beside public="):
        fit(people, target="rich", epsilon=1.0, learner="pate", public=people + people, dry_run=True)


def test_public_data_without_rows_are_refused() -> None:
    schema = Schema(columns=(Column(name="age", low=0, high=100),), target="rich", classes=("no", "yes"), rows=40)
    with pytest.raises(WrongInput, match=r"expected public rows, got none.*check public="):
        read_public(pd.DataFrame({"age": []}), schema, {}, private="", labelled=False)


def test_rows_of_another_shape_are_refused_before_the_charge(tmp_path: Path) -> None:
    with pytest.raises(WrongInput, match="expected a table"):
        read_public("digits", WISCONSIN, {}, private="", labelled=False)


def test_search_on_built_in_public_rows(tmp_path: Path) -> None:
    """Private rows of one's own with the columns of a built-in data set."""
    loaded = datasets.load("wisconsin").test
    names = [column.name for column in WISCONSIN.used]
    frame = pd.DataFrame(loaded.x, columns=names).assign(diagnosis=np.array(WISCONSIN.classes)[loaded.y])
    schema = replace(WISCONSIN, rows=len(frame), target="diagnosis")
    space = {"learner": "linear", "choices": {"norm": [0.25, 0.5]}, "build": {"norm": "$norm", "steps": 2}}
    released = fit(
        frame.rename(columns={"diagnosis": WISCONSIN.target}),
        schema=replace(schema, target=WISCONSIN.target),
        epsilon=1.0,
        public="wisconsin",
        search="grid",
        search_settings={"space": space},
        seed=1,
    )
    assert released.search is not None
    assert released.search["workflow"] == "aware"


def people(rows: int, seed: int) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": draw.uniform(-1, 1, rows), "b": draw.uniform(-1, 1, rows)})
    return frame.assign(y=np.where(frame["a"] > 0, "yes", "no"))


def taught(data: object, public: object, **options: object) -> object:
    columns = tuple(Column(name=name, low=-1, high=1) for name in ("a", "b"))
    schema = Schema(columns=columns, classes=("no", "yes"), rows=600, target="y")
    settings = {"queries": 20, "stages": 1, "epochs": 1}
    call = {"epsilon": 1.0, "schema": schema, "learner": "private_knn", "public": public, "seed": 0, **options}
    return fit(data, target="y", **{"settings": settings, **call})


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: "people.csv",
        lambda frame: frame,
        lambda frame: frame[::5],
        lambda frame: frame.sample(frac=1.0, random_state=0)[["b", "a"]],
        lambda frame: pd.concat([frame[:200], people(50, seed=2)]),
    ],
    ids=["file", "rows", "subset", "shuffled without target", "most of them"],
)
def test_private_rows_of_this_run_are_no_public_rows(
    change: Callable[[pd.DataFrame], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    frame = people(600, seed=0)
    frame.to_csv("people.csv", index=False)
    with pytest.raises(WrongInput, match="shares rows with the private rows"):
        taught("people.csv", change(frame))
    assert not Path("people.csv.ledger").exists()


def test_rows_charged_as_private_are_no_public_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    others, strangers = people(300, seed=1), people(300, seed=2)
    people(600, seed=0).to_csv("people.csv", index=False)
    others.to_csv("others.csv", index=False)
    fit("others.csv", target="y", epsilon=1.0, learner="majority", accept_schema=True)
    with pytest.raises(WrongInput, match=r"charged as private rows to '.*others\.csv\.ledger'"):
        taught("people.csv", others[:200], dry_run=True)
    taught("people.csv", strangers, dry_run=True)


@pytest.mark.parametrize("learner", ["auto", "linear"])
def test_unused_public_rows_are_named(learner: str) -> None:
    said: list[str] = []
    rows, public = people(600, seed=0), people(300, seed=2)
    taught(rows, public, learner=learner, settings=None, dry_run=True, say=said.append)
    assert any("public rows are not used" in sentence for sentence in said)
