"""`privaware audit`: claim and evidence as JSON, exit 4 where the claim is refuted, one sentence for a wrong call."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from privaware.learners.linear import Linear
from tests.cli.people import Run

CALL = ("audit", "digits", "--learner", "linear", "--epsilon", "4", "--attack", "one_run", "--set", "steps=3")


def test_json_has_claim_and_evidence(run: Run) -> None:
    result = run(*CALL, "--seed", 1, "--json")
    assert result.code == 0
    found = result.json
    assert {"auc", "tailored_auc", "tpr_at_fpr", "epsilon_lower", "epsilon_claimed"} <= set(found)
    assert 2.5 < found["epsilon_lower"] < 4
    assert found["epsilon_claimed"] == pytest.approx(4.0, rel=0.01)
    assert found["confidence"] == 0.95
    assert found["tpr_at_fpr"]["0.01"]["interval"][0] <= found["tpr_at_fpr"]["0.01"]["tpr"]


def test_refuted_claim_exits_with_4_and_words(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Linear.run
    monkeypatch.setattr(Linear, "run", lambda self, data, noise, rng: whole(self, data, noise / 2, rng))
    result = run(*CALL, "--seed", 1)
    assert result.code == 4
    words = "NOT PRIVATE AS CLAIMED: the claim of epsilon 3.999 at delta 1e-5 is refuted with 99.9% confidence"
    assert words in result.out


def test_model_folder_is_audited_and_told_to_its_ledger(run: Run, model: Path) -> None:
    result = run("audit", model, "--canaries", 40, "--ledger", "people.csv.ledger")
    assert result.code == 0
    assert "It does not refute the claim of epsilon" in result.out
    assert f"Result: {model}/audit.json" in result.out
    assert run("verify", model, "--ledger", "people.csv.ledger", "--json").json["bound"]
    told = run("audit", model, "--canaries", 40).err
    assert "is not recorded in a ledger. Pass the ledger of the model with --ledger" in told


def test_misspelt_model_folder_is_told_as_such(run: Run, model: Path) -> None:
    model.rename("income-model")
    result = run("audit", "incom-model")
    assert result.code == 2
    assert "expected a model folder, a data file" in result.err
    assert "nothing called 'incom-model'; did you mean income-model?" in result.err


def test_owner_only_numbers_are_marked(run: Run, people: Path) -> None:
    call = (
        "audit",
        people,
        "--schema",
        "people.toml",
        "--learner",
        "linear",
        "--attack",
        "threshold",
        "--set",
        "steps=3",
    )
    lines = run(*call).out.splitlines()
    assert lines[0].startswith("Internal, not for release: AUC")
    assert all("Internal, not for release" in line for line in lines)
    assert run(*call, "--json").json["auc"] is None


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--attack", "lirra"), "did you mean lira"),
        (("--canaries", "1"), "at least 20 canaries"),
        (("--space", "weights"), "space"),
        (("--out", "m"), "expected no --out with a model folder"),
        (("--attack", "threshold"), "a membership attack needs the training rows"),
    ],
)
def test_wrong_calls_are_one_sentence(run: Run, model: Path, words: tuple[str, ...], sentence: str) -> None:
    result = run("audit", model, *words)
    assert result.code == 2
    assert sentence in result.err
    assert not (model / "audit.json").exists()


def test_audit_shows_intervals_of_its_estimates(run: Run) -> None:
    found = run(*CALL, "--seed", 1).out
    assert re.search(r"AUC 0\.\d+ \(95% interval 0\.\d+ to [01]\.\d+\); random guessing has 0\.5\.", found)
    assert re.search(r"false positive rate of 1% the true positive rate is \S+ \(95% interval \S+% to \S+%\)\.", found)
