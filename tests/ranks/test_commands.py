"""`torchrun ... -m privaware fit`: one charge, one folder and one report; a killed process ends all, and resumes."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from privaware.cli import main
from privaware.ledger import Ledger
from tests.ranks import processes

STEPS = 160


def words(folder: Path, name: str, steps: int = STEPS, **more: object) -> list[str]:
    settings = {"--learner": "dpsgd", "--seed": 1, "--epsilon": 1, "--ledger": folder / f"{name}.ledger"} | more
    chosen = [str(word) for pair in settings.items() for word in pair]
    network = 'architecture={"name": "fcn", "hidden": [4]}'
    return ["fit", "wisconsin", *chosen, "--set", f"steps={steps}", "--set", network, "--out", str(folder / name)]


def tensors(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The model of one process that was never interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    with processes.leading_alone():
        assert main(words(folder, "one")) == 0
    return tensors(folder / "one")


@pytest.mark.slow
def test_two_processes_fit_the_model_of_one(whole: bytes, tmp_path: Path) -> None:
    ranks = processes.started(["-m", "privaware", *words(tmp_path, "two")], 2)
    shown = [rank.communicate(timeout=300) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], shown
    assert tensors(tmp_path / "two") == whole
    assert shown[1] == ("", "")
    assert len([entry for entry in Ledger.open(tmp_path / "two.ledger").entries() if entry.event is not None]) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["two", "two.ledger"]


@pytest.mark.parametrize("killed", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_a_killed_rank_ends_all_and_the_run_resumes(killed: int, whole: bytes, tmp_path: Path) -> None:
    ranks = processes.started(["-m", "privaware", *words(tmp_path, "two")], 2)
    _wait_for(tmp_path, "training.safetensors", ranks)
    ranks[killed].send_signal(signal.SIGKILL)
    _, problem = ranks[1 - killed].communicate(timeout=60)
    ranks[killed].communicate(timeout=60)
    assert ranks[1 - killed].returncode == 130, problem
    assert problem.splitlines()[-1] == (
        "privaware: expected 2 processes to the end, but one of them ended; repeat the command: a charged run with "
        "--out or a checkpoint goes on with its charge"
    )
    assert "Traceback" not in problem
    with processes.leading_alone():
        assert main(words(tmp_path, "two")) == 0
    assert tensors(tmp_path / "two") == whole
    assert len([entry for entry in Ledger.open(tmp_path / "two.ledger").entries() if entry.event is not None]) == 1


@pytest.mark.parametrize("told", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_a_terminated_rank_ends_all_with_one_report(told: int, tmp_path: Path) -> None:
    ranks = processes.started(["-m", "privaware", *words(tmp_path, "two", steps=100_000), "--json"], 2)
    _wait_for(tmp_path, "training.safetensors", ranks)
    ranks[told].send_signal(signal.SIGTERM)
    shown = [rank.communicate(timeout=60) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [130, 130], shown
    assert sum(out.count("error") for out, _ in shown) == 1, shown
    assert sum(problem.count("privaware: ") for _, problem in shown) == 1, shown


@pytest.mark.slow
def test_processes_with_other_versions_charge_nothing(tmp_path: Path) -> None:
    other = (
        "from privaware.ranks import _session; _session.__version__ += '.{}'.format(__import__('os').environ['RANK'])"
    )
    ranks = processes.started(["-c", f"{other}; from privaware.cli import main; main()", *words(tmp_path, "two")], 2)
    shown = [rank.communicate(timeout=300)[1] for rank in ranks]
    assert "expected the same version of privaware in all 2 processes" in shown[0]
    assert shown[1] == ""
    assert list(tmp_path.iterdir()) == []


def _wait_for(folder: Path, name: str, ranks: list[subprocess.Popen[str]]) -> None:
    """Wait until a file of this name is somewhere in `folder`."""
    for _ in range(1200):
        if list(folder.rglob(name)) or ranks[0].poll() is not None:
            return
        time.sleep(0.05)
    raise TimeoutError(name)
