"""`verify` recomputes the guarantee, and answers a damaged folder with one sentence or a list of problems."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from privaware import report, verify
from privaware.errors import WrongInput

FORMAT_1 = Path(__file__).parent / "format_1"
ODD: tuple[Any, ...] = (None, 10**400, float("nan"), "\ud800", [{}], {"kind": []}, -1.5)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("privaware.report._charts.render", lambda chart: "")  # slow, and tested elsewhere
    return Path(shutil.copytree(FORMAT_1, tmp_path / "m"))


def rewrite(folder: Path, entries: Any) -> None:
    (folder / "model.json").write_text(json.dumps(entries))


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where every entry of a JSON value stands; of a list, the first."""
    items = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for name, item in items:
        yield (*path, name)
        yield from paths(item, (*path, name))


def parent(value: Any, path: tuple[Any, ...]) -> Any:
    for name in path[:-1]:
        value = value[name]
    return value


def test_model_of_an_earlier_version_is_valid() -> None:
    verdict = verify(FORMAT_1)
    assert verdict.valid
    assert verdict.certified
    assert verdict.problems == []
    assert verdict.epsilon["pld"] == pytest.approx(verdict.epsilon["cf"], rel=1e-6)


@pytest.mark.parametrize("name", ["unit", "cap", "relation"])
def test_guarantee_for_another_unit_than_the_schema_is_not_valid(folder: Path, name: str) -> None:
    entries = json.loads((folder / "model.json").read_text())
    entries["guarantee"][name] = {"unit": "row", "cap": 4, "relation": "replace_one"}[name]
    rewrite(folder, entries)
    verdict = verify(folder)
    assert not verdict.valid
    assert not verdict.certified
    assert verdict.problems[0].startswith(f"the guarantee is for {name} ")


def test_seeded_model_that_is_called_certified_is_not_valid(folder: Path) -> None:
    entries = json.loads((folder / "model.json").read_text())
    entries["guarantee"]["seed"] = 3
    rewrite(folder, entries)
    assert verify(folder).problems == ["the model is called certified although its run was seeded"]


@pytest.mark.parametrize("change", [{"epsilon": None}, {"epsilon": float("inf")}, {"delta": 0}, {"delta": 1}])
def test_guarantee_without_finite_epsilon_or_delta_is_refused(folder: Path, change: dict[str, Any]) -> None:
    entries = json.loads((folder / "model.json").read_text())
    entries["guarantee"].update(change)
    rewrite(folder, entries)
    with pytest.raises(WrongInput, match=r"epsilon|delta"):
        verify(folder)


def test_every_removed_entry_is_answered_in_one_sentence(folder: Path) -> None:
    """`verify` may also find the folder valid, where what was removed is not part of the guarantee."""
    entries = json.loads((folder / "model.json").read_text())
    refused = []
    for path in paths(entries):
        damaged = copy.deepcopy(entries)
        del parent(damaged, path)[path[-1]]
        rewrite(folder, damaged)
        refused += answers(folder, path)
    assert len(refused) > 50


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: f"{odd!a:.12}")
def test_every_odd_entry_is_answered_in_one_sentence(folder: Path, odd: Any) -> None:
    entries = json.loads((folder / "model.json").read_text())
    refused = []
    for path in paths(entries):
        damaged = copy.deepcopy(entries)
        parent(damaged, path)[path[-1]] = odd
        rewrite(folder, damaged)
        refused += answers(folder, path)
    assert len(refused) > 60


def answers(folder: Path, path: tuple[Any, ...]) -> list[str]:
    """The refusals of `verify` and `report`; anything but an answer in one line fails."""
    refused = []
    for verb in (verify, report.write):
        try:
            verdict = verb(folder)
        except WrongInput as problem:
            refused.append(str(problem))
        else:
            refused += getattr(verdict, "problems", [])
    assert all(len(words.splitlines()) == 1 and len(words) < 600 for words in refused), path
    return refused
