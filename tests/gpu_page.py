"""A pytest plugin for `make gpu`: it collects the files with the marker `cuda`, and writes the page of their run."""

from __future__ import annotations

import datetime
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent
ROOT = TESTS.parent
PAGE = ROOT / "docs" / "results" / "gpu_tests.md"
OUTCOMES = ("passed", "failed", "error", "skipped")


def pytest_configure() -> None:
    """Ends the run where there is no GPU: a page of skipped tests would say nothing."""
    import torch

    if not torch.cuda.is_available():
        pytest.exit("expected a CUDA device for `make gpu`, got none; `make test` needs no GPU", returncode=2)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leaves out test files without the marker, and folders of tests without such a file.

    They may import packages that a GPU machine does not have: a folder does so in its `conftest.py`.
    """
    if collection_path.is_dir() and TESTS in collection_path.parents:
        files = list(collection_path.rglob("test_*.py"))
    elif collection_path.name.startswith("test_"):
        files = [collection_path]
    else:
        return None
    return None if any("mark.cuda" in file.read_text() for file in files) else True


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Writes the page, unless only a part of the tests was asked for."""
    if not config.option.keyword and config.args == config.getini("testpaths")[:1]:
        PAGE.write_text(page({outcome: terminalreporter.stats.get(outcome, []) for outcome in OUTCOMES}))


def page(reports: dict[str, list[Any]]) -> str:
    """The page: what was run, where, and every test that did not pass."""
    import torch

    counts = ", ".join(f"{len(reports[outcome])} {outcome}" for outcome in OUTCOMES)
    failures = [f"- `{report.nodeid}`" for outcome in ("failed", "error") for report in reports[outcome]]
    reasons = sorted({_reason(report) for report in reports["skipped"]})
    lines = [
        "# The tests that use a GPU",
        "",
        "`make gpu` runs every test with the marker `cuda` and writes this page.",
        "",
        "| | |",
        "|---|---|",
        f"| commit | {commit()} |",
        f"| tests | {counts} |",
        f"| device | {torch.cuda.get_device_name()} |",
        f"| software | Python {platform.python_version()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda} |",
        f"| date | {datetime.datetime.now(datetime.UTC):%Y-%m-%d} |",
        "",
        "Failures:" if failures else "No test failed.",
        "",
        *failures,
        *([""] if failures else []),
        *(["Reasons of skipped tests:", "", *(f"- {reason}" for reason in reasons)] if reasons else []),
    ]
    return "\n".join(lines).rstrip() + "\n"


def commit() -> str:
    """The commit from the variable COMMIT, else from Git."""
    if named := os.environ.get("COMMIT"):
        return named
    asked = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return asked.stdout.strip() or "unknown"


def _reason(report: Any) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return re.sub(r"^Skipped: ", "", text)
