"""The sentences of a plan about benchmarks give the reason for a candidate."""

from __future__ import annotations

from typing import Any

import pytest

from privaware.workflow.auto import _evidence


def cells(form: str) -> list[dict[str, Any]]:
    scores = ({"a": 0.80, "b": 0.85, "c": 0.60}, {"a": 0.80, "b": 0.70, "c": 0.84})
    return [{"rows": 100, "epsilon": 1.0, "classes": 2, "scores": each} for each in scores]


@pytest.mark.parametrize(
    ("candidate", "words"),
    [
        (
            "a",
            "best 0 times. On average it lost 4.5 points to the best candidate of a run, less than any other "
            "candidate.",
        ),
        ("b", "best once. On average it was 7.0 points below the best candidate of a run."),
    ],
)
def test_seldom_best_candidate_has_its_average_as_reason(
    monkeypatch: pytest.MonkeyPatch, candidate: str, words: str
) -> None:
    monkeypatch.setattr(_evidence, "evidence", cells)
    facts = {"form": "table", "rows_epsilon": 100.0, "classes": 2, "channels": 0, "cap": 1}
    assert _evidence.benchmark_sentence(candidate, facts).endswith(words)
