"""`privaware data`: which files are present."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.people import Run


def test_data_list_shows_which_files_are_present(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PRIVAWARE_DATA", str(tmp_path / "none"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none"))
    rows = {row["name"]: row for row in run("data", "list", "--json").json["datasets"]}
    assert rows["digits"]["ready"]
    assert not rows["mnist"]["ready"]
    assert run("data", "fetch", "digits", "--json").json == {"name": "digits", "path": None}
    assert run("data", "path", "mnist").code == 2
