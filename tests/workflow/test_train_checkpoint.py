"""A checkpoint of `train` belongs to one charge for one set of rows, and ends as a file of the released parameters."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from torch import nn

from privaware import Ledger, train
from privaware.descent import cross_entropy, ema
from privaware.errors import WrongInput
from privaware.noise import Rng

SETTINGS: dict[str, Any] = {"epsilon": 1.0, "steps": 120, "sampling_rate": 0.1, "clipping_norm": 1.0, "lr": 0.5}


class Stopped(Exception):
    """In place of a kill."""


def stop(step: int, steps: int, left: float) -> None:
    if step == 110:
        raise Stopped


def rows(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(300, 4, generator=torch.Generator().manual_seed(seed))
    return x, (x[:, 0] > 0).long()


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Linear(4, 2)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "rows.ledger", limit=50.0)


@pytest.fixture
def stopped(tmp_path: Path, ledger: Ledger) -> str:
    """The checkpoint of a run that was interrupted."""
    path = str(tmp_path / "run")
    with pytest.raises(Stopped):
        train(network(), *rows(), ledger=ledger, checkpoint=path, progress=stop, **SETTINGS)
    return path


def test_p55_no_model_of_other_rows_comes_from_a_checkpoint(tmp_path: Path) -> None:
    call: dict[str, Any] = {"checkpoint": str(tmp_path / "run"), **SETTINGS}
    train(network(), *rows(), **call)
    with pytest.raises(WrongInput, match="other rows"):
        train(network(), *rows(seed=9), **call)


def test_p55_a_copied_checkpoint_gives_no_noise_to_other_rows(stopped: str, ledger: Ledger) -> None:
    shutil.copy(stopped, f"{stopped}.copy")
    train(network(), *rows(), ledger=ledger, checkpoint=stopped, **SETTINGS)
    x, y = rows()
    x[7], spent = 100.0, ledger.spent()
    for path in (f"{stopped}.copy", stopped):
        shutil.copy(f"{stopped}.copy", stopped)
        with pytest.raises(WrongInput):
            train(network(), x, y, ledger=ledger, checkpoint=path, **SETTINGS)
    assert ledger.spent() == spent


def test_a_checkpoint_of_other_rows_is_refused_before_a_charge(stopped: str, ledger: Ledger) -> None:
    x, y = rows()
    y[0] = 1 - y[0]
    spent = ledger.spent()
    with pytest.raises(WrongInput, match="checkpoint of this run on these rows"):
        train(network(), x, y, ledger=ledger, checkpoint=stopped, **SETTINGS)
    assert ledger.spent() == spent


def test_a_charge_for_other_rows_pays_for_no_run(stopped: str, ledger: Ledger) -> None:
    Path(stopped).unlink()
    with pytest.raises(WrongInput, match="charged for other settings or rows"):
        train(network(), *rows(seed=9), ledger=ledger, checkpoint=stopped, **SETTINGS)


def test_a_copy_of_a_checkpoint_resumes_no_second_run(stopped: str, ledger: Ledger) -> None:
    shutil.copy(stopped, f"{stopped}.copy")
    with pytest.raises(WrongInput, match="checkpoint of this run"):
        train(network(), *rows(), ledger=ledger, checkpoint=f"{stopped}.copy", **SETTINGS)


def test_a_finished_run_is_not_resumed_from_a_kept_copy(stopped: str, ledger: Ledger) -> None:
    shutil.copy(stopped, f"{stopped}.copy")
    train(network(), *rows(), ledger=ledger, checkpoint=stopped, **SETTINGS)
    shutil.copy(f"{stopped}.copy", stopped)
    with pytest.raises(WrongInput, match=r"has already ended \(finished\); name another folder or checkpoint"):
        train(network(), *rows(), ledger=ledger, checkpoint=stopped, **SETTINGS)


def test_a_checkpoint_of_another_ledger_is_refused(stopped: str, tmp_path: Path) -> None:
    other = Ledger.create(tmp_path / "other.ledger", limit=50.0)
    with pytest.raises(WrongInput, match="checkpoint of this run"):
        train(network(), *rows(), ledger=other, checkpoint=stopped, **SETTINGS)
    assert other.spent() == 0


def test_an_interrupted_run_resumes_on_its_own_rows(
    stopped: str, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    restored: list[Any] = []
    real = Rng.restore
    monkeypatch.setattr(Rng, "restore", lambda state: restored.append(state) or real(state))
    train(network(), *rows(), ledger=ledger, checkpoint=stopped, **SETTINGS)
    assert len(restored) == 1
    assert [entry.kind for entry in ledger.entries()] == ["created", "spend", "finished"]


def test_resumed_training_says_that_nothing_is_charged(
    stopped: str, ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    train(network(), *rows(), ledger=ledger, checkpoint=stopped, progress=True, **SETTINGS)
    assert "This call was charged before, so nothing is charged again." in capsys.readouterr().err
    train(network(), *rows(), ledger=ledger, checkpoint=f"{stopped}.new", progress=True, **SETTINGS)
    assert "charged again" not in capsys.readouterr().err


def test_checkpoint_ends_as_the_released_parameters_alone(stopped: str, ledger: Ledger) -> None:
    assert Path(stopped).stat().st_mode & 0o777 == 0o600
    with safe_open(stopped, framework="pt") as file:
        assert "rng" in json.loads(file.metadata()["privaware"])
    trained = train(network(), *rows(), ledger=ledger, checkpoint=stopped, **SETTINGS)
    with safe_open(stopped, framework="pt") as file:
        assert set(json.loads(file.metadata()["privaware"])) == {"step", "settings", "run", "released"}
        assert list(file.keys()) == ["theta"]
        released = file.get_tensor("theta")[0]
    assert torch.equal(released, torch.cat([value.detach().flatten() for value in trained.parameters()]))


@pytest.mark.parametrize("settings", [{}, {"average": ema(0.9)}, {"sampling_rate": 1.0}])
def test_repeated_call_returns_the_model_without_a_charge(
    settings: dict[str, Any], tmp_path: Path, ledger: Ledger
) -> None:
    call: dict[str, Any] = {"ledger": ledger, "checkpoint": str(tmp_path / "run"), **SETTINGS, **settings}
    first = train(network(), *rows(), **call)
    charges, steps = len(ledger.entries()), []
    again = train(nn.Linear(4, 2), *rows(), progress=lambda *step: steps.append(step), **call)
    assert all(torch.equal(*both) for both in zip(first.parameters(), again.parameters(), strict=True))
    assert (again.guarantee, len(ledger.entries()), steps) == (first.guarantee, charges, [])


@pytest.mark.parametrize("other", [{"seed": 1}, {"epsilon": 0.5}, {"steps": 119}, {"clipping_norm": 2.0}])
def test_finished_model_is_not_returned_for_other_settings(
    other: dict[str, Any], tmp_path: Path, ledger: Ledger
) -> None:
    call: dict[str, Any] = {"ledger": ledger, "checkpoint": str(tmp_path / "run"), **SETTINGS}
    train(network(), *rows(), **call)
    with pytest.raises(WrongInput, match=r"already ended|settings"):
        train(network(), *rows(), **call | other)


def test_kill_before_the_run_is_closed_leaves_its_one_model(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    call: dict[str, Any] = {"ledger": ledger, "checkpoint": str(tmp_path / "run"), **SETTINGS}

    def kill(*_: Any, **__: Any) -> None:
        raise Stopped

    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "finish", kill)
        with pytest.raises(Stopped):
            train(network(), *rows(), **call)
    with safe_open(call["checkpoint"], framework="pt") as file:
        released = file.get_tensor("theta")[0]
    again = train(network(), *rows(), **call)
    assert torch.equal(released, torch.cat([value.detach().flatten() for value in again.parameters()]))
    assert [entry.kind for entry in ledger.entries()] == ["created", "spend", "finished"]


def test_changed_parameters_are_not_returned_as_the_model(tmp_path: Path, ledger: Ledger) -> None:
    path = tmp_path / "run"
    call: dict[str, Any] = {"ledger": ledger, "checkpoint": str(path), **SETTINGS}
    train(network(), *rows(), **call)
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(WrongInput, match="already ended"):
        train(network(), *rows(), **call)


def test_model_of_a_closed_charge_is_not_returned(stopped: str, ledger: Ledger) -> None:
    Path(stopped).unlink()
    ledger.close(1)
    with pytest.raises(WrongInput, match=r"entry 1 \(train .*\) has already ended \(closed without a result\)"):
        train(network(), *rows(), ledger=ledger, checkpoint=stopped, **SETTINGS)


def test_another_loss_of_the_same_name_does_not_resume(tmp_path: Path, ledger: Ledger) -> None:
    def loss_of(factor: float) -> Any:
        def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
            return factor * cross_entropy(outputs, targets)

        return loss

    call: dict[str, Any] = {"ledger": ledger, "checkpoint": str(tmp_path / "run"), **SETTINGS}
    with pytest.raises(Stopped):
        train(network(), *rows(), loss=loss_of(1.0), progress=stop, **call)
    with pytest.raises(WrongInput, match="settings"):
        train(network(), *rows(), loss=loss_of(2.0), **call)
    train(network(), *rows(), loss=loss_of(1.0), **call)


def test_two_trainings_of_one_checkpoint_release_one_model(tmp_path: Path, ledger: Ledger) -> None:
    path = tmp_path / "run"
    call: dict[str, Any] = {"ledger": ledger, "checkpoint": str(path), **SETTINGS}
    refusals = []

    def train_again(step: int, steps: int, left: float) -> None:
        if step in (1, steps):
            with pytest.raises(WrongInput, match="another process trains with the checkpoint") as refusal:
                train(network(), *rows(), **call)
            refusals.append(refusal)

    trained = train(network(), *rows(), progress=train_again, **call)
    assert len(refusals) == 2
    with safe_open(path, framework="pt") as file:
        released = file.get_tensor("theta")[0]
    assert torch.equal(released, torch.cat([value.detach().flatten() for value in trained.parameters()]))
    assert {item.name for item in tmp_path.iterdir()} == {"run", ledger.path.name}


def test_lock_that_a_kill_left_behind_stops_no_training(stopped: str, ledger: Ledger) -> None:
    lock = Path(stopped).with_name(".run.lock")
    lock.mkdir()
    train(network(), *rows(), ledger=ledger, checkpoint=stopped, **SETTINGS)
    assert not lock.exists()


def test_checkpoint_that_cannot_be_locked_costs_nothing(tmp_path: Path, ledger: Ledger) -> None:
    (tmp_path / ".run.lock").touch()
    with pytest.raises(WrongInput, match="cannot lock the checkpoint"):
        train(network(), *rows(), ledger=ledger, checkpoint=tmp_path / "run", **SETTINGS)
    assert ledger.spent() == 0


def test_file_overwritten_during_the_training_is_not_released(tmp_path: Path, ledger: Ledger) -> None:
    path = tmp_path / "run"

    def overwrite(step: int, steps: int, left: float) -> None:
        if step == 100:
            shutil.copy(path, tmp_path / "earlier")
        if step == steps:
            shutil.copy(tmp_path / "earlier", path)

    with pytest.raises(WrongInput, match="after its last step"):
        train(network(), *rows(), ledger=ledger, checkpoint=path, progress=overwrite, **SETTINGS)
    assert ledger.closing(f"train {path.resolve()}") is None


def test_state_that_a_closing_entry_names_is_not_resumed(stopped: str, ledger: Ledger) -> None:
    path = Path(stopped)
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest()}
    ledger.finish(f"train {path.resolve()}", files=files)
    with pytest.raises(WrongInput, match="already ended"):
        train(network(), *rows(), ledger=ledger, checkpoint=stopped, **SETTINGS)


@pytest.mark.parametrize("kind", ["other file", "other run"])
def test_a_refused_checkpoint_leaves_no_new_ledger(kind: str, stopped: str, tmp_path: Path) -> None:
    path = tmp_path / "no checkpoint"
    path.write_bytes(b"something else")
    new = tmp_path / "new" / "ledger"
    new.parent.mkdir()
    with pytest.raises(WrongInput, match=r"expected (a|the) checkpoint"):
        train(network(), *rows(), ledger=new, checkpoint=stopped if kind == "other run" else path, **SETTINGS)
    assert not [*new.parent.iterdir()]
