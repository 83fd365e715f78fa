"""The notebook of the tutorial runs in an empty folder, shows cards, and stores no output."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[2] / "docs" / "tutorials" / "notebook.ipynb"
BOOK: dict[str, Any] = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
CODE = ["".join(cell["source"]) for cell in BOOK["cells"] if cell["cell_type"] == "code"]


def shown(cell: str, namespace: dict[str, Any]) -> Any:
    """Run a cell, and return the value of its last line, as a notebook shows it."""
    tree = ast.parse(cell)
    last = tree.body[-1]
    if not isinstance(last, ast.Expr):
        exec(compile(tree, "cell", "exec"), namespace)
        return None
    exec(compile(ast.Module(tree.body[:-1], []), "cell", "exec"), namespace)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), namespace)


def test_notebook_runs_and_shows_cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {}
    values = [shown(cell, namespace) for cell in CODE]
    cards = [type(value).__name__ for value in values if type(value).__module__.startswith("privaware")]
    assert cards == ["Fit", "ReleasedModel", "Ledger", "Verdict"]
    assert all("<table>" in value._repr_html_() for value in values if type(value).__name__ in cards)
    assert 0.7 < namespace["model"].score(namespace["later"]) < 1
    assert values[-1].valid


def test_notebook_stores_no_output() -> None:
    assert all(not cell["outputs"] for cell in BOOK["cells"] if cell["cell_type"] == "code")


def test_notebook_is_valid() -> None:
    nbformat = pytest.importorskip("nbformat")
    nbformat.validate(nbformat.reads(NOTEBOOK.read_text(encoding="utf-8"), 4))
