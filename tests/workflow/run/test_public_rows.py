"""Public rows: a file, or a built-in data set by its name, against the schema of the private rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from privaware import datasets, fit
from privaware.errors import WrongInput
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
