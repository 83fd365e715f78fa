"""The default delta stands in one place."""

from __future__ import annotations

import ast
from pathlib import Path

from privaware import accounting
from privaware.cli import _options

ROOT = Path(accounting.__file__).parents[1]
RESEARCH = {"papers", "studies"}


def own_deltas(path: Path) -> list[int]:
    """The lines of a file that give a parameter or a constant called delta a number of its own."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        pairs: list[tuple[str, ast.expr | None]] = []
        if isinstance(node, ast.FunctionDef):
            positional = [*node.args.posonlyargs, *node.args.args]
            given = positional[len(positional) - len(node.args.defaults) :]
            pairs += [(arg.arg, value) for arg, value in zip(given, node.args.defaults, strict=True)]
            pairs += [(a.arg, v) for a, v in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)]
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            pairs.append((node.targets[0].id, node.value))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            pairs.append((node.target.id, node.value))
        found += [
            value.lineno
            for name, value in pairs
            if "delta" in name.lower() and isinstance(value, ast.Constant) and value.value == accounting.DEFAULT_DELTA
        ]
    return found


def test_default_delta_is_written_in_one_place() -> None:
    files = [path for path in ROOT.rglob("*.py") if path.relative_to(ROOT).parts[0] not in RESEARCH]
    assert [path.relative_to(ROOT).as_posix() for path in files if own_deltas(path)] == ["accounting/__init__.py"]


def test_help_names_the_default_delta() -> None:
    assert accounting.DEFAULT_DELTA == 1e-5
    assert "Default: 1e-5" in _options.DELTA.__metadata__[0].help
    assert "Default: 1e-5" in _options._DELTA
