"""The evidence that `advise` cites is what the stored cells say now."""

from __future__ import annotations

import json

import pytest

from research import papers
from research.papers import _advice, _advice_evidence


def test_shipped_evidence_equals_the_stored_cells() -> None:
    assert _advice.FILE.read_text(encoding="utf-8") == _advice.table(), "run python -m research.papers._advice"


def test_every_command_of_the_evidence_is_an_item_that_exists() -> None:
    for name, entry in _advice_evidence.evidence().items():
        verb, _, item = entry["command"].removeprefix("privaware ").partition(" ")
        assert verb == "audit" or papers.find(item).id == item, name


def test_a_changed_number_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = json.loads(_advice.FILE.read_text(encoding="utf-8"))
    monkeypatch.setattr(_advice_evidence, "_percent", lambda value: "0.0")
    assert _advice_evidence.evidence()["labels"]["ours"] != stored["evidence"]["labels"]["ours"]
