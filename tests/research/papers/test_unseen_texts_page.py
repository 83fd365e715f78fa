"""The page of unseen texts: the share of the plain gain, and texts below the private constant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from privaware.bench._store import Cell, Store
from research.papers._page import Page
from research.papers._unseen_texts_page import ITEM, METHODS, WORDS, functions


def stored(folder: Path, text: str, scores: dict[str, list[float]]) -> None:
    for method, values in scores.items():
        for seed, score in enumerate(values):
            private = {"epsilon": 1.0, "seed": seed} if method in (*METHODS, WORDS) else {}
            settings: dict[str, Any] = {"text": text, "method": method, **private}
            result = {"score": score, "rows": 900, "classes": 2, "learner": "linear"}
            cell = Cell(item=ITEM, settings=settings, result=result, run={"commit": "abc"})
            Store(folder / "unseen_texts" / "cells.jsonl").add(cell)


def test_share_is_summed_gains_over_gains_without_privacy(tmp_path: Path) -> None:
    plain = {"constant": [0.5], "plain": [0.9]}
    stored(tmp_path, "good", {"auto": [0.7, 0.9], "private constant": [0.5, 0.5], WORDS: [0.6], **plain})
    stored(tmp_path, "low", {"auto": [0.46, 0.46], "private constant": [0.48, 0.5], **plain})
    shown = functions(Page("unseen_texts", results=tmp_path))
    row = [entry.strip() for entry in shown["shares"]().splitlines()[2].split("|")[1:-1]]
    assert row == ["1", "2", "2", "0.325", "low"]
    assert [line.split("|")[1].strip() for line in shown["every"]().splitlines()[2:]] == ["good", "low"]
    assert [line.split("|")[-2].strip() for line in shown["every"]().splitlines()[2:]] == ["0.600", ""]
    without = [entry.strip() for entry in shown["without"]().splitlines()[2].split("|")[1:-1]]
    assert without == ["1", "good", "0.250"]
