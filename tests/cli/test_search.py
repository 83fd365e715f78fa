"""`privaware search`: the cost first, no charge for bad input, one charge, and a model to release."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privaware.learners._networks import training
from privaware.strategies._trials import ValidationScorer
from privaware.workflow.run.staging import Staged
from tests.cli.people import SPACE, Run, watched, write_people

FIELDS = {"best", "trials", "epsilon_model", "epsilon_total", "internal"}


@pytest.fixture
def words(people: Path, tmp_path: Path) -> tuple[object, ...]:
    (tmp_path / "space.toml").write_text(SPACE)
    return (
        "search",
        people,
        "--space",
        "space.toml",
        "--schema",
        "people.toml",
        "--set",
        "steps=4",
        "--set",
        "batch=100",
        "--trials",
        3,
    )


def test_dry_run_shows_cost_and_reads_no_row(run: Run, words: Any, people: Path) -> None:
    people.unlink()
    with watched(people) as opened:
        result = run(*words, "--epsilon", 4, "--dry-run", "--json")
    assert result.code == 0
    assert opened == []
    assert set(result.json) >= FIELDS
    assert result.json["best"] is None
    assert result.json["epsilon_model"] < result.json["epsilon_total"] <= 4
    assert not Path(f"{people}.ledger").exists()


@pytest.mark.parametrize("strategy", ["rs", "paas", "racing", "grid"])
def test_a_search_is_charged_once_and_releases_a_model(run: Run, words: Any, people: Path, strategy: str) -> None:
    result = run(*words, "--strategy", strategy, "--epsilon", 4, "--out", "model", "--json")
    assert result.code == 0, result.err
    assert set(result.json) >= FIELDS
    assert set(result.json["best"]) == {"units", "lr"}
    assert result.json["certified"]
    assert result.json["epsilon_model"] < result.json["epsilon_total"] <= 4
    progress = [line for line in result.err.splitlines() if line.startswith(("searching for", "round "))]
    assert progress
    place = r"searching for \d+ s" if strategy == "rs" else r"round \d+ of \d+, \d+ of \d+ candidates"
    left = "" if strategy == "rs" else r", about \d+ s left"
    public = re.compile(rf"{place}, epsilon \S+ left in the ledger{left}")  # neither a score nor a secret number
    assert all(public.fullmatch(line) for line in progress), progress
    assert strategy != "rs" or not any("candidates" in line for line in result.err.splitlines())
    spent = run("ledger", f"{people}.ledger", "--json").json
    assert spent["epsilon_spent"] == pytest.approx(result.json["epsilon_total"], rel=1e-6)
    assert sorted(os.listdir("model")) == ["model.json", "model.safetensors", "report.html"]
    facts = json.loads(Path("model/model.json").read_text())
    assert facts["search"]["point"] == result.json["best"]
    assert run("verify", "model", "--ledger", f"{people}.ledger", "--json").json["valid"]
    assert run("predict", "model", people, "--out", "p.csv", "--json").json["rows"] == 300
    assert run(*words, "--epsilon", 4, "--out", "model", "--json").code == (0 if strategy == "rs" else 2)
    assert run(*words, "--epsilon", 4, "--out", "other", "--json").code == 3


def test_model_epsilon_determines_the_total(run: Run, words: Any) -> None:
    totals = []
    for strategy in ("rs", "paas"):
        result = run(*words, "--strategy", strategy, "--model-epsilon", 1, "--dry-run", "--json").json
        assert result["epsilon_model"] == pytest.approx(1.0, rel=2e-3)
        totals.append(result["epsilon_total"])
    assert totals[0] > 1
    assert totals[1] > 1


def test_losing_candidates_and_scores_are_not_published(run: Run, words: Any) -> None:
    assert run(*words, "--epsilon", 4, "--out", "model", "--json").code == 0
    facts = Path("model/model.json").read_text()
    assert "score" not in json.loads(facts)["search"]
    assert not Path("model/.search").exists()


def test_killed_search_leaves_no_losing_candidate(run: Run, words: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    publish = Staged.publish

    def dying(staged: Staged, charged: str) -> None:
        assert (staged.folder / ".search").exists()
        publish(staged, charged)
        raise KeyboardInterrupt

    monkeypatch.setattr(Staged, "publish", dying)
    assert run(*words, "--epsilon", 4, "--out", "model", "--json").code == 130
    assert sorted(os.listdir("model")) == ["model.json", "model.safetensors", "report.html"]


def test_a_killed_search_resumes_with_one_charge(
    run: Run, words: Any, people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = (*words, "--strategy", "paas", "--option", "population=2", "--epsilon", 4, "--out", "model", "--json")
    scores, trained = ValidationScorer.scores, []

    def stopped(self: ValidationScorer, models: Any, *rest: Any) -> list[float]:
        if trained:
            raise KeyboardInterrupt
        trained.append(len(models))
        return scores(self, models, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(ValidationScorer, "scores", stopped)
        assert run(*call).code == 130
    assert Path("model/.search").exists()
    train = training._train
    again: list[int] = []

    def counted(learners: Any, *rest: Any) -> Any:
        again.append(len(learners))
        return train(learners, *rest)

    monkeypatch.setattr(training, "_train", counted)
    result = run(*call)
    assert result.code == 0, result.err
    assert "Resuming" in result.err
    assert sum(again) == 1  # two of three were kept
    spent = run("ledger", f"{people}.ledger", "--json").json
    assert sum(entry["what"].startswith("search") for entry in spent["events"]) == 1


def test_search_on_public_rows_has_no_privacy_cost(run: Run, words: Any, people: Path, tmp_path: Path) -> None:
    write_people(tmp_path / "public.csv", rows=200, seed=5)
    result = run(*words, "--strategy", "paas", "--public", "public.csv", "--epsilon", 1, "--out", "model", "--json")
    assert result.code == 0, result.err
    assert result.json["epsilon_total"] == result.json["epsilon_model"] <= 1
    spent = run("ledger", f"{people}.ledger", "--json").json
    assert spent["epsilon_spent"] == pytest.approx(result.json["epsilon_total"], rel=1e-6)


def test_standard_search_is_refused_on_private_rows(run: Run, words: Any) -> None:
    assert run(*words, "--workflow", "standard", "--epsilon", 1, "--json").code == 2
    result = run(
        "search",
        "wisconsin",
        "--space",
        "space.toml",
        "--trials",
        2,
        "--set",
        "steps=4",
        "--workflow",
        "standard",
        "--epsilon",
        1,
        "--out",
        "model",
        "--json",
    )
    assert result.code == 0, result.err
    assert not result.json["certified"]
    facts = json.loads(Path("model/model.json").read_text())
    assert facts["guarantee"]["certified"] is False
    assert facts["guarantee"]["sentence"].startswith("NOT PRIVATE")


@pytest.mark.parametrize(
    "wrong",
    [
        ("--space", "nothing"),
        ("--strategy", "nothing"),
        ("--epsilon", 1, "--model-epsilon", 1),
        ("--epsilon", -1),
        ("--epsilon", 1, "--trials", 0),
        ("--epsilon", 1, "--option", "nothing=3"),
        ("--epsilon", 1, "--set", "nothing=3"),
        ("--epsilon", 1, "--workers", 0),
        ("--epsilon", 1, "--workflow", "other"),
        ("--epsilon", 1, "--held-out", 2),
    ],
)
def test_a_wrong_call_is_one_sentence_and_costs_nothing(
    run: Run, words: Any, people: Path, wrong: tuple[object, ...]
) -> None:
    result = run(*words, *wrong, "--json")
    assert result.code == 2, result.err
    assert len(result.json["error"]) > 20
    assert "Traceback" not in result.err
    assert not Path(f"{people}.ledger").exists()


def test_two_workers_finish_a_search(run: Run, words: Any) -> None:
    result = run(*words, "--strategy", "grid", "--epsilon", 8, "--workers", 2, "--out", "model", "--json")
    assert result.code == 0, result.err
    assert np.isfinite(result.json["internal"]["seconds"])


def test_epsilon_of_one_model_is_for_the_unit_of_the_schema(run: Run, words: Any, people: Path) -> None:
    """All rows of a person cost more than one of them, also in the epsilon of a single model."""
    lines = people.read_text().splitlines()
    named = [f"{line},p{at // 2}" for at, line in enumerate(lines[1:])]
    people.write_text("\n".join([f"{lines[0]},who", *named]) + "\n")
    persons = ("--unit", "who", "--cap", 2, "--dry-run", "--json")
    apart = run(*words, "--epsilon", 2, *persons).json
    assert 0.4 * apart["epsilon_total"] < apart["epsilon_model"] < apart["epsilon_total"]
    by_model = run(*words, "--model-epsilon", 1, *persons).json
    assert by_model["epsilon_model"] == pytest.approx(1.0, rel=2e-3)
    assert by_model["epsilon_total"] > run(*words, "--model-epsilon", 0.7, *persons).json["epsilon_total"]


def test_new_ledger_takes_requested_epsilon_as_limit(run: Run, words: Any, people: Path) -> None:
    assert run(*words, "--epsilon", 2, "--out", "model").code == 0
    assert run("ledger", f"{people}.ledger", "--json").json["limit"] == 2


def test_owner_describes_the_model_of_a_search(run: Run, words: Any) -> None:
    Path("owner.toml").write_text('owner = "Statistics office"\n')
    choose = ("--strategy", "grid", "--epsilon", 20, "--describe", "owner.toml", "--out", "m")
    assert run(*words[:-2], *choose).code == 0
    assert "Statistics office" in Path("m/report.html").read_text()
    assert run("verify", "m").code == 0
