"""`docs/security.md` claims nothing that no test holds, and its table of games is what the games print."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pytest

from privaware.data import read
from privaware.errors import WrongInput
from tests.testing.canary_cases import CASES

ROOT = Path(__file__).parents[1]
HEADER = "| hazard | what holds here | tests |"
UNSAFE = {
    "eval",
    "exec",
    "compile",
    "os.system",
    "os.popen",
    "torch.load",
    "pickle.load",
    "pickle.loads",
    "marshal.loads",
}

MESSAGES = {"_exchange.py": ["pickle.loads"]}
"""Calls that read messages of other ranks, which are trusted, and no file."""


def page() -> str:
    return (ROOT / "docs" / "security.md").read_text()


def rows_under(header: str, text: str) -> list[list[str]]:
    """The cells of all rows of all tables with this header."""
    rows, inside = [], False
    for line in text.splitlines():
        inside = line == header or (inside and line.startswith("|"))
        if inside and line != header and not line.startswith("|---"):
            rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return rows


def existing_tests() -> set[str]:
    found: set[str] = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        found |= set(re.findall(r"def (test_\w+)", path.read_text()))
    return found


def unheld(text: str, tests: set[str]) -> list[str]:
    """Hazards whose row names no test, or one that does not exist."""
    return [
        row[0]
        for row in rows_under(HEADER, text)
        if len(row) != 3 or not (named := re.findall(r"`(\w+)`", row[2])) or not set(named) <= tests
    ]


def test_every_hazard_names_tests_that_exist() -> None:
    text = page()
    assert len(rows_under(HEADER, text)) > 30
    assert unheld(text, existing_tests()) == []
    assert set(re.findall(r"`(test_\w+)`", text)) <= existing_tests()


def test_hazard_without_a_test_is_noticed() -> None:
    table = f"{HEADER}\n|---|---|---|\n| a | b | `test_x` |\n| c | d | `test_y` |\n| e | f | none |\n"
    assert unheld(table, {"test_x"}) == ["c", "e"]


def test_table_of_games_has_every_mechanism_within_its_claim() -> None:
    header = "| mechanism | games a side | delta | proved | ideal attacker | claim |"
    rows = rows_under(header, page())
    assert [row[0] for row in rows] == list(CASES)
    for name, *_, proved, ideal, claim in rows:
        assert 0.8 * float(ideal) <= float(proved) <= float(claim), name


def unsafe_calls(source: str) -> list[str]:
    """Calls that run code from a file or a text; torch.load is one unless it reads weights only."""
    tree = ast.parse(source)
    unsafe = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            settings = {word.arg: ast.unparse(word.value) for word in node.keywords}
            weights_only = name == "torch.load" and settings.get("weights_only") == "True"
            if (name in UNSAFE and not weights_only) or settings.get("allow_pickle") == "True":
                unsafe.append(name)
    return unsafe


def test_no_file_is_opened_in_a_way_that_runs_code() -> None:
    assert unsafe_calls("np.load(f, allow_pickle=True); torch.load(f); torch.load(f, weights_only=True)") == [
        "np.load",
        "torch.load",
    ]
    for path in (ROOT / "privaware").rglob("*.py"):
        assert unsafe_calls(path.read_text()) == MESSAGES.get(path.name, []), path


def test_data_with_pickled_objects_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", x=np.array([{"a": 1}], dtype=object), y=np.array([1]))
    with pytest.raises(WrongInput, match="pickled objects, which could run code"):
        read(tmp_path / "rows.npz")
