"""Empty caches of prices and of calibrated noise for every test."""

from __future__ import annotations

from pathlib import Path

import pytest

from privaware.accounting import _price


@pytest.fixture(autouse=True)
def private_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PRIVAWARE_CACHE", str(tmp_path))
    _price.epsilon.cache_clear()
    return tmp_path
