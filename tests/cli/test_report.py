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
