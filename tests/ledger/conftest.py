"""Ledgers for tests, priced by plain addition."""

from __future__ import annotations

from pathlib import Path

import pytest

from privaware import accounting
from privaware.ledger import Ledger
from tests.ledger.books import DELTA, add

REAL = accounting.epsilon


@pytest.fixture
def adding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounting, "epsilon", add)


@pytest.fixture
def real(adding: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounting, "epsilon", REAL)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows.ledger"


@pytest.fixture
def ledger(path: Path) -> Ledger:
    return Ledger.create(path, limit=1.0, delta=DELTA, partitions=("left", "right"))
