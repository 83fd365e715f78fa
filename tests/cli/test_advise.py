"""`privaware advise`: rules, reasons and evidence, in words and as JSON."""

from __future__ import annotations

from pathlib import Path

from tests.cli.people import Run


def test_json_has_rules_with_reason_and_evidence(run: Run) -> None:
    call = run("advise", "digits", "--epsilon", 1, "--accuracy", 0.8, "--json")
    assert call.code == 0
    for each in call.json["advice"]:
        assert {"rule", "reason", "evidence"} <= set(each)
        assert all({"ours", "paper", "page"} <= set(evidence) for evidence in each["evidence"])
    [estimate] = call.json["estimates"]
    assert estimate["epsilon"]["low"] < estimate["epsilon"]["value"] < estimate["epsilon"]["high"]


def test_words_name_rule_evidence_risk_and_what_was_charged(run: Run, people: Path) -> None:
    call = run("advise", people, "--target", "y", "--epsilon", 1, "--accuracy", 0.8)
    assert call.code == 0
    assert "1. " in call.out
    assert "   Measured: " in call.out
    assert "A membership attack on a Gaussian mechanism at epsilon" in call.out
    assert "adult, linear: epsilon" in call.out
    assert call.out.splitlines()[-1].startswith("Nothing is charged")
    assert sorted(path.name for path in people.parent.iterdir()) == ["people.csv", "people.toml"]


def test_wrong_accuracy_is_exit_2(run: Run) -> None:
    assert run("advise", "digits", "--epsilon", 1, "--accuracy", 90, "--json").code == 2
