"""`privaware search`: the price first, nothing for bad input, one charge, and a model to release."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privaware.learners import _networks
from privaware.strategies._trials import Trials
from privaware.workflow import _output
from tests.cli.people import SPACE, Run, watched, write_people

FIELDS = {"best", "trials", "epsilon_model", "epsilon_total", "seconds", "internal"}


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


def test_a_dry_run_prices_and_reads_no_row(run: Run, words: Any, people: Path) -> None:
    people.unlink()
    with watched(people) as opened:
        done = run(*words, "--epsilon", 4, "--dry-run", "--json")
    assert done.code == 0
    assert opened == []
    assert set(done.json) >= FIELDS
    assert done.json["best"] is None
    assert done.json["epsilon_model"] < done.json["epsilon_total"] <= 4
    assert not Path(f"{people}.ledger").exists()


@pytest.mark.parametrize("strategy", ["rs", "paas", "racing", "grid"])
def test_a_search_is_charged_once_and_releases_a_model(run: Run, words: Any, people: Path, strategy: str) -> None:
    made = run(*words, "--strategy", strategy, "--epsilon", 4, "--out", "made", "--json")
    assert made.code == 0, made.err
    assert set(made.json) >= FIELDS
    assert set(made.json["best"]) == {"units", "lr"}
    assert made.json["certified"]
    assert made.json["epsilon_model"] < made.json["epsilon_total"] <= 4
    told = [line for line in made.err.splitlines() if "candidates" in line]
    assert told
    assert all(line.startswith("internal, not for release: ") for line in told)
    spent = run("ledger", f"{people}.ledger", "--json").json
    assert spent["epsilon_spent"] == pytest.approx(made.json["epsilon_total"], rel=1e-6)
    assert sorted(os.listdir("made")) == ["model.json", "model.safetensors", "report.html"]
    facts = json.loads(Path("made/model.json").read_text())
    assert facts["search"]["point"] == made.json["best"]
    assert run("verify", "made", "--ledger", f"{people}.ledger", "--json").json["valid"]
    assert run("predict", "made", people, "--out", "p.csv", "--json").json["rows"] == 300
    assert run(*words, "--epsilon", 4, "--out", "made", "--json").code == 2
    assert run(*words, "--epsilon", 4, "--out", "other", "--json").code == 3


def test_the_total_follows_from_one_models_budget(run: Run, words: Any) -> None:
    totals = []
    for strategy in ("rs", "paas"):
        made = run(*words, "--strategy", strategy, "--model-epsilon", 1, "--dry-run", "--json").json
        assert made["epsilon_model"] == pytest.approx(1.0, rel=2e-3)
        totals.append(made["epsilon_total"])
    assert totals[0] > 1
    assert totals[1] > 1


def test_losers_and_their_scores_are_nowhere(run: Run, words: Any) -> None:
    assert run(*words, "--epsilon", 4, "--out", "made", "--json").code == 0
    facts = Path("made/model.json").read_text()
    assert "score" not in json.loads(facts)["search"]
    assert not Path("made/.search").exists()


def test_a_search_killed_as_it_publishes_leaves_no_losers_in_the_model(
    run: Run, words: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = _output.publish_model

    def dying(place: Path) -> None:
        assert (place / ".search").exists()
        publish(place)
        raise KeyboardInterrupt

    monkeypatch.setattr(_output, "publish_model", dying)
    assert run(*words, "--epsilon", 4, "--out", "made", "--json").code == 130
    assert sorted(os.listdir("made")) == ["model.json", "model.safetensors", "report.html"]


def test_a_killed_search_resumes_with_one_charge(
    run: Run, words: Any, people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = (*words, "--strategy", "paas", "--option", "population=2", "--epsilon", 4, "--out", "made", "--json")
    scored, trained = Trials._scored, []

    def dying(self: Trials, models: Any, *more: Any) -> list[float]:
        if trained:
            raise KeyboardInterrupt
        trained.append(len(models))
        return scored(self, models, *more)

    with monkeypatch.context() as patch:
        patch.setattr(Trials, "_scored", dying)
        assert run(*whole).code == 130
    assert Path("made/.search").exists()
    population = _networks._population
    again: list[int] = []

    def counted(own: Any, *more: Any) -> Any:
        again.append(len(own))
        return population(own, *more)

    monkeypatch.setattr(_networks, "_population", counted)
    done = run(*whole)
    assert done.code == 0, done.err
    assert "resuming" in done.err
    assert sum(again) == 1  # two of three were kept
    spent = run("ledger", f"{people}.ledger", "--json").json
    assert sum(entry["what"].startswith("search") for entry in spent["events"]) == 1


def test_a_search_on_public_rows_is_free(run: Run, words: Any, people: Path, tmp_path: Path) -> None:
    write_people(tmp_path / "public.csv", rows=200, seed=5)
    made = run(*words, "--strategy", "paas", "--public", "public.csv", "--epsilon", 1, "--out", "made", "--json")
    assert made.code == 0, made.err
    assert made.json["epsilon_total"] == made.json["epsilon_model"] <= 1
    spent = run("ledger", f"{people}.ledger", "--json").json
    assert spent["epsilon_spent"] == pytest.approx(made.json["epsilon_total"], rel=1e-6)


def test_the_standard_workflow_is_for_benchmarks_and_says_so(run: Run, words: Any) -> None:
    assert run(*words, "--workflow", "standard", "--epsilon", 1, "--json").code == 2
    made = run(
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
        "made",
        "--json",
    )
    assert made.code == 0, made.err
    assert not made.json["certified"]
    facts = json.loads(Path("made/model.json").read_text())
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
    done = run(*words, *wrong, "--json")
    assert done.code == 2, done.err
    assert len(done.json["error"]) > 20
    assert "Traceback" not in done.err
    assert not Path(f"{people}.ledger").exists()


def test_workers_share_the_work(run: Run, words: Any) -> None:
    made = run(*words, "--strategy", "grid", "--epsilon", 8, "--workers", 2, "--out", "made", "--json")
    assert made.code == 0, made.err
    assert np.isfinite(made.json["seconds"])


def test_spaces_and_strategies_are_listed(run: Run) -> None:
    listed = run("list", "--json").json
    assert {"fcn", "cnn", "dpnas"} <= {each["name"] for each in listed["spaces"]}
    assert {"paas", "rs", "mgrs", "dpnas", "grid", "optuna", "racing"} == {
        each["name"] for each in listed["strategies"]
    }


def test_one_models_epsilon_is_that_of_the_unit(run: Run, words: Any, people: Path) -> None:
    """All rows of a person are dearer than one of them, also in what is said of a single model."""
    lines = people.read_text().splitlines()
    named = [f"{line},p{at // 2}" for at, line in enumerate(lines[1:])]
    people.write_text("\n".join([f"{lines[0]},who", *named]) + "\n")
    persons = ("--unit", "who", "--cap", 2, "--dry-run", "--json")
    apart = run(*words, "--epsilon", 2, *persons).json
    assert 0.4 * apart["epsilon_total"] < apart["epsilon_model"] < apart["epsilon_total"]
    asked = run(*words, "--model-epsilon", 1, *persons).json
    assert asked["epsilon_model"] == pytest.approx(1.0, rel=2e-3)
    assert asked["epsilon_total"] > run(*words, "--model-epsilon", 0.7, *persons).json["epsilon_total"]


def test_a_new_ledger_takes_the_epsilon_that_was_asked_for(run: Run, words: Any, people: Path) -> None:
    assert run(*words, "--epsilon", 2, "--out", "made").code == 0
    assert run("ledger", f"{people}.ledger", "--json").json["limit"] == 2
