"""Every tutorial's files and commands work as printed, in an empty folder."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from privaware import registry
from privaware.cli import main

TUTORIALS = Path(__file__).parents[1] / "docs" / "tutorials"
BLOCK = re.compile(r"^```(?:\w+ file=(?P<name>\S+)|(?P<shell>console))\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
INSTALL = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder, in which `site` stands for the environment that packages are installed into."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path / "site")
    yield tmp_path
    registry._entry_points.cache_clear()
    sys.modules.pop("nearest_mean", None)


def call(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Runs one printed command, and returns what it prints."""
    capsys.readouterr()
    if words[0] == "pip":
        subprocess.run([*INSTALL, "--target", "site", *words[2:]], check=True, capture_output=True)
        registry._entry_points.cache_clear()
    elif words[0] == "python":
        runpy.run_path(words[1], run_name="__main__")
    else:
        assert words[0] == "privaware"
        assert main(words[1:]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_own_algorithm_is_added_checked_and_compared(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said: dict[str, str] = {}
    for block in BLOCK.finditer((TUTORIALS / "add_an_algorithm.md").read_text()):
        if block["name"]:
            (folder / block["name"]).write_text(block["text"])
            continue
        for line in block["text"].splitlines():
            said[line] = call(line.split(), capsys)
    assert "nearest_mean" in said["privaware list learners"]
    assert "the checks passed" in said["python check.py"]
    assert "18 of 18 cells done, 0 failed" in said["privaware bench run grid.toml --store cells.jsonl"]
    table = said["privaware bench table --store cells.jsonl --columns score"]
    assert re.search(r"\| nearest_mean \| \d\d\.\d\d \[-?\d", table)
    paper = (folder / "table.tex").read_text()
    assert "tailored AUC" in paper
    assert r"nearest\_mean" in paper
    assert (folder / "bench.html").read_text().count("<svg") == 4 + 3  # no baseline without the network
