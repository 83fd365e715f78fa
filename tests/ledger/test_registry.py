"""The registry of digests: one key for each user, one list of ledgers for each digest."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from privaware.errors import WrongInput
from privaware.events import Pure
from privaware.ledger import Ledger, digest_key, known_ledgers, memory_ledger, register, spent_together

DIGEST = "0" * 32


def test_key_is_made_once_also_by_several_threads() -> None:
    keys: set[bytes] = set()
    threads = [threading.Thread(target=lambda: keys.add(digest_key())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(keys) == 1
    assert sorted(path.name for path in memory_ledger(DIGEST).parent.iterdir()) == ["key"]


def test_damaged_key_is_refused() -> None:
    digest_key()
    (Path(os.environ["PRIVAWARE_LEDGERS"]) / "key").write_bytes(b"short")
    with pytest.raises(WrongInput, match=r"expected 32 bytes .* got 5"):
        digest_key()


def test_folder_that_cannot_be_made_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PRIVAWARE_LEDGERS", str(tmp_path / "file" / "ledgers"))
    with pytest.raises(WrongInput, match="PRIVAWARE_LEDGERS"):
        digest_key()


def test_ledger_is_known_once_and_only_while_it_is_the_same(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "a.ledger", limit=1.0)
    for _ in range(2):
        register(DIGEST, ledger)
    (known,) = known_ledgers(DIGEST)
    assert known.open() == ledger
    assert known_ledgers("1" * 32) == []
    ledger.path.unlink()
    assert known.open() is None
    Ledger.create(tmp_path / "a.ledger", limit=1.0)
    assert known.open() is None


def test_ledgers_of_the_same_rows_compose_and_disjoint_parts_of_each_stay_disjoint(tmp_path: Path) -> None:
    first = Ledger.create(tmp_path / "a.ledger", limit=9.0, partitions=("left", "right"))
    second = Ledger.create(tmp_path / "b.ledger", limit=9.0, partitions=("left", "right"))
    first.spend(Pure(epsilon=1.0), what="a", partition="left")
    first.spend(Pure(epsilon=1.0), what="b", partition="right")
    second.spend(Pure(epsilon=1.0), what="c", partition="right")
    assert first.spent() == pytest.approx(1.0, rel=1e-3)
    assert spent_together((first, second), 1e-9) == pytest.approx(2.0, rel=1e-3)
    assert spent_together((first, first), 1e-9) == pytest.approx(1.0, rel=1e-3)
    assert spent_together((first, second), 1e-9, Pure(epsilon=1.0)) == pytest.approx(3.0, rel=1e-3)
