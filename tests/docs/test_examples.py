"""Every example of the README and the pages runs in an empty folder, with the exit code that the page states."""

from __future__ import annotations

from pathlib import Path

import _examples
import pytest

ROOT = Path(__file__).parents[2]
QUICK = ("README.md", "docs/how_to/protect_persons.md", "docs/how_to/resume.md")
OWN_TEST = ("docs/tutorials/add_an_algorithm.md",)
"""Pages with a test of their own: tests/test_tutorials.py."""


def pages() -> list[str]:
    """README and every page that is written by hand and holds something to run."""
    written = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    written += sorted(path for name in ("tutorials", "how_to") for path in (ROOT / "docs" / name).glob("*.md"))
    names = [str(path.relative_to(ROOT)) for path in written if runnable(path.read_text(encoding="utf-8"))]
    return [name for name in names if name not in OWN_TEST]


def runnable(page: str) -> bool:
    return any(block.language in _examples.RUN for block in _examples.blocks(page))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in pages()]
)
def test_examples_of_a_page_run(name: str) -> None:
    page = (ROOT / name).read_text(encoding="utf-8")
    assert _examples.with_output(page, slow=name not in QUICK)


def test_quick_pages_and_those_with_their_own_test_exist() -> None:
    assert set(QUICK) <= set(pages())
    assert all((ROOT / name).exists() for name in OWN_TEST)


def test_wrong_exit_code_is_detected() -> None:
    with pytest.raises(AssertionError, match="exit code 2, expected 0"):
        _examples.with_output("```console\n$ privaware fit nowhere.csv --epsilon 1\n```\n")
    _examples.with_output("```console exit=2\n$ privaware fit nowhere.csv --epsilon 1\n```\n")


def test_error_in_python_is_detected() -> None:
    with pytest.raises(ZeroDivisionError):
        _examples.with_output("```python\n1 / 0\n```\n")


def test_output_stands_below_its_block_and_files_are_written() -> None:
    files = "```text file=a.txt\nhello\n```\n\n```console\n$ cat a.txt\n```\n"
    page = f"{files}\n```python\nx = 2\n```\n\n```python\nprint(x)\n```\nend"
    shown = _examples.with_output(page)
    assert "$ cat a.txt\n```\n\n```text\nhello\n```" in shown
    assert shown.endswith("print(x)\n```\n\n```text\n2\n```\nend")
