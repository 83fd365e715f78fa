"""`privaware report`: one page, written where asked."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.cli.people import Run


def test_report_is_written_to_out_and_overwrites_nothing_else(run: Run, model: Path) -> None:
    assert run("report", model, "--out", "page.html", "--json").json == {"out": "page.html"}
    page = Path("page.html").read_text()
    assert "<script" not in page
    assert page == Path("m/report.html").read_text()
    assert run("report", model, "--out", "page.html").code == 2
    shutil.copytree(model, "copy")
    Path("copy/report.html").unlink()
    assert run("report", "copy").out.strip() == "copy/report.html"
    assert Path("copy/report.html").read_text() == page


def test_statement_of_the_owner_is_released_with_the_model(run: Run, people: Path) -> None:
    Path("owner.toml").write_text('owner = "Town hospital"\nintended_use = "Screening."\n')
    call = ("fit", people, "--schema", "people.toml", "--learner", "linear", "--out", "m", "--describe")
    assert run(*call, "nowhere.toml").code == 2
    Path("wrong.toml").write_text("owner = 3\n")
    assert run(*call, "wrong.toml").code == 2
    assert not Path("m").exists()
    assert not Path(f"{people}.ledger").exists()  # nothing was charged
    assert run(*call, "owner.toml").code == 0
    assert "Town hospital" in Path("m/report.html").read_text()
    verdict = run("verify", "m", "--ledger", f"{people}.ledger", "--json").json
    assert (verdict["valid"], verdict["bound"]) == (True, True)
    assert not [line for line in verdict["unchecked"] if "report.html" in line]
    Path("other.toml").write_text('owner = "Another"\n')
    assert run("report", "m", "--out", "page.html", "--describe", "other.toml").code == 0
    assert "Another" in Path("page.html").read_text()
