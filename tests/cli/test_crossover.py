"""`privaware crossover`: the price first, nothing for bad input, one charge for all trainings."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tests.cli.people import Run, contents, watched

SHORT = ("--simple", "majority", "--complex", "linear:steps=5", "--epsilons", "0.3,1", "--repeats", 2)


def test_dry_run_shows_cost_and_reads_no_row(run: Run, people: Path, tmp_path: Path) -> None:
    people.unlink()
    with watched(people) as opened:
        result = run("crossover", people, *SHORT, "--schema", "people.toml", "--dry-run", "--json")
    assert result.code == 0
    assert opened == []
    assert result.json["epsilon"] > 1.0
    assert result.json["crossover"] is None
    assert "Training runs: 8 models" in " ".join(result.json["plan"])
    assert result.json["note"].startswith("this is a dry run, so nothing was charged")
    assert not (tmp_path / "people.csv.ledger").exists()


def test_private_rows_are_charged_once_for_everything(run: Run, people: Path) -> None:
    words = ("crossover", people, *SHORT, "--schema", "people.toml", "--out", "model", "--json")
    priced = run(*words, "--dry-run").json["epsilon"]
    result = run(*words)
    assert result.code == 0
    assert {"low", "high"} <= set(result.json["crossover"])
    assert set(result.json["curves"]) == {"simple", "complex"}
    assert result.json["epsilon"] == pytest.approx(priced)
    assert not result.json["evaluation"]
    spent = run("ledger", f"{people}.ledger", "--json").json
    assert spent["epsilon_spent"] == pytest.approx(priced, rel=1e-6)
    assert sorted(os.listdir("model")) == ["crossover.json", "crossover.svg"]
    facts = json.loads(Path("model/crossover.json").read_text())
    assert facts["events"][0]["epsilon"] == pytest.approx(priced)
    assert facts["ledger"] == spent["events"][0]["hash"]
    assert run("verify", "model", "--ledger", f"{people}.ledger", "--json").json["unchecked"] == []
    before = contents(Path("model"))
    assert run(*words).json["curves"] == result.json["curves"]  # the very run that has ended
    assert run(*words, "--seed", 1).code == 2  # another one
    assert contents(Path("model")) == before  # a finished folder is never overwritten
    assert run(*words[:-2], "other", "--json").code == 3  # and the ledger is spent


def test_scores_of_private_rows_are_noisy(run: Run, people: Path) -> None:
    result = run("crossover", people, *SHORT, "--schema", "people.toml", "--json").json
    scores = [s * 75 for points in result["curves"].values() for p in points for s in p["scores"]]
    inner = [value for value in scores if 0 < value < 75]
    assert not inner or any(abs(value - round(value)) > 1e-6 for value in inner)


def test_scores_are_printed_with_their_95_percent_interval(run: Run, people: Path) -> None:
    result = run("crossover", people, *SHORT, "--schema", "people.toml", "--out", "model")
    (line,) = [line for line in result.out.splitlines() if line.startswith("epsilon 0.3: ")]
    point = json.loads(Path("model/crossover.json").read_text())["curves"]["simple"][0]
    assert f"simple {point['mean']:.4f} ({point['low']:.4f} to {point['high']:.4f})," in line
    assert "In brackets: the 95% interval of the mean over 2 repeats." in result.out


def test_single_repeat_has_no_interval(run: Run, people: Path) -> None:
    result = run("crossover", people, *SHORT[:-1], 1, "--schema", "people.toml")
    assert re.search(r"epsilon 0\.3: simple [0-9.]+, complex [0-9.]+\n", result.out)
    assert "interval of the mean" not in result.out


def test_total_is_the_limit_of_a_new_ledger(run: Run, people: Path) -> None:
    assert run("crossover", people, *SHORT, "--schema", "people.toml", "--total", 9.5).code == 0
    assert run("ledger", f"{people}.ledger", "--json").json["limit"] == 9.5


def test_undeclared_bounds_are_charged(run: Run, people: Path) -> None:
    words = ("crossover", people, *SHORT, "--target", "y")
    with_draft = run(*words, "--accept-schema", "--dry-run", "--json").json
    bought = run(*words, "--private-schema", "--dry-run", "--json").json
    assert bought["epsilon"] > with_draft["epsilon"]
    assert any(line.startswith("release bounds") for line in bought["plan"])
    result = run(*words, "--private-schema", "--json", "--ledger", "bought.ledger")
    assert result.code == 0
    assert result.json["crossover"] is not None


def test_limit_below_cost_is_refused_before_a_row_is_read(run: Run, people: Path) -> None:
    words = (*SHORT, "--schema", "people.toml", "--limit", 0.5, "--json")
    assert run("crossover", people, *words).code == 3
    people.unlink()
    with watched(people) as opened:
        assert run("crossover", people, *words, "--ledger", "own.ledger").code == 3
    assert opened == []
    assert list(people.parent.glob("*.ledger")) == []  # a refused run fixes no limit for the next


@pytest.mark.parametrize(
    "words",
    [
        ("--epsilons", "much"),
        ("--epsilons", "1,0.5"),
        ("--epsilons", "0"),
        ("--epsilons", "nan"),
        ("--repeats", 0),
        ("--simple", "unicorn"),
        ("--complex", "{"),
        ("--complex", "linear:columns=nose"),
        ("--set", "wings=2"),
        ("--device", "abacus"),
        ("--delta", 0.5),
        ("--seed", -1),
        ("--unit", "person"),
    ],
    ids=str,
)
def test_bad_input_costs_nothing(run: Run, tmp_path: Path, words: tuple[object, ...]) -> None:
    options = dict(zip(SHORT[::2], SHORT[1::2])) | {words[0]: words[1]}
    result = run("crossover", "wisconsin", *(x for pair in options.items() for x in pair), "--json")
    assert result.code == 2
    assert len(result.err.splitlines()) == 1
    assert os.listdir(tmp_path) == []


def test_built_in_rows_are_an_evaluation_with_own_ledger(run: Run) -> None:
    result = run("crossover", "wisconsin", *SHORT, "--seed", 1, "--out", "model", "--json").json
    assert result["evaluation"]
    assert not result["certified"]
    assert Path("model/run.ledger").exists()
    assert result["curves"]["simple"][0]["scores"][0] * 114 == pytest.approx(
        round(result["curves"]["simple"][0]["scores"][0] * 114)
    )
