"""`privaware schema`, and the draft that `--accept-schema` takes."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.people import Run

MAIN = [sys.executable, "-c", "from privaware.cli import main; main()"]


def test_a_draft_is_written_once_and_says_it_is_unreviewed(run: Run, people: Path) -> None:
    result = run("schema", people, "--target", "y", "--out", "draft.toml", "--json").json
    assert result["reviewed"] is False
    assert [column["name"] for column in result["columns"]] == ["age", "town"]
    before = Path("draft.toml").read_bytes()
    assert run("schema", people, "--target", "y", "--out", "draft.toml").code == 2
    assert Path("draft.toml").read_bytes() == before
    assert run("fit", people, "--schema", "draft.toml", "--dry-run").code == 0


@pytest.mark.parametrize("option", ["--accept-schema", "--private-schema", None])
def test_p47_terminal_asks_nothing_and_shows_an_accepted_draft(people: Path, option: str | None) -> None:
    ours, theirs = pty.openpty()
    words = ["fit", str(people), "--target", "y", "--dry-run", "--json", *([option] if option else [])]
    with subprocess.Popen([*MAIN, *words], stdin=theirs, stderr=theirs, stdout=subprocess.PIPE) as call:
        os.close(theirs)
        shown = b""
        while call.poll() is None or shown == b"":
            try:
                shown += os.read(ours, 4096)
            except OSError:  # the other side has hung up
                break
        assert call.stdout is not None
        result = json.loads(call.stdout.read())
    os.close(ours)
    assert call.returncode == 0
    accepted = option == "--accept-schema"
    assert (b'[columns."age"]' in shown) is accepted
    assert (b"reviewed = false" in shown) is accepted
    assert result["certified"] is not accepted
    assert any("bounds" in sentence for sentence in result["plan"]) is not accepted


def test_a_misspelt_file_is_named_with_the_nearest_one(run: Run, people: Path) -> None:
    result = run("schema", people.with_suffix(".cvs"))
    assert result.code == 2
    assert f"did you mean {people}?" in result.err
