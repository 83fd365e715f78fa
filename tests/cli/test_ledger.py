"""`privaware ledger`, and what a ledger refuses to the other verbs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.people import Run, watched


def test_spending_past_the_limit_is_refused_before_the_file_is_opened(run: Run, people: Path, tmp_path: Path) -> None:
    call = ("--schema", "people.toml", "--learner", "majority", "--ledger", "one.ledger")
    assert run("fit", people, *call, "--out", "m").code == 0
    with watched(tmp_path / "pipe.csv") as reads:
        result = run("fit", "pipe.csv", *call, "--out", "n", "--json")
    assert reads == []
    assert result.code == 3
    assert len(result.err.splitlines()) == 1
    assert "--set-limit" in result.json["error"]
    assert not Path("n").exists()


def test_raised_limit_admits_the_next_run(run: Run, people: Path) -> None:
    call = ("fit", people, "--schema", "people.toml", "--learner", "majority")
    assert run(*call, "--out", "m").code == 0  # people.csv.ledger, with the limit 1
    assert run(*call, "--out", "n").code == 3
    changed = run("ledger", "people.csv.ledger", "--set-limit", 2.5, "--json").json
    assert (changed["limit"], len(changed["events"])) == (2.5, 1)
    assert run(*call, "--out", "n").code == 0
    ledger_facts = run("ledger", "people.csv.ledger", "--json").json
    assert 1.9 < ledger_facts["epsilon_spent"] <= ledger_facts["limit"]
    assert {"epsilon_spent", "delta", "limit", "events"} <= set(ledger_facts)
    assert run("ledger", "people.csv.ledger", "--set-limit", 0.5).code == 2
    assert len(run("ledger", "people.csv.ledger").out.splitlines()) == 3


@pytest.mark.parametrize("extra", [["--delta", "1e-6"], ["--limit", "7"], ["--unit", "label"]], ids=" ".join)
def test_a_ledger_keeps_its_limit_delta_and_unit(run: Run, people: Path, extra: list[str]) -> None:
    call = ("fit", people, "--target", "y", "--accept-schema", "--learner", "majority", "--epsilon", 0.1)
    assert run(*call, "--limit", 5, "--out", "m").code == 0
    before = Path("people.csv.ledger").read_bytes()
    result = run(*call, *extra, "--out", "n")
    assert (result.code, len(result.err.splitlines())) == (2, 1)
    assert Path("people.csv.ledger").read_bytes() == before
    assert run(*call, "--out", "n").code == 0  # without saying anything new
