"""`privaware predict`: rows in order, labels as in the training data, nothing overwritten."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from tests.cli.people import Run, contents


def test_predictions_keep_the_order_and_need_no_target(run: Run, model: Path, people: Path) -> None:
    rows = pd.read_csv(people)
    rows[["town", "age"]].to_csv("new.csv", index=False)
    rows[::-1].to_parquet("turned.parquet", index=False)
    assert run("predict", model, "new.csv", "--out", "p.csv", "--json").json == {
        "rows": 300,
        "out": "p.csv",
        "outside": {},
        "ranges": {},
    }
    assert run("predict", model, "turned.parquet", "--out", "q.parquet").code == 0
    forward, backward = pd.read_csv("p.csv"), pd.read_parquet("q.parquet")
    assert list(forward) == ["prediction", "probability_no", "probability_yes"]
    assert list(forward["prediction"]) == list(backward["prediction"][::-1])
    assert (forward["prediction"] == rows["y"]).mean() > 0.7
    chances = forward[["probability_no", "probability_yes"]]
    assert chances.sum(axis=1).to_numpy() == pytest.approx(1)
    assert ((chances["probability_yes"] > 0.5) == (forward["prediction"] == "yes")).all()


def test_predictions_overwrite_nothing_and_leave_no_partial_file(run: Run, model: Path, people: Path) -> None:
    Path("p.csv").write_text("precious")
    before = contents(Path.cwd())
    Path("bad.csv").write_text("age,town\n1,nowhere\n")
    for words in (
        [people, "--out", "p.csv"],
        [people, "--out", "none/p.csv"],
        [people, "--out", "p.txt"],
        ["bad.csv", "--out", "q.csv"],
        ["none.csv", "--out", "q.csv"],
        ["digits", "--out", "q.csv"],
        ["wisconsin", "--out", "q.csv"],
    ):
        result = run("predict", model, *words)
        assert (result.code, len(result.err.splitlines())) == (2, 1), words
    Path("bad.csv").unlink()
    assert contents(Path.cwd()) == before


def test_unreadable_column_is_exit_2_unless_allowed(run: Run, people: Path) -> None:
    assert run("fit", people, "--target", "y", "--learner", "linear", "--out", "m").code == 0
    pd.read_csv(people).assign(age="old").to_csv("old.csv", index=False)
    refused = run("predict", "m", "old.csv", "--out", "p.csv")
    assert (refused.code, len(refused.err.splitlines())) == (2, 1)
    assert "'age': expected numbers, but 300 of 300 values cannot be read so" in refused.err
    assert not Path("p.csv").exists()
    assert run("predict", "m", "old.csv", "--out", "p.csv", "--allow-unreadable").code == 0


def test_kept_columns_stand_before_the_predictions(run: Run, model: Path, people: Path) -> None:
    pd.read_csv(people, dtype=str).assign(id=[f"{at:04d}" for at in range(300)]).to_csv("new.csv", index=False)
    assert run("predict", model, "new.csv", "--keep", "id", "--keep", "town", "--out", "p.csv").code == 0
    written = pd.read_csv("p.csv", dtype=str)
    assert list(written)[:3] == ["id", "town", "prediction"]
    assert written["id"][7] == "0007"
