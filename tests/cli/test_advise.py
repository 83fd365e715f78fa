"""`privaware advise`: the answer first, findings in one sentence each, evidence on request, and JSON."""

from __future__ import annotations

import html
from pathlib import Path

import pytest

from privaware.ledger import Ledger
from tests.cli.people import Run
from tests.workflow.test_pilot import write_rows


def test_json_has_estimate_curve_and_findings(run: Run) -> None:
    call = run("advise", "wisconsin", "--accuracy", 0.8, "--json")
    assert call.code == 0
    assert {"epsilon", "low", "high", "reason"} <= set(call.json["estimate"])
    assert [point["epsilon"] for point in call.json["curve"]] == [0.1, 0.3, 1.0, 3.0, 10.0]
    for each in call.json["advice"]:
        assert {"rule", "reason", "evidence"} <= set(each)
        assert all({"ours", "paper", "page"} <= set(evidence) for evidence in each["evidence"])


def test_words_answer_first_and_stay_short(run: Run, people: Path) -> None:
    call = run("advise", people, "--target", "y", "--accuracy", 0.8)
    lines = call.out.splitlines()
    assert call.code == 0
    assert lines[0].startswith("Accuracy 0.8: the middle 80% of ")
    assert "other tables" in lines[0]
    assert len(lines) <= 20
    assert not any(line.startswith("   Measured: ") for line in lines)
    assert lines[-1].startswith("Nothing is charged")
    assert sorted(path.name for path in people.parent.iterdir()) == ["people.csv", "people.toml"]


def test_why_shows_the_evidence(run: Run) -> None:
    call = run("advise", "wisconsin", "--why")
    assert "   Measured: " in call.out
    assert "   Published" in call.out
    assert "Bao et al.: Bao, Bauer and Bindschaedler, " in call.out
    assert "DPNAS" not in call.out  # no finding for this table cites it


def test_findings_name_their_epsilon(run: Run, tmp_path: Path) -> None:
    call = run("advise", "wisconsin", "--epsilon", 0.5, "--html", tmp_path / "advice.html")
    assert (
        "Findings for these data at epsilon 0.5 (--epsilon changes it; `privaware advise --why` shows the evidence):"
        in call.out
    )
    assert "Findings for these data at epsilon 0.5" in (tmp_path / "advice.html").read_text()


def test_html_page_has_the_answer_and_a_plot(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "advice.html"
    assert run("advise", "wisconsin", "--accuracy", 0.8, "--html", page).code == 0
    text = page.read_text()
    assert "<svg" in text
    assert "other tables" in text
    again = run("advise", "wisconsin", "--html", page)
    assert (again.code, page.read_text()) == (2, text)
    assert "expected a new file for --html" in again.err


@pytest.mark.parametrize(("name", "words"), [("a.pdf", "ending in .html"), ("no/a.html", "a folder that exists")])
def test_page_of_another_name_is_refused_before_the_pilot(run: Run, people: Path, name: str, words: str) -> None:
    call = run("advise", people, "--target", "y", "--pilot", 2, "--ledger", "book.ledger", "--html", name)
    assert (call.code, words in call.err) == (2, True)
    assert not Path("book.ledger").exists()
    assert not Path(name).exists()


def test_html_page_has_the_reason_and_evidence_of_findings(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "advice.html"
    call = run("advise", "wisconsin", "--why", "--html", page, "--json")
    text = html.unescape(page.read_text())
    for finding in call.json["advice"]:
        assert f"Reason: {finding['reason']}." in text
        assert all(f"Measured: {each['ours']} ({each['page']})" in text for each in finding["evidence"])


def test_wrong_accuracy_is_exit_2(run: Run) -> None:
    assert run("advise", "digits", "--accuracy", 90, "--json").code == 2


def test_words_warn_about_a_public_network(run: Run) -> None:
    call = run("advise", "digits")
    assert ("EfficientNet-Lite0 was trained on" in call.out) == ("pretrained on public photographs" in call.out)


@pytest.mark.parametrize(
    ("option", "said"),
    [(("--sign", "key.pem"), "there is no option --sign"), (("--out", "pilot"), "expected --pilot with --out")],
)
def test_advise_without_a_pilot_has_no_signature_or_folder(run: Run, option: tuple[str, str], said: str) -> None:
    call = run("advise", "wisconsin", *option)
    assert (call.code, said in call.err) == (2, True)


def test_same_pilot_is_charged_once_for_several_questions(run: Run) -> None:
    people = write_rows(Path("people.csv"), 3000)
    call = ("advise", people, "--target", "y", "--pilot", 0.2, "--limit", 3)
    first = run(*call, "--accuracy", 0.8, "--json").json
    assert "kept in 'people.csv-pilot-0.2', so that the same pilot is not charged again." in first["charged"]
    for question in (("--accuracy", 0.8), ("--accuracy", 0.9), ("--epsilon", 2)):
        again = run(*call, *question, "--json").json
        assert again["pilot"] == first["pilot"]
        assert "when it ran, and nothing was charged again." in again["charged"]
    charges = Ledger.open("people.csv.ledger").json()["events"]
    assert len(charges) == 1
    assert run(*call[:4], "--pilot", 0.3).code == 0
    assert len(Ledger.open("people.csv.ledger").json()["events"]) == 2
    assert run("verify", "people.csv-pilot-0.3", "--ledger", "people.csv.ledger").code == 0
    other = run(*call[:4], "--pilot", 0.3, "--accept-schema")
    said = "'people.csv-pilot-0.3' holds a pilot of other data or other settings"
    assert (other.code, said in other.err, "by --out" in other.err) == (2, True, True)
    assert len(Ledger.open("people.csv.ledger").json()["events"]) == 2
