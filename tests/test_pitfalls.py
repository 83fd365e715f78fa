"""Each mistake of `docs/pitfalls.md` has a test named after it, or says why it waits."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent
STATES = {"tested", "waits", "habit"}


def test_every_pitfall_has_a_test_or_a_reason() -> None:
    page = (TESTS.parent / "docs" / "pitfalls.md").read_text()
    rows = [line.strip("|").split(" | ") for line in page.splitlines() if re.match(r"\| P\d+ \|", line)]
    state = {int(row[0].strip().removeprefix("P")): row[-1].strip() for row in rows}
    assert sorted(state) == list(range(1, len(rows) + 1))
    assert set(state.values()) <= STATES
    assert all(len(row) == 4 and all(cell.strip() for cell in row) for row in rows)
    tests = "\n".join(path.read_text() for path in TESTS.rglob("test_*.py"))
    named = {int(number) for name in re.findall(r"def test((?:_p\d+)+)_", tests) for number in re.findall(r"\d+", name)}
    assert named == {number for number in state if state[number] == "tested"}
    assert set(range(1, 39)) - named <= {36}


def test_every_defect_of_public_code_names_tests_that_exist() -> None:
    page = (TESTS.parent / "docs" / "pitfalls.md").read_text()
    rows = page.split("| algorithm | defect of the public code | test |", 1)[1].strip().splitlines()[1:]
    named = [re.findall(r"`(test_\w+)`", row.strip("|").split(" | ")[-1]) for row in rows]
    assert len(rows) > 30
    assert all(named)
    written = set(re.findall(r"def (test_\w+)\(", "\n".join(path.read_text() for path in TESTS.rglob("test_*.py"))))
    assert {test for tests in named for test in tests} <= written
