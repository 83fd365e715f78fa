"""Imports point down the storeys of the house, and no file of a folder imports its neighbour."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "privaware"
STOREYS = [
    {"errors", "_kernels", "_pool_kernels", "_block_kernels"},
    {"events", "schema", "plugins", "_cell_kernels", "_convolution_kernels"},
    {"noise", "accounting", "origin"},
    {"data"},
    {"mechanism", "ledger", "metrics", "models", "datasets", "space"},
    {"features"},
    {"descent", "model"},
    {"learn", "attack", "search"},
    {"select", "audit", "report"},
    {"plan", "source", "folder", "verify", "predict", "catalogue"},
    {"charge"},
    {"fit", "train", "choose"},
    {"explore"},
    {"study", "bench", "estimators", "advise", "testing"},
    {"papers"},
    {"cli"},
]
LEVEL = {name: level for level, names in enumerate(STOREYS) for name in names}


def imports(path: Path) -> list[tuple[str, ...]]:
    """What a file imports from the package, as parts of dotted names."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "privaware":
            found += [(alias.name,) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("privaware."):
            base = tuple(node.module.split(".")[1:])
            found += [(*base, alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [
                tuple(a.name.split(".")[1:]) for a in node.names if a.name.startswith("privaware.")
            ]
    return found


def broken(here: tuple[str, ...], target: tuple[str, ...]) -> str:
    """Why an import is not allowed, or nothing."""
    if target[0].startswith("__"):
        return ""
    if target[0] not in LEVEL:
        return f"{target[0]} has no storey"
    if target[0] == here[0]:
        own = (
            len(target) < 2
            or target[1].startswith("_")
            or here[-1].startswith("_")
            or len(here) == 1
        )
        inside = own or not (ROOT / target[0] / f"{target[1]}.py").exists()
        return (
            "" if inside or here[-1] == "__init__" else "a file of one folder imports its neighbour"
        )
    return "" if LEVEL[target[0]] < LEVEL[here[0]] else "an import points up"


FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down(path: Path) -> None:
    here = path.relative_to(ROOT).with_suffix("").parts
    wrong = {".".join(target): why for target in imports(path) if (why := broken(here, target))}
    assert not wrong


def test_an_import_that_points_up_is_seen() -> None:
    assert broken(("events",), ("fit",)) == "an import points up"
    assert (
        broken(("learn", "linear"), ("learn", "pate", "Pate"))
        == "a file of one folder imports its neighbour"
    )
    assert broken(("learn", "linear"), ("learn", "_rows", "rows_of")) == ""
