"""Every tutorial's files and commands work as printed, in an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

TUTORIALS = Path(__file__).parents[1] / "docs" / "tutorials"
BLOCK = re.compile(r"^```(?:\w+ file=(?P<name>\S+)|(?P<shell>console))\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
INSTALL = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
MAIN = [sys.executable, "-c", "import sys; sys.argv[0] = 'privaware'; from privaware.cli import main; main()"]


def call(words: list[str], folder: Path) -> str:
    """Runs one printed command; what it installs goes into the folder, not into the environment of the tests."""
    real = {
        "pip": [*INSTALL, "--target", "site", *words[2:]],
        "python": [sys.executable, *words[1:]],
        "privaware": [*MAIN, *words[1:]],
    }
    paths = [str(folder / "site"), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    result = subprocess.run(real[words[0]], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"{' '.join(words)}: {result.stderr}"
    return result.stdout


def test_own_algorithm_is_added_checked_and_compared(tmp_path: Path) -> None:
    said: dict[str, str] = {}
    for block in BLOCK.finditer((TUTORIALS / "add_an_algorithm.md").read_text()):
        if block["name"]:
            (tmp_path / block["name"]).write_text(block["text"])
            continue
        for line in block["text"].splitlines():
            said[line] = call(line.split(), tmp_path)
    assert "nearest_mean" in said["privaware list learners"]
    assert "the checks passed" in said["python check.py"]
    assert "18 of 18 cells done, 0 failed" in said["privaware bench run grid.toml --store cells.jsonl"]
    table = said["privaware bench table --store cells.jsonl"]
    assert re.search(r"\| nearest_mean \| \d\d\.\d\d ± \d", table)
    assert (tmp_path / "bench.html").read_text().count("<svg") == 4
