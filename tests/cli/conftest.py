"""A small private table, the command line called in process, and reports without their chart."""

from __future__ import annotations

from pathlib import Path

import pytest

from privaware.cli import main
from tests.cli.people import TOML, CallResult, Run, write_people
from tests.no_chart import no_chart_in_reports

__all__ = ["model", "no_chart_in_reports", "people", "run"]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Calls the command line in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*words: object) -> CallResult:
        capsys.readouterr()
        code = main([str(word) for word in words])
        return CallResult(code, *capsys.readouterr())

    return call


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """A CSV file of 300 people, and `people.toml` beside it."""
    (tmp_path / "people.toml").write_text(TOML)
    return write_people(tmp_path / "people.csv")


@pytest.fixture
def model(run: Run, people: Path) -> Path:
    """A model of `people.csv`, charged to `people.csv.ledger`."""
    assert run("fit", people, "--schema", "people.toml", "--learner", "linear", "--out", "m").code == 0
    return Path("m")
