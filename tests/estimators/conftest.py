"""Each test begins as a new process would: no fit has seen any row."""

from __future__ import annotations

import pytest

from privaware.estimators import _overlap


@pytest.fixture(autouse=True)
def no_past_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_overlap, "PAST_FITS", [])
