"""A checkpoint of `train` belongs to one charge for one set of rows, and is gone when its run has ended."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from privaware import Ledger, train
from privaware.descent import cross_entropy
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
    path, steps = str(tmp_path / "run"), []
    first = train(network(), *rows(), checkpoint=path, **SETTINGS)
    x, y = rows(seed=9)
    second = train(network(), x, y, checkpoint=path, progress=lambda *step: steps.append(step), **SETTINGS)
    assert len(steps) == 120
    assert not torch.equal(first.weight, second.weight)


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
    with pytest.raises(WrongInput, match="charged for something else"):
        train(network(), *rows(seed=9), ledger=ledger, checkpoint=stopped, **SETTINGS)


def test_a_copy_of_a_checkpoint_resumes_no_second_run(stopped: str, ledger: Ledger) -> None:
    shutil.copy(stopped, f"{stopped}.copy")
    with pytest.raises(WrongInput, match="checkpoint of this run"):
        train(network(), *rows(), ledger=ledger, checkpoint=f"{stopped}.copy", **SETTINGS)


def test_a_finished_run_is_not_resumed_from_a_kept_copy(stopped: str, ledger: Ledger) -> None:
    shutil.copy(stopped, f"{stopped}.copy")
    train(network(), *rows(), ledger=ledger, checkpoint=stopped, **SETTINGS)
    shutil.copy(f"{stopped}.copy", stopped)
    with pytest.raises(WrongInput, match="has already finished; name another folder or checkpoint"):
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


def test_checkpoint_is_private_to_its_owner_and_removed_at_end(stopped: str, ledger: Ledger) -> None:
    assert Path(stopped).stat().st_mode & 0o777 == 0o600
    train(network(), *rows(), ledger=ledger, checkpoint=stopped, **SETTINGS)
    assert not Path(stopped).exists()


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
