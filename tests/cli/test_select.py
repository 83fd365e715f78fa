"""`privaware select`: columns, cost and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from privaware.cli import main


@pytest.fixture
def people(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=600)
    frame = pd.DataFrame(
        {
            "says": np.where(rng.random(600) < 0.9, y, 1 - y),
            "hums": rng.integers(3, size=600),
            "age": rng.integers(18, 90, size=600),
            "class": np.where(y, "yes", "no"),
        }
    )
    path = tmp_path / "people.csv"
    frame.to_csv(path, index=False)
    return path


def test_json_has_columns_epsilon_and_seconds(people: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["select", str(people), "--target", "class", "--accept-schema", "--epsilon", "3"]
    assert main([*call, "--method", "top", "--columns", "1", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["columns"] == ["says"]
    assert 0 < result["epsilon"] <= 3
    assert result["seconds"] >= 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--method", "pca"], "does not choose columns"),
        (["--method", "cfs_gready"], "did you mean cfs_greedy"),
        (["--method", "all", "--columns", "2"], "no setting 'columns'"),
        (["--columns", "0"], "columns as a whole number"),
        (["--method", "cfs_ga", "--population", "1"], "population"),
    ],
)
def test_wrong_select_calls_get_a_sentence_and_cost_nothing(
    people: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    call = ["select", str(people), "--target", "class", "--accept-schema", *arguments]
    assert main(call) == 2
    assert words in capsys.readouterr().err
    assert not Path(f"{people}.ledger").exists()


def test_selection_states_its_guarantee_and_its_use(
    people: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["select", str(people), "--target", "class", "--accept-schema", "--method", "top", "--columns", "1"]
    assert main([*call, "--out", str(tmp_path / "s")]) == 0
    *_, guarantee, use = capsys.readouterr().out.splitlines()
    assert "every outcome computed from these columns" in guarantee
    assert use == f"To train on these columns: privaware fit ... --use {tmp_path / 's'}"


def test_dry_run_of_a_selection_says_that_nothing_is_charged(people: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["select", str(people), "--target", "class", "--accept-schema", "--dry-run"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("Dry run: nothing was charged")
    assert said.err.count("Cost: ") == 1


def test_selection_of_categories_names_the_schema(people: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["select", str(people), "--target", "class", "--level", "category"]) == 2
    assert "declare them in a schema (--schema FILE" in capsys.readouterr().err
    (people.parent / "c.json").write_text(json.dumps({"columns": ["hums (1)"]}))
    assert main(["fit", str(people), "--target", "class", "--use", str(people.parent / "c.json")]) == 2
    assert "got hums (1); single categories need the --schema" in capsys.readouterr().err


def test_owner_describes_a_selection(people: Path, tmp_path: Path) -> None:
    (tmp_path / "owner.toml").write_text('owner = "Statistics office"\n')
    call = ["select", str(people), "--target", "class", "--method", "all", "--describe"]
    assert main([*call, str(tmp_path / "owner.toml"), "--out", str(tmp_path / "s")]) == 0
    assert json.loads((tmp_path / "s" / "selection.json").read_text())["description"] == {"owner": "Statistics office"}
    assert main(["verify", str(tmp_path / "s")]) == 0
    assert main([*call, str(tmp_path / "nowhere.toml"), "--out", str(tmp_path / "t")]) == 2
    assert not (tmp_path / "t").exists()
