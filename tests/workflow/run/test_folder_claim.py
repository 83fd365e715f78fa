"""An output folder belongs to the run that was charged for it, until its result is published."""

from __future__ import annotations

from pathlib import Path

import pytest

from privaware.errors import BudgetExceeded, WrongInput
from privaware.events import Pure
from privaware.ledger import Ledger
from privaware.workflow.run.folder_claim import claimed_folder, expect_free_folder


def test_a_charged_folder_is_free_for_its_own_command_only(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "rows.ledger", limit=1.0, delta=1e-5)
    folder = tmp_path / "model"
    folder.mkdir()
    with claimed_folder(folder, ledger, "key-0", resumed=False):
        ledger.spend(Pure(epsilon=0.5), what="fit", run="key-0")
    expect_free_folder(folder, ledger, lambda: "key")
    for place, key in ((ledger, "other"), (tmp_path / "other.ledger", "key"), (None, "key")):
        with pytest.raises(WrongInput, match=r"model' belongs to entry 1 \(fit\)"):
            expect_free_folder(folder, place, lambda key=key: key)  # type: ignore[misc]


@pytest.mark.parametrize("resumed", [False, True])
def test_a_refused_charge_leaves_no_claim_of_a_new_run(tmp_path: Path, resumed: bool) -> None:
    ledger = Ledger.create(tmp_path / "rows.ledger", limit=1.0, delta=1e-5)
    folder = tmp_path / "model"
    folder.mkdir()
    with pytest.raises(BudgetExceeded), claimed_folder(folder, ledger, "key-0", resumed=resumed):
        ledger.spend(Pure(epsilon=5.0), what="fit", run="key-0")
    assert bool(list(folder.iterdir())) == resumed
