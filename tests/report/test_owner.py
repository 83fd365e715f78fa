"""The statement of an owner is read from TOML, checked, and refused with a sentence where it is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from privaware import report
from privaware.errors import WrongInput
from privaware.report import owner_statement
from tests.report.test_report import folder  # noqa: F401

TOML = 'owner = "Town hospital"\nintended_use = "Screening."\nlimitations = ["only adults"]\n'


def test_statement_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "owner.toml"
    path.write_text(TOML)
    expected = {"owner": "Town hospital", "intended_use": "Screening.", "limitations": ["only adults"]}
    assert owner_statement(path) == expected == owner_statement(expected)
    assert owner_statement(None) == {}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"owner = 3", "owner as text of at most"),
        (b'owner = ""', "owner as text of at most"),
        (b'boss = "me"', "entries among name, owner"),
        (b"limitations = 3", "limitations as a list"),
        (b"owner", "in TOML"),
        (b"\xff\xfe", "in TOML"),
        (b'owner = "' + b"x" * 5000 + b'"', "at most 4000 characters"),
    ],
)
def test_wrong_statement_is_refused(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "owner.toml"
    path.write_bytes(content)
    with pytest.raises(WrongInput, match=problem):
        owner_statement(path)
    with pytest.raises(WrongInput, match="got none"):
        owner_statement(tmp_path / "nowhere.toml")


def test_statement_is_shown_only_on_a_page_outside_the_folder(
    folder: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    statement: dict[str, Any] = {"owner": "Town hospital"}
    page = report.write(folder, tmp_path / "page.html", describe=statement)
    assert "Town hospital" in page.read_text()
    with pytest.raises(WrongInput, match="expected out= outside the model folder with describe="):
        report.write(folder, describe=statement)
    assert not (folder / "report.html").exists()
