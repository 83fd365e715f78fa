"""The house: imports point down its storeys, none goes in a circle, functions stay small and names of tests short."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "privaware"
STOREYS = [
    {"_version", "errors"},
    {"_rounded", "_validate", "_files"},
    {"exact_sums", "_summary", "ranks"},
    {"registry", "events", "schema", "metrics", "kernels"},
    {"noise", "accounting"},
    {"data"},
    {"mechanism", "ledger", "models", "datasets"},
    {"features"},
    {"descent", "model"},
    {"learners"},
    {"preprocessing"},
    {"attacks", "selectors", "strategies"},
    {"guarantee"},
    {"card"},
    {"report"},
    {"workflow"},
    {"estimators", "testing", "bench", "ui"},
    {"cli"},
]
RESEARCH_STOREYS = [{"studies", "pretraining"}, {"papers"}, {"comparisons"}, {"__main__"}]
STOREY = {name: number for number, names in enumerate([*STOREYS, *RESEARCH_STOREYS]) for name in names}
RESEARCH = ROOT.parent / "research"
TESTS = Path(__file__).parent
LONGEST_TEST_NAME = 60
"""Most characters of the name of a test function, with `test_`."""
REGISTRIES = ("learners", "selectors", "preprocessing", "strategies", "attacks", "datasets", "models", "features")


def modules(root: Path) -> dict[str, Path]:
    """The files of a package by the names of their modules."""
    return {
        ".".join(path.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted(root.rglob("*.py"))
    }


MODULES = {**modules(ROOT), **modules(RESEARCH)}


def imported(source: str) -> set[str]:
    """The modules of product and research that a file imports: lazily, for its types only or as usual."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            joined = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in MODULES else node.module for name in joined.values()}
    return {name for name in names if name.split(".")[0] in ("privaware", "research")}


@functools.cache
def imports_of(module: str) -> set[str]:
    """The modules of product and research that a module of them imports."""
    return imported(MODULES[module].read_text())


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Every module that can reach itself, with the way it takes."""

    def way_back(start: str) -> list[str]:
        todo, visited = [[start]], {start}
        while todo:
            way = todo.pop()
            for target in sorted(graph.get(way[-1], ())):
                if target == start:
                    return [*way, start]
                if target not in visited:
                    visited.add(target)
                    todo.append([*way, target])
        return []

    return [way for name in graph if (way := way_back(name))]


def why_refused(module: str, target: str) -> str:
    """Why one module may not import another, or nothing."""
    if module.split(".")[0] != target.split(".")[0]:
        return "the product imports research" if module.startswith("privaware") else ""
    here, there = module.split(".")[1:] or ["__init__"], target.split(".")[1:]
    if not there or here == ["__init__"]:  # the package itself only passes on public names
        return "" if here == ["__init__"] else "the package itself is imported"
    if there[0] not in STOREY:
        return f"{there[0]} has no storey"
    if there[0] != here[0]:
        return "" if STOREY[there[0]] < STOREY[here[0]] else "an import points up"
    algorithms = len(here) == len(there) == 2 and not here[-1].startswith("_") and not there[-1].startswith("_")
    listed = here[0] in (*REGISTRIES, "papers")
    inside = MODULES.get(target, ROOT).name == "__init__.py"
    return "a file of one folder imports its neighbour" if algorithms and listed and not inside else ""


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_down(module: str) -> None:
    assert {target: why for target in imports_of(module) if (why := why_refused(module, target))} == {}


def test_product_may_not_import_research() -> None:
    assert why_refused("privaware.cli.reproduce", "research.papers") == "the product imports research"
    assert imported("def f():\n    from research import papers") == {"research.papers"}


def test_no_import_cycles() -> None:
    graph = {name: imports_of(name) - {"privaware"} for name in MODULES if name != "privaware"}
    assert circles(graph) == []


def test_import_cycle_is_detected() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) != []
    lazy = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from privaware.ledger import Ledger\n"
    assert imported(lazy) == {"privaware.ledger"}
    assert imported("def f():\n    from privaware import events") == {"privaware.events"}


def test_upward_import_is_detected() -> None:
    assert why_refused("privaware.events", "privaware.workflow.fit") == "an import points up"
    neighbours = why_refused("privaware.learners.linear", "privaware.learners.pate")
    assert neighbours == "a file of one folder imports its neighbour"
    assert why_refused("privaware.learners.linear", "privaware.learners._fixed_features") == ""


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef, bool]]:
    """Every function of product and research, and whether it is a Triton kernel."""
    for name, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                kernel = name.startswith("privaware.kernels.")
                yield f"{name}.{node.name}", node, kernel


FORMER_DELTA = {"guarantee.py", "workflow/_statements.py", "bench/_cells.py"}
"""Files that write a delta as 1e-05: the sentences and keys that earlier versions stored, which are compared."""


def test_delta_is_written_in_one_form() -> None:
    files = {
        str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py") if re.search(r"delta:[.\d]*g}", path.read_text())
    }
    assert files == FORMER_DELTA


PROMISED = {
    f"privaware.workflow.{verb}.{verb}"
    for verb in ("audit", "fit", "select", "search", "crossover", "train", "predict")
}
PROMISED |= {f"privaware.estimators.{name}.__init__" for name in ("_models", "_selector", "_transformers")}
"""Signatures that `docs` promise to users; scikit-learn wants every setting in a constructor."""


def test_functions_are_short_and_take_few_arguments() -> None:
    wrong = []
    for name, node, kernel in functions():
        if kernel or name in PROMISED or name.startswith(("privaware.cli.", "research.__main__.")):
            continue
        of = node.args
        count = len(of.posonlyargs) + len(of.args) + len(of.kwonlyargs)
        count -= bool(of.args) and of.args[0].arg in ("self", "cls")
        lines = (node.end_lineno or 0) - node.lineno + 1
        if lines > 60 or count > 8:
            wrong.append(f"{name}: {lines} lines, {count} arguments")
    assert wrong == []


def test_names_of_tests_are_short() -> None:
    long = [
        f"{path.relative_to(TESTS)}: {node.name}"
        for path in sorted(TESTS.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and len(node.name) > LONGEST_TEST_NAME
    ]
    assert long == []


def test_root_has_few_modules() -> None:
    assert len([path for path in ROOT.glob("*.py") if path.name not in ("__init__.py", "__main__.py")]) <= 14
