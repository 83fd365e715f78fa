"""Each test begins as a new process would: no fit has seen any row."""

from __future__ import annotations

import pytest

from privaware.errors import OpenBoundsWarning
from privaware.estimators import _declared, _overlap


@pytest.fixture(autouse=True)
def no_past_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_overlap, "PAST_FITS", [])
    monkeypatch.setattr(_overlap, "ADVISED", set())
    monkeypatch.setattr(_overlap, "TRANSFORMED", [])


@pytest.fixture(autouse=True)
def bounds_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """The warning of open bounds comes once in a process: here it has come, but where a test wants it."""
    monkeypatch.setattr(_declared, "_warned", {OpenBoundsWarning})
