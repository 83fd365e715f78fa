"""The runner of the studies: what is done again, what a failure stops, and what comes back."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from benchmarks import studies
from benchmarks._studies import Bench, Noises
from benchmarks._studies_seconds import seconds
from privaware.errors import WrongInput


def given(out: Path, **more: Any) -> argparse.Namespace:
    first = {"device": "cpu", "only": None, "limit": 1e9, "quick": False, "tar": None, "store": None}
    return argparse.Namespace(out=out, **{**first, "commit": "abc", **more})


def cells(monkeypatch: pytest.MonkeyPatch, **them: Any) -> list[str]:
    """The given cells in the place of all; the names of those that run."""
    ran: list[str] = []

    def heard(name: str, cell: Any) -> Any:
        return lambda bench: (ran.append(name), cell(bench))[1]

    made = {name: (name, heard(name, cell)) for name, cell in them.items()}
    monkeypatch.setattr(studies, "CELLS", made)
    return ran


def test_a_quick_result_is_done_again_by_a_full_run_and_a_full_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = cells(monkeypatch, one=lambda bench: {"words": [f"quick {bench.quick}"]})
    studies.run(given(tmp_path, quick=True))
    studies.run(given(tmp_path, quick=True))
    assert ran == ["one"]
    studies.run(given(tmp_path))
    studies.run(given(tmp_path))
    studies.run(given(tmp_path, quick=True))
    assert ran == ["one", "one"]
    made = json.loads((tmp_path / "one.json").read_text())
    assert made["words"] == ["quick False"]
    assert made["commit"] == "abc"


def test_a_partial_result_is_done_again_only_where_more_can_be_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = cells(monkeypatch, one=lambda bench: {"partial": bench.device == "cpu"})
    monkeypatch.setattr(studies, "machine", lambda device: device)
    for device in ("cpu", "cpu", "cuda", "cuda"):
        studies.run(given(tmp_path, device=device))
    assert ran == ["one", "one"]


def test_a_cell_that_fails_stops_no_other_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(bench: Bench) -> dict[str, Any]:
        raise RuntimeError("out of memory")

    ran = cells(monkeypatch, one=broken, two=lambda bench: {"words": ["fine"]})
    tar = tmp_path / "all.tar"
    assert studies.run(given(tmp_path / "out", tar=tar)) == 1
    assert ran == ["one", "two"]
    assert "one failed: RuntimeError: out of memory" in capsys.readouterr().out
    with tarfile.open(tar) as file:
        assert file.getnames() == ["two.json"]
    assert studies.run(given(tmp_path / "out", only=["two"])) == 0


def test_no_cell_is_begun_after_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = cells(monkeypatch, one=lambda bench: {}, two=lambda bench: {})
    studies.run(given(tmp_path, limit=-1.0))
    assert ran == []


def test_a_noise_that_is_not_in_the_file_is_asked_for() -> None:
    with pytest.raises(WrongInput, match="prices"):
        Noises(known={})(0.1, 10, 1.0)


def test_more_seeds_or_larger_networks_are_estimated_longer() -> None:
    asked = studies.dry("table1_fcn_mnist", Noises()).asked
    fewer = [trials[: len(trials) // 2] for trials in asked]
    assert seconds(fewer) < seconds(asked)
    assert all(trial.setting.precision == "tf32" for trials in asked for trial in trials)


BLOCKED = """
import sys
for name in ("opendp", "dp_accounting", "altair"):
    sys.modules[name] = None
from benchmarks import studies
from benchmarks._studies import Noises
noises = Noises()
for name in studies.CELLS:
    if name != "lemma":
        asked = studies.dry(name, noises).asked
        finals = {trial.seed for trials in asked for trial in trials if trial.seed < 100}
        print(name, len(finals))
"""


def test_every_cell_has_its_noises_and_needs_no_accountant_to_run() -> None:
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED], capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2]
    )
    assert done.returncode == 0, done.stderr
    found = dict(line.split() for line in done.stdout.splitlines())
    assert set(found) == {name for name in studies.CELLS if name != "lemma"}
    bao = [name for name in found if name.startswith(("table1_", "table4", "table6", "figure7"))]
    assert {found[name] for name in bao} == {"5"}
